"""What the workers of a cluster have done for a running `fit` or map, for whoever shows it.

The workbench reads `jobs()` from any thread; what runs writes. When a job begins or ends,
the engine's signal `profile.job_changed` says so. Must not import Dask.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict

from msgspec import Struct, field
from msgspec.structs import replace

from kbench.engine.runtime import profile

MAX_JOBS = 8
"""Jobs that are kept, the newest: those that run, and some that have ended."""
_numbers = itertools.count(1)


class WorkerFigures(Struct, frozen=True):
    """One worker's part of a job, since it began."""

    address: str
    host: str
    threads: int
    tasks: int = 0  # chunks of a map, shards of a step
    rows: int = 0  # samples
    seconds: float = 0.0  # spent computing
    received: int = 0  # bytes of inputs and weights that came to it
    returned: int = 0  # bytes of results or gradients that it gave
    state: str = "idle"  # or "working", "lost"


class Job(Struct, frozen=True):
    """A `fit` or a map, as it stands."""

    kind: str  # "fit" or "map"
    name: str  # of the model or function
    started: float  # time.monotonic()
    seconds: float = 0.0  # since then, or until it ended
    steps: int = 0  # of training, or chunks, that are done
    total: int | None = None  # None where nobody knows
    running: bool = True
    workers: tuple[WorkerFigures, ...] = ()
    note: str = ""  # one sentence, as that one machine would be faster
    number: int = 0  # from 1 on, in the order in which jobs began

    def share(self, worker: WorkerFigures) -> float:
        """What part of all computing time of this job was a worker's, from 0 to 1."""
        total = sum(other.seconds for other in self.workers)
        return worker.seconds / total if total else 0.0


class Tracker(Struct):
    """Collects one job's figures; safe from any thread."""

    kind: str
    name: str
    total: int | None = None
    started: float = field(default_factory=time.monotonic)
    _workers: dict[str, WorkerFigures] = field(default_factory=dict)
    _steps: int = 0
    _ended: float | None = None
    _note: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    number: int = field(default_factory=_numbers.__next__)

    def worker(self, address: str, host: str = "", threads: int = 1, state: str = "idle") -> None:
        """Tell of a worker, or of its state."""
        with self._lock:
            known = self._workers.get(address)
            if known is None:
                self._workers[address] = WorkerFigures(address, host, threads, state=state)
            else:
                self._workers[address] = replace(known, state=state)

    def add(
        self,
        address: str,
        *,
        tasks: int = 1,
        rows: int = 0,
        seconds: float = 0.0,
        received: int = 0,
        returned: int = 0,
    ) -> None:
        """Add what a worker has done."""
        with self._lock:
            known = self._workers.get(address) or WorkerFigures(address, "", 1)
            self._workers[address] = replace(
                known,
                tasks=known.tasks + tasks,
                rows=known.rows + rows,
                seconds=known.seconds + seconds,
                received=known.received + received,
                returned=known.returned + returned,
            )

    def step(self, count: int = 1) -> None:
        """Count steps, or chunks, that are done."""
        with self._lock:
            self._steps += count

    def say(self, note: str) -> None:
        """Keep a sentence for whoever looks; it may come after the end."""
        with self._lock:
            self._note = note
        if self.ended:  # until then whoever looks does so again and again
            profile.job_changed.emit(self.number)

    def end(self) -> None:
        """The job is over; its figures stay. A second time changes nothing."""
        with self._lock:
            if self._ended is not None:
                return
            self._ended = time.monotonic()
        profile.job_changed.emit(self.number)

    @property
    def ended(self) -> bool:
        """Whether the job is over."""
        return self._ended is not None

    def job(self) -> Job:
        """As it stands."""
        with self._lock:
            ended = self._ended
            return Job(
                self.kind,
                self.name,
                self.started,
                (ended or time.monotonic()) - self.started,
                self._steps,
                self.total,
                ended is None,
                tuple(self._workers.values()),
                self._note,
                self.number,
            )


_trackers: OrderedDict[int, Tracker] = OrderedDict()
_trackers_lock = threading.Lock()


def track(kind: str, name: str, total: int | None = None) -> Tracker:
    """Begin a job that `jobs` tells of, until eight newer ones have ended; `end` it in any case."""
    tracker = Tracker(kind, name, total)
    with _trackers_lock:
        _trackers[tracker.number] = tracker
        while len(_trackers) > MAX_JOBS:
            ended = (key for key, kept in _trackers.items() if kept.ended)
            del _trackers[next(ended, next(iter(_trackers)))]
    profile.job_changed.emit(tracker.number)
    return tracker


def jobs() -> list[Job]:
    """All jobs that are known, the newest first."""
    with _trackers_lock:
        found = list(_trackers.values())
    return [tracker.job() for tracker in reversed(found)]


def forget_jobs() -> None:
    """Drop all jobs."""
    with _trackers_lock:
        _trackers.clear()
