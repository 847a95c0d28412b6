"""Means, deviations and norms, made of sums; the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kbench.engine import cancel
from kbench.engine.op import Op, apply, register
from kbench.engine.ops.arithmetic import cast, maximum, multiply, where
from kbench.engine.ops.compare import equal
from kbench.engine.ops.elementary import exp, sqrt, square
from kbench.engine.ops.reduce import count, floating, spread, stored, sum
from kbench.engine.spec import Axis, Spec, check_axes, checked_flag, reduced_shape
from kbench.engine.tensor import Operand, Tensor

Axes = tuple[int, ...]
Form = Callable[[np.ndarray, np.ndarray], np.ndarray]
SLAB = 1 << 18  # elements of which the terms of a sum are made at a time, at most


def mean(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over `axis`, or over every axis.

    Arguments:
        x: any numeric dtype; bool and integers become `floatx()`, float16 adds up in float32.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor, float; NaN for no elements.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.mean`.

    >>> K.eval(K.mean(K.constant([1.0, 2.0, 6.0])))
    array(3., dtype=float32)
    """
    tensor = floating(x)
    axes = check_axes(axis, tensor.ndim)
    if tensor.spec.dtype == "float16":
        wide = cast(tensor, "float32")
        return cast(sum(wide, axes, keepdims) / count(wide, axes, "float32"), "float16")
    return sum(tensor, axes, keepdims) / count(tensor, axes, tensor.spec.dtype)


def var(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Variance over `axis`, or over every axis: the mean square distance from the mean.

    Arguments:
        x: any numeric dtype; bool and integers become `floatx()`, float16 adds up in float32.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor, float; NaN for no elements.
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
    axes = check_axes(axis, tensor.ndim)
    return apply(VARIANCE, tensor, axis=axes, keepdims=checked_flag(keepdims, "keepdims"))


def _variance_numpy(out: Any, x: np.ndarray, *, axis: Axes, keepdims: bool) -> np.ndarray:
    """The mean first, then the squares of distances from it."""
    with np.errstate(all="ignore"):
        size = math.prod(x.shape[i] for i in axis)
        centre = np.add.reduce(x, axis=axis, keepdims=True) / x.dtype.type(size)
        spread_out = _summed(lambda part, mean: np.square(part - mean), x, centre, axis) / size
        return stored(spread_out if keepdims else spread_out.squeeze(axis), out, x.dtype)


def _summed(term: Form, x: np.ndarray, about: np.ndarray, axis: Axes) -> np.ndarray:
    """The sums of `term(x, about)` over `axis`, in float64, without a temporary of x's size."""
    total = np.zeros(about.shape, np.float64)
    for window in _slabs(x.shape):
        place = tuple([slice(None) if at in axis else cut for at, cut in enumerate(window)])
        terms = np.asarray(term(x[window], about[place]))
        total[place] += np.add.reduce(terms, axis=axis, keepdims=True)
        cancel.check()
    return total


def _slabs(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Windows of at most `SLAB` elements, next to each other in memory, that cover the shape."""
    if 0 in shape:
        return
    cut = next((at for at in range(len(shape)) if math.prod(shape[at + 1 :]) <= SLAB), 0)
    length, rows = (*shape, 1)[cut], SLAB // math.prod(shape[cut + 1 :])
    for before in np.ndindex(shape[:cut]):
        outer = tuple([slice(at, at + 1) for at in before])
        for start in range(0, length, rows):
            yield (*outer, slice(start, start + rows))[: len(shape)]


def _variance_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: Axes, keepdims: bool) -> Any:
    slope = 2.0 * g / count(x, axis, x.spec.dtype)
    return (spread(slope, x, axis) * (x - mean(x, axis, keepdims=True)),)


VARIANCE = register(
    Op(
        "var",
        "structured",
        lambda x, *, axis, keepdims: Spec(reduced_shape(x.shape, axis, keepdims), x.dtype),
        _variance_numpy,
        _variance_gradient,
    )
)


def std(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Standard deviation over `axis`, or over every axis: the square root of `var`.

    Arguments:
        x: any numeric dtype; bool and integers become `floatx()`, float16 adds up in float32.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
        keepdims: whether reduced axes stay, with size 1.
    Returns:
        Tensor, float; NaN for no elements.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`; not finite where the deviation is 0.
    Source: Keras 2.3 `backend.std`.

    >>> K.eval(K.std(K.constant([1.0, 3.0, 5.0, 7.0]))).round(3)
    np.float32(2.236)
    """
    return sqrt(var(x, axis, keepdims))


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


def _logsumexp_numpy(out: Any, x: np.ndarray, *, axis: Axes, keepdims: bool) -> np.ndarray:
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    with np.errstate(all="ignore"):
        return stored(_logsumexp_wide(wide, axis, keepdims), out, x.dtype)


def _logsumexp_wide(wide: np.ndarray, axis: Axes, keepdims: bool) -> np.ndarray:
    lowest = np.maximum.reduce(wide, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(lowest), lowest, 0)
    total = np.log(_summed(lambda part, top: np.exp(part - top), wide, shift, axis)) + shift
    return total if keepdims else total.squeeze(axis)


def _logsumexp_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: Axes, keepdims: bool) -> Any:
    top = spread(y, x, axis)
    share = exp(x - where(equal(top, -math.inf), x * 0, top))
    return (spread(g, x, axis) * share,)


LOGSUMEXP = register(
    Op(
        "logsumexp",
        "structured",
        lambda x, *, axis, keepdims: Spec(reduced_shape(x.shape, axis, keepdims), x.dtype),
        _logsumexp_numpy,
        _logsumexp_gradient,
    )
)


def l2_normalize(x: Operand, axis: Axis = None) -> Tensor:
    """`x` divided by its Euclidean length along `axis`; lengths below 1e-6 count as that.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
        axis: integer, list of integers, or None for every axis; negative counts from the end.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        ShapeError: no such axis. ArgumentError: an axis that is no integer, or named twice.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.l2_normalize`.

    >>> K.eval(K.l2_normalize(K.constant([[3.0, 4.0]]), axis=1))
    array([[0.6, 0.8]], dtype=float32)
    """
    tensor = floating(x)
    squares = sum(square(tensor), axis, keepdims=True)
    return multiply(tensor, 1.0 / sqrt(maximum(squares, 1e-12)))
