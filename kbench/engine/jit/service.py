"""The kernel service: turns sources into kernels, at once where their code is stored.

Code that is stored is loaded when it is first asked for, which takes less than a millisecond. The
rest is compiled in the background, in the order of need; nothing waits for a compiler unless
`KBENCH_JIT=wait` asks for it. A source that fails to compile is remembered and never tried again;
its caller stays on NumPy.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from collections.abc import Callable, Iterator

from msgspec import Struct

from kbench.engine.core import fork_safety
from kbench.engine.jit import disk_cache, kernel_pack, thread_pool
from kbench.engine.jit.compile_queue import DRIVER, Job
from kbench.engine.jit.compile_threads import CompileThreads
from kbench.engine.runtime import config, threads

PRIORITY_GRACE_SECONDS = 1.0
"""How long a caller who waits leaves it to a compiler of low priority, before one of the caller's
priority begins anew."""


class Stats(Struct, frozen=True):
    """What the service has done so far, for `kbench doctor` and the plan view."""

    compiled: int
    cache_hits: int
    pending: int
    seconds: float
    failures: tuple[tuple[str, str], ...]
    loaded: bool


class Service(CompileThreads):
    """What is asked for, who waits for it, and what has come of it."""

    # -------------------------------------------------------------- asking

    def submit(
        self, name: str, text: Callable[[], str], guess: Callable[[], int] | None = None
    ) -> Job | None:
        """The job of that name, begun on first sight; None when compiling is off.

        It is ready on return if its code is stored, or with `KBENCH_JIT=wait`, once it is compiled.
        `guess` gives the length of a source that was never written, so that nothing was compiled of
        it, and 0 for any other: those who compile write it, while the caller goes on.
        """
        mode = config.jit_mode()
        if mode == "off":
            return None
        job = self._jobs.get(name)
        if job is None or job.state == "pending":
            with self._changed:
                self._begin_job(DRIVER, thread_pool.source)
                job = self._begin_job(name, text, guess)
            if mode == "wait" and not self._is_warming_up:
                self._wait_for(job)
            elif job.state == "pending":
                self.queue.miss(job)
        return job

    def find(
        self, name: str, text: Callable[[], str], guess: Callable[[], int] | None = None
    ) -> Job | None:
        """The job of that name once its kernel can run, None until then, and when it never can."""
        if self.queue.is_muted() and name not in self._jobs:
            return None
        job = self.submit(name, text, guess)
        return job if job is not None and job.state == "ready" else None

    def prefetch(self) -> None:
        """Have the driver ready; called by UIs as they start."""
        if config.jit_mode() != "off":
            with self._changed:
                self._begin_job(DRIVER, thread_pool.source)

    def _begin_job(
        self, name: str, text: Callable[[], str], guess: Callable[[], int] | None = None
    ) -> Job:
        job = self._jobs.get(name)
        if job is None:
            job = self._jobs[name] = Job(name, text)
            try:
                if guess is not None and not kernel_pack.is_usable():
                    job.guess = guess()
                loaded = self._load_at_once(job)
            except Exception as error:
                self._finish(job, "failed", f"{type(error).__name__}: {error}")
                return job
            if self._stopping and not loaded:
                self._finish(job, "failed", self._why_stopped)
            elif not loaded:
                self.queue.put(job)
        if self.queue.jobs:
            self._start_thread()
            self._changed.notify_all()
        return job

    def _wait_for(self, job: Job) -> None:
        with self._waited(job):
            begun = time.monotonic()
            while not job.done.wait(0.05):
                if self._stopping or not any(thread.is_alive() for thread in self._threads):
                    return
                if time.monotonic() - begun > PRIORITY_GRACE_SECONDS:
                    self._restart(job)

    @contextlib.contextmanager
    def _waited(self, *jobs: Job) -> Iterator[None]:
        """Meanwhile these come before others, and no less than the caller who waits for them."""
        wanted = list({id(waited): waited for waited in (self._jobs[DRIVER], *jobs)}.values())
        with self._changed:
            for waited in wanted:
                waited.waiting += 1
                if waited.compiler is not None:
                    waited.compiler.raise_priority()
        try:
            yield
        finally:
            with self._changed:
                for waited in wanted:
                    waited.waiting -= 1

    def _restart(self, job: Job) -> None:
        """Have what is compiled after everything else compiled anew, by one that need not wait."""
        with self._changed:
            for waited in (self._jobs[DRIVER], job):
                if (
                    waited.compiler is not None
                    and not waited.restarted
                    and not waited.compiler.raise_priority()
                ):
                    waited.restarted = True
                    waited.compiler.interrupt()

    @contextlib.contextmanager
    def warming_up(self) -> Iterator[None]:
        """Meanwhile, compile on all cores, and all at the priority of the caller, who waits for all
        of it and so for no single kernel."""
        before = self._max_compilers
        with self._changed:
            self._max_compilers, self._is_warming_up = os.cpu_count() or 1, True
            for compiler in self._compilers:
                compiler.raise_priority()
        try:
            yield
        finally:
            self._max_compilers, self._is_warming_up = before, False

    # -------------------------------------------------------------- loading

    def _load_at_once(self, job: Job) -> bool:
        """Load an image; False if there is none, or none that can be used."""
        if job.name != DRIVER and self.driver is None:
            return False  # it would have nobody to run it, so its source can wait, too
        if job.guess:
            return False
        job.key = disk_cache.key_of(job.source)
        try:
            return self._load(job, images_only=True)
        except Exception:
            disk_cache.discard(job.name, job.key)
            return False

    # -------------------------------------------------------------- looking on

    def job(self, name: str) -> Job | None:
        """The job of that name, if there is one."""
        return self._jobs.get(name)

    def ready(self) -> list[Job]:
        """The jobs whose kernels can run, as they were first asked for."""
        return [job for job in list(self._jobs.values()) if job.state == "ready"]

    def is_compiling(self) -> bool:
        """Whether kernels that were asked for here are being compiled, by whatever process."""
        return threads.is_compiling() or bool(self.queue.aside)

    def pending(self) -> int:
        """How many kernels are on their way."""
        return sum(job.state == "pending" for job in list(self._jobs.values()))

    def stats(self) -> Stats:
        """Counts, seconds spent, and what failed with its reason."""
        jobs = list(self._jobs.values())
        ready = [job for job in jobs if job.state == "ready"]
        return Stats(
            compiled=sum(not job.was_cached for job in ready),
            cache_hits=sum(job.was_cached for job in ready),
            pending=sum(job.state == "pending" for job in jobs),
            seconds=sum(job.seconds for job in jobs),
            failures=tuple((job.name, job.reason) for job in jobs if job.state == "failed"),
            loaded=self.driver is not None,
        )

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until everything submitted so far is done; False when the time ran out."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            if self.queue.jobs:  # in a forked child nobody is at work yet
                self._start_thread()
        jobs = list(self._jobs.values())
        if all(job.done.is_set() for job in jobs):
            return True
        with self._waited(*jobs):
            for job in jobs:
                left = None if end is None else max(0.0, end - time.monotonic())
                if not job.done.wait(left):
                    return False
        return True

    def wait_for_change(self, timeout: float) -> None:
        """Wait until some job is done, or for some time."""
        with self._changed:
            self._changed.wait(timeout)


service = Service()
atexit.register(service.stop)
fork_safety.in_child(service.after_fork)
prefetch = service.prefetch
stats = service.stats
wait_idle = service.wait_idle
