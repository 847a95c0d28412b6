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
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kbench.engine.core import fork_safety
from kbench.engine.jit import disk_cache, kernel_pack, loader, thread_pool
from kbench.engine.jit.compile_queue import DRIVER, CompileQueue, Compiler, Job
from kbench.engine.jit.compiling import compiler_process
from kbench.engine.runtime import config, threads

THREAD_NAME = "kbench-compile"
"""Name of the threads that have sources compiled."""
IDLE_SECONDS = 20.0
"""How long a compiler is kept that has nothing to do; it takes 150 MB."""
PRIORITY_GRACE_SECONDS = 1.0
"""How long a caller who waits leaves it to a compiler of low priority, before one of the caller's
priority begins anew."""
MAX_COMPILERS = 4
"""Compilers at once, on a machine with twice as many cores: each takes 150 MB and a core."""


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
    """The jobs, the queue of those to be compiled, and the threads that have it done."""

    def __init__(self) -> None:
        self._changed = threading.Condition(fork_safety.lock())
        self.queue = CompileQueue()
        self._jobs: dict[str, Job] = {}
        self._threads: list[threading.Thread] = []
        self._compilers: list[Compiler] = []
        self._stopping = False
        self._why_stopped = "the process is ending"
        self._max_compilers = min(MAX_COMPILERS, max(1, (os.cpu_count() or 1) // 2))
        self._is_warming_up = False
        self._compiler_depth = 0
        self.driver: Any = None

    # -------------------------------------------------------------- asking

    def submit(self, name: str, text: Callable[[], str]) -> Job | None:
        """The job of that name, begun on first sight; None when compiling is off.

        It is ready on return if its code is stored, or with `KBENCH_JIT=wait`, once it is compiled.
        """
        mode = config.jit_mode()
        if mode == "off":
            return None
        job = self._jobs.get(name)
        if job is None or job.state == "pending":
            with self._changed:
                self._begin_job(DRIVER, thread_pool.source)
                job = self._begin_job(name, text)
            if mode == "wait" and not self._is_warming_up:
                self._wait_for(job)
            elif job.state == "pending":
                self.queue.miss(job)
        return job

    def find(self, name: str, text: Callable[[], str]) -> Job | None:
        """The job of that name once its kernel can run, None until then, and when it never can."""
        job = self.submit(name, text)
        return job if job is not None and job.state == "ready" else None

    def prefetch(self) -> None:
        """Have the driver ready; called by UIs as they start."""
        if config.jit_mode() != "off":
            with self._changed:
                self._begin_job(DRIVER, thread_pool.source)

    def _begin_job(self, name: str, text: Callable[[], str]) -> Job:
        job = self._jobs.get(name)
        if job is None:
            job = self._jobs[name] = Job(name, text)
            try:
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

    def _is_awaited(self, job: Job) -> bool:
        return job.waiting > 0 or self._is_warming_up

    # -------------------------------------------------------------- loading

    def _load_at_once(self, job: Job) -> bool:
        """Load an image; False if there is none, or none that can be used."""
        if job.name != DRIVER and self.driver is None:
            return False  # it would have nobody to run it, so its source can wait, too
        job.key = disk_cache.key_of(job.source)
        try:
            return self._load(job, images_only=True)
        except Exception:
            disk_cache.discard(job.name, job.key)
            return False

    def _load(self, job: Job, images_only: bool = False) -> bool:
        """Make a job ready from stored code, if there is any."""
        begun = time.perf_counter()
        job.key = job.key or disk_cache.key_of(job.source)
        found = disk_cache.read(job.name, job.key) or kernel_pack.read(job.source)
        if found is None or (images_only and found[0]["form"] != "image"):
            return False
        if found[0]["form"] == "image":
            job.module = loader.load_image(*found)
        else:
            with self._inside_compiler():
                job.module = loader.load_objects(*found)
        job.path = disk_cache.source_path(job.name, job.key)
        if job.name == DRIVER:
            self.driver = thread_pool.Driver(job.module)
        run = getattr(job.module, "run", None)
        job.address = run.address if run is not None else 0
        job.was_cached = job.seconds == 0
        job.seconds += time.perf_counter() - begun
        self._finish(job, "ready")
        return True

    def _finish(self, job: Job, state: str, reason: str = "") -> None:
        with self._changed:
            job.state, job.reason = state, reason
            job.done.set()
            self._changed.notify_all()

    # -------------------------------------------------------------- compiling

    def _start_thread(self) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) < min(self._max_compilers, len(self.queue.jobs) + 1):
            import subprocess  # noqa: F401, not in the thread: a fork would copy half a module

            thread = threading.Thread(target=self._compile_queued, name=THREAD_NAME, daemon=True)
            self._threads.append(thread)
            thread.start()
            threads.count_compilers(1)  # from now on, as what asks for a kernel computes meanwhile

    def _compile_queued(self) -> None:
        """Have queued jobs compiled until there are none for some time."""
        own: Compiler | None = None
        elsewhere = True
        try:
            while (job := self._next()) is not None:
                try:
                    if self._load(job):
                        continue  # stored by another process meanwhile, or no image
                    if own is not None and not self._has_priority_for(own, job):
                        self._stop_compiler(own)
                        own = None
                    if own is None:
                        own = self._start_compiler(elsewhere, self._is_awaited(job))
                    self._compile(job, own)
                except EOFError as error:
                    self._stop_compiler(own)
                    own = None
                    self._try_again(job, str(error))
                except compiler_process.NoCompilerError as error:
                    self._stop_compiler(own)
                    own = None
                    if job.restarted:
                        self._try_again(job, str(error))
                    elif not elsewhere:
                        self._give_up(f"the compiler could not be loaded: {error}")
                    else:
                        elsewhere = False
                        self._queue_again(job)
                except Exception as error:
                    self._fail(job, str(error) or type(error).__name__)
        finally:
            self._stop_compiler(own)

    def _next(self) -> Job | None:
        with self._changed:
            threads.count_compilers(-1)  # it waits
            end = time.monotonic() + IDLE_SECONDS
            while not self.queue.jobs and not self._stopping and time.monotonic() < end:
                self._changed.wait(IDLE_SECONDS)
            if self._stopping or not self.queue.jobs:
                self._threads.remove(threading.current_thread())
                return None
            threads.count_compilers(1)
            return self.queue.take()

    def _has_priority_for(self, own: Compiler, job: Job) -> bool:
        """Whether a compiler can have the priority that a job needs; then it has it."""
        if self._is_awaited(job):
            return own.raise_priority()
        own.lower_priority()
        return True

    def _start_compiler(self, elsewhere: bool, urgent: bool) -> Compiler:
        own: Compiler
        try:
            own = (
                compiler_process.CompilerProcess(urgent)
                if elsewhere
                else compiler_process.InProcessCompiler()
            )
        except OSError as error:
            raise compiler_process.NoCompilerError(str(error)) from error
        with self._changed:
            self._compilers.append(own)
            if self._stopping:
                own.interrupt()
        return own

    def _stop_compiler(self, own: Compiler | None) -> None:
        if own is not None:
            with self._changed:
                self._compilers.remove(own)
            own.close()

    def _compile(self, job: Job, own: Compiler) -> None:
        begun = time.perf_counter()
        inside = isinstance(own, compiler_process.InProcessCompiler)
        with self._changed:
            job.compiler = own
            if self._is_awaited(job):  # since it was hired, too
                own.raise_priority()
        try:
            with self._inside_compiler() if inside else contextlib.nullcontext():
                job.key = own.compile(job.name, job.source, folder := disk_cache.folder())
        finally:
            job.compiler = None
        job.seconds = time.perf_counter() - begun
        if job.name != DRIVER:
            self._jobs[DRIVER].done.wait()
        if not self._load(job):
            if folder == disk_cache.folder():
                raise OSError(f"its code is not in {folder}")
            self._queue_again(job)  # another folder was set meanwhile

    @contextlib.contextmanager
    def _inside_compiler(self) -> Iterator[None]:
        """Meanwhile this process loads the compiler or is in it: a fork would copy it half done."""
        with self._changed:
            self._compiler_depth += 1
        try:
            yield
        finally:
            with self._changed:
                self._compiler_depth -= 1

    def _try_again(self, job: Job, reason: str) -> None:
        """A compiler that died may have been killed for its memory; one that dies twice is ill."""
        job.crashes += not job.restarted
        job.restarted = False
        if job.crashes > 1:
            self._fail(job, reason)
        else:
            self._queue_again(job)

    def _queue_again(self, job: Job) -> None:
        with self._changed:
            if self._stopping:
                self._fail(job, self._why_stopped)
            else:
                self.queue.put(job, first=True)

    def _fail(self, job: Job, reason: str) -> None:
        self._finish(job, "failed", reason)
        if job.name == DRIVER:
            self._give_up(f"there is nothing to run kernels with: {reason}")

    def _give_up(self, reason: str) -> None:
        with self._changed:
            self.queue.jobs.clear()
            self._stopping, self._why_stopped = True, reason
            for job in self._jobs.values():
                if job.state == "pending":
                    self._finish(job, "failed", reason)

    # -------------------------------------------------------------- looking on

    def job(self, name: str) -> Job | None:
        """The job of that name, if there is one."""
        return self._jobs.get(name)

    def ready(self) -> list[Job]:
        """The jobs whose kernels can run, as they were first asked for."""
        return [job for job in list(self._jobs.values()) if job.state == "ready"]

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

    # -------------------------------------------------------------- ending

    def stop(self) -> None:
        """End compilers; one in this process finishes its job, as LLVM must not be cut off."""
        with self._changed:
            self._stopping = True
            self.queue.jobs.clear()
            self._changed.notify_all()
            at_work = list(self._compilers)
            threads = list(self._threads)
        for compiler in at_work:
            compiler.interrupt()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout=20)

    def after_fork(self) -> None:
        """A child keeps the kernels that are ready and has compilers of its own for more.

        Forked while this process itself compiles, or loads its compiler, it can have none: locks
        of Numba's, or of modules half imported, are held for ever.
        """
        self._changed = threading.Condition(fork_safety.lock())
        self._threads = []
        at_work, self._compilers = self._compilers, []
        for compiler in at_work:
            compiler.forget()
        if self._compiler_depth:
            self._give_up("forked while a kernel was being compiled")
        self.queue = CompileQueue()
        self.queue.jobs += [job for job in self._jobs.values() if job.state == "pending"]
        for job in list(self._jobs.values()):
            job.waiting, job.compiler = 0, None
            done, job.done = job.done, threading.Event()
            if done.is_set():
                job.done.set()
        if self.driver is not None:
            self.driver.after_fork()


service = Service()
atexit.register(service.stop)
fork_safety.in_child(service.after_fork)
prefetch = service.prefetch
stats = service.stats
wait_idle = service.wait_idle
