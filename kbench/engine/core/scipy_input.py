"""Matrices of SciPy as users give them, in any format, brought to compressed rows.

SciPy's compiled loops trust the indices of a matrix, and its attributes can be changed at will. So
no index of a user's matrix reaches such a loop before it was copied, lest another thread changes
it, and looked through; ValueError says what is wrong.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

Matrix = Any
"""A matrix or array of SciPy in any format, each with attributes of its own; SciPy has no types."""
Listed = tuple[np.ndarray, np.ndarray, np.ndarray]  # entries, their rows, their columns


def compressed_rows(matrix: Matrix) -> Matrix:
    """The matrix as a `csr_array` with sorted columns, each at most once.

    Its entries may lie in the memory of `matrix`, its indices never do.
    """
    from scipy import sparse

    rows, columns = (int(size) for size in matrix.shape)
    if min(rows, columns) < 0:
        raise ValueError(f"its shape is {matrix.shape}")
    if matrix.format in ("csr", "csc"):
        by_rows = matrix.format == "csr"
        parts = (matrix.data, np.array(matrix.indices), np.array(matrix.indptr))
        check_compressed(*parts, *((rows, columns) if by_rows else (columns, rows)))
        csr = (sparse.csr_array if by_rows else sparse.csc_array)(parts, shape=(rows, columns))
        csr = csr if by_rows else csr.tocsr()
    else:
        data, at_rows, at_columns = _LISTERS[matrix.format](matrix, rows, columns)
        _check_listed(data, (at_rows, at_columns), (rows, columns))
        index = np.int32 if max(rows, columns, data.size) < 2**31 else np.int64
        places = (at_rows.astype(index), at_columns.astype(index))
        csr = sparse.coo_array((data, places), shape=(rows, columns)).tocsr()
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def check_compressed(
    data: np.ndarray, indices: np.ndarray, starts: np.ndarray, along: int, across: int
) -> None:
    """ValueError when entries, indices and starts do not describe `along` rows of `across`."""
    if starts.shape != (along + 1,) or indices.shape != data.shape or data.ndim != 1:
        raise ValueError("data, indices and indptr do not fit together")
    if indices.dtype.kind not in "iu" or starts.dtype.kind not in "iu":
        raise ValueError("its indices are not integers")
    if starts[0] != 0 or starts[-1] > data.size or np.any(starts[1:] < starts[:-1]):
        raise ValueError("indptr does not rise from 0 to the number of entries")
    _check_range(indices, across)


def _check_listed(data: np.ndarray, places: tuple[np.ndarray, ...], shape: tuple[int, int]) -> None:
    for axis, size in zip(places, shape, strict=True):
        if data.ndim != 1 or axis.shape != data.shape or axis.dtype.kind not in "iu":
            raise ValueError("data and indices do not fit together")
        _check_range(axis, size)


def _check_range(indices: np.ndarray, size: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        wrong = indices[(indices < 0) | (indices >= size)][0]
        raise ValueError(f"index {wrong} is out of range for an axis of size {size}")


# ------------------------------------------------------------------ entries and their places


def _of_coo(matrix: Matrix, rows: int, columns: int) -> Listed:
    at_rows, at_columns = matrix.coords
    return matrix.data, np.array(at_rows), np.array(at_columns)


def _of_dok(matrix: Matrix, rows: int, columns: int) -> Listed:
    places = np.array(list(matrix.keys()), dtype=np.int64).reshape(-1, 2)
    data = np.array(list(matrix.values()), dtype=matrix.dtype)
    return data, places[:, 0], places[:, 1]


def _of_lil(matrix: Matrix, rows: int, columns: int) -> Listed:
    lengths = [len(row) for row in matrix.rows]
    if matrix.rows.shape != (rows,) or lengths != [len(row) for row in matrix.data]:
        raise ValueError("rows and data do not fit together")
    chain = itertools.chain.from_iterable
    at_columns = np.array(list(chain(matrix.rows)), dtype=np.int64)
    data = np.array(list(chain(matrix.data)), dtype=matrix.dtype)
    return data, np.repeat(np.arange(rows), lengths), at_columns


def _of_dia(matrix: Matrix, rows: int, columns: int) -> Listed:
    data, offsets = matrix.data, matrix.offsets
    if data.ndim != 2 or offsets.shape != data.shape[:1] or offsets.dtype.kind not in "iu":
        raise ValueError("data and offsets do not fit together")
    length = min(data.shape[1], columns)
    at_columns = np.broadcast_to(np.arange(length), (len(offsets), length))
    at_rows = at_columns - offsets.astype(np.int64)[:, None]
    kept = (at_rows >= 0) & (at_rows < rows) & (data[:, :length] != 0)
    return data[:, :length][kept], at_rows[kept], at_columns[kept]


def _of_bsr(matrix: Matrix, rows: int, columns: int) -> Listed:
    data, indices, starts = matrix.data, matrix.indices, matrix.indptr
    if data.ndim != 3 or min(data.shape[1:]) < 1:
        raise ValueError("its data are not blocks")
    high, wide = data.shape[1:]
    if rows % high or columns % wide:
        raise ValueError(f"blocks of {high} x {wide} do not fill it")
    check_compressed(data[:, 0, 0], indices, starts, rows // high, columns // wide)
    count = int(starts[-1])
    data, indices = data[:count], indices[:count].astype(np.int64)
    at_rows = np.repeat(np.arange(rows // high), np.diff(starts)) * high
    by_row = np.broadcast_to(at_rows[:, None, None] + np.arange(high)[:, None], data.shape)
    by_column = np.broadcast_to(indices[:, None, None] * wide + np.arange(wide), data.shape)
    kept = data != 0
    return data[kept], by_row[kept], by_column[kept]


_LISTERS = {"coo": _of_coo, "dok": _of_dok, "lil": _of_lil, "dia": _of_dia, "bsr": _of_bsr}
