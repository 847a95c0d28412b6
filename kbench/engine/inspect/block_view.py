"""A large slice in blocks, one or two pixels each: what is in a block, none of it left out.

A picture that takes every so many rows can miss all that matters. The least and the greatest
number of each block cannot: they are drawn beside each other, so that what varies within a block
is seen to vary. Beside `pictures`; knows no UI.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbench.engine.core import cancel
from kbench.engine.core.types import Array

Numbers = NDArray[np.float64]
_ELEMENTS_PER_CANCEL_CHECK = 1 << 22
"""Elements that are looked at between two looks at the cancel flag."""


def _edges(length: int, count: int) -> NDArray[np.intp]:
    """Where each of so many blocks of about one size begins, and the end."""
    return (np.arange(count + 1, dtype=np.intp) * length) // count


def _lines(part: Array, first: int, end: int) -> Any:
    """Rows in pieces that are looked at at once."""
    each = max(_ELEMENTS_PER_CANCEL_CHECK // max(part[0].size, 1), 1)
    for start in range(first, end, each):
        cancel.check()
        yield part[start : min(start + each, end)]


def _repeated(part: Array, counts: tuple[int, int]) -> tuple[Any, tuple[int, int]]:
    """The part with one row or column for an axis that repeats itself, as `np.broadcast_to` makes
    it, and how many blocks are then to be made."""
    rows, cols = (part.strides[axis] == 0 and part.shape[axis] > 1 for axis in range(2))
    once = part[: 1 if rows else None, : 1 if cols else None]
    return once, (1 if rows else counts[0], 1 if cols else counts[1])


def extremes(part: Array, rows: int, cols: int) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """The least and the greatest finite number of each block, and which have others, too.

    Arguments:
        part: numbers[height, width], of any layout.
        rows, cols: how many blocks, of at least one element each.
    Returns:
        Two float64[rows, cols], NaN where nothing is finite, and bool[rows, cols].
    """
    once, made = _repeated(part, (rows, cols))
    if once.shape != part.shape:
        low, high, bad = extremes(once, *made)
        times = rows // made[0], cols // made[1]
        return np.tile(low, times), np.tile(high, times), np.tile(bad, times)
    low, high = np.empty((rows, cols)), np.empty((rows, cols))
    bad = np.zeros((rows, cols), bool)
    downs, starts = _edges(part.shape[0], rows), _edges(part.shape[1], cols)[:-1]
    for at in range(rows):
        least, most, wrong = _line(part, downs[at], downs[at + 1])
        low[at] = np.fmin.reduceat(least, starts)
        high[at] = np.fmax.reduceat(most, starts)
        if wrong is not None:
            bad[at] = np.logical_or.reduceat(wrong, starts)
    return low, high, bad


def _ordered(bits: NDArray[np.int16]) -> NDArray[np.int16]:
    """Integers in the order of the float16 numbers that have these bits, or the bits of these."""
    turned: NDArray[np.int16] = np.bitwise_and(bits >> 15, np.int16(0x7FFF))
    return np.asarray(np.bitwise_xor(bits, turned), np.int16)


def _ends(piece: Array) -> tuple[Array, Array]:
    """The least and the greatest of each column; NaN in one of them where the column has any.

    NumPy compares float16 one by one: as integers they take a tenth of the time.
    """
    if piece.dtype != np.float16:
        return piece.min(axis=0), piece.max(axis=0)
    keys = _ordered(piece.view(np.int16))
    low, high = (_ordered(keys.min(axis=0)), _ordered(keys.max(axis=0)))
    return low.view(np.float16), high.view(np.float16)


def _line(part: Array, first: int, end: int) -> tuple[Numbers, Numbers, NDArray[np.bool_] | None]:
    """The same of each column between two rows; None where everything is finite."""
    least: Any = None
    most: Any = None
    wrong: Any = None
    for piece in _lines(part, first, end):
        low, high = _ends(piece)
        if piece.dtype.kind == "f" and not (np.isfinite(low).all() and np.isfinite(high).all()):
            finite = np.isfinite(piece)
            kept = np.where(finite, piece, np.nan)
            low, high = np.fmin.reduce(kept, axis=0), np.fmax.reduce(kept, axis=0)
            found = ~finite.all(axis=0)
            wrong = found if wrong is None else wrong | found
        least = low if least is None else np.fmin(least, low)
        most = high if most is None else np.fmax(most, high)
    return np.asarray(least, np.float64), np.asarray(most, np.float64), wrong


def means(part: Array, rows: int, cols: int) -> Numbers:
    """The mean of each block, NaN where any of it is not finite.

    Arguments:
        part: numbers[height, width, channels], of any layout.
        rows, cols: how many blocks, of at least one element each.
    Returns:
        float64[rows, cols, channels].
    """
    once, made = _repeated(part, (rows, cols))
    if once.shape != part.shape:
        return np.tile(means(once, *made), (rows // made[0], cols // made[1], 1))
    downs, across = _edges(part.shape[0], rows), _edges(part.shape[1], cols)
    found = np.empty((rows, cols, part.shape[2]))
    for at in range(rows):
        count = (downs[at + 1] - downs[at]) * np.diff(across)
        total = np.zeros(part.shape[1:])
        with np.errstate(all="ignore"):  # infinities of both signs; large numbers: divided first
            for piece in _lines(part, downs[at], downs[at + 1]):
                wide = np.promote_types(piece.dtype, np.float32)
                shares = np.divide(piece, float(downs[at + 1] - downs[at]), dtype=wide)
                total += shares.sum(axis=0, dtype=np.float64)
            sums = np.add.reduceat(total / float(np.max(np.diff(across))), across[:-1], axis=0)
            share = np.max(np.diff(across)) * (downs[at + 1] - downs[at]) / count
            found[at] = sums * share[:, None]
    found[~np.isfinite(found)] = np.nan
    return found


def paired(
    part: Array, room: tuple[int, int]
) -> tuple[Numbers, NDArray[np.bool_], tuple[int, int]]:
    """A slice as numbers for at most so many rows and columns of pixels, and which are bad.

    Where it is larger each block takes two pixels, below each other where rows are too many, else
    beside each other: its least number and its greatest. The last of the results is how many rows
    and columns of the slice a block has at most; (1, 1) where the slice is as it is.
    """
    height, width = part.shape
    tall, wide = height > room[0], width > room[1]
    if not (tall or wide):
        numbers = np.asarray(part, np.float64)
        return numbers, ~np.isfinite(numbers), (1, 1)
    rows = max(room[0] // 2, 1) if tall else height
    cols = min(width, room[1]) if tall else max(room[1] // 2, 1)
    low, high, bad = extremes(part, rows, cols)
    axis = 0 if tall else 1
    numbers = np.stack([low, high], axis=axis + 1).reshape(
        (2 * rows, cols) if tall else (rows, 2 * cols)
    )
    return numbers, bad.repeat(2, axis=axis), (-(-height // rows), -(-width // cols))


def words(each: tuple[int, int]) -> str:
    """What the pixels of a slice in blocks of so many rows and columns are; '' for single ones.

    >>> words((18, 1)), words((1, 1))
    ('least and greatest of each 18 rows', '')
    """
    if each == (1, 1):
        return ""
    if each[1] == 1:
        return f"least and greatest of each {each[0]} rows"
    if each[0] == 1:
        return f"least and greatest of each {each[1]} columns"
    return f"least and greatest of each {each[0]} x {each[1]} elements"
