"""Who has computed which chunk, in what time: from the workers to `activity`, as events of Dask.

Workers log an event for each chunk under the topic "kbench". The client that has made an array
listens, and counts for each job what comes in. Dask's own threads count at once.
"""

from __future__ import annotations

import socket
import sys
import time
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dask.callbacks import Callback

from kbench.dask import activity
from kbench.dask.worker import NAME, Task, stop
from kbench.engine.core import fork_safety
from kbench.engine.runtime import threads

MAX_JOBS = 256
"""Maps whose name and number of chunks are kept, the newest."""
QUIET_SECONDS = 10.0
"""A map of which nobody has heard for so long is over: it was stopped, or only a part was asked
for. Where chunks take long, four times the longest."""
STRAGGLER_SECONDS = 2.0
"""For so long after the end of a map, what is heard of its chunks is its own: they had begun."""
HERE = "this process"
"""The address of what Dask's own threads compute."""


@dataclass
class _Job:
    """A map, and its run that is under way."""

    name: str
    total: int | None
    payload: str  # the key of its function in graphs
    tracker: activity.Tracker | None = None
    done: set[int] = field(default_factory=set)
    longest: float = 0.0
    heard: float = 0.0  # time.monotonic()

    def is_over(self, chunk: int) -> bool:
        """Whether an event of a chunk belongs to another run."""
        if self.tracker is None:
            return True
        late = time.monotonic() - self.heard > STRAGGLER_SECONDS
        return self.tracker.ended and (late or chunk in self.done)


_jobs: OrderedDict[str, _Job] = OrderedDict()
_lock = fork_safety.lock()


def expect(job: str, name: str, total: int | None, payload: str) -> None:
    """Tell of a map that may be computed, once or several times."""
    with _lock:
        _jobs[job] = _jobs.get(job) or _Job(name, total, payload)
        _jobs.move_to_end(job)
        while len(_jobs) > MAX_JOBS:
            _jobs.popitem(last=False)


# ------------------------------------------------------------------ where chunks are computed


def done(
    job: str, task: Task | None, index: int, blocks: Sequence[Any], results: Sequence[Any],
    seconds: float,
) -> None:  # fmt: skip
    """A chunk has been computed, by the thread of `task`, or of this process."""
    blocked = [int(getattr(block, "nbytes", 0)) for block in blocks]
    event = {
        "job": job,
        "chunk": index,
        "rows": max((len(block) for block in blocks if getattr(block, "ndim", 0)), default=0),
        "seconds": seconds,
        "received": sum(blocked),
        "returned": sum(int(value.nbytes) for value in results),
    }
    _tell(task, event)


def failed(job: str, task: Task | None) -> None:
    """A chunk has not been computed, so that the map is over."""
    _tell(task, {"job": job, "chunk": -1})


def _tell(task: Task | None, event: dict[str, Any]) -> None:
    if task is None:
        event.update(worker=HERE, host=socket.gethostname(), threads=threads.count())
        _heard(event)
        return
    worker = task.worker
    event.update(worker=worker.address, host=socket.gethostname(), threads=worker.state.nthreads)
    worker.log_event(NAME, event)


# ------------------------------------------------------------------ where they are counted

_followed: weakref.WeakSet[Any] = weakref.WeakSet()


def follow(client: Any) -> None:
    """Listen to the workers of a client's cluster; a second time does nothing."""
    if client in _followed:
        return
    _followed.add(client)
    listener = _Listener(weakref.ref(client))
    client.subscribe_topic(NAME, listener)


class _Listener:
    """Called on the client's event loop with each event."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __call__(self, event: tuple[float, Any]) -> None:
        _, told = event
        if not isinstance(told, dict) or told.get("job") not in _jobs:
            return
        _heard(told)
        client = self._client()
        if client is not None:
            self._look_later(client, told["job"])

    def _look_later(self, client: Any, name: str) -> None:
        job = _jobs[name]
        client.loop.call_later(_patience(job), _end_if_quiet, name)


def _patience(job: _Job) -> float:
    return max(QUIET_SECONDS, 4 * job.longest)


def _end_if_quiet(name: str) -> None:
    job = _jobs.get(name)
    if job is not None and time.monotonic() - job.heard >= _patience(job) - 0.1:
        _end(job)


def _heard(event: dict[str, Any]) -> None:
    """Count what an event tells."""
    with _lock:
        job = _jobs.get(event["job"])
        if job is None:
            return
        if event["chunk"] < 0:
            _end(job)
            return
        if job.is_over(event["chunk"]):
            job.tracker = activity.track("map", job.name, job.total)
            job.done = set()
        job.heard = time.monotonic()
        job.longest = max(job.longest, event["seconds"])
        assert job.tracker is not None
        _count(job, job.tracker, event)


def _count(job: _Job, tracker: activity.Tracker, event: dict[str, Any]) -> None:
    worker = event["worker"]
    tracker.worker(worker, event["host"], event["threads"], "working")
    amounts = {key: event[key] for key in ("rows", "seconds", "received", "returned")}
    tracker.add(worker, **amounts)
    if event["chunk"] not in job.done:
        job.done.add(event["chunk"])
        tracker.step()
    if len(job.done) == job.total:
        _end(job)


def _end(job: _Job) -> None:
    tracker = job.tracker
    if tracker is None or tracker.ended:
        return
    for worker in tracker.job().workers:
        tracker.worker(worker.address, state="idle")
    tracker.end()


# ------------------------------------------------------------------ Dask's own threads


class _Local(Callback):
    """Told by Dask when a computation by its own threads, or in this one, is over."""

    def _finish(self, graph: Any, state: object, errored: bool) -> None:
        interrupted = errored and isinstance(sys.exc_info()[1], KeyboardInterrupt)
        for name, job in list(_jobs.items()):
            if job.payload in graph and job.tracker is not None:
                if interrupted:
                    stop(name)
                _end(job)


_local = _Local()  # type: ignore[no-untyped-call]
_local.register()
