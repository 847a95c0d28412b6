"""Calls of kernels that are written down: parameter blocks for arrays that stay where they are.

`Kernel.calls`, `Product.calls` and the like check arrays as `run` does, but give the calls in place
of making them, or None where more than calls is needed. A `Tape` makes all of its calls as one
call of compiled code: between two kernels the interpreter would spend some forty microseconds,
when the caches are full of other things.

A call holds addresses. It must not be made when one of the arrays may have been freed: whoever
writes calls down says what keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kbench.engine import threads
from kbench.engine.kernels.background import service
from kbench.engine.kernels.binding import address_of, describe
from kbench.engine.kernels.pool_source import ROW

Array = np.ndarray[Any, Any]

SCRATCH = 1 << 25
"""Bytes of scratch memory at most that a call may use, which all tapes share."""

JOIN = '''"""Library kernel of kbench: parts of sums, made one, row after row."""
import numpy as np
from kbench.engine.kernels.toolkit import field, load_float64, range_kernel, store_DTYPE


@range_kernel
def run(params, start, stop):
    out, parts, count = field(params, 0), field(params, 1), field(params, 2)
    width, divisor = field(params, 3), field(params, 4)
    for i in range(start, stop):
        total = load_float64(parts, i)
        for number in range(1, count):
            total += load_float64(parts, number * width + i)
        if divisor > 1:
            total /= divisor
        store_DTYPE(out, i, np.DTYPE(total))
'''


@dataclass(frozen=True, eq=False)
class Call:
    """A range kernel by its address, its parameters, items from 0 on, and threads at most."""

    address: int
    params: Array
    items: int
    threads: int = 1
    counters: int = 0
    """Where two integers, on cache lines of their own, have to begin at zero; 0 for none."""
    kept: tuple[Any, ...] = ()
    """Memory of the call's own."""


def spread(items: int, wanted: bool) -> int:
    """Threads for a call of so many items, if it is worth more than one."""
    return max(1, min(threads.count(), items)) if wanted else 1


def find(kind: str, dtype: str) -> Callable[..., Call] | None:
    """What writes down the call `(out, parts, divisor)` of "parts", or None while it is not ready:
    `out` is the sum of the rows of `parts`, of float64, divided. Rows are added in order, as NumPy
    adds them, and the sum is rounded at the end.
    """
    if kind != "parts" or dtype not in ("float32", "float64"):
        return None
    job = service.submit(f"join_{dtype}", lambda: JOIN.replace("DTYPE", dtype))
    return (
        partial(_joined, job.address, dtype) if job is not None and job.state == "ready" else None
    )


def _joined(address: int, dtype: str, out: Array, parts: Array, divisor: int = 1) -> Call:
    flags = out.flags
    fits = out.dtype == dtype and parts.dtype == np.float64 and len(parts) > 0
    fits = fits and parts[0].size == out.size
    if not (fits and parts.flags.c_contiguous and flags.c_contiguous and flags.writeable):
        raise ValueError(f"{describe(parts)} cannot be joined to {describe(out)}")
    block = [address_of(out), address_of(parts), len(parts), out.size, divisor]
    return Call(address, np.array(block, np.int64), out.size, kept=(parts,))


def join(out: Array, parts: Array, divisor: int = 1) -> Call | None:
    """The call that adds up parts of sums; None for other dtypes and while there is no kernel."""
    write = find("parts", out.dtype.name) if parts.dtype == np.float64 else None
    return None if write is None else write(out, parts, divisor)


_scratch: list[Array] = []


def scratch(size: int) -> int | None:
    """Where so many bytes begin, on a cache line, that only one call uses at a time: those of tapes
    run one after the other. None for too many.
    """
    if size + 64 > SCRATCH:
        return None
    if not _scratch:
        _scratch.append(np.empty(SCRATCH, np.uint8))  # the system gives pages when they are used
    start = address_of(_scratch[0])
    return start + -start % 64


class Tape:
    """Calls that are made as one."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = list(calls)
        self._most = max((one.threads for one in calls), default=1)
        self._rows = np.zeros((len(calls), ROW), np.int64)
        for row, one in zip(self._rows, calls, strict=True):
            row[:] = one.address, address_of(one.params), one.items, one.threads, one.counters

    @staticmethod
    def possible() -> bool:
        """Whether compiled code can go through several calls here."""
        return service.driver is not None and bool(service.driver.at_once)

    def run(self) -> None:
        """Make the calls, which nothing holds up."""
        service.driver.repeat(self._rows, self._most)
