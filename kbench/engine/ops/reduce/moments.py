"""Means, deviations and norms, made of sums; the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.folds.summation import added, added_in_order
from kbench.engine.core.spec import Spec, check_axes, checked_flag, reduced_shape
from kbench.engine.core.types import Axes, Axis
from kbench.engine.graph.apply import apply, make_node
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.declare import reduction
from kbench.engine.graph.expr.expression import Expr, call
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.batching import batched_along
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.traits.row_form import RowBuilder, RowForm
from kbench.engine.ops.elementwise.arithmetic import (
    add,
    cast,
    maximum,
    minimum,
    multiply,
    subtract,
    where,
)
from kbench.engine.ops.elementwise.compare import equal
from kbench.engine.ops.elementwise.elementary import exp, log, sqrt, square
from kbench.engine.ops.reduce.reduction import count, floating, max, spread, stored, sum

Term = Callable[[np.ndarray, np.ndarray], np.ndarray]
SLAB_ELEMENTS = 1 << 16
"""Elements of which the terms of a sum are made at a time, at most: half a megabyte."""


def _averaged(x: np.ndarray, axis: Axes, keepdims: bool, out: np.ndarray | None) -> np.ndarray:
    total = added(x, axis, keepdims) / math.prod([x.shape[at] for at in axis])
    return stored(total, out, x.dtype)


def _mean_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axes, keepdims: bool
) -> tuple[Tensor | None, ...]:
    if x.spec.dtype != "float16":
        return (spread(g / count(x, axis, x.spec.dtype), x, axis),)
    share = cast(g, "float32") / count(x, axis, "float32")  # the number may be beyond float16
    return (spread(cast(share, "float16"), x, axis),)


@reduction("mean", _averaged, "float", _mean_gradient)
def mean(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over `axis`, or over every axis.

    Arguments:
        x: any numeric dtype; bool and integers become `floatx()`. It adds up and divides in
            float64, and is rounded once.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor, float, of the shape of `x` without `axis`; NaN for no elements.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.mean`.

    >>> K.eval(K.mean(K.constant([1.0, 2.0, 6.0])))
    array(3., dtype=float32)
    """


