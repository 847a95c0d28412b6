"""Library kernels that move rows by index: taken from a table, or added up into one.

Indices are copied and checked before compiled code sees them, so that no other thread can change
them between. When rows are added up, each thread owns columns of the result and walks over all
indices in order: no two write to one cell, and the sums do not depend on the threads. Rows of few
columns are added by one thread, which costs less than finding out whose they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.engine import threads
from kbench.engine.kernels.background import Job, service
from kbench.engine.kernels.binding import address_of
from kbench.engine.kernels.loops import drive

Array = np.ndarray[Any, Any]
Check = Callable[[], object]
Call = Callable[..., None]

TILE = 6_000_000  # elements added up between two looks at the cancel flag
SPAN = 16  # columns that one thread owns, at least: a cache line of float32

TAKE = '''"""Library kernel of kbench: rows by index, of DTYPE."""
from kbench.engine.kernels.toolkit import field, load_DTYPE, load_int64, range_kernel, store_DTYPE


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    rows = field(params, 2)
    width = field(params, 3)
    if width == 1:
        for i in range(start, stop):
            store_DTYPE(y, i, load_DTYPE(x, load_int64(rows, i)))
        return
    if width == 2:
        for i in range(start, stop):
            source = load_int64(rows, i) * 2
            store_DTYPE(y, 2 * i, load_DTYPE(x, source))
            store_DTYPE(y, 2 * i + 1, load_DTYPE(x, source + 1))
        return
    for i in range(start, stop):
        source = load_int64(rows, i) * width
        target = i * width
        for j in range(width):
            store_DTYPE(y, target + j, load_DTYPE(x, source + j))
'''

ADD = '''"""Library kernel of kbench: rows of DTYPE added up by index."""
import numpy as np
from kbench.engine.kernels.toolkit import (
    field,
    load_DTYPE,
    load_int64,
    peek_WIDE,
    range_kernel,
    store_WIDE,
)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    g = field(params, 1)
    rows = field(params, 2)
    width = field(params, 3)
    count = field(params, 4)
    span = field(params, 5)
    for item in range(start, stop):
        low = item * span
        high = min(low + span, width)
        for i in range(count):
            to = load_int64(rows, i) * width
            source = i * width
            for j in range(low, high):
                total = peek_WIDE(y, to + j) + load_DTYPE(g, source + j)
                store_WIDE(y, to + j, np.WIDE(total))
'''


def _ready(name: str, text: str) -> Job | None:
    job = service.submit(name, lambda: text)
    return job if job is not None and job.state == "ready" else None


def _bytes_of(*sizes: int) -> int:
    """The largest machine word that divides all these sizes and addresses."""
    return math.gcd(8, *sizes)


def _own(indices: Array, rows: int) -> Array:
    """The indices as an array that nobody else holds; IndexError unless all lie in the table."""
    own = np.array(indices, np.int64).ravel()
    if own.size and int(own.view(np.uint64).max()) >= rows:  # a negative one is huge
        raise IndexError(f"an index is out of range for {rows} rows")
    return own


def _result(out: Array, dtype: str, size: int) -> None:
    if out.dtype != dtype or out.size != size:
        raise ValueError(f"expected {size} elements of {dtype}, got {out.dtype}[{out.size}]")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("the result array must be contiguous and writeable")


def _apart(array: Array, out: Array) -> Array:
    """The array, contiguous, and copied when writing the result would change it."""
    array = np.ascontiguousarray(array)
    return array.copy() if np.may_share_memory(array, out) else array


def find(kind: str, dtype: str) -> Call | None:
    """The kernel "take", for words of a dtype, or "add"."""
    return find_take(dtype, 1) if kind == "take" else find_add(dtype)


def find_take(dtype: str, width: int) -> Call | None:
    """The kernel `(out, x, indices, check)`: `out[i] = x[indices[i]]`, of rows of `width` cells.

    None while it is not ready. It raises IndexError, with nothing written, when an index is
    negative or no row of `x`. Rows move in the largest words that fit them.
    """
    size = width * np.dtype(dtype).itemsize
    word = _bytes_of(size)
    job = _ready(f"take_{word}", TAKE.replace("DTYPE", f"uint{8 * word}"))
    if job is None:
        return None

    def call(out: Array, x: Array, indices: Array, check: Check | None = None) -> None:
        own = _own(indices, len(x))
        _result(out, dtype, own.size * width)
        if x.dtype != dtype or x.size != len(x) * width:
            raise ValueError(f"expected rows of {width} {dtype}, got {x.dtype}{list(x.shape)}")
        if not out.size:
            return
        x = _apart(x, out)
        if address_of(x) % word:
            x = x.copy()
        params = np.array([address_of(out), address_of(x), address_of(own), size // word], np.int64)
        drive(job, params, own.size, width, check, 1e-9)

    return call


def find_add(dtype: str) -> Call | None:
    """The kernel `(out, g, indices, check)`: `out[indices[i]] += g[i]` from zero; or None.

    float16 adds up in float32. It raises IndexError, with nothing written, when an index is
    negative or no row of `out`.
    """
    wide = "float32" if dtype == "float16" else dtype
    job = _ready(f"add_rows_{dtype}", ADD.replace("DTYPE", dtype).replace("WIDE", wide))
    if job is None:
        return None

    def call(out: Array, g: Array, indices: Array, check: Check | None = None) -> None:
        own, width = _own(indices, len(out)), math.prod(out.shape[1:])
        _result(out, dtype, len(out) * width)
        if g.dtype != dtype or g.size != own.size * width:
            raise ValueError(f"expected {own.size} rows of {width} {dtype}")
        total = out if wide == dtype else np.empty(out.shape, wide)
        total.fill(0)
        if g.size:
            _add(job, total, _apart(g, out), own, width, check)
        if total is not out:
            with np.errstate(all="ignore"):
                out[...] = total

    return call


def _add(job: Job, total: Array, g: Array, rows: Array, width: int, check: Check | None) -> None:
    crowd = threads.count() if g.size >= threads.PARALLEL_FROM else 1
    span = max(SPAN, -(-width // crowd) + SPAN - 1 & -SPAN)
    items = -(-width // span)
    step = max(1, TILE // width)
    for start in range(0, rows.size, step):
        count = min(step, rows.size - start)
        sources = (address_of(g) + start * width * g.itemsize, address_of(rows) + start * 8)
        params = np.array([address_of(total), *sources, width, count, span], np.int64)
        if check is not None:
            check()
        service.driver.run(job.address, params, 0, items, items > 1)
