"""The cells of a two-dimensional slice of an array of any rank and size, at constant cost.

Beside `describe`: what a grid shows of an array, as texts and shades, or as texts that say the
whole number. Knows no UI.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.types import Array, Row
from kbench.engine.inspect import describe
from kbench.engine.inspect import statistics as _statistics

MAX_CELLS = 20_000
HEAT_LEVELS = 10
_MAX_EXACT_CHARACTERS = 2_000
"""Characters of a text that is shown whole."""


def window(
    values: object,
    index: Sequence[int] | None = None,
    rows: tuple[int, int] = (0, 20),
    cols: tuple[int, int] = (0, 10),
    row_axis: int | None = -2,
    col_axis: int | None = -1,
    limits: tuple[float, float] | None = None,
    exact: bool = False,
    write: Callable[[Any], str] | None = None,
) -> Row:
    """Formatted cells of a two-dimensional slice of an array of any rank, at constant cost.

    Arguments:
        values: the array.
        index: one index per axis; those of the two shown axes are ignored. Default: all 0.
        rows, cols: (start, count) along the shown axes, cut to what exists.
        row_axis, col_axis: the shown axes; None for a single row or column.
        limits: range that `heat` levels refer to; None for the range of the window itself.
        exact: texts from which the number can be read back, in place of short ones; no heat.
        write: how an element is written, such as `NumberFormat(...).write`.
    Returns:
        `cells` (texts), `heat` (0 to 9 per cell, None where not finite), what is shown
        (`rows`, `cols` as start, stop, total; `row_axis`, `col_axis`, `index`), shape and dtype.
    Raises:
        ArgumentError: an axis or index that the array does not have.
    """
    as_is = getattr(type(values), "lazy", False) or describe.is_masked(values)
    whole: Any = values if as_is else np.asarray(values)
    row_axis, col_axis = shown_axes(whole.ndim, row_axis, col_axis)
    fixed = fixed_index(whole.shape, index, (row_axis, col_axis))
    row_span = _span(rows, whole.shape[row_axis] if row_axis is not None else 1)
    col_span = _span(cols, whole.shape[col_axis] if col_axis is not None else 1)
    if (row_span[1] - row_span[0]) * (col_span[1] - col_span[0]) > MAX_CELLS:
        raise ArgumentError(f"a window has at most {MAX_CELLS} cells")
    key: list[int | slice] = list(fixed)
    for axis, span in ((row_axis, row_span), (col_axis, col_span)):
        if axis is not None:
            key[axis] = slice(span[0], span[1])
    part = whole[tuple(key)]
    if row_axis is not None and col_axis is not None and row_axis > col_axis:
        part = part.T
    part = np.reshape(part, (row_span[1] - row_span[0], col_span[1] - col_span[0]))
    return {
        "shape": list(whole.shape),
        "dtype": whole.dtype.name,
        "index": fixed,
        "row_axis": row_axis,
        "col_axis": col_axis,
        "rows": list(row_span),
        "cols": list(col_span),
        "cells": _texts(part, exact, write),
        "heat": [] if exact else _heat(part, limits),
    }


def shown_axes(
    rank: int, row_axis: int | None, col_axis: int | None
) -> tuple[int | None, int | None]:
    """The two axes counted from 0; ArgumentError if there are no such two."""
    if rank == 0:
        return None, None
    if rank == 1 and row_axis == -2:
        row_axis = None
    shown: list[int | None] = []
    for axis in (row_axis, col_axis):
        if axis is not None and not -rank <= axis < rank:
            raise ArgumentError(f"axis {axis} is out of range for rank {rank}")
        shown.append(None if axis is None else axis % rank)
    if shown[0] is not None and shown[0] == shown[1]:
        raise ArgumentError(f"rows and columns are both axis {shown[0]}")
    return shown[0], shown[1]


def fixed_index(
    shape: tuple[int, ...], index: Sequence[int] | None, shown: tuple[int | None, ...]
) -> list[int]:
    """An index per axis, 0 along those that are shown; ArgumentError if the array has it not."""
    given = list(index) if index is not None else [0] * len(shape)
    if len(given) != len(shape):
        raise ArgumentError(f"index {given} needs {len(shape)} entries, one per axis")
    for axis, (entry, length) in enumerate(zip(given, shape, strict=True)):
        if axis in shown:
            given[axis] = 0
        elif length == 0:
            raise ArgumentError(f"axis {axis} is empty")
        elif not -length <= entry < length:
            raise ArgumentError(f"index {entry} is out of range for axis {axis} of size {length}")
        else:
            given[axis] = int(entry) % length
    return given


def _span(asked: tuple[int, int], total: int) -> tuple[int, int, int]:
    start = min(max(int(asked[0]), 0), max(total - 1, 0))
    return start, min(start + max(int(asked[1]), 0), total), total


def _texts(part: Array, exact: bool, write: Callable[[Any], str] | None = None) -> list[list[str]]:
    if describe.is_masked(part):
        texts = _texts(np.ma.getdata(part), exact, write)
        if part.dtype.names:  # some fields of an element may be masked, others not
            texts = [[describe.cell(entry) for entry in line] for line in part]
        for row, col in np.argwhere(_hidden(part)).tolist():
            texts[row][col] = describe.MASKED
        return texts
    if exact:
        return [[_exact(number) for number in line] for line in part]
    plain = part.dtype.kind in "biu" or part.dtype.name in ("float16", "float32", "float64")
    lines = part.tolist() if plain else part  # Python's numbers are read faster than NumPy's
    write = write or (describe.number if plain else describe.cell)
    return [[write(entry) for entry in line] for line in lines]


def _hidden(part: np.ma.MaskedArray[Any, Any]) -> NDArray[np.bool_]:
    """Which elements are masked; of structured ones those whose fields all are."""
    mask: Any = np.ma.getmaskarray(part)
    if mask.dtype.names is None:
        return np.asarray(mask, bool)
    fields = [np.asarray(mask[name], bool) for name in mask.dtype.names]
    flat = [field.reshape(*mask.shape, -1).all(axis=-1) for field in fields]
    return np.asarray(np.logical_and.reduce(flat), bool)


def _exact(value: object) -> str:
    """The shortest text that names this number among those of its dtype."""
    if issubclass(type(value), (np.number, np.bool_)):
        return str(value)
    if issubclass(type(value), (np.str_, np.bytes_, np.datetime64, np.timedelta64)):
        return describe.printable(value, _MAX_EXACT_CHARACTERS)
    return describe.cell(value)


def _heat(part: Array, limits: tuple[float, float] | None) -> list[list[int | None]]:
    if _statistics.refusal(part) is not None:
        return [[None] * part.shape[1] for _ in range(part.shape[0])]
    values = part.astype(np.float64)
    if describe.is_masked(values):
        values = values.filled(np.nan)
    finite = np.isfinite(values)
    if limits is None:
        known = values[finite]
        limits = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    levels = (scaled(np.where(finite, values, limits[0]), limits) * HEAT_LEVELS).astype(int)
    listed: list[list[int | None]] = levels.clip(0, HEAT_LEVELS - 1).tolist()
    for row, col in np.argwhere(~finite).tolist():
        listed[row][col] = None
    return listed


def scaled(values: NDArray[np.float64], limits: tuple[float, float]) -> NDArray[np.float64]:
    """Finite numbers as shares (0 to 1) of the way between two limits; no overflow on it."""
    scale = max(abs(limits[0]), abs(limits[1])) or 1.0
    low, high = limits[0] / scale, limits[1] / scale
    spread = (high - low) or 1.0
    share: NDArray[np.float64] = (values.clip(*limits) / scale - low) / spread
    return share
