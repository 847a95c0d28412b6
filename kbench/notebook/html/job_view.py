"""What the workers of a fit or a map over a cluster have done, as static HTML and as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kbench.api.differences import seconds
from kbench.engine.inspect import describe
from kbench.notebook.html import views
from kbench.notebook.markup.columns import Columns, share
from kbench.notebook.markup.markup import Html, element, escape, join
from kbench.workbench.analysis import job_text
from kbench.workbench.progress.duration import clock
from kbench.workbench.protocol.runs import JobHead, OtherWorkers, WorkerRow

MAX_WORKERS = 20
"""Workers with a row of their own; with more there would be no room for the steps of a run."""
COLUMNS = Columns(
    "kb-jobs",
    ("worker", "state", "time", "share", "rows", "tasks", "received", "returned", "address"),
    {
        "address": 800,
        "returned": 640,
        "received": 560,
        "tasks": 480,
        "rows": 420,
        "share": 340,
    },
)
"""Of the workers; state and time stay longest."""
SORTS: dict[str, Callable[[WorkerRow], Any]] = {
    "worker": lambda row: row.number,
    "state": lambda row: (row.state, row.number),
    "time": lambda row: -row.seconds,
    "share": lambda row: -row.share,
    "rows": lambda row: -row.rows,
    "tasks": lambda row: -row.tasks,
    "received": lambda row: -row.received,
    "returned": lambda row: -row.returned,
    "address": lambda row: row.address,
}


def parts(
    job: JobHead, rows: Sequence[WorkerRow], others: OtherWorkers | None = None
) -> list[Html]:
    """How far a job is, what stands out, its workers; `others` are those without a row."""
    found = heading(job, rows)
    if rows:
        shown = f"the {len(rows)} of {job.workers} workers that matter most" if others else ""
        caption = shown or f"{len(rows)} worker{'' if len(rows) == 1 else 's'}"
        found.append(workers(_listed(rows, others), caption))
    return found


def heading(job: JobHead, rows: Sequence[WorkerRow]) -> list[Html]:
    """How far a job is, and what stands out of its workers."""
    title, _, far = job_text.headline(job).partition(": ")
    head = join([element("b", views.long(title)), views.long(f": {far}")])
    found = [element("p", head, class_="kb-head")]
    return found + [element("p", views.long(words)) for words in job_text.remarks(job, rows)]


def workers(rows: Sequence[WorkerRow | OtherWorkers], caption: str) -> Html:
    """The table of workers."""
    return COLUMNS.drawn(caption, [_cells(row) for row in rows])


def fewer(
    rows: Sequence[WorkerRow], others: OtherWorkers | None, most: int = MAX_WORKERS
) -> tuple[Sequence[WorkerRow], OtherWorkers | None]:
    """The first rows, and the sum of all that follow."""
    rest: list[WorkerRow | OtherWorkers] = [*rows[most:], *([] if others is None else [others])]
    if len(rows) <= most:
        return rows, others
    summed = OtherWorkers(
        count=sum(row.count if isinstance(row, OtherWorkers) else 1 for row in rest),
        tasks=sum(row.tasks for row in rest),
        rows=sum(row.rows for row in rest),
        seconds=sum(row.seconds for row in rest),
        share=sum(row.share for row in rest),
        received=sum(row.received for row in rest),
        returned=sum(row.returned for row in rest),
    )
    return rows[:most], summed


def text(job: JobHead, rows: Sequence[WorkerRow], others: OtherWorkers | None = None) -> str:
    """The same in words, a line for each worker."""
    lines = [f"  {job_text.line(row, time, describe.size)}" for row in _listed(rows, others)]
    return "\n".join([job_text.headline(job), *job_text.remarks(job, rows), *lines])


def _listed(
    rows: Sequence[WorkerRow], others: OtherWorkers | None
) -> list[WorkerRow | OtherWorkers]:
    return [*rows, *([] if others is None else [others])]


def time(count: float) -> str:
    """Seconds of work: in three figures, from a minute on by the clock."""
    return seconds(count) if 0 < count < 60 else clock(count)


def _cells(row: WorkerRow | OtherWorkers) -> list[object]:
    figures = [
        time(row.seconds),
        share(row.share),
        f"{row.rows:,}",
        f"{row.tasks:,}",
        describe.size(row.received),
        describe.size(row.returned),
    ]
    if isinstance(row, OtherWorkers):
        return [f"{row.count:,} more", "", *figures, ""]
    return [job_text.name(row), _state(row), *figures, row.address]


def _state(row: WorkerRow) -> Html:
    words = job_text.state(row)
    bad = row.state == "lost" or row.slow is not None
    return element("span", words, class_="kb-bad") if bad else escape(words)
