"""Sparse values as arrays: SciPy's compressed rows, the one form in which the engine holds them.

SciPy is imported on first need. Knows no tensor.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TypeGuard

import numpy as np

from kbench.engine.core import cancel, memory_limit
from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError
from kbench.engine.core.masked_arrays import masked_entries
from kbench.engine.core.scipy_input import Matrix, compressed_rows
from kbench.engine.core.spec import INTEGERS, show
from kbench.engine.core.types import Shape

Csr = Any
"""A `scipy.sparse.csr_array`; SciPy has no types."""
Held = np.ndarray | Csr
"""The value of a tensor: an array, or compressed rows where the tensor is sparse."""
SPARSE_DTYPES = ("bool", *INTEGERS, "float32", "float64")
MAX_PIECE_PRODUCTS = 1 << 26
"""Multiply-adds between two looks at the cancel flag: about 70 ms at 1 ns each."""
MAX_UNCHECKED_CELLS = 1 << 22
"""Cells that are written between two looks at the cancel flag."""


def is_matrix(value: object) -> bool:
    """True for a sparse matrix or array of SciPy, in any format."""
    loaded = sys.modules.get("scipy.sparse")  # without it no value can be one
    return loaded is not None and bool(loaded.issparse(value))


def is_csr(value: object) -> TypeGuard[Csr]:
    """True for a sparse value of the engine, False for its arrays."""
    return not isinstance(value, (np.ndarray, np.generic)) and is_matrix(value)


def sparse_dtype(dtype: str) -> str:
    """`dtype`, when a sparse tensor can have it; DtypeError otherwise."""
    if dtype not in SPARSE_DTYPES:
        raise DtypeError(f"a sparse tensor cannot be {dtype}; it has {', '.join(SPARSE_DTYPES)}")
    return dtype


def sparse_shape(shape: Shape) -> Shape:
    """`shape`, when a sparse tensor can have it; ShapeError otherwise."""
    if len(shape) != 2:
        raise ShapeError(f"a sparse tensor has two axes, got shape {show(shape)}")
    return shape


# ------------------------------------------------------------------ from what a user gives


def as_csr(matrix: Matrix) -> Csr:
    """A SciPy matrix of any format as compressed rows, with sorted columns, each at most once.

    Its entries may lie in the memory of `matrix`. Raises ArgumentError when the matrix is broken,
    DtypeError and ShapeError when it holds what a sparse tensor cannot.
    """
    sparse_shape(tuple(matrix.shape))
    if (masked := masked_entries(getattr(matrix, "data", None))) is not None:
        raise ArgumentError(f"its data{masked}, and a tensor has no mask")
    sparse_dtype(matrix.dtype.newbyteorder("=").name)
    try:
        return compressed_rows(matrix)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ArgumentError(f"no valid sparse matrix: {error}") from None


def as_dense(csr: Csr) -> np.ndarray:
    """The whole matrix as an array; OutOfMemory when the machine cannot hold it."""
    memory_limit.require_array(csr.shape, csr.dtype.itemsize, f"the dense value {show(csr.shape)}")
    out = np.empty(csr.shape, csr.dtype)
    fill_dense(out, csr)
    return out


def fill_dense(out: np.ndarray, csr: Csr) -> None:
    """Write the whole matrix into an array, in pieces that leave room for an interrupt."""
    step = max(MAX_UNCHECKED_CELLS // max(csr.shape[1], 1), 1)
    for first in range(0, csr.shape[0], step):
        last = min(first + step, csr.shape[0])
        part = out[first:last]
        part.fill(0)  # SciPy adds to what is there
        if part.size:
            _rows(csr, first, last).toarray(out=part)
        cancel.check()


def from_dense(array: np.ndarray) -> Csr:
    """The entries of a dense array that are not zero."""
    from scipy import sparse

    sparse_shape(array.shape)
    sparse_dtype(array.dtype.name)
    return sparse.csr_array(array)


def with_data(csr: Csr, data: np.ndarray) -> Csr:
    """The same places with other entries."""
    from scipy import sparse

    return sparse.csr_array((data, csr.indices, csr.indptr), shape=csr.shape)


def frozen(csr: Csr) -> Csr:
    """A window on a value that cannot be written through."""
    from scipy import sparse

    parts = [part.view() for part in (csr.data, csr.indices, csr.indptr)]
    for part in parts:
        part.flags.writeable = False
    return sparse.csr_array(tuple(parts), shape=csr.shape)


def copied(value: Held) -> Held:
    """A copy of an array or of a sparse value."""
    return value.copy() if is_csr(value) else np.array(value, order="C", copy=True)


# ------------------------------------------------------------------ facts


def csr_bytes(csr: Csr) -> int:
    """Bytes of entries and indices."""
    return int(csr.data.nbytes + csr.indices.nbytes + csr.indptr.nbytes)


def density(csr: Csr) -> float:
    """The share of places that hold an entry; 0 for a matrix without places."""
    places = csr.shape[0] * csr.shape[1]
    return int(csr.nnz) / places if places else 0.0


# ------------------------------------------------------------------ computing


def _rows(csr: Csr, first: int, last: int) -> Csr:
    """Some of the rows, without copying entries."""
    from scipy import sparse

    begin, end = int(csr.indptr[first]), int(csr.indptr[last])
    starts = csr.indptr[first : last + 1] - csr.indptr[first]
    parts = (csr.data[begin:end], csr.indices[begin:end], starts)
    return sparse.csr_array(parts, shape=(last - first, csr.shape[1]))


def _pieces(csr: Csr, work: int) -> Iterator[tuple[slice, Csr]]:
    """The rows in runs of at most MAX_PIECE_PRODUCTS multiply-adds, without copying entries."""
    starts = csr.indptr
    limit = max(MAX_PIECE_PRODUCTS // max(work, 1), 1)
    if int(starts[-1]) <= limit:
        yield slice(0, csr.shape[0]), csr
        return
    first = 0
    while first < csr.shape[0]:
        last = int(np.searchsorted(starts, int(starts[first]) + limit, side="right")) - 1
        last = min(max(last, first + 1), csr.shape[0])
        yield slice(first, last), _rows(csr, first, last)
        cancel.check()
        first = last


def multiply(csr: Csr, dense: np.ndarray, transposed: bool) -> np.ndarray:
    """`csr @ dense`, or the transposed `csr.T @ dense`, for matrices of one dtype."""
    rows = csr.shape[1] if transposed else csr.shape[0]
    total: np.ndarray | None = None
    for place, piece in _pieces(csr, dense.shape[1]):
        part = np.asarray(piece.T @ dense[place] if transposed else piece @ dense)
        if place == slice(0, csr.shape[0]):
            return part
        if total is None:
            total = np.zeros((rows, dense.shape[1]), dense.dtype)
        if transposed:
            np.add(total, part, out=total)
        else:
            total[place] = part
    return np.zeros((rows, dense.shape[1]), dense.dtype) if total is None else total
