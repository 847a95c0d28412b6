"""Activation functions: elementwise expressions, and softmax along an axis."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.folds.summation import added
from kbench.engine.core.spec import Spec, check_axis, is_float
from kbench.engine.core.types import Axes
from kbench.engine.graph.apply import apply, make_node
from kbench.engine.graph.convert import as_tensor, converted, to_array
from kbench.engine.graph.declare import elementwise
from kbench.engine.graph.expr.expression import Expr, number_leaf
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.batching import batched_along
from kbench.engine.graph.traits.row_form import RowBuilder, RowForm, Shares
from kbench.engine.ops.elementwise.arithmetic import clip, divide, minimum, subtract, where
from kbench.engine.ops.elementwise.compare import logical_and
from kbench.engine.ops.elementwise.elementary import exp
from kbench.engine.ops.reduce.reduction import max as largest
from kbench.engine.ops.reduce.reduction import sum as total
from kbench.engine.runtime import config

BLOCK_ELEMENTS = 1 << 16
"""Elements that softmax works on at a time, so that they stay in the cache."""

# ------------------------------------------------------------------ rectified


@elementwise("maximum(x, 0)", "number", lambda g, y, x: (where(x > 0, g, 0),))
def _relu(x: Operand) -> Tensor:
    """The positive part of `x`."""


Value = TypeVar("Value")


def _number(value: Value) -> Value | float:
    """A Python number for anything of one element, as layers pass arrays of one."""
    if isinstance(value, Tensor):
        return value
    single = isinstance(value, (np.ndarray, np.generic)) and value.size == 1
    if single or (isinstance(value, (list, tuple)) and len(value) == 1):
        array = to_array(value)
        return array.item() if array.size == 1 else value
    return value


def _is_zero(value: object) -> bool:
    return isinstance(value, (int, float)) and value == 0


def relu(
    x: Operand,
    alpha: Operand = 0.0,
    max_value: Operand | None = None,
    threshold: Operand = 0.0,
) -> Tensor:
    """`x` above a threshold, a line of slope `alpha` below it; NaN stays NaN.

    Arguments:
        x: any numeric dtype and shape.
        alpha: slope at and below the threshold, where the result is `alpha * (x - threshold)`.
        max_value: None, or the largest result; it also holds the upper part at 0 or above.
        threshold: values above it pass.
    Returns:
        Tensor of the shape and dtype of `x`.
    Raises:
        DtypeError: no array of numbers. ShapeError: a bound does not broadcast over `x`.
    Gradient: to `x`: 1 above the threshold and within `max_value`, 0 beyond, `alpha` below.
    Source: Keras 2.3 `backend.relu`.

    >>> K.eval(K.relu(K.constant([-2.0, 0.5, 8.0]), alpha=0.5, max_value=6.0))
    array([-1. ,  0.5,  6. ], dtype=float32)
    """
    tensor = as_tensor(x)
    slope, limit, start = _number(alpha), _number(max_value), _number(threshold)
    if _is_zero(slope) and _is_zero(start) and limit is None:
        return _relu(tensor)
    upper = tensor if limit is None else clip(tensor, 0, limit)
    if _is_zero(slope):
        return where(tensor <= start, 0, upper)
    if limit is None and _is_zero(start) and isinstance(slope, float):
        slope = float(np.float32(slope))  # the precision that TensorFlow keeps of this slope
    below = tensor if _is_zero(start) else tensor - start
    return where(tensor <= start, below * slope, upper)


def _elu_gradient(g: Tensor, y: Tensor, x: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    positive = x > 0
    tail = exp(minimum(x, 0))
    return where(positive, g, g * alpha * tail), where(positive, 0, g * (tail - 1))


@elementwise("where(x > 0, x, alpha * expm1(x))", "float", _elu_gradient)
def _elu(x: Operand, alpha: Operand) -> Tensor:
    """`x` where positive, else `alpha * (exp(x) - 1)`."""


def elu(x: Operand, alpha: Operand = 1.0) -> Tensor:
    """Exponential linear unit: `x` where positive, else `alpha * (exp(x) - 1)`.

    Arguments:
        x: any shape; integers become `floatx()`.
        alpha: number or tensor, the depth of the negative side.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: no array of numbers. ShapeError: `alpha` does not broadcast over `x`.
    Gradient: to `x`, and to `alpha` when it is a tensor.
    Source: Keras 2.3 `backend.elu`.

    >>> K.eval(K.elu(K.constant([0.0, 2.0])))
    array([0., 2.], dtype=float32)
    """
    return _elu(x, _number(alpha))


# ------------------------------------------------------------------ smooth steps


def _softplus_gradient(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    return (g * sigmoid(x),)


@elementwise("softplus(x)", "float", _softplus_gradient)
def softplus(x: Operand) -> Tensor:
    """`log(1 + exp(x))` of every element, without overflow: large `x` gives `x`.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `sigmoid(x)`.
    Source: Keras 2.3 `backend.softplus`.

    >>> K.eval(K.softplus(K.constant([0.0, 100.0]))).round(3)
    array([  0.693, 100.   ], dtype=float32)
    """


def _softsign_gradient(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    size = where(x < 0, -x, x) + 1
    return (g / (size * size),)


@elementwise("x / (1 + abs(x))", "float", _softsign_gradient)
def softsign(x: Operand) -> Tensor:
    """`x / (1 + |x|)` of every element; NaN at the infinities.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `1 / (1 + |x|) ** 2`.
    Source: Keras 2.3 `backend.softsign`.

    >>> K.eval(K.softsign(K.constant([-1.0, 3.0])))
    array([-0.5 ,  0.75], dtype=float32)
    """


@elementwise("sigmoid(x)", "float", lambda g, y, x: (g * y * (1 - y),))
def sigmoid(x: Operand) -> Tensor:
    """`1 / (1 + exp(-x))` of every element, without overflow.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `y (1 - y)`.
    Source: Keras 2.3 `backend.sigmoid`.

    >>> K.eval(K.sigmoid(K.constant([0.0, -1000.0])))
    array([0.5, 0. ], dtype=float32)
    """


def _hard_sigmoid_gradient(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    line = x * 0.2 + 0.5
    return (where(logical_and(line >= 0, line <= 1), g * 0.2, 0),)


@elementwise("minimum(maximum(x * 0.2 + 0.5, 0), 1)", "float", _hard_sigmoid_gradient)
def hard_sigmoid(x: Operand) -> Tensor:
    """`0.2 x + 0.5` held between 0 and 1: a cheap stand-in for `sigmoid`.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: 0.2 between -2.5 and 2.5, else 0.
    Source: Keras 2.3 `backend.hard_sigmoid`.

    >>> K.eval(K.hard_sigmoid(K.constant([-3.0, 0.0, 1.0])))
    array([0. , 0.5, 0.7], dtype=float32)
    """


@elementwise("tanh(x)", "float", lambda g, y, x: (g * (1 - y * y),))
def tanh(x: Operand) -> Tensor:
    """Hyperbolic tangent of every element.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `1 - y * y`.
    Source: Keras 2.3 `backend.tanh`.

    >>> K.eval(K.tanh(K.constant([0.0, 100.0])))
    array([0., 1.], dtype=float32)
    """


# ------------------------------------------------------------------ softmax


def _softmax_rows(out: np.ndarray, x: np.ndarray, axis: int) -> None:
    top = np.maximum.reduce(x, axis=axis, keepdims=True)
    np.subtract(x, top, out=out)
    np.exp(out, out=out)
    whole = added(out, (axis % out.ndim,), keepdims=True)
    np.divide(out, whole.astype(out.dtype), out=out)


def _softmax_numpy(out: np.ndarray | None, x: np.ndarray, *, axis: int) -> np.ndarray:
    if out is None:
        out = np.empty(x.shape, x.dtype)
    if not x.size:
        return out
    if x.dtype == np.float16:
        out[...] = _softmax_numpy(None, x.astype(np.float32), axis=axis)
        return out
    if axis == 0 or x.size <= BLOCK_ELEMENTS:
        _softmax_rows(out, x, axis)
        return out
    rows = max(1, BLOCK_ELEMENTS * x.shape[0] // x.size)
    for start in range(0, x.shape[0], rows):
        _softmax_rows(out[start : start + rows], x[start : start + rows], axis)
        cancel.check()
    return out


def _softmax_gradient(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> tuple[Tensor]:
    return (y * (g - total(g * y, axis, keepdims=True)),)


def _softmax_decomposed(node: Tensor, axes: Axes) -> Tensor:
    """exp(x - top) / sum(exp(x - top))"""
    (x,) = node.inputs
    top = make_node(largest.op, node, x, axis=axes, keepdims=True)
    share = make_node(exp.op, node, make_node(subtract.op, node, x, top))
    return make_node(
        divide.op, node, share, make_node(total.op, node, share, axis=axes, keepdims=True)
    )


def _softmax_written(rows: RowBuilder, dtype: str, x: Expr) -> Expr:
    top, grown, whole = rows.exponentials(x, dtype)
    scale = rows.node(number_leaf(1) / whole, dtype)
    shares = rows.node(grown * scale, dtype)
    rows.shares[shares] = Shares(x, top, whole, scale)
    return shares


SOFTMAX = register(
    Op(
        "softmax",
        "structured",
        lambda x, *, axis: Spec(x.shape, x.dtype),
        _softmax_numpy,
        _softmax_gradient,
        batched=batched_along("axis"),
        decomposed=_softmax_decomposed,
        rows=RowForm(_softmax_written, dear=True, sole=True),
    )
)


def softmax(x: Operand, axis: int = -1) -> Tensor:
    """exp(x) divided by its sum along `axis`, without overflow.

    Arguments:
        x: rank 1 or more; integers become `floatx()`, float16 computes in float32.
        axis: the axis along which the results sum to 1.
    Returns:
        Tensor of the shape of `x`. An axis that holds inf, NaN, or only -inf gives NaN.
    Raises:
        ShapeError: no such axis.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.softmax`.

    >>> K.eval(K.softmax(K.constant([[1000.0, 1000.0]])))
    array([[0.5, 0.5]], dtype=float32)
    """
    tensor = as_tensor(x)
    if not is_float(tensor.spec.dtype):
        tensor = converted(tensor, config.floatx())
    return apply(SOFTMAX, tensor, axis=check_axis(axis, tensor.ndim))
