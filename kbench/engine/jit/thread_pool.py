"""Runs a range kernel, given by address, over a range of items: on one thread or on all of them.

The threads' own loops are compiled code too (`thread_pool_source`); here they are started, on first
need, and given work. They are one pool for all kernels and for the whole process.
"""

from __future__ import annotations

import _thread
import ctypes
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kbench.engine.jit import fast_call, kernel_file, loader, thread_pool_source
from kbench.engine.jit.thread_pool_source import FIELDS
from kbench.engine.runtime import threads

if TYPE_CHECKING:
    import concurrent.futures

SHARES_PER_THREAD = 2
"""A thread claims this part of its even share of what is left."""
SPIN_SECONDS = 500e-6
"""How long an idle thread spins before it sleeps."""
CALIBRATION_SPINS = 1000
"""Spins by which it is found out how long one takes."""

_SIGNALS = {"LOCK": "mutex_lock", "UNLOCK": "mutex_unlock", "WAIT": "cond_wait"}
_AREAS = {"MUTEX": "mutex_init", "WORK": "cond_init", "DONE": "cond_init"}


class ThreadPool:
    """The threads beside the calling one. After a moment they wait without using the processor.

    They are started by the interpreter but never come back to it, so they need not its lock; and
    what they use is never freed, so they may outlive it.
    """

    runs_graphs = True
    """Whether all launches of a graph can be made as one call of compiled code."""

    def __init__(self, module: loader.Loaded) -> None:
        self._worker_loop = _function(module.worker_loop, 1)
        self._lead = _function(module.lead, 8)
        self._repeat = _function(module.repeat, 5)
        self._idle = _function(module.idle, 2)
        self.begin()

    def begin(self) -> None:
        """Begin with no threads, and a block that none of earlier ones knows."""
        library = ctypes.CDLL(None)
        self._block = loader.lasting_memory(8 * thread_pool_source.BLOCK_WORDS)
        fields = (ctypes.c_ssize_t * thread_pool_source.BLOCK_WORDS).from_address(self._block)
        for field, name in {**_SIGNALS, "SIGNAL": "cond_signal"}.items():
            function = getattr(library, f"pthread_{name}")
            fields[FIELDS[field]] = ctypes.cast(function, ctypes.c_void_p).value or 0
        for field, name in _AREAS.items():
            area = ctypes.c_void_p(self._block + 8 * FIELDS[field])
            if getattr(library, f"pthread_{name}")(area, None):
                raise OSError("no locks for threads")
        self._helpers = self._spins = 0

    def run(self, address: int, params: int, start: int, stop: int, count: int) -> None:
        """Run a kernel on `count` threads; only ever called under the lock of `threads`."""
        if self._helpers < count - 1:
            self._start_workers(count)
        spins = 0 if threads.compilers else self._spins
        share = count * SHARES_PER_THREAD
        self._lead(self._block, address, params, start, stop, count - 1, share, spins)

    def repeat(self, rows: int, length: int, count: int) -> None:
        """Run the calls of a table of `length` rows, each on `count` threads at most; likewise."""
        if self._helpers < count - 1:
            self._start_workers(count)
        spins = 0 if threads.compilers else self._spins  # of an idle thread, before it sleeps
        self._repeat(self._block, rows, length, SHARES_PER_THREAD, spins)

    def _start_workers(self, count: int) -> None:
        """Start the threads that are missing."""
        if count > 1 and not self._helpers:
            self._spins = self._spins_in(SPIN_SECONDS)
        while self._helpers < count - 1:
            _thread.start_new_thread(self._worker_loop, (self._block,))
            self._helpers += 1

    def _spins_in(self, seconds: float) -> int:
        """How often a thread can spin in that time, which differs from one processor to another by
        a factor of ten."""
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            self._idle(self._block, CALIBRATION_SPINS)
            times.append(time.perf_counter() - begun)
        return int(CALIBRATION_SPINS * seconds / max(min(times), 1e-6))


def _function(
    compiled: loader.Function, count: int, keep_lock: bool = False
) -> Callable[..., None]:
    """A compiled function as one that Python calls, with the interpreter's lock kept or released.

    Releasing it costs as much as a small kernel.
    """
    make = ctypes.PYFUNCTYPE if keep_lock else ctypes.CFUNCTYPE
    function: Callable[..., None] = make(None, *[ctypes.c_ssize_t] * count)(compiled.address)
    return function


class ExecutorPool:
    """As `ThreadPool`, by the standard library, where there are no POSIX threads. Wakes more
    slowly."""

    runs_graphs = False

    def __init__(self, module: loader.Loaded) -> None:
        self._serial = _function(module.serial, 4)
        self.begin()

    def begin(self) -> None:
        """Begin with no threads."""
        self._threads: concurrent.futures.ThreadPoolExecutor | None = None
        self._most = 0

    def run(self, address: int, params: int, start: int, stop: int, count: int) -> None:
        """As the pool's."""
        if count > self._most:
            import concurrent.futures

            self._threads = concurrent.futures.ThreadPoolExecutor(count, "kbench-kernels")
            self._most = count
        size = max(1, (stop - start) // (4 * count))
        firsts = iter(range(start, stop, size))  # shared: whoever asks next gets the next

        def work() -> None:
            for first in firsts:
                self._serial(address, params, first, min(stop, first + size))

        assert self._threads is not None
        helpers = [self._threads.submit(work) for _ in range(count - 1)]
        work()
        for helper in helpers:
            if not helper.cancel():
                helper.result()


def source() -> str:
    """All that a driver is compiled from."""
    return thread_pool_source.source() + kernel_file.specialized(fast_call.FILE)


class Driver:
    """What runs kernels, once its own code is there."""

    def __init__(self, module: loader.Loaded) -> None:
        self._serial = _function(module.serial, 4)
        self._locked = _function(module.serial, 4, keep_lock=True)
        self._short = fast_call.install(module) or self._by_ctypes
        self._pool: ThreadPool | ExecutorPool
        try:
            self._pool = ThreadPool(module)
        except (AttributeError, OSError):
            self._pool = ExecutorPool(module)
        self.runs_graphs = self._pool.runs_graphs

    def run(
        self, address: int, params: np.ndarray, start: int, stop: int, parallel: bool, most: int = 0
    ) -> None:
        """Run items `start` to `stop`; `parallel` allows several threads, all or `most` of them,
        and says that it takes long."""
        if not parallel:
            self._short(address, params, start, stop)
            return
        block = fast_call.address(params)
        with threads.parallel_lock:
            count = min(threads.free(), stop - start)
            count = min(count, most) if most else count
            if count > 1:
                self._pool.run(address, block, start, stop, count)
                return
        self._serial(address, block, start, stop)

    def repeat(self, rows: np.ndarray, count: int) -> None:
        """Run the rows of a `LaunchGraph` (jit/launch.py) for up to `count` threads, at once."""
        assert isinstance(self._pool, ThreadPool)
        with threads.parallel_lock:
            self._pool.repeat(fast_call.address(rows), len(rows), count)

    def after_fork(self) -> None:
        """Begin anew in a child, which has no copies of the threads."""
        self._pool.begin()

    def _by_ctypes(self, address: int, params: np.ndarray, start: int, stop: int) -> None:
        self._locked(address, fast_call.slow_address(params), start, stop)
