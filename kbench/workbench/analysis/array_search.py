"""Looks for an element of an array, in pieces: a search can be followed, and given up, in between.

A piece reads at most `MAX_CHUNK_ELEMENTS` elements, so that other questions are answered meanwhile.
The memory that it needs does not grow with the array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbench.workbench.analysis.conditions import Condition

MAX_CHUNK_ELEMENTS = 1 << 23
"""That one call reads, so that other questions are answered meanwhile."""
_BLOCK_ELEMENTS = 1 << 18
"""That are tested at once: the memory that a search needs."""
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_NAMED: dict[str, Callable[[Any], Any]] = {
    "nan": np.isnan,
    "inf": np.isinf,
    "bad": lambda block: ~np.isfinite(block),
    "finite": np.isfinite,
}


def unsearchable_reason(array: np.ndarray) -> str | None:
    """Why nothing can be found in an array, or None."""
    if array.dtype.kind in "biuf":
        return None
    return f"dtype {array.dtype.name} holds no numbers to compare"


def position_after(array: np.ndarray, index: list[int]) -> int:
    """The position, in C order, behind an index; ValueError if the array has it not."""
    if len(index) != array.ndim:
        raise ValueError(f"{index} is not an index of rank {array.ndim}")
    return int(np.ravel_multi_index(tuple(index), array.shape)) + 1 if array.ndim else 0


def search_chunk(
    array: np.ndarray, condition: Condition, start: int, left: int
) -> tuple[list[int] | None, int, int]:
    """Look at some of `left` elements from position `start` on, going on at the array's start.

    Returns:
        The index of the first that meets the condition, or None; where to go on; how many are left.
    """
    test = _test(array.dtype, condition)
    if test is None or array.size == 0:
        return None, 0, 0
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    start, left = start % array.size, min(left, array.size)
    stop = left - min(left, MAX_CHUNK_ELEMENTS)
    while left > stop:
        count = min(_BLOCK_ELEMENTS, left - stop, array.size - start)
        with np.errstate(all="ignore"):
            hits = test(flat[start : start + count])
        at = int(hits.argmax())
        if hits[at]:
            found = np.unravel_index(start + at, array.shape)
            return [int(axis_index) for axis_index in found], start + at, left - at
        left -= count
        start = (start + count) % array.size
    return None, start, left


def _test(
    dtype: np.dtype[np.generic], condition: Condition
) -> Callable[[np.ndarray], NDArray[np.bool_]] | None:
    """What says of a block where the condition holds; None if it cannot hold anywhere."""
    if condition.test in _NAMED:
        if dtype.kind == "f":
            return _NAMED[condition.test]
        everywhere = condition.test == "finite"
        return (lambda block: np.ones(block.shape, bool)) if everywhere else None
    low, high = _as(dtype, condition.low), _as(dtype, condition.high)
    size = _size if condition.absolute else _itself
    if condition.test == "between":
        return lambda block: (block >= low) & (block <= high)
    if condition.test == "near":
        if not (condition.slack and np.isfinite(low)):
            return lambda block: block == low
        down, up = condition.low - condition.slack, condition.low + condition.slack
        return lambda block: (block == low) | ((block >= down) & (block <= up))
    compare = _COMPARE[condition.test]
    return lambda block: compare(size(block), low)


def _itself(block: np.ndarray) -> np.ndarray:
    return block


def _size(block: np.ndarray) -> np.ndarray:
    """Absolute values; those of integers as float, since the least one has none of its kind."""
    sizes: np.ndarray = np.abs(block if block.dtype.kind == "f" else block.astype(np.float64))
    return sizes


def _as(dtype: np.dtype[np.generic], value: int | float) -> Any:
    """A number as the array would hold it, so that 0.1 equals the array's 0.1."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            held = dtype.type(value)
        return held if np.isfinite(held) or not np.isfinite(float(value)) else np.float64(value)
    return value  # Python's own: NumPy compares it exactly, also beyond the dtype's range
