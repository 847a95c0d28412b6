"""Which elements of a value are NaN or infinite: how many, and where the first of them is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct

from kbench.engine.core import cancel
from kbench.engine.core.csr import is_csr
from kbench.engine.inspect import describe
from kbench.workbench.core_types import JsonObject

Array = np.ndarray
BLOCK_ELEMENTS = 1 << 20
"""Looked at in one piece, between two looks at the cancel flag."""


class BadElements(Struct, frozen=True):
    """How many elements are no numbers, and where the first of them is."""

    nan: int
    inf: int
    index: tuple[int, ...]
    value: float

    def as_data(self) -> JsonObject:
        """As plain values."""
        return {
            "nan": self.nan,
            "inf": self.inf,
            "index": list(self.index),
            "value": describe.number(self.value),
        }


def bad_elements(value: object) -> BadElements | None:
    """What of a value is NaN or infinite; None when all of it is finite."""
    if isinstance(value, tuple):
        return next((found for part in value if (found := bad_elements(part)) is not None), None)
    matrix: Any = value if is_csr(value) else None
    array = value if matrix is None else matrix.data
    if not isinstance(array, (np.ndarray, np.generic)) or array.dtype.kind != "f":
        return None
    nan, infinite, first = 0, 0, -1
    for start, block in _blocks(np.asarray(array)):
        finite = np.isfinite(block)
        if not finite.all():
            nans = int(np.isnan(block).sum())
            nan, infinite = nan + nans, infinite + int((~finite).sum()) - nans
            first = start + int(np.argmin(finite)) if first < 0 else first
    if first < 0:
        return None
    index = (
        tuple(int(entry) for entry in np.unravel_index(first, array.shape)) if array.ndim else ()
    )
    if matrix is not None:
        coo = matrix.tocoo()
        index = (int(coo.row[first]), int(coo.col[first]))
    return BadElements(
        nan, infinite, index, float(np.asarray(array)[np.unravel_index(first, array.shape)])
    )


def _blocks(array: Array) -> Iterator[tuple[int, Array]]:
    """The elements in order, in pieces that need little memory."""
    if array.size <= BLOCK_ELEMENTS or array.ndim < 2 or array.flags.c_contiguous:
        flat = array.reshape(-1)
        for start in range(0, flat.size, BLOCK_ELEMENTS):
            cancel.check()
            yield start, flat[start : start + BLOCK_ELEMENTS]
        return
    each = array[0].size
    for row, part in enumerate(array):  # a view that has no flat form
        for start, block in _blocks(part):
            yield row * each + start, block
