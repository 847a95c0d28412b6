"""Repetition along axes: single elements, or a tensor as a whole."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import ArgumentError, ShapeError, shown
from kbench.engine.core.spec import Spec, check_axis, integer, is_whole
from kbench.engine.core.types import Ints, Shape
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.declare import structured
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.layout.copy_kernels import Copy, copy_kernel
from kbench.engine.ops.layout.reshape import expand_dims, reshape
from kbench.engine.ops.layout.shape import shape, shape_operand
from kbench.engine.ops.reduce.reduction import accumulated
from kbench.engine.ops.reduce.reduction import sum as total

MIN_FAST_ROW_BYTES = 1024
"""Bytes of a row from which on it is copied as fast as any."""


def _repeat_infer(x: Spec, *, rep: int, axis: int) -> Spec:
    size = x.shape[axis]
    longer = None if size is None else size * rep
    return Spec((*x.shape[:axis], longer, *x.shape[axis + 1 :]), x.dtype)


def _repeat_gradient(g: Tensor, y: Tensor, x: Tensor, *, rep: int, axis: int) -> tuple[Tensor]:
    apart = (*x.spec.shape[: axis + 1], rep, *x.spec.shape[axis + 1 :])
    return (total(reshape(g, _dynamic(apart, x, axis)), axis + 1),)


def _dynamic(sizes: Shape, x: Tensor, axis: int) -> list[int | Tensor]:
    """`sizes`, with the unknown ones read from `x` at evaluation; `axis + 1` is the new one."""
    known = [size for size in sizes if size is not None]
    if len(known) == len(sizes):
        return [*known]
    actual = shape(x)
    source = [i if i <= axis else i - 1 for i in range(len(sizes))]
    return [actual[source[i]] if size is None else size for i, size in enumerate(sizes)]


def _repeat_by_copies(copy: Copy, out: np.ndarray, x: np.ndarray, *, rep: int, axis: int) -> None:
    apart = out.reshape(*x.shape[: axis + 1], rep, *x.shape[axis + 1 :])
    copy(apart, np.expand_dims(x, axis + 1))


def _repeat_numpy(out: np.ndarray | None, x: np.ndarray, *, rep: int, axis: int) -> np.ndarray:
    if not x.size:  # NumPy would go through all repetitions of nothing
        return np.empty((*x.shape[:axis], x.shape[axis] * rep, *x.shape[axis + 1 :]), x.dtype)
    return np.repeat(x, rep, axis)


REPEAT = structured(
    "repeat_elements",
    _repeat_infer,
    _repeat_numpy,
    _repeat_gradient,
    allocates=True,
    kernel=copy_kernel(_repeat_infer, _repeat_by_copies),
)


def repeat_elements(x: Operand, rep: int, axis: int) -> Tensor:
    """Every element `rep` times in a row along `axis`.

    Arguments:
        x: any dtype, at least one axis.
        rep: integer of at least 1.
        axis: integer; negative counts from the end.
    Returns:
        Tensor of the dtype of `x`, along `axis` `rep` times as long.
    Raises:
        ArgumentError: `rep` is not an integer of at least 1. ShapeError: no such axis.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.repeat_elements`.

    >>> K.eval(K.repeat_elements(K.constant([1.0, 2.0]), 2, 0))
    array([1., 1., 2., 2.], dtype=float32)
    """
    tensor = as_tensor(x)
    if not is_whole(rep) or rep < 1:
        raise ArgumentError(f"rep must be an integer of at least 1, got {shown(rep)}")
    return apply(REPEAT, tensor, rep=integer(rep), axis=check_axis(axis, tensor.ndim))


def _tile_infer(x: Spec, counts: Spec | None = None, *, n: Shape | None = None) -> Spec:
    if n is None:
        assert counts is not None
        n = counts.value if counts.value is not None else (None,) * x.ndim
    sizes = [None if a is None or b is None else a * b for a, b in zip(x.shape, n, strict=True)]
    return Spec(tuple(sizes), x.dtype)


def _tile_numpy(
    out: np.ndarray | None,
    x: np.ndarray,
    counts: np.ndarray | None = None,
    *,
    n: Ints = (),
) -> np.ndarray:
    repeats = tuple(counts.tolist()) if counts is not None else n
    if any(count < 0 for count in repeats):
        raise ArgumentError(f"n must not be negative, got {repeats}")
    return np.tile(x, repeats)


def _tile_by_copies(
    copy: Copy, out: np.ndarray, x: np.ndarray, *_counts: object, **_attrs: object
) -> None:
    row, times = x, out.shape[-1] // x.shape[-1] if x.ndim else 1
    if x.ndim and x.shape[-1] * x.itemsize < MIN_FAST_ROW_BYTES and 4 * x.size * times <= out.size:
        row = np.tile(x, times)  # long rows first, which are then copied as wholes
    apart: list[int] = []
    for whole, size in zip(out.shape, row.shape, strict=True):
        apart += [whole // size, size]
    copy(out.reshape(apart), row.reshape([part for size in row.shape for part in (1, size)]))


def _tile_gradient(
    g: Tensor, y: Tensor, x: Tensor, counts: Tensor | None = None, **_attrs: object
) -> tuple[Tensor | None, ...]:
    return (apply(UNTILE, g, x),) + (() if counts is None else (None,))


def _untile_numpy(out: np.ndarray | None, g: np.ndarray, x: np.ndarray) -> np.ndarray:
    apart: list[int] = []
    for whole, size in zip(g.shape, x.shape, strict=True):
        apart += [whole // size if size else 0, size]
    return accumulated(g.reshape(apart), tuple(range(0, 2 * x.ndim, 2)), False, None)


TILE = structured(
    "tile",
    _tile_infer,
    _tile_numpy,
    _tile_gradient,
    allocates=True,
    kernel=copy_kernel(_tile_infer, _tile_by_copies),
)
UNTILE = structured(
    "untile",
    lambda g, x: Spec(x.shape, g.dtype),
    _untile_numpy,
    lambda g, y, z, x: (apply(TILE, g, _counts(z, x)), None),
    allocates=True,
)


def _counts(z: Tensor, x: Tensor) -> Tensor:
    return shape(z) // shape(x)


def tile(x: Operand, n: Operand) -> Tensor:
    """`x` repeated as a whole `n[i]` times along axis i.

    Arguments:
        x: any dtype and shape.
        n: an integer (the last axis), a list, or an integer vector tensor. A list shorter than
            the rank is filled with 1 on the left.
    Returns:
        Tensor of the dtype of `x`.
    Raises:
        ArgumentError: more entries than axes, or no integers. ShapeError: a negative entry.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.tile`.

    >>> K.eval(K.tile(K.constant([1.0, 2.0]), 2))
    array([1., 2., 1., 2.], dtype=float32)
    """
    tensor, counts = as_tensor(x), shape_operand(n, name="n")
    if isinstance(counts, Tensor):
        if counts.spec.shape != (tensor.ndim,):
            raise ShapeError(f"n is {counts.spec}, but x is {tensor.spec}: one entry per axis")
        return apply(TILE, tensor, counts)
    if len(counts) > tensor.ndim:
        raise ArgumentError(f"n has {len(counts)} entries, but x is {tensor.spec}")
    return apply(TILE, tensor, n=(1,) * (tensor.ndim - len(counts)) + counts)


def repeat(x: Operand, n: int) -> Tensor:
    """Each row of a matrix repeated `n` times along a new axis.

    Arguments:
        x: any dtype, [rows, columns].
        n: integer of at least 0.
    Returns:
        Tensor [rows, n, columns] of the dtype of `x`.
    Raises:
        ShapeError: `x` has not two axes. ArgumentError: `n` is no integer of at least 0.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.repeat`.

    >>> K.int_shape(K.repeat(K.zeros((2, 3)), 4))
    (2, 4, 3)
    """
    tensor = as_tensor(x)
    if tensor.ndim != 2:
        raise ShapeError(f"x is {tensor.spec}, but rank 2 is needed: [batch, features]")
    return repeat_elements(expand_dims(tensor, 1), n, 1)
