"""Reductions over axes, and what undoes broadcasting in gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kbench.engine.core.folds.exact_folds import product
from kbench.engine.core.folds.summation import added, folded
from kbench.engine.core.spec import Spec, is_float, known_size
from kbench.engine.core.types import Attrs, Axes, Axis, Shape
from kbench.engine.graph.apply import apply, make_node
from kbench.engine.graph.convert import as_tensor, converted
from kbench.engine.graph.declare import Reducer, reduction
from kbench.engine.graph.op import Lowered, Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.roles import Role
from kbench.engine.ops.elementwise import arithmetic, compare
from kbench.engine.ops.elementwise.arithmetic import cast, where
from kbench.engine.ops.layout import indexing, reshape_copy  # noqa: F401 (x[i]; plans)
from kbench.engine.ops.layout.reshape import SQUEEZE, batched_rank, reshape_like
from kbench.engine.ops.layout.shape import IDENTITY, shape
from kbench.engine.runtime import config

# ------------------------------------------------------------------ the way back


def _spread_infer(g: Spec, x: Spec, *, axis: Axes) -> Spec:
    return Spec(x.shape, g.dtype)


def _spread_numpy(
    out: np.ndarray | None, g: np.ndarray, x: np.ndarray, *, axis: Axes
) -> np.ndarray:
    return _spread(g, x.shape, axis)


def _spread(g: np.ndarray, target: tuple[int, ...], axis: Axes) -> np.ndarray:
    kept = tuple(1 if i in axis else size for i, size in enumerate(target))
    return np.broadcast_to(g.reshape(kept), target)


def _spread_lower(specs: Sequence[Spec], attrs: Attrs) -> Lowered:
    return BROADCAST, {"target": specs[1].shape, "axis": attrs["axis"]}, (0,)


def _spread_gradient(
    g: Tensor, y: Tensor, z: Tensor, x: Tensor, *, axis: Axes
) -> tuple[Tensor | None, ...]:
    return reshape_like(sum(g, axis), z), None


def _spread_batched(
    node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]
) -> Tensor | None:
    if not mapped[1]:
        return None
    axes = tuple(axis + 1 for axis in node.attrs["axis"])
    return make_node(SPREAD, node, *inputs, axis=axes if mapped[0] else (0, *axes))


SPREAD: Op = register(
    Op(
        "spread",
        "view",
        _spread_infer,
        _spread_numpy,
        _spread_gradient,
        lower=_spread_lower,
        allocates=True,
        shapes=(1,),
        role=Role.REPEAT,
        batched=_spread_batched,
    )
)
BROADCAST = register(
    Op(
        "broadcast",
        "view",
        lambda g, *, target, axis: Spec(target, g.dtype),
        lambda out, g, *, target, axis: _spread(g, target, axis),
        None,
        allocates=True,
        role=Role.REPEAT,
    )
)


def spread(g: Tensor, x: Tensor, axis: Axes) -> Tensor:
    """`g`, reduced over `axis` of `x`, repeated along those axes to the shape of `x`."""
    return apply(SPREAD, g, x, axis=axis)


def _reduced_axes(g: Shape, x: Shape) -> Axes:
    """The axes of `g` over which broadcasting had repeated `x`."""
    lead = len(g) - len(x)
    return tuple(i for i, size in enumerate(g) if i < lead or (x[i - lead] == 1 and size != 1))


def _reduce_like_numpy(out: np.ndarray | None, g: np.ndarray, x: np.ndarray) -> np.ndarray:
    axes = _reduced_axes(g.shape, x.shape)
    return accumulated(g, axes, False, None).reshape(x.shape)


def _reduce_like_lower(specs: Sequence[Spec], _attrs: Attrs) -> Lowered | None:
    g, x = specs[0].shape, specs[1].shape
    axes = _reduced_axes(g, x)
    if not axes:
        return IDENTITY, {"stop": False}, (0,)
    if len(g) == len(x):
        return sum.op, {"axis": axes, "keepdims": True}, (0,)
    if axes == tuple(range(len(g) - len(x))):
        return sum.op, {"axis": axes, "keepdims": False}, (0,)
    return None


def _reduce_like_batched(
    node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]
) -> Tensor | None:
    g, x = inputs
    if not mapped[0]:
        return None
    if mapped[1]:
        wide = make_node(REDUCE_LIKE, node, g, batched_rank(x, g.ndim - 1))
        for _ in range(g.ndim - x.ndim):
            wide = make_node(SQUEEZE, node, wide, axis=1)
        return wide
    repeated = _repeated_axes(node.inputs[0].spec, x.spec)
    if repeated is None:
        return None
    lead = tuple(range(1, g.ndim - x.ndim))
    result = make_node(sum.op, node, g, axis=lead, keepdims=False) if lead else g
    if repeated:
        axes = tuple(axis + 1 for axis in repeated)
        result = make_node(sum.op, node, result, axis=axes, keepdims=True)
    return result


def _repeated_axes(g: Spec, x: Spec) -> Axes | None:
    """The axes of x over which broadcasting repeated it; None where that shows only later."""
    found = []
    for axis, (own, wide) in enumerate(zip(x.shape, g.shape[g.ndim - x.ndim :], strict=True)):
        if own is None or (own == 1 and wide is None):
            return None
        if own == 1 and wide != 1:
            found.append(axis)
    return tuple(found)


REDUCE_LIKE: Op = register(
    Op(
        "reduce_like",
        "structured",
        lambda g, x: Spec(x.shape, g.dtype),
        _reduce_like_numpy,
        lambda g, y, z, x: (arithmetic.add(g, z * 0), None),
        lower=_reduce_like_lower,
        allocates=True,
        shapes=(1,),
        role=Role.REDUCE_LIKE,
        batched=_reduce_like_batched,
    )
)


def reduce_like(g: Tensor, x: Tensor) -> Tensor:
    """`g` summed over the axes along which `x` was broadcast: the shape of `x`."""
    if g.spec.shape == x.spec.shape and known_size(x.spec.shape) is not None:
        return g
    return apply(REDUCE_LIKE, g, x)


# ------------------------------------------------------------------ sums and products


def accumulated(x: np.ndarray, axis: Axes, keepdims: bool, out: np.ndarray | None) -> np.ndarray:
    """The sum over axes in the dtype of `x`, to which it is rounded once."""
    return stored(added(x, axis, keepdims), out, x.dtype)


def stored(
    value: np.ndarray | float, out: np.ndarray | None, dtype: np.dtype[np.generic]
) -> np.ndarray:
    if out is None:
        return np.asarray(value, dtype=dtype)
    out[...] = value
    return out


@reduction(
    "sum",
    accumulated,
    "number",
    lambda g, y, x, *, axis, keepdims: (spread(g, x, axis),),
)
def sum(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum over `axis`, or over every axis.

    Arguments:
        x: any dtype; bool counts as int32. float16 and float32 add up in float64, float64 by
            halves or better.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor of the dtype of `x`; an empty sum is 0. Integers wrap around.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.sum`.

    >>> K.eval(K.sum(K.constant([[1.0, 2.0], [3.0, 4.0]]), axis=0))
    array([4., 6.], dtype=float32)
    """


