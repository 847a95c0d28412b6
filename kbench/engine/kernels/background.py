"""The compile service: one background thread that turns sources into kernels, and what it has done.

Nothing waits for a compiler unless `KBENCH_JIT=wait` asks for it. A source that fails to compile is
remembered and never tried again; its caller stays on NumPy.
"""

from __future__ import annotations

import atexit
import collections
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.engine import config

THREAD = "kbench-compile"  # the name of the one thread that compiles


@dataclass
class Job:
    """One source on its way to being a kernel."""

    name: str
    text: Callable[[], str]
    state: str = "pending"  # then 'ready' or 'failed'
    module: ModuleType | None = None
    path: Path | None = None
    hit: bool = False
    seconds: float = 0.0
    reason: str = ""
    address: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def source(self) -> str:
        """The generated source, as compiled."""
        return self.text()


@dataclass(frozen=True)
class Stats:
    """What the service has done so far, for `kbench doctor` and the plan view."""

    compiled: int
    cache_hits: int
    pending: int
    seconds: float
    failures: tuple[tuple[str, str], ...]
    loaded: bool


class Service:
    """The queue and its thread. The thread starts with the first job."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._queue: collections.deque[Job] = collections.deque()
        self._jobs: dict[str, Job] = {}
        self._thread: threading.Thread | None = None
        self._loaded = False
        self._stopping = False
        self._why_stopped = "the process is ending"
        self._busy = False
        self.driver: Any = None

    def submit(self, name: str, text: Callable[[], str]) -> Job | None:
        """The job of that name, queued on first sight; None when compiling is off.

        With `KBENCH_JIT=wait` it returns when the job is done.
        """
        mode = config.jit_mode()
        if mode == "off":
            return None
        with self._wake:
            job = self._jobs.get(name)
            if job is None:
                job = self._jobs[name] = Job(name, text)
                if self._stopping:
                    _fail(job, self._why_stopped)
                else:
                    self._queue.append(job)
                    self._start()
                    self._wake.notify_all()
        if mode == "wait":
            self._wait_for(job)
        return job

    def _wait_for(self, job: Job) -> None:
        while not job.done.wait(0.05):
            thread = self._thread
            if self._stopping or thread is None or not thread.is_alive():
                return

    def prefetch(self) -> None:
        """Load Numba and the driver in the background; called by UIs and on first large work."""
        if config.jit_mode() == "off":
            return
        with self._wake:
            self._start()
            self._wake.notify_all()

    def _start(self) -> None:
        if self._thread is None and not self._stopping:
            self._thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        _lower_priority()
        try:
            self._load()
        except Exception as error:
            self._give_up(f"the compiler could not be loaded: {error!r}")
            return
        while True:
            with self._wake:
                while not self._queue and not self._stopping:
                    self._wake.wait()
                if self._stopping:
                    return
                job = self._queue.popleft()
            self._build(job)

    def _load(self) -> None:
        self._busy = True
        from kbench.engine.kernels import driver

        job = Job("driver", lambda: driver.SOURCE)
        self._jobs["driver"] = job
        _compile(job)
        if job.state == "failed":
            raise RuntimeError(job.reason)
        self.driver = driver.Driver(job.module)
        self._loaded = True
        self._busy = False
        job.done.set()

    def _build(self, job: Job) -> None:
        self._busy = True
        _compile(job)
        self._busy = False
        job.done.set()

    def _give_up(self, reason: str) -> None:
        with self._wake:
            jobs = [job for job in self._jobs.values() if job.state == "pending"]
            self._queue.clear()
            self._stopping, self._why_stopped = True, reason
        for job in jobs:
            _fail(job, reason)

    def job(self, name: str) -> Job | None:
        """The job of that name, if there is one."""
        return self._jobs.get(name)

    def stats(self) -> Stats:
        """Counts, seconds spent, and what failed with its reason."""
        jobs = list(self._jobs.values())
        ready = [job for job in jobs if job.state == "ready"]
        return Stats(
            compiled=sum(not job.hit for job in ready),
            cache_hits=sum(job.hit for job in ready),
            pending=sum(job.state == "pending" for job in jobs),
            seconds=sum(job.seconds for job in jobs),
            failures=tuple((job.name, job.reason) for job in jobs if job.state == "failed"),
            loaded=self._loaded,
        )

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until everything submitted so far is done; False when the time ran out."""
        end = None if timeout is None else time.monotonic() + timeout
        for job in list(self._jobs.values()):
            left = None if end is None else max(0.0, end - time.monotonic())
            if not job.done.wait(left):
                return False
        return True

    def stop(self) -> None:
        """Finish the running compile, drop the rest: LLVM must not run while the process ends."""
        with self._wake:
            self._stopping = True
            self._queue.clear()
            self._wake.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=20)

    def after_fork(self) -> None:
        """A child keeps the kernels that are ready and starts its own thread for more.

        Forked in the middle of a compile, it can have no more: Numba's lock is held for ever.
        """
        self._wake = threading.Condition()
        if self._busy:
            self._give_up("forked while a kernel was being compiled")
            return
        self._queue = collections.deque(j for j in self._jobs.values() if j.state == "pending")
        self._thread = None


def _fail(job: Job, reason: str) -> None:
    job.state, job.reason = "failed", reason
    job.done.set()


def _lower_priority() -> None:
    """Compile behind the user's own work where the system lets single threads do so."""
    if sys.platform.startswith("linux"):
        try:
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
        except OSError:
            return


def _compile(job: Job) -> None:
    """Import the job's source as a module, which compiles it or loads its object code."""
    from kbench.engine.kernels import store

    begun = time.perf_counter()
    try:
        job.path = store.write(job.name, job.source)
        known = store.verify(job.path)
        try:
            job.module = _import(job)
        except Exception:
            if not known:
                raise
            store.discard(job.path)  # unreadable object code: once more, from the source
            known = False
            job.module = _import(job)
        job.hit = known and _loaded_from_disk(job.module)
        if not known and store.cacheable():
            store.seal(job.path)
        run = getattr(job.module, "run", None)
        job.address = int(run.address) if run is not None else 0
        job.state = "ready"
    except Exception as error:
        job.state, job.reason = "failed", f"{type(error).__name__}: {error}"
    job.seconds = time.perf_counter() - begun


def _loaded_from_disk(module: ModuleType) -> bool:
    """Whether Numba found the object code it looked for, rather than compiling again."""
    hits = [getattr(value, "cache_hits", None) for value in vars(module).values()]
    return 0 not in hits


def _import(job: Job) -> ModuleType:
    name = f"kbench_kernels_{job.name}"
    spec = importlib.util.spec_from_file_location(name, job.path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for {job.path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # cached kernels are found again by their module's name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


service = Service()
atexit.register(service.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=service.after_fork)