def var(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Variance over `axis`, or over every axis: the mean square distance from the mean.

    Arguments:
        x: any numeric dtype; bool and integers become `floatx()`. It adds up in float64.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor, float, of the shape of `x` without `axis`; NaN for no elements.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.var`.

    >>> K.eval(K.var(K.constant([[1.0, 3.0], [2.0, 2.0]]), axis=1))
    array([1., 0.], dtype=float32)
    """
    tensor = floating(x)
    if tensor.spec.dtype == "float16":
        return cast(var(cast(tensor, "float32"), axis, keepdims), "float16")
    return _spread_of(tensor, axis, keepdims, tensor.spec.dtype)


def _spread_of(x: Tensor, axis: Axis, keepdims: bool, dtype: str) -> Tensor:
    """The variance as `dtype`."""
    axes = check_axes(axis, x.ndim)
    kept = checked_flag(keepdims, "keepdims")
    return apply(VARIANCE, x, axis=axes, keepdims=kept, dtype=dtype)


def _variance_numpy(
    out: np.ndarray | None, x: np.ndarray, *, axis: Axes, keepdims: bool, dtype: str
) -> np.ndarray:
    """The mean first, then the squares of distances from it, in float64."""
    size = math.prod([x.shape[i] for i in axis])
    near = _first(x, axis)  # of equal numbers no sum may make others
    centre = near + _summed(np.subtract, x, near, axis) / size
    found = _summed(lambda part, mean: np.square(part - mean), x, centre, axis) / size
    return stored(found if keepdims else found.squeeze(axis), out, np.dtype(dtype))


def _first(x: np.ndarray, axis: Axes) -> np.ndarray:
    """The first elements along axes, as float64; 0 where they are not finite."""
    place = tuple([slice(1) if at in axis else slice(None) for at in range(x.ndim)])
    found = np.zeros([1 if at in axis else size for at, size in enumerate(x.shape)])
    if found.size and x.size:
        np.copyto(found, x[place], where=np.isfinite(x[place]))
    return found


def _summed(term: Term, x: np.ndarray, about: np.ndarray, axis: Axes) -> np.ndarray:
    """The sums of `term(x, about)` over `axis`, in float64, without a temporary of x's size."""
    adding = added if x.dtype == np.float64 else added_in_order
    if 0 < x.size <= SLAB_ELEMENTS:
        return adding(np.asarray(term(x, about)), axis, keepdims=True) + 0.0  # -0.0 as below
    total = np.zeros(about.shape)
    carry = np.zeros(about.shape)
    for window in _slabs(x.shape):
        place = tuple([slice(None) if at in axis else cut for at, cut in enumerate(window)])
        part = adding(np.asarray(term(x[window], about[place])), axis, keepdims=True)
        joint = total[place] + part
        rest = joint - total[place]
        carry[place] += (total[place] - (joint - rest)) + (part - rest)  # what rounding took
        total[place] = joint
        cancel.check()
    return np.where(np.isnan(carry), total, total + carry)


def _slabs(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Windows of at most `SLAB_ELEMENTS`, next to each other in memory, that cover the shape."""
    if 0 in shape:
        return
    cut = next((at for at in range(len(shape)) if math.prod(shape[at + 1 :]) <= SLAB_ELEMENTS), 0)
    length, rows = (*shape, 1)[cut], SLAB_ELEMENTS // math.prod(shape[cut + 1 :])
    for before in np.ndindex(shape[:cut]):
        outer = tuple([slice(at, at + 1) for at in before])
        for start in range(0, length, rows):
            yield (*outer, slice(start, start + rows))[: len(shape)]


def _variance_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axes, keepdims: bool, dtype: str
) -> tuple[Tensor | None, ...]:
    wide = x if dtype == x.spec.dtype else cast(x, dtype)
    slope = 2.0 * g / count(x, axis, dtype)
    apart = wide - mean(wide, axis, keepdims=True)
    if dtype == "float64":  # whose mean of equal numbers may be another, by its last digit
        apart = where(equal(spread(y, x, axis), 0.0), wide * 0.0, apart)
    found = spread(slope, x, axis) * apart
    return (found if wide is x else cast(found, x.spec.dtype),)


def _variance_written(rows: RowBuilder, dtype: str, x: Expr) -> Expr:
    return rows.variance(x, dtype)


VARIANCE = register(
    Op(
        "var",
        "structured",
        lambda x, *, axis, keepdims, dtype: Spec(reduced_shape(x.shape, axis, keepdims), dtype),
        _variance_numpy,
        _variance_gradient,
        fold="var",
        role=Role.FOLD,
        rows=RowForm(_variance_written, dear=True),
    )
)


def std(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Standard deviation over `axis`, or over every axis: the square root of the variance.

    Arguments:
        x: any numeric dtype; bool and integers become `floatx()`. It is computed in float64, so
            that squares neither overflow nor vanish where the deviation does not.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor, float, of the shape of `x` without `axis`; NaN for no elements.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`; NaN where the deviation is 0.
    Source: Keras 2.3 `backend.std`.

    >>> K.eval(K.std(K.constant([1.0, 3.0, 5.0, 7.0]))).round(3)
    np.float32(2.236)
    """
    tensor = floating(x)
    if tensor.spec.dtype == "float16":
        return cast(std(cast(tensor, "float32"), axis, keepdims), "float16")
    return cast(sqrt(_spread_of(tensor, axis, keepdims, "float64")), tensor.spec.dtype)


def logsumexp(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """`log(sum(exp(x)))` over `axis`, or over every axis, without overflow.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor, float; -inf when every element is -inf, or none is there.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`, its softmax.
    Source: Keras 2.3 `backend.logsumexp`.

    >>> K.eval(K.logsumexp(K.constant([1000.0, -1000.0])))
    array(1000., dtype=float32)
    """
    tensor = floating(x)
    axes = check_axes(axis, tensor.ndim)
    return apply(LOGSUMEXP, tensor, axis=axes, keepdims=checked_flag(keepdims, "keepdims"))


def _logsumexp_numpy(
    out: np.ndarray | None, x: np.ndarray, *, axis: Axes, keepdims: bool
) -> np.ndarray:
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    return stored(_logsumexp_wide(wide, axis, keepdims), out, x.dtype)


def _logsumexp_wide(wide: np.ndarray, axis: Axes, keepdims: bool) -> np.ndarray:
    lowest = np.maximum.reduce(wide, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(lowest), lowest, 0)
    total: np.ndarray = (
        np.log(_summed(lambda part, top: np.exp(part - top), wide, shift, axis)) + shift
    )
    return total if keepdims else total.squeeze(axis)


def _logsumexp_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: Axes, keepdims: bool
) -> tuple[Tensor | None, ...]:
    top = spread(y, x, axis)
    share = exp(x - where(equal(top, -math.inf), x * 0, top))
    return (spread(g, x, axis) * share,)


def _logsumexp_decomposed(node: Tensor, axes: Axes) -> Tensor:
    """log(sum(exp(x - top))) + top"""
    (x,) = node.inputs
    most = as_tensor(np.finfo(node.spec.dtype).max, like=node.spec.dtype)
    least = as_tensor(np.finfo(node.spec.dtype).min, like=node.spec.dtype)
    top = make_node(max.op, node, x, axis=axes, keepdims=True)
    top = make_node(minimum.op, node, top, most)  # no inf - inf
    top = make_node(maximum.op, node, top, least)
    share = make_node(exp.op, node, make_node(subtract.op, node, x, top))
    whole = make_node(sum.op, node, share, axis=axes, keepdims=True)
    result = make_node(add.op, node, make_node(log.op, node, whole), top)
    if node.attrs["keepdims"]:
        return result
    return make_node(sum.op, node, result, axis=axes, keepdims=False)  # of one element each


def _logsumexp_written(rows: RowBuilder, dtype: str, x: Expr) -> Expr:
    top, _, total = rows.exponentials(x, dtype)
    whole = top + call("log", total)
    return rows.node(call("where", call("isinf", top), top, whole), dtype)


LOGSUMEXP = register(
    Op(
        "logsumexp",
        "structured",
        lambda x, *, axis, keepdims: Spec(reduced_shape(x.shape, axis, keepdims), x.dtype),
        _logsumexp_numpy,
        _logsumexp_gradient,
        role=Role.FOLD,
        batched=batched_along("axis"),
        decomposed=_logsumexp_decomposed,
        rows=RowForm(_logsumexp_written, dear=True, sole=True),
    )
)


def l2_normalize(x: Operand, axis: Axis = None) -> Tensor:
    """`x` divided by its Euclidean length along `axis`; lengths below 1e-6 count as that.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`. The length is computed
            in float64, where squares of float32 do not overflow.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`; where all is 0 it is 1e6, which is inf in float16.
    Source: Keras 2.3 `backend.l2_normalize`.

    >>> K.eval(K.l2_normalize(K.constant([[3.0, 4.0]]), axis=1))
    array([[0.6, 0.8]], dtype=float32)
    """
    tensor = floating(x)
    if tensor.spec.dtype == "float16":
        return cast(l2_normalize(cast(tensor, "float32"), axis), "float16")
    squares = sum(square(cast(tensor, "float64")), axis, keepdims=True)
    return multiply(tensor, cast(1.0 / sqrt(maximum(squares, 1e-12)), tensor.spec.dtype))
