"""Means, deviations and norms, made of sums; the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kbench.engine.op import Op, apply, register
from kbench.engine.ops.arithmetic import cast, maximum, multiply, where
from kbench.engine.ops.compare import equal
from kbench.engine.ops.elementary import exp, sqrt, square
from kbench.engine.ops.reduce import floating, stored, count, spread, sum
from kbench.engine.spec import Axis, Spec, check_axes, reduced_shape
from kbench.engine.tensor import Operand, Tensor

Axes = tuple[int, ...]


def mean(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean over `axis`, or over every axis; NaN for no elements.

    bool and integers become `floatx()`; float16 is accumulated in float32. Gradient: to `x`.

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
    """Variance over `axis`, or over every axis, divided by the number of elements.

    bool and integers become `floatx()`. Gradient: to `x`.
    """
    tensor = floating(x)
    if tensor.spec.dtype == "float16":
        return cast(var(cast(tensor, "float32"), axis, keepdims), "float16")
    return mean(square(tensor - mean(tensor, axis, keepdims=True)), axis, keepdims)


def std(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Standard deviation over `axis`, or over every axis: the square root of `var`.

    Gradient: to `x`; not finite where the variance is 0.
    """
    return sqrt(var(x, axis, keepdims))


def logsumexp(x: Operand, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """log(sum(exp(x))) over `axis`, or over every axis, without overflow; all -inf give -inf.

    Integers become `floatx()`. Gradient: to `x`, its softmax.

    >>> K.eval(K.logsumexp(K.constant([1000.0, -1000.0])))
    array(1000., dtype=float32)
    """
    tensor = floating(x)
    axes = check_axes(axis, tensor.ndim)
    return apply(LOGSUMEXP, tensor, axis=axes, keepdims=bool(keepdims))


def _logsumexp_numpy(out: Any, x: np.ndarray, *, axis: Axes, keepdims: bool) -> np.ndarray:
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    with np.errstate(all="ignore"):
        return stored(_logsumexp_wide(wide, axis, keepdims), out, x.dtype)


def _logsumexp_wide(wide: np.ndarray, axis: Axes, keepdims: bool) -> np.ndarray:
    lowest = np.maximum.reduce(wide, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(lowest), lowest, 0)
    total = np.log(np.add.reduce(np.exp(wide - shift), axis=axis, keepdims=True)) + shift
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

    Gradient: to `x`.
    """
    tensor = floating(x)
    squares = sum(square(tensor), axis, keepdims=True)
    return multiply(tensor, 1.0 / sqrt(maximum(squares, 1e-12)))
