"""Rows by index: gather, and its gradient, which adds rows up."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.errors import DtypeError, ShapeError
from kbench.engine.core.spec import INTEGERS, Spec, known_size
from kbench.engine.core.types import KernelArguments, KernelCall
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import KernelFactory, Op
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.kernels.data import gather as rowcopy
from kbench.engine.kernels.data import scatter_add
from kbench.engine.runtime import config

MIN_GATHERED_CELLS = 16_384
"""Cells from which on rows are taken by a kernel."""
MIN_SCATTERED_CELLS = 1024
"""Cells from which on rows are added by a kernel."""
CELLS_PER_CANCEL_CHECK = 1 << 20
"""Cells that NumPy moves between two looks at the cancel flag."""


def _gather_infer(reference: Spec, indices: Spec) -> Spec:
    if reference.ndim == 0:
        raise ShapeError(f"reference is {reference}, which has no rows")
    if indices.value is not None and reference.shape[0] is not None:
        _check_rows([i for i in indices.value if i is not None], reference.shape[0])
    return Spec((*indices.shape, *reference.shape[1:]), reference.dtype)


def _check_rows(indices: np.ndarray | list[int], rows: int) -> None:
    array = np.asarray(indices)
    if array.size and (array.min() < 0 or array.max() >= rows):
        wrong = array.ravel()[np.flatnonzero((array.ravel() < 0) | (array.ravel() >= rows))[0]]
        raise ShapeError(f"index {wrong} is out of range for {rows} rows", function="gather")


def _in_parts(indices: np.ndarray, width: int) -> Iterator[tuple[slice, np.ndarray]]:
    """The indices in parts of a few milliseconds' work, so that a stop is honoured soon."""
    flat = indices.ravel()
    step = max(1, CELLS_PER_CANCEL_CHECK // max(1, width))
    for start in range(0, flat.size, step):
        part = slice(start, start + step)
        yield part, flat[part]
        cancel.check()


def _gather_numpy(out: np.ndarray | None, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    _check_rows(indices, x.shape[0])
    if out is None:
        out = np.empty((*indices.shape, *x.shape[1:]), x.dtype)
    flat = out.reshape(indices.size, *x.shape[1:])
    for part, rows in _in_parts(indices, math.prod(x.shape[1:])):
        np.take(x, rows, axis=0, out=flat[part], mode="clip")
    return out


def _scatter_infer(g: Spec, indices: Spec, x: Spec) -> Spec:
    return Spec(x.shape, g.dtype)


def _scatter_numpy(
    out: np.ndarray | None, g: np.ndarray, indices: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """Rows added up by index; in float64 those that are named often."""
    _check_rows(indices, x.shape[0])
    flat, rows = g.reshape(indices.size, *x.shape[1:]), indices.ravel().astype(np.int64, copy=False)
    total = np.zeros(x.shape, np.float32 if g.dtype == np.float16 else g.dtype)
    often = np.zeros(0, bool)
    if g.dtype.name in scatter_add.ROUNDED_DTYPES and indices.size > scatter_add.MAX_PLAIN_TERMS:
        often = np.bincount(rows, minlength=len(x)) > scatter_add.MAX_PLAIN_TERMS
    if not often.any():
        _add_at(total, rows, flat)
    else:
        slots, apart = np.cumsum(often) - 1, often[rows]
        exact = np.zeros((int(slots[-1]) + 1, *x.shape[1:]))
        _add_at(exact, slots[rows[apart]], flat[apart])
        _add_at(total, rows[~apart], flat[~apart])
        with np.errstate(all="ignore"):
            total[often] = exact
    with np.errstate(over="ignore"):
        return total.astype(g.dtype, copy=False)


def _add_at(total: np.ndarray, rows: np.ndarray, flat: np.ndarray) -> None:
    for part, some in _in_parts(rows, math.prod(total.shape[1:])):
        np.add.at(total, some, flat[part].astype(total.dtype, copy=False))


def _row_kernel(find: Callable[[], KernelCall | None], operand: int) -> KernelFactory:
    """A kernel that moves rows by index, with the error of `_check_rows` for one that is none."""

    def factory() -> KernelCall | None:
        move = find()
        if move is None:
            return None

        def run(out: np.ndarray, *arrays: *KernelArguments) -> None:
            *given, cancel_check = arrays
            try:
                move(out, *given[:2], cancel_check)
            except IndexError:
                _check_rows(given[1], len(given[operand]))
                raise

        return run

    return factory


def _gather_kernel(x: Spec, indices: Spec) -> KernelFactory | None:
    width, count = known_size(x.shape[1:]), known_size(indices.shape)
    if not width or (count or 0) * width < config.min_elements(MIN_GATHERED_CELLS):
        return None
    return _row_kernel(partial(rowcopy.find_take, x.dtype, width), 0)


def _scatter_kernel(g: Spec, indices: Spec, x: Spec) -> KernelFactory | None:
    if (known_size(g.shape) or 0) < config.min_elements(MIN_SCATTERED_CELLS) or g.dtype == "bool":
        return None
    return _row_kernel(partial(scatter_add.find_add, g.dtype), 2)


GATHER = structured(
    "gather",
    _gather_infer,
    _gather_numpy,
    lambda g, y, x, indices: (apply(SCATTER, g, indices, x), None),
    kernel=_gather_kernel,
)
SCATTER: Op = structured(
    "scatter_add",
    _scatter_infer,
    _scatter_numpy,
    lambda g, y, z, indices, x: (apply(GATHER, g, indices), None, None),
    allocates=True,
    shapes=(2,),
    kernel=_scatter_kernel,
)


def gather(reference: Operand, indices: Operand) -> Tensor:
    """Rows of `reference` by index.

    Arguments:
        reference: any dtype, at least one axis.
        indices: integers of any shape.
    Returns:
        Tensor [*indices.shape, *reference.shape[1:]] of the dtype of `reference`.
    Raises:
        DtypeError: `indices` are not integers.
        ShapeError: an index is negative or at least the number of rows, when it is known or else
            at evaluation.
    Gradient: to `reference`; repeated indices add up.
    Source: Keras 2.3 `backend.gather`.

    >>> K.eval(K.gather(K.constant([1.0, 2.0, 3.0]), [2, 0]))
    array([3., 1.], dtype=float32)
    """
    rows = as_tensor(indices)
    if rows.spec.dtype not in INTEGERS:
        raise DtypeError(f"indices must be integers, got {rows.spec}")
    return apply(GATHER, as_tensor(reference), rows)
