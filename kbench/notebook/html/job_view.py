"""What the workers of a fit or a map over a cluster have done, as static HTML and as text."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.api.differences import seconds
from kbench.engine.inspect import describe
from kbench.notebook.html import views
from kbench.notebook.html.markup import Html, element, escape, join, table
from kbench.workbench.analysis import job_text
from kbench.workbench.progress.duration import clock
from kbench.workbench.protocol.runs import JobHead, OtherWorkers, WorkerRow

MAX_WORKERS = 20
"""Workers with a row of their own; with more there would be no room for the steps of a run."""
BAR_CHARACTERS = 6
"""Of the bar that shows a share, as the terminal has it."""
HEADS = ("worker", "address", "state", "tasks", "rows", "time", "share", "received", "returned")


def parts(
    job: JobHead, rows: Sequence[WorkerRow], others: OtherWorkers | None = None
) -> list[Html]:
    """How far a job is, what stands out, its workers; `others` are those without a row."""
    title, _, far = job_text.headline(job).partition(": ")
    head = join([element("b", views.long(title)), views.long(f": {far}")])
    found = [element("p", head, class_="kb-head")]
    found += [element("p", views.long(words)) for words in job_text.remarks(job, rows)]
    if rows:
        lines = [_cells(row) for row in _listed(rows, others)]
        shown = f"the {len(rows)} of {job.workers} workers that matter most" if others else ""
        caption = shown or f"{len(rows)} worker{'' if len(rows) == 1 else 's'}"
        found.append(element("div", table(caption, HEADS, lines), class_="kb-text"))
    return found


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
        f"{row.tasks:,}",
        f"{row.rows:,}",
        time(row.seconds),
        _share(row.share),
        describe.size(row.received),
        describe.size(row.returned),
    ]
    if isinstance(row, OtherWorkers):
        return [f"{row.count:,} more", "", "", *figures]
    return [job_text.name(row), row.address, _state(row), *figures]


def _state(row: WorkerRow) -> Html:
    words = job_text.state(row)
    bad = row.state == "lost" or row.slow is not None
    return element("span", words, class_="kb-bad") if bad else escape(words)


def _share(share: float) -> Html:
    """A bar, and the share in percent for those who do not see it."""
    full = max(round(share * BAR_CHARACTERS), 1 if share > 0.005 else 0)
    # Spaces that stay where the style is stripped: percentages stand below one another.
    filled = Html("█" * full + "&nbsp;" * (BAR_CHARACTERS - full))
    bar = element("span", filled, class_="kb-bars", role="img", aria_label="share of the time")
    return join([bar, escape(f" {share:.0%}")])
