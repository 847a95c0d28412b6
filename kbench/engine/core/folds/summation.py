"""How sums are added up on NumPy: in float64, and float64 by halves.

NumPy adds by halves along contiguous elements only. Along any other axis it adds one row after the
other, and in the dtype of the array: ten million ones of float32 stop growing at 2 ** 24 when ten
times as many are added up. What is added here errs less than sums by halves do, whatever the axis.
"""

from __future__ import annotations

import math

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.folds import exact_folds
from kbench.engine.core.types import Axes

MAX_UNORDERED_TERMS = 8
"""Numbers up to which the order does not matter."""
MAX_SMALL_ELEMENTS = 1 << 12
"""Of float32 that are added as they come: to look for a quicker way takes as long as that."""
SLAB_ELEMENTS = 1 << 14
"""Elements that are halved at a time: they stay in the cache."""
MAX_SLAB_COLUMNS = 1 << 12
"""Elements of a slab that lie side by side at most."""
MIN_BROAD_COLUMNS = 64
"""Columns from which on NumPy's own loop over rows is faster."""
ROWS_PER_RUN = 16
"""Rows that it adds one after the other, as it does within its halves."""
WIDE_COLUMNS = 1 << 10
"""Columns of a row of float32 that NumPy adds at full speed: with few it is busy between rows."""


def folded(
    ufunc: np.ufunc,
    x: np.ndarray,
    axis: Axes,
    keepdims: bool,
    dtype: type[np.generic] | np.dtype[np.generic],
) -> np.ndarray:
    """All entries along axes joined by `ufunc`, in this dtype; an array also where one is left."""
    return np.asarray(ufunc.reduce(x, axis=axis, dtype=dtype, keepdims=keepdims))


def added(x: np.ndarray, axis: Axes, keepdims: bool = False) -> np.ndarray:
    """The sum over axes: floats as float64, integers as they are."""
    if x.dtype.kind != "f":
        return folded(np.add, x, axis, keepdims, x.dtype)
    if x.dtype != np.float64:
        return added_in_order(x, axis, keepdims)
    if not x.size or math.prod([x.shape[at] for at in axis]) <= MAX_UNORDERED_TERMS:
        return folded(np.add, x, axis, keepdims, np.float64)
    lead = x.shape[: x.ndim - len(axis)]
    if x.flags.c_contiguous and axis == tuple(range(len(lead), x.ndim)):
        total = np.add.reduce(x.reshape(*lead, -1), axis=-1)  # by halves already
        return total.reshape(*lead, *(1,) * len(axis)) if keepdims else np.asarray(total)
    for at in sorted(axis, reverse=True):
        x = _halved(x, at)
    return x if keepdims else x.squeeze(axis)


def added_in_order(x: np.ndarray, axis: Axes, keepdims: bool = False) -> np.ndarray:
    """The sum over axes as float64, one row after the other: enough for numbers that were float32.

    Short rows are added several side by side, and those sums once more.
    """
    if x.size <= MAX_SMALL_ELEMENTS:
        return folded(np.add, x, axis, keepdims, np.float64)
    first = axis[0] if axis else 0
    beside, places = x.shape[first + len(axis) :], x.shape[first : first + len(axis)]
    columns, rows = math.prod(beside), math.prod(places)
    together = min(WIDE_COLUMNS // max(1, columns), math.isqrt(rows))
    if (
        not x.size
        or not x.flags.c_contiguous
        or axis != tuple(range(first, first + len(axis)))
        or columns < 2  # along contiguous elements
        or together < 2
    ):
        return folded(np.add, x, axis, keepdims, np.float64)
    lead = x.shape[:first]
    by_row = x.reshape(-1, rows, columns)
    whole = rows // together * together
    wide = by_row[:, :whole].reshape(len(by_row), -1, together * columns)
    total: np.ndarray = np.add.reduce(wide, axis=1, dtype=np.float64)
    total = np.add.reduce(total.reshape(-1, together, columns), axis=1)
    if whole < rows:
        total += np.add.reduce(by_row[:, whole:], axis=1, dtype=np.float64)
    kept = (1,) * len(axis) if keepdims else ()
    return total.reshape(*lead, *kept, *beside)


def _halved(x: np.ndarray, axis: int) -> np.ndarray:
    """The sum over one axis, which stays."""
    if x.shape[axis] <= MAX_UNORDERED_TERMS or axis == x.ndim - 1 and x.flags.c_contiguous:
        return np.asarray(np.add.reduce(x, axis=axis, keepdims=True))
    result = np.empty([1 if at == axis else size for at, size in enumerate(x.shape)])
    _halve(result, x, axis)
    return result


def _halve(result: np.ndarray, x: np.ndarray, axis: int) -> None:
    kept = [1 if at == axis else size for at, size in enumerate(x.shape)]
    across = math.prod(kept)
    if across > MAX_SLAB_COLUMNS:
        cut = next(at for at, size in enumerate(kept) if size > 1)
        step = max(1, MAX_SLAB_COLUMNS * kept[cut] // across)
        for start in range(0, kept[cut], step):
            window = (slice(None),) * cut + (slice(start, start + step),)
            _halve(result[window], x[window], axis)
        return
    rows, parts = np.moveaxis(x, axis, 0), []
    if across >= MIN_BROAD_COLUMNS and len(rows) >= 2 * ROWS_PER_RUN:
        whole = len(rows) // ROWS_PER_RUN * ROWS_PER_RUN
        runs = rows[:whole].reshape(
            -1, ROWS_PER_RUN, *rows.shape[1:]
        )  # a view: one axis becomes two
        parts += [_by_halves(rows[whole:])] if whole < len(rows) else []
        rows = np.add.reduce(runs, axis=1)
    step = max(MAX_UNORDERED_TERMS, SLAB_ELEMENTS // max(1, across))
    for start in range(0, len(rows), step):
        parts.append(_by_halves(rows[start : start + step]))
        cancel.check()
    while len(parts) > 1:
        pairs = [parts[at : at + 2] for at in range(0, len(parts), 2)]
        parts = [pair[0] + pair[1] if len(pair) > 1 else pair[0] for pair in pairs]
    np.moveaxis(result, axis, 0)[0] = parts[0]


def _by_halves(rows: np.ndarray) -> np.ndarray:
    """The sum of rows: the upper half added to the lower one, over and over."""
    half = len(rows) // 2
    if half == 0:
        return np.asarray(rows[0])
    whole = rows[:half] + rows[half : 2 * half]
    if len(rows) % 2:
        whole[0] += rows[-1]
    while len(whole) > 1:
        half = (len(whole) + 1) // 2
        whole[: len(whole) - half] += whole[half:]
        whole = whole[:half]
    return np.asarray(whole[0])


def running(ufunc: np.ufunc, x: np.ndarray, axis: int, out: np.ndarray | None) -> np.ndarray:
    """Running totals of floats, added or multiplied in float64; those of integers as they are."""
    if ufunc is np.multiply and x.dtype.kind == "f":
        totals = exact_folds.running_product(x, axis)
    elif x.dtype == np.float64:
        totals = exact_folds.running_sum(x, axis)
    else:
        wide = np.float64 if x.dtype.kind == "f" else x.dtype
        out = np.empty(x.shape, x.dtype) if out is None else out
        return np.asarray(ufunc.accumulate(x, axis, dtype=wide, out=out))
    if out is None:
        return totals.astype(x.dtype, copy=False)
    out[...] = totals
    return np.asarray(out)
