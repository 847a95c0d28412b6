"""Matrix products of NumPy, on as many threads as their size is worth.

BLAS splits a product of a few megaflops between its threads and lets each wait for the others.
That saves some ten microseconds on an idle machine; where other work keeps a core busy, each such
product waits for a turn of the scheduler, and a recurrent layer has hundreds of them. Measured on
2 cores with a load of 4: 17 megaflops in 0.14 ms on one thread, 32 ms (median) on two.

A large product is worth all threads, but not while we have a compiler at work on one of the cores:
2 gigaflops took 0.1 s on the one core that was left, 1.5 to 3 s on both.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from kbench.engine import threads

SERIAL = 1 << 19  # floating-point operations up to which BLAS takes one thread by itself
ALONE = 1 << 24  # up to which it is told to


class _FewerThreads:
    """A context in which BLAS computes on one thread, or on a few; several threads of Python may
    be in it: the number that the first one asked for holds until all have left.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limited: list[tuple[Any, int]] = []
        self._pools: list[Any] | None = None

    def enter(self, most: int) -> None:
        """From now on, take `most` threads at most."""
        with self._lock:
            if self._inside == 0:
                if self._pools is None:
                    self._pools = _found()
                counts = [(one, one.get_num_threads()) for one in self._pools]
                self._limited = [(one, count) for one, count in counts if count > most]
                for one, _ in self._limited:
                    one.set_num_threads(most)
            self._inside += 1

    def leave(self) -> None:
        """Restore what was set, with the last one who leaves."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for one, count in self._limited:
                    one.set_num_threads(count)

    def __enter__(self) -> None:
        self.enter(1)

    def __exit__(self, *_: object) -> None:
        self.leave()

    def after_fork(self) -> None:
        """A child may have been forked while another thread was inside."""
        self._lock = threading.Lock()
        self._inside = 0


def _found() -> list[Any]:
    """The BLAS of NumPy, as far as its thread count can be set for less than a microsecond."""
    from threadpoolctl import ThreadpoolController

    pools = ThreadpoolController().select(user_api="blas").lib_controllers
    return [one for one in pools if one.internal_api == "openblas"]


one_thread = _FewerThreads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_thread.after_fork)


def matmul(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """`out = x @ y`; of stacked matrices each product counts by itself."""
    work = 2 * x.shape[-1] * out.shape[-1] * (out.shape[-2] if out.ndim > 1 else 1)
    most = 1 if work <= ALONE else threads.left_by_compilers()
    if work <= SERIAL or most is None:
        np.matmul(x, y, out=out)
        return
    one_thread.enter(most)
    try:
        np.matmul(x, y, out=out)
    finally:
        one_thread.leave()
