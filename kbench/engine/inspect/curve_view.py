"""A line of an array (one axis, all others fixed) as a curve: least and greatest of each stretch.

A curve has no more stretches than asked, and leaves no element out unless it says so. Beside
`slice_view`; knows no UI.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.types import Array, Row
from kbench.engine.inspect import slice_view, statistics

MAX_STRETCHES = 1024
"""Of a curve: the dots of 512 columns; a message holds no more than these."""
MAX_READ_ELEMENTS = 1 << 22
"""As many as statistics read; of a longer line every second, third, ... element is looked at."""
_CHUNK_ELEMENTS = 1 << 20
"""Elements that are converted at a time: 8 MB."""
_DIGITS = 6
"""Of a number that is drawn."""


def curve(
    values: object, stretches: int, index: Sequence[int] | None = None, axis: int = -1
) -> Row:
    """The curve of one line of an array.

    Arguments:
        values: the array, of real numbers or bool, of rank 1 or more.
        stretches: how many there may be, up to `MAX_STRETCHES`; a short line has its size.
        index: which line, an index per axis. Default: the first.
        axis: along which it runs.
    Returns:
        `low` and `high` of the finite elements of each stretch, None where there are none; `bad`:
        the stretches with a NaN or infinity; `size` of the line, its `axis` and `index`, and
        whether it was `sampled`.
    Raises:
        ArgumentError: no line of numbers, or an index or axis that the array does not have.
    """
    whole = np.asanyarray(values)
    reason = statistics.refusal(whole)
    if reason is not None:
        raise ArgumentError(f"dtype {whole.dtype.name} cannot be shown as a curve")
    if not 1 <= stretches <= MAX_STRETCHES:
        raise ArgumentError(f"a curve has 1 to {MAX_STRETCHES} stretches, not {stretches}")
    if whole.ndim == 0 or not -whole.ndim <= axis < whole.ndim:
        raise ArgumentError(f"axis {axis} is out of range for an array of rank {whole.ndim}")
    axis %= whole.ndim
    fixed = slice_view.fixed_index(whole.shape, index, (axis,))
    place = tuple(slice(None) if at == axis else entry for at, entry in enumerate(fixed))
    line = whole[place]
    step = max(-(-line.size // MAX_READ_ELEMENTS), 1)
    low, high, bad = _reduced(line[::step], stretches)
    return {
        "axis": axis,
        "index": fixed,
        "size": int(line.size),
        "sampled": step > 1,
        "low": [_number(value) for value in low],
        "high": [_number(value) for value in high],
        "bad": np.flatnonzero(bad).tolist(),
    }


def _reduced(line: Array, stretches: int) -> tuple[Array, Array, Array]:
    """Least, greatest and whether any is not finite, of each stretch; least > greatest of none."""
    count = min(line.size, stretches)
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    bad = np.zeros(count, bool)
    if not count:
        return low, high, bad
    starts = np.arange(count + 1) * line.size // count
    at_once = max(_CHUNK_ELEMENTS * count // line.size, 1)
    for first in range(0, count, at_once):
        last = min(first + at_once, count)
        begin, end = starts[first], starts[last]
        part = line[begin:end]
        plain = np.asarray(np.ma.getdata(part), np.float64)
        finite = np.isfinite(plain) & ~np.ma.getmaskarray(part)
        heads = starts[first:last] - begin
        low[first:last] = np.minimum.reduceat(np.where(finite, plain, np.inf), heads)
        high[first:last] = np.maximum.reduceat(np.where(finite, plain, -np.inf), heads)
        bad[first:last] = ~np.logical_and.reduceat(finite, heads)
    return low, high, bad


def _number(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if np.isfinite(value) else None
