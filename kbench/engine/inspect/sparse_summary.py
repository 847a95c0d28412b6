"""A sparse value as a plain row: how many entries, how dense, in which range. Never made dense.

Beside `describe`, which tells of arrays; costs nothing that grows with the matrix beyond what
`statistics` bounds.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.core import csr
from kbench.engine.core.scipy_input import Matrix
from kbench.engine.core.types import Row
from kbench.engine.inspect import describe
from kbench.engine.inspect.statistics import MAX_EXACT_ELEMENTS

_ENTRY_FORMATS = ("csr", "csc", "coo")
"""Formats whose `data` are the entries, and nothing else."""


def held_matrix(value: object) -> Matrix | None:
    """The sparse matrix that a value holds right now; None when it holds none."""
    if describe.is_variable(value):
        return value.peek() if value.is_sparse else None
    foreign = not type(value).__module__.startswith("scipy.sparse")  # a subclass may do anything
    return None if foreign or not csr.is_matrix(value) else value


def facts(matrix: Matrix) -> Row:
    """Shape, dtype, `entries`, `density` (None without places) and bytes, where they are known."""
    places = int(np.prod(matrix.shape, dtype=object))
    count = int(matrix.nnz)
    parts = [getattr(matrix, name, None) for name in ("data", "indices", "indptr", "row", "col")]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    return {
        "shape": [int(size) for size in matrix.shape],
        "dtype": matrix.dtype.name,
        "spec": "sparse " + describe.spec_text(matrix.shape, matrix.dtype.name),
        "entries": count,
        "density": count / places if places else None,
        "bytes": sum(array.nbytes for array in arrays) if matrix.format in _ENTRY_FORMATS else None,
    }


def statistics(matrix: Matrix) -> Row | None:
    """Statistics of the entries alone; None for formats that do not list them."""
    return describe.array(matrix.data) if matrix.format in _ENTRY_FORMATS else None


class Cells:
    """The cells of a matrix of compressed rows, read rectangle by rectangle.

    Stands in for an array where only a window of it is looked at.
    """

    lazy = True
    ndim = 2

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self.shape = tuple(matrix.shape)
        self.dtype = matrix.dtype

    def __getitem__(self, key: tuple[int | slice, ...]) -> np.ndarray:
        spans = [entry if isinstance(entry, slice) else slice(entry, entry + 1) for entry in key]
        return np.asarray(self._matrix[tuple(spans)].toarray())


def cells(matrix: Matrix, trusted: bool) -> Cells | None:
    """The cells of a matrix; None when they are too many to look through, or not in order.

    What is not `trusted` is not the engine's own, and could point outside of itself.
    """
    if trusted:
        return Cells(matrix)
    if matrix.format not in _ENTRY_FORMATS or matrix.nnz > MAX_EXACT_ELEMENTS:
        return None
    return Cells(csr.as_csr(matrix))


def count_text(row: Row) -> str:
    """`1 entry (25 %)`, `2000 entries (0.2 %)`."""
    count = row["entries"]
    words = f"{count} {'entry' if count == 1 else 'entries'}"
    return words if row["density"] is None else f"{words} ({100 * row['density']:.3g} %)"
