"""Who has computed which chunk, in what time: from the workers to `activity`, as events of Dask.

Workers log what they have done under the topic "kbench", several chunks in one event. The client
that has made an array listens, and counts for each map what comes in. Dask's own threads count at
once.
"""

from __future__ import annotations

import socket
import sys
import time
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from dask.callbacks import Callback
from msgspec import Struct, field

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
SEND_SECONDS = 0.2
"""How long a worker gathers chunks that are done before it tells of them: an event of its own for
each would cost as much as a small chunk, and nobody reads faster."""
HERE = "this process"
"""The address of what Dask's own threads compute."""


class _Job(Struct):
    """A map, and its run that is under way."""

    name: str
    total: int | None
    payload: str  # the key of its function in graphs
    tracker: activity.Tracker | None = None
    done: set[int] = field(default_factory=set)
    longest: float = 0.0
    heard: float = 0.0  # time.monotonic()
    source: str = ""  # the client whose cluster computes it

    def is_over(self, chunk: int) -> bool:
        """Whether a chunk that is done belongs to another run."""
        assert self.tracker is not None
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


class Done(NamedTuple):
    """A chunk that has been computed; with the number -1 one that has not: its map is over."""

    job: str
    chunk: int
    rows: int = 0
    seconds: float = 0.0
    received: int = 0  # bytes
    returned: int = 0


_boxes: dict[str, list[Done]] = {}  # what the client is told next, by the worker's address


def done(
    job: str,
    task: Task | None,
    chunk: int,
    blocks: Sequence[Any],
    results: Sequence[Any],
    seconds: float,
) -> None:
    """A chunk has been computed, by the thread of `task`, or of this process."""
    rows = max((len(block) for block in blocks if getattr(block, "ndim", 0)), default=0)
    received, returned = (
        sum(int(getattr(one, "nbytes", 0)) for one in some) for some in (blocks, results)
    )
    _tell(task, Done(job, chunk, rows, seconds, received, returned))


def failed(job: str, task: Task | None) -> None:
    """A chunk has not been computed, so that the map is over."""
    _tell(task, Done(job, -1))


def _tell(task: Task | None, one: Done) -> None:
    if task is None:
        _heard([one], HERE, socket.gethostname(), threads.count())
        return
    worker = task.worker
    with _lock:
        box = _boxes.setdefault(worker.address, [])
        box.append(one)
        is_first = len(box) == 1
    if is_first:
        worker.loop.add_callback(worker.loop.call_later, SEND_SECONDS, _send, worker)


def _send(worker: Any) -> None:
    """Log what a worker has done as one event; called on its loop."""
    with _lock:
        box = _boxes.pop(worker.address, [])
    told = {"worker": worker.address, "host": socket.gethostname()}
    chunks = [list(one) for one in box]
    worker.log_event(NAME, {**told, "threads": worker.state.nthreads, "chunks": chunks})


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
        self._id = str(client().id)

    def __call__(self, event: tuple[float, Any]) -> None:
        _, told = event
        if not isinstance(told, dict) or "chunks" not in told:
            return
        some = [Done(*one) for one in told["chunks"]]
        _heard(some, told["worker"], told["host"], told["threads"], self._id)
        client = self._client()
        for name in {one.job for one in some}:
            job = _jobs.get(name)
            if client is not None and job is not None:
                client.loop.call_later(_patience(job), _end_if_quiet, job)


def _patience(job: _Job) -> float:
    return max(QUIET_SECONDS, 4 * job.longest)


def _end_if_quiet(job: _Job) -> None:
    with _lock:
        if time.monotonic() - job.heard >= _patience(job):
            _end(job)


def _heard(some: Sequence[Done], worker: str, host: str, count: int, source: str = "") -> None:
    """Count what a worker of so many threads has done; several clients may tell of it."""
    with _lock:
        for one in some:
            job = _jobs.get(one.job)
            if job is None:
                continue
            if one.chunk < 0:
                _end(job)
                continue
            tracker = job.tracker
            if tracker is not None and not tracker.ended and job.source != source:
                continue
            if tracker is None or job.is_over(one.chunk):
                job.source = source
                job.tracker = tracker = activity.track("map", job.name, job.total)
                job.done = set()
            job.heard = time.monotonic()
            job.longest = max(job.longest, one.seconds)
            tracker.worker(worker, host, count, "working")
            _count(job, tracker, worker, one)


def _count(job: _Job, tracker: activity.Tracker, worker: str, one: Done) -> None:
    tracker.add(
        worker, rows=one.rows, seconds=one.seconds, received=one.received, returned=one.returned
    )
    if one.chunk not in job.done:
        job.done.add(one.chunk)
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
            if job.payload not in graph:
                continue
            if interrupted:  # before the first chunk is done, too, when nothing is tracked yet
                stop(name)
            if job.tracker is not None:
                with _lock:
                    _end(job)
                    if not errored:  # else some threads go on for a moment
                        job.heard = 0.0


_local = _Local()  # type: ignore[no-untyped-call]
_local.register()
