"""Matrices of SciPy: as rows whose dtype is one of Keras, and as arrays.

A matrix of SciPy is no tensor: its `*` is a product of matrices, and an array of NumPy that is made
of it holds the matrix as an object. So each is brought here before anything computes with it. Knows
no symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kbench.api.operations import SPARSE_DTYPES, Csr, as_csr, as_dense, is_matrix, with_data

__all__ = ["Rows", "array_of", "held_dtype", "is_matrix", "rows_of"]


class Rows:
    """Compressed rows and the dtype of their entries, float32 holding one that SciPy lacks."""

    def __init__(self, csr: Csr, dtype: str) -> None:
        self.csr, self.dtype = csr, dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.csr.shape)

    def __getitem__(self, places: Any) -> Rows:
        """Some of the rows, by a slice or by their numbers."""
        return Rows(self.csr[places], self.dtype)

    def in_dtype(self, dtype: str) -> Rows:
        """The same with entries of a float dtype, rounded to it."""
        if dtype == self.dtype:
            return self
        with np.errstate(all="ignore"):
            data = self.csr.data.astype(dtype).astype(held_dtype(dtype))
        return Rows(with_data(self.csr, data), dtype)

    def array(self) -> np.ndarray:
        """All elements, zeros among them."""
        return as_dense(self.csr).astype(self.dtype, copy=False)


def held_dtype(dtype: str) -> str:
    """The dtype in which SciPy holds entries of a dtype of Keras."""
    return dtype if dtype in SPARSE_DTYPES else "float32"


def rows_of(matrix: Any) -> Rows | None:
    """The rows of a matrix in any format; None for one axis, and for complex numbers.

    Raises:
        ArgumentError: its indices lie outside of it, or its parts do not fit together.
    """
    if len(matrix.shape) != 2 or matrix.dtype.name not in SPARSE_DTYPES:
        return None
    csr = as_csr(matrix)
    return Rows(csr, csr.dtype.name)


def array_of(matrix: Any) -> np.ndarray:
    """All elements of a matrix, zeros among them.

    Raises:
        OutOfMemory: the machine cannot hold them.
    """
    rows = rows_of(matrix)
    return np.asarray(matrix.toarray()) if rows is None else rows.array()
