"""The threads that have missing kernels compiled, and how stored code becomes a kernel.

Each takes the job that is needed most, has it compiled by a process of its own, and loads what that
has stored. What another process is compiling is set aside, and loaded once it is there. `service`
decides what is asked for, and who waits for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
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
LOOK_SECONDS = 0.05
"""Time between two looks at a kernel that another process compiles; a look takes 0.2 ms."""
STUCK_SECONDS = 30.0
"""After which a kernel is compiled here, too: a process that was stopped never ends. The longest
kernels take 5 s on a core of their own; beside other work they get a fifth of one."""
AWAITED_STUCK_SECONDS = 10.0
"""The same where somebody waits, whose own compiler would stand behind nothing."""
LEAVE_SECONDS = 0.1
"""How long the end of a process collects what it leaves to a compiler; a source takes 1 ms."""
MAX_COMPILERS = 4
"""Compilers at once, on a machine with twice as many cores: each takes 150 MB and a core."""


class CompileThreads:
    """The jobs, the queue of those to be compiled, and the threads that have it done."""

    def __init__(self) -> None:
        self._changed = threading.Condition(fork_safety.lock())
        self.queue = CompileQueue()
        self._jobs: dict[str, Job] = {}
        self._threads: list[threading.Thread] = []
        self._compilers: list[Compiler] = []
        self._stopping = False
        self._why_stopped = "the process is ending"
        self._counted = 0
        self._max_compilers = min(MAX_COMPILERS, max(1, (os.cpu_count() or 1) // 2))
        self._is_warming_up = False
        self._compiler_depth = 0
        self.driver: Any = None

    def _is_awaited(self, job: Job) -> bool:
        return job.waiting > 0 or self._is_warming_up

    # -------------------------------------------------------------- loading

    def _load(self, job: Job, images_only: bool = False) -> bool:
        """Make a job ready from stored code, if there is any; or set it aside while there is
        nothing to run it with."""
        begun = time.perf_counter()
        job.key = job.key or disk_cache.key_of(job.source)
        found = disk_cache.read(job.name, job.key) or kernel_pack.read(job.source)
        if found is None or (images_only and found[0]["form"] != "image"):
            return False
        if job.name != DRIVER and self.driver is None:
            self._set_aside(job)
            return True
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
            job.state, job.reason, job.written = state, reason, ""
            self.queue.taken.discard(job)
            self._count_compilers()  # first: who sees the job done finds nobody at work for it
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
        self._count_compilers()  # by now, as what asks for a kernel computes meanwhile

    def _count_compilers(self) -> None:
        """Tell how many compilers are at work. The caller holds the lock."""
        now = min(len(self._threads), len(self.queue.jobs) + len(self.queue.taken))
        threads.count_compilers(now - self._counted)
        self._counted = now

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
        """The job to be done now, once there is one; None when none has come for some time."""
        queue, end = self.queue, time.monotonic() + IDLE_SECONDS
        with self._changed:
            while not self._stopping:
                queue.recall()
                if queue.jobs:
                    job = queue.take()
                    self._count_compilers()
                    return job
                left = min(queue.aside.values(), default=end) - time.monotonic()
                if left <= 0 and not queue.aside:
                    break
                self._changed.wait(max(left, 0.0))
            self._threads.remove(threading.current_thread())
            self._count_compilers()
            return None

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
        folder = disk_cache.folder()
        with self._changed:
            job.compiler = own
            if self._is_awaited(job):  # since it was hired, too
                own.raise_priority()
        try:
            with self._inside_compiler() if inside else contextlib.nullcontext():
                shared_key = "" if self._is_stuck(job) else job.key
                key = own.compile(job.name, job.source, folder, shared_key)
        finally:
            job.compiler = None
        if key is None:
            job.elsewhere_since = job.elsewhere_since or time.monotonic()
            self._set_aside(job)
            return
        job.key = key
        job.seconds = time.perf_counter() - begun
        if not self._load(job):
            if folder == disk_cache.folder():
                raise OSError(f"its code is not in {folder}")
            self._queue_again(job)  # another folder was set meanwhile

    def _is_stuck(self, job: Job) -> bool:
        """Whether another process has been compiling it for too long."""
        most = AWAITED_STUCK_SECONDS if self._is_awaited(job) else STUCK_SECONDS
        return job.elsewhere_since > 0 and time.monotonic() - job.elsewhere_since > most

    def _set_aside(self, job: Job) -> None:
        with self._changed:
            if self._stopping:
                self._fail(job, self._why_stopped)
            else:
                self.queue.set_aside(job, LOOK_SECONDS)
                self._count_compilers()

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
                self._count_compilers()

    def _fail(self, job: Job, reason: str) -> None:
        self._finish(job, "failed", reason)
        if job.name == DRIVER:
            self._give_up(f"kernels cannot run: {reason}")

    def _give_up(self, reason: str) -> None:
        with self._changed:
            self.queue.clear()
            self._stopping, self._why_stopped = True, reason
            for job in self._jobs.values():
                if job.state == "pending":
                    self._finish(job, "failed", reason)

    # -------------------------------------------------------------- ending

    def stop(self) -> None:
        """End compilers, or leave to them what this process has asked for in vain; one in this
        process finishes its job, as LLVM must not be cut off."""
        with self._changed:
            self._stopping = True
            busy = {id(job.compiler) for job in self.queue.taken if job.compiler is not None}
            left = self._left_over() if busy else None  # which looks for the folder of kernels
            self.queue.clear()
            self._changed.notify_all()
            at_work = list(self._compilers)
            threads = list(self._threads)
        for compiler in at_work:
            if left is None or id(compiler) not in busy or not compiler.leave(left):
                compiler.interrupt()
            else:
                left = []  # the others end what they compile
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(timeout=20)

    def _left_over(self) -> list[dict[str, str]] | None:
        """What a compiler is to be asked for that outlives this process, the most needed first;
        None where it is to end with it. The caller holds the lock."""
        if not config.compiles_after_exit() or not disk_cache.cacheable():
            return None
        folder, end = disk_cache.folder(), time.monotonic() + LEAVE_SECONDS
        left = []
        while self.queue.jobs and time.monotonic() < end:
            source = (job := self.queue.take()).source
            key = job.key or disk_cache.key_of(source)
            left.append(compiler_process.request_of(job.name, source, folder, key))
        return left

    def after_fork(self) -> None:
        """A child keeps the kernels that are ready and has compilers of its own for more.

        Forked while this process itself compiles, or loads its compiler, it can have none: locks
        of Numba's, or of modules half imported, are held for ever.
        """
        self._changed = threading.Condition(fork_safety.lock())
        self._threads, self._counted = [], 0
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
