"""The inspector's verb about work that a cluster shares: what each worker of a job has done.

While a job runs, a thread looks at it twice a second and pushes how far it is; the rows are asked
for by whoever shows them. The program only counts (`kbench/dask/activity.py`).
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from kbench.engine.runtime import profile
from kbench.workbench.analysis import job_rows
from kbench.workbench.core_types import Publish
from kbench.workbench.inspector.recorder import Recorder
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Served
from kbench.workbench.protocol.runs import JobHead, JobName, Jobs, JobsReply
from kbench.workbench.session.async_safe_event import AsyncSafeEvent

if TYPE_CHECKING:
    from kbench.dask.activity import Job

PUSH_SECONDS = 0.5
"""Between two looks at a job that runs; a user reads no faster."""
MAX_PUSH_SECONDS = 2.0
"""The same, once nothing has changed for a while."""
MIN_PUSH_SECONDS = 0.1
"""Between two pushes, however many jobs begin and end."""
ROOM_STEP_ROWS = 16
"""Rows that are summed up with the rest at a time, until what is left fits a message."""
_log = logging.getLogger("kbench")


class JobVerbs:
    """Serves the jobs of this process, and pushes "jobs" while one runs."""

    def __init__(self, recorder: Recorder, publish: Publish | None) -> None:
        self._recorder = recorder
        self._publish = publish
        self._cell_began = 0.0  # time.monotonic()
        self._wake = AsyncSafeEvent()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._unsubscribe = profile.job_changed.subscribe(self._on_job)
        for job in job_rows.known():
            if job.running:  # it began before anybody looked
                self._on_job(job.number)

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Jobs.served_by(self._jobs)]

    def _jobs(self, asked: Jobs) -> JobsReply:
        jobs, job = job_rows.known(), asked.job
        if job is None:
            found = job_rows.first(jobs)
        else:
            found = next((one for one in jobs if one.number == job), None)
        if found is None and job is not None:
            raise ProtocolError("job", f"jobs: job {job} is no longer known")
        reply = JobsReply(
            jobs=[_listed(one) for one in reversed(jobs)],
            job=self.head(),
            shown=None if found is None else job_rows.head(found),
            rows=[],
            others=None,
        )
        most = job_rows.MAX_WORKER_ROWS if asked.most is None else asked.most
        return reply if found is None else _within_room(reply, found, most)

    def head(self) -> JobHead | None:
        """What is known of the job that leads, without its workers; None where there is no job.

        `leads`: it runs, or has ended and no later cell has recorded a run since.
        """
        found = job_rows.first(job_rows.known())
        return None if found is None else job_rows.head(found).replaced(leads=self._leads(found))

    def _leads(self, job: Job) -> bool:
        run = self._recorder.find(None)
        ended = job.started + job.seconds
        return job.running or run is None or not ended < self._cell_began < run.at

    def cell_started(self) -> None:
        """A cell begins; what it records is newer than a job that has ended."""
        self._cell_began = time.monotonic()

    def close(self) -> None:
        """Look at jobs no more."""
        self._closed = True
        self._unsubscribe()
        self._wake.set()

    # ------------------------------------------------------------------ while a job runs

    def _on_job(self, _number: object) -> None:
        if self._publish is None or self._closed:
            return
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="kbench-jobs", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        pause: float | None = None
        before: object = None
        while True:
            self._wake.wait(pause)
            if self._closed:
                return
            jobs = job_rows.known()
            try:
                self._push(jobs)
            except Exception:  # the next look may do better
                _log.exception("the progress of a job could not be reported")
            now = [(job.number, job.steps, job.workers, job.note) for job in jobs]
            if not any(job.running for job in jobs):
                pause = None
            elif now != before or pause is None:
                pause = PUSH_SECONDS
            else:
                pause = min(2 * pause, MAX_PUSH_SECONDS)
            before = now
            time.sleep(MIN_PUSH_SECONDS)

    def _push(self, jobs: list[Job]) -> None:
        head = self.head()
        if self._publish is not None and head is not None:
            running = sum(job.running for job in jobs)
            self._publish(messages.push("jobs", {"job": head, "running": running}))


def _listed(job: Job) -> JobName:
    head = job_rows.head(job)
    return JobName(job=head.job, kind=head.kind, name=head.name, running=head.running)


def _within_room(reply: JobsReply, job: Job, most: int) -> JobsReply:
    """The reply with the rows of a job, as many as fit one message."""
    most = max(min(most, job_rows.MAX_WORKER_ROWS), 1)
    while True:
        rows, others = job_rows.rows(job, most)
        filled = reply.replaced(rows=rows, others=others)
        if messages.size({"data": filled}) <= messages.MAX_PAGE_BYTES or most <= 1:
            return filled
        most = max(most - ROOM_STEP_ROWS, 1)
