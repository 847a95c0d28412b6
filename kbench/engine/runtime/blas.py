"""Matrix products of NumPy, on as many threads as their size is worth.

BLAS splits a product of a few megaflops between its threads and lets each wait for the others.
That saves some ten microseconds on an idle machine; where other work keeps a core busy, each such
product waits for a turn of the scheduler, and a recurrent layer has hundreds of them. Measured on
2 cores with a load of 4: 17 megaflops in 0.14 ms on one thread, 32 ms (median) on two. Beside a
compiler of ours, 100 megaflops took 23 ms on two threads in three of six runs, and 1 ms on one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kbench.engine.core import fork_safety
from kbench.engine.runtime import threads

BLAS_SERIAL_FLOPS = 1 << 19
"""Floating-point operations up to which BLAS takes one thread by itself."""
BLAS_SERIAL_VECTOR_FLOPS = 1 << 14
"""The same where one side is a vector."""
ONE_THREAD_FLOPS = 1 << 24
"""Floating-point operations up to which BLAS is told to take one thread; measured, see above."""
ONE_THREAD_FLOPS_COMPILING = 1 << 31
"""The same while a compiler keeps a core busy: some 20 ms."""

MIN_LONG_ELEMENTS = 8192
"""Length from which on a product with a vector is made in blocks: BLAS adds one up in a chain, in
which a million equal float32 lose 1 % (products of matrices it cuts by itself)."""
BLOCK_ELEMENTS = 512
"""Length of a block: a chain of so many float32 errs by some 1e-5 at most."""


class _OneThread:
    """A context in which BLAS computes on one thread; several threads of Python may be in it."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._inside = 0
        self._limited: list[tuple[Any, int]] = []
        self._pools: list[Any] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                if self._pools is None:
                    self._pools = _found()
                counts = [(pool, pool.get_num_threads()) for pool in self._pools]
                self._limited = [(pool, count) for pool, count in counts if count > 1]
                for pool, _ in self._limited:
                    pool.set_num_threads(1)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for pool, count in self._limited:
                    pool.set_num_threads(count)

    def after_fork(self) -> None:
        """A child may have been forked while another thread was inside, which never leaves."""
        if self._inside:
            self._inside = 0
            for pool, count in self._limited:
                pool.set_num_threads(count)


def _found() -> list[Any]:
    """The BLAS of NumPy, as far as its thread count can be set for less than a microsecond."""
    from threadpoolctl import ThreadpoolController

    pools = ThreadpoolController().select(user_api="blas").lib_controllers
    return [pool for pool in pools if pool.internal_api == "openblas"]


one_thread = _OneThread()
fork_safety.in_child(one_thread.after_fork)


def matmul(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """`out = x @ y`; of stacked matrices each product counts by itself."""
    if x.shape[-1] >= MIN_LONG_ELEMENTS and out.dtype == np.float32 and _by_vector(x, y):
        _multiply_blocks(x, y, out)
        return
    work = 2 * x.shape[-1] * out.shape[-1] * (out.shape[-2] if out.ndim > 1 else 1)
    if work <= BLAS_SERIAL_VECTOR_FLOPS:
        np.matmul(x, y, out=out)
    elif BLAS_SERIAL_FLOPS < work <= _one_thread_flops():
        with fork_safety.unforked, one_thread:  # nor may thread counts change during a fork
            np.matmul(x, y, out=out)
    else:
        with fork_safety.unforked:
            np.matmul(x, y, out=out)


def _by_vector(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether one of two matrices, or of stacks of them, has a single row or column."""
    return x.ndim > 1 and y.ndim > 1 and (x.shape[-2] == 1 or y.shape[-1] == 1)


def _multiply_blocks(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
    """`out = x @ y` along a long axis: products of blocks of it, which are added in float64."""
    whole = x.shape[-1] // BLOCK_ELEMENTS * BLOCK_ELEMENTS
    rows = x[..., :whole].reshape(*x.shape[:-1], -1, BLOCK_ELEMENTS)
    columns = y[..., :whole, :].reshape(*y.shape[:-2], -1, BLOCK_ELEMENTS, y.shape[-1])
    with np.errstate(all="ignore"), fork_safety.unforked:
        blocks = np.matmul(np.moveaxis(rows, -2, -3), columns)
        total = np.add.reduce(blocks, axis=-3, dtype=np.float64)
        if whole < x.shape[-1]:
            total += np.matmul(x[..., whole:], y[..., whole:, :])
        np.copyto(out, total, casting="same_kind")


def _one_thread_flops() -> int:
    return ONE_THREAD_FLOPS_COMPILING if threads.is_compiling() else ONE_THREAD_FLOPS


def square_sum(values: np.ndarray) -> float:
    """The sum of the squares of a flat array, as BLAS adds them up."""
    with fork_safety.unforked:
        return float(np.vdot(values, values))