def _multiplied(x: np.ndarray, axis: Axes, keepdims: bool, out: np.ndarray | None) -> np.ndarray:
    if x.dtype.kind == "f":
        return stored(product(x, axis, keepdims), out, x.dtype)
    return stored(folded(np.multiply, x, axis, keepdims, x.dtype), out, x.dtype)


def _product_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axes, keepdims: bool
) -> tuple[Tensor | None, ...]:
    zero = compare.equal(x, 0)
    filled = where(zero, x * 0 + 1, x)
    others = spread(apply(prod.op, filled, axis=axis, keepdims=keepdims), x, axis)
    zeros = spread(sum(cast(zero, x.spec.dtype), axis, keepdims), x, axis)
    alone = where(zero, compare.equal(zeros, 1), compare.equal(zeros, 0))
    return (spread(g, x, axis) * where(alone, others / filled, others * 0),)


@reduction(
    "prod",
    _multiplied,
    "number",
    _product_gradient,
)
def prod(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Product over `axis`, or over every axis.

    Arguments:
        x: any dtype; bool counts as int32. Floats are multiplied in float64, with exponents that
            have no bound: only the product itself must be within its dtype.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor of the dtype of `x`; an empty product is 1. Integers wrap around.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`, right where zeros are present.
    Source: Keras 2.3 `backend.prod`.

    >>> K.eval(K.prod(K.constant([[1.0, 2.0], [3.0, 4.0]]), axis=1))
    array([ 2., 12.], dtype=float32)
    """


# ------------------------------------------------------------------ extremes


def _extreme(ufunc: np.ufunc) -> Reducer:
    def run(x: np.ndarray, axis: Axes, keepdims: bool, out: np.ndarray | None) -> np.ndarray:
        if 0 in [x.shape[i] for i in axis]:
            lowest = _lowest(x.dtype, ufunc is np.maximum)
            return np.asarray(ufunc.reduce(x, axis=axis, keepdims=keepdims, initial=lowest))
        return np.asarray(ufunc.reduce(x, axis=axis, keepdims=keepdims, out=out))

    return run


def _lowest(dtype: np.dtype[np.generic], lowest: bool) -> float:
    if dtype.kind == "f":
        return -math.inf if lowest else math.inf
    if dtype.kind == "b":
        return not lowest
    limits = np.iinfo(dtype.name)
    return limits.min if lowest else limits.max


def _extreme_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axes, keepdims: bool
) -> tuple[Tensor | None, ...]:
    hit = cast(compare.equal(x, spread(y, x, axis)), x.spec.dtype)
    return (spread(g / sum(hit, axis, keepdims), x, axis) * hit,)


@reduction("max", _extreme(np.maximum), "same", _extreme_gradient)
def max(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Maximum over `axis`, or over every axis; NaN propagates.

    Arguments:
        x: any dtype.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor of the dtype of `x`; no elements give its lowest value, -inf for floats.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`, shared equally among the elements that reach the maximum.
    Source: Keras 2.3 `backend.max`.

    >>> K.eval(K.max(K.constant([[1.0, 7.0], [3.0, 4.0]]), axis=1))
    array([7., 4.], dtype=float32)
    """


@reduction("min", _extreme(np.minimum), "same", _extreme_gradient)
def min(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Minimum over `axis`, or over every axis; NaN propagates.

    Arguments:
        x: any dtype.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor of the dtype of `x`; no elements give its highest value, inf for floats.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`, shared equally among the elements that reach the minimum.
    Source: Keras 2.3 `backend.min`.

    >>> K.eval(K.min(K.constant([[1.0, 7.0], [3.0, 4.0]]), axis=1))
    array([1., 3.], dtype=float32)
    """


def _logical(ufunc: np.ufunc) -> Reducer:
    return lambda x, axis, keepdims, out: np.asarray(
        ufunc.reduce(x, axis=axis, keepdims=keepdims, out=out)
    )


def _no_gradient(g: Tensor, y: Tensor, x: Tensor, **_attrs: object) -> tuple[None]:
    return (None,)


@reduction("any", _logical(np.logical_or), "bool", _no_gradient)
def any(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether any element along `axis`, or of all, is true.

    Arguments:
        x: any dtype; numbers are true when they are not 0.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor bool; no elements give False.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: none.
    Source: Keras 2.3 `backend.any`.

    >>> K.eval(K.any(K.constant([[0.0, 2.0], [0.0, 0.0]]), axis=1))
    array([ True, False])
    """


@reduction("all", _logical(np.logical_and), "bool", _no_gradient)
def all(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether every element along `axis`, or of all, is true.

    Arguments:
        x: any dtype; numbers are true when they are not 0.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor bool; no elements give True.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: none.
    Source: Keras 2.3 `backend.all`.

    >>> K.eval(K.all(K.constant([[1.0, 2.0], [0.0, 1.0]]), axis=1))
    array([ True, False])
    """


# ------------------------------------------------------------------ statistics


def count(x: Tensor, axis: Axes, dtype: str) -> Operand:
    """Number of elements along `axis`: a Python number, or a tensor when known only later."""
    sizes = [x.spec.shape[i] for i in axis]
    if None not in sizes:
        return float(math.prod(size or 0 for size in sizes))
    actual = shape(x)
    total: Operand = 1
    for i in axis:
        total = cast(actual[i], "float64") * total  # an int32 would wrap around
    return cast(total, dtype)


def floating(x: Operand) -> Tensor:
    tensor = as_tensor(x)
    return tensor if is_float(tensor.spec.dtype) else converted(tensor, config.floatx())
