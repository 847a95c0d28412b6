"""Products of which a factor is sparse: its rows are multiplied, and its zeros never written."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.keras_tensor import KerasTensor

from kbench import backend as K
from kbench.api.operations import multiply
from kbench.keras3.calls.host import result_dtypes
from kbench.keras3.complex_numbers.refusal import is_complex
from kbench.keras3.matrices import Rows, held_dtype, is_matrix, rows_of
from kbench.keras3.numpy import layout
from kbench.keras3.numpy.elementwise import array_in
from kbench.keras3.tensor import SparseTraced, Traced, finish, in_dtype, known_rows, tracing


def sparse_product(name: str, x1: Any, x2: Any) -> Any:
    """`matmul` or `dot` of a matrix or a vector and rows, in either order.

    None where no factor has rows, or the other has more than two axes. Of two factors with rows the
    second is made dense.
    """
    if type(x1) is np.ndarray and type(x2) is np.ndarray:
        return None
    first, second = _rows(x1), _rows(x2)
    if first is None and second is None:
        return None
    left: Any = first if first is not None else layout.known(x1)
    right: Any = layout.known(x2) if first is not None or second is None else second
    dense = right if first is not None else left
    if len(dense.shape) not in (1, 2) or is_complex(dense):
        return None
    specs = [KerasTensor(tuple(x.shape), standardize_dtype(x.dtype)) for x in (left, right)]
    dtype = result_dtypes(name, specs, (), {})[0]
    if isinstance(left, Rows) and not isinstance(right, Traced):
        return _known(left, right, dtype, False)
    if isinstance(right, Rows) and not isinstance(left, Traced):
        return _known(right, left, dtype, True)
    if first is None:
        return finish(K.dot(in_dtype(left, dtype), _rows_in(right, dtype)), dtype)
    return finish(K.dot(_rows_in(left, dtype), in_dtype(right, dtype)), dtype)


def _rows(x: Any) -> Rows | SparseTraced | None:
    """The rows of a factor; None where it is dense."""
    if isinstance(x, SparseTraced):
        return x
    rows = rows_of(x) if is_matrix(x) else None
    return rows if rows is None or not tracing.active else known_rows(rows)


def _rows_in(x: Any, dtype: str) -> Any:
    """The sparse node of rows in the dtype of the product."""
    rows = known_rows(x) if isinstance(x, Rows) else x
    return rows.cast(dtype).rows if "float" in dtype else K.cast(rows.rows, dtype)


def _known(rows: Rows, dense: np.ndarray, dtype: str, reverse: bool) -> np.ndarray:
    """`rows @ dense`, or with `reverse` `dense @ rows`, of known values."""
    working = "int32" if dtype == "bool" else held_dtype(dtype)
    csr = rows.in_dtype(dtype).csr.astype(working, copy=False)
    array = array_in(dense, dtype).astype(working, copy=False)
    is_vector = array.ndim == 1
    if is_vector:
        array = array[:, None]
    elif reverse:
        array = np.ascontiguousarray(array.T)
    with np.errstate(all="ignore"):
        found = multiply(csr, array, reverse).astype(dtype, copy=False)
    if is_vector:
        return np.ascontiguousarray(found[:, 0])
    return np.ascontiguousarray(found.T) if reverse else found
