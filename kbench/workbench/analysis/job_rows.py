"""What the workers of a cluster have done for a `fit` or a map, as rows for the interfaces.

The figures are those of `kbench.dask.activity`, which is read only where the program has loaded it:
nothing here imports it, or Dask.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbench.engine.inspect import describe
from kbench.workbench.protocol.runs import JobHead, OtherWorkers, WorkerRow

if TYPE_CHECKING:
    from kbench.dask.activity import Job, WorkerFigures

ACTIVITY = "kbench.dask.activity"
MAX_WORKER_ROWS = 256
"""Workers with a row of their own: as many as fit a message of the inspector."""
MAX_ADDRESS_CHARACTERS = 40
"""Of a worker's host and port; with longer ones 256 workers would not fit a message."""
MAX_NOTE_CHARACTERS = 400
"""Of a job's sentence."""
SLOW_TIMES = 1.5
"""A worker is slow whose rows take so many times the median time: others wait for it that long."""
MIN_SLOW_SECONDS = 0.1
"""Of computing before a worker may be called slow; what is shorter is chance."""
SUMS = ("tasks", "rows", "seconds", "share", "received", "returned")
"""Figures of workers that can be added up."""


def known() -> list[Job]:
    """The jobs of this process, the newest first; none where the program has not loaded Dask's."""
    jobs = getattr(sys.modules.get(ACTIVITY), "jobs", None)  # it may be loading at this moment
    found: list[Job] = jobs() if jobs is not None else []
    return found


def first(jobs: Sequence[Job]) -> Job | None:
    """The one to look at: of those that run and have workers the oldest, else the newest of all.

    So a map within a training, as for its validation, does not take the training's place.
    """
    working = [job for job in jobs if job.running and job.workers]
    return working[-1] if working else next(iter(jobs), None)


def head(job: Job) -> JobHead:
    """What is known of a job without its workers."""
    return JobHead(
        job=job.number,
        kind=describe.printable(job.kind),
        name=describe.printable(job.name),
        seconds=float(job.seconds),
        steps=int(job.steps),
        total=None if job.total is None else int(job.total),
        running=job.running,
        workers=len(job.workers),
        lost=sum(worker.state == "lost" for worker in job.workers),
        note=describe.printable(job.note, MAX_NOTE_CHARACTERS),
    )


def rows(job: Job, most: int = MAX_WORKER_ROWS) -> tuple[list[WorkerRow], OtherWorkers | None]:
    """The workers of a job, at most so many, and the sum of the rest, if there are more.

    Rows stand in the order in which the workers were first told of; `slow` is there where one is,
    and says how many times the median time its rows take. Where there are too many, the lost and
    the slow ones have a row, and then those that have computed longest.
    """
    total = sum(worker.seconds for worker in job.workers)
    median = _median_seconds(job.workers)
    found = [_row(number, worker, total, median) for number, worker in enumerate(job.workers, 1)]
    if not job.running:  # nobody works for it any more, whatever was told last
        found = [row if row.state == "lost" else row.replaced(state="done") for row in found]
    if len(found) <= most:
        return found, None
    ordered = sorted(found, key=lambda row: (not _notable(row), -row.seconds))
    kept, rest = ordered[:most], ordered[most:]
    sums = {key: sum(getattr(row, key) for row in rest) for key in SUMS}
    others = OtherWorkers(count=len(rest), **sums)
    return sorted(kept, key=lambda row: row.number), others


def _notable(row: WorkerRow) -> bool:
    return row.slow is not None or row.state == "lost"


def _row(number: int, worker: WorkerFigures, total: float, median: float) -> WorkerRow:
    row = WorkerRow(
        number=number,
        address=describe.printable(_address(worker), MAX_ADDRESS_CHARACTERS),
        threads=int(worker.threads),
        state=describe.printable(worker.state, MAX_ADDRESS_CHARACTERS),
        tasks=int(worker.tasks),
        rows=int(worker.rows),
        seconds=_short(worker.seconds),
        share=_short(worker.seconds / total) if total else 0.0,
        received=int(worker.received),
        returned=int(worker.returned),
    )
    slow = _seconds_of_a_row(worker) / median if median else 0.0
    if slow >= SLOW_TIMES and worker.seconds >= MIN_SLOW_SECONDS:
        return row.replaced(slow=_short(slow))
    return row


def _short(value: float) -> float:
    """Six digits, which are all that anybody reads."""
    return float(f"{value:.6g}")


def _seconds_of_a_row(worker: WorkerFigures) -> float:
    return worker.seconds / worker.rows if worker.rows else 0.0


def _median_seconds(workers: Sequence[WorkerFigures]) -> float:
    """Of a row, over all workers that have computed any; of two workers the quicker one's."""
    found = sorted(filter(None, map(_seconds_of_a_row, workers)))
    return found[(len(found) - 1) // 2] if found else 0.0


def _address(worker: WorkerFigures) -> str:
    """`node07:40001`: the host as it calls itself, without its domain, and the port."""
    place = worker.address.rpartition("://")[2]
    host, _, port = place.rpartition(":")
    if not host or not port.isdigit():
        return place
    host = worker.host or host
    is_number = host.replace(".", "").isdigit()
    return f"{host if is_number else host.partition('.')[0]}:{port}"
