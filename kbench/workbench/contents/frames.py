"""A table, a column or an index of pandas as cells with names, read rectangle by rectangle.

Stands in for an array where only a window of it is looked at (`engine/inspect/slice_view.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kbench.engine.inspect import describe
from kbench.workbench.contents import preview
from kbench.workbench.inspector import sizes

MAX_NAME_CHARACTERS = 40
"""Of the name of a row or column."""


class _Mixed:
    """What stands for the dtype where each column has its own."""

    name = "mixed"


class Cells:
    """The cells of a frame; a column or an index has a single column."""

    lazy = True
    ndim = 2

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._is_index = not hasattr(frame, "iloc")
        self._wide = frame.ndim > 1 and not self._is_index
        rows = len(frame)
        self.shape = (rows, int(frame.shape[1]) if self._wide else 1)
        kinds = {str(kind) for kind in frame.dtypes} if self._wide else {str(frame.dtype)}
        self.dtype = type("dtype", (), {"name": kinds.pop()}) if len(kinds) == 1 else _Mixed

    def __getitem__(self, key: tuple[int | slice, ...]) -> np.ndarray:
        """An array of objects: numbers as they are, all else as texts."""
        rows, cols = (
            entry if isinstance(entry, slice) else slice(entry, entry + 1) for entry in key
        )
        if self._wide:
            part = self._frame.iloc[rows, cols]
            columns = [part.iloc[:, at] for at in range(part.shape[1])]
        else:
            held = self._frame[rows] if self._is_index else self._frame.iloc[rows]
            columns = [held] if cols.start == 0 and cols.stop > 0 else []
        count = len(range(*rows.indices(self.shape[0])))
        cells = np.empty((count, len(columns)), object)
        for at, column in enumerate(columns):
            for row, entry in enumerate(column):
                cells[row, at] = _entry(entry)
        return cells

    def names(self, rows: tuple[int, int], cols: tuple[int, int]) -> tuple[list[str], list[str]]:
        """What stands before the rows and above the columns of a rectangle, (start, stop) each."""
        if self._is_index:
            return [], [_name(self._frame.name)]
        before = [_name(label) for label in self._frame.index[slice(*rows)]]
        if self._wide:
            return before, [_name(label) for label in self._frame.columns[slice(*cols)]]
        return before, [_name(self._frame.name)]


def cells(value: object) -> Cells | None:
    """The cells of a table of pandas; None for anything else."""
    return Cells(value) if sizes.is_frame(value) else None


def _entry(entry: Any) -> object:
    """What `describe.cell` and its like write as they write an element of an array."""
    kind = type(entry)
    if kind is float:
        return np.float64(entry)  # whose digits are all written where they are asked for
    if entry is None or issubclass(kind, (bool, int, float, complex, np.generic)):
        return entry
    if kind is str:
        return np.str_(entry)
    written = preview.plain(entry)
    return np.str_(preview.text(entry) if written is None else written)


def _name(label: object) -> str:
    if type(label) is str:
        return describe.printable(label, MAX_NAME_CHARACTERS)
    return preview.text(label, MAX_NAME_CHARACTERS) if label is not None else ""
