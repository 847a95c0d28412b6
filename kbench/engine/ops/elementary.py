"""Elementary functions, element by element: powers, exponentials, rounding, trigonometry."""

from __future__ import annotations

from typing import Any

import numpy as np

from kbench.engine.declare import elementwise
from kbench.engine.errors import ArgumentError
from kbench.engine.operands import Constant, as_tensor, tensors_of
from kbench.engine.ops.arithmetic import where
from kbench.engine.ops.compare import equal
from kbench.engine.spec import is_float
from kbench.engine.tensor import Operand, Tensor, operator


@operator("__abs__")
@elementwise("abs(x)", "number", lambda g, y, x: (g * sign(x),))
def abs(x: Operand) -> Tensor:
    """Absolute value. Any numeric dtype. Gradient: `sign(x)`, 0 at 0.

    >>> K.eval(K.abs(K.constant([-2.0, 3.0])))
    array([2., 3.], dtype=float32)
    """


@elementwise("sign(x)", "number", lambda g, y, x: (_zeros(x),))
def sign(x: Operand) -> Tensor:
    """-1, 0 or 1 in the dtype of `x`; NaN stays NaN. Gradient: zero everywhere."""


@elementwise("square(x)", "number", lambda g, y, x: (g * x * 2,))
def square(x: Operand) -> Tensor:
    """`x * x`. Any numeric dtype. Gradient: `2 x`.

    >>> K.eval(K.square(K.constant([2.0, 3.0])))
    array([4., 9.], dtype=float32)
    """


def _sqrt_gradient(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    return (where(x < 0, 0.0, g * 0.5 / y),)


@elementwise("sqrt(where(x < 0, 0, x))", "float", _sqrt_gradient)
def sqrt(x: Operand) -> Tensor:
    """Square root; negative values give 0, NaN stays NaN.

    Integers become `floatx()`. Gradient: `1 / (2 sqrt(x))`, infinite at 0, and 0 for negatives.

    >>> K.eval(K.sqrt(K.constant([4.0, -1.0])))
    array([2., 0.], dtype=float32)
    """


@elementwise("exp(x)", "float", lambda g, y, x: (g * y,))
def exp(x: Operand) -> Tensor:
    """e to the power of `x`; overflow gives inf. Integers become `floatx()`. Gradient: to `x`."""


@elementwise("log(x)", "float", lambda g, y, x: (g / x,))
def log(x: Operand) -> Tensor:
    """Natural logarithm; 0 gives -inf and negatives NaN, silently. Gradient: `1 / x`."""


@elementwise("sin(x)", "float", lambda g, y, x: (g * cos(x),))
def sin(x: Operand) -> Tensor:
    """Sine of every element, in radians. Integers become `floatx()`. Gradient: `cos(x)`."""


@elementwise("cos(x)", "float", lambda g, y, x: (-g * sin(x),))
def cos(x: Operand) -> Tensor:
    """Cosine of every element, in radians. Integers become `floatx()`. Gradient: `-sin(x)`."""


@elementwise("rint(x)", "float", lambda g, y, x: (None,))
def _round(x: Operand) -> Tensor:
    """Nearest integer of floats, ties to even."""


def round(x: Operand) -> Tensor:
    """Nearest integer, ties to even, in the dtype of `x`. Gradient: zero everywhere.

    >>> K.eval(K.round(K.constant([0.5, 1.5, -2.5])))
    array([ 0.,  2., -2.], dtype=float32)
    """
    tensor = as_tensor(x)
    return _round(tensor) if is_float(tensor.spec.dtype) else tensor


def _zeros(x: Tensor) -> Tensor:
    from kbench.engine.ops.create import zeros_like

    return zeros_like(x)


def _power_gradient(g: Tensor, y_: Tensor, x: Tensor, y: Tensor) -> tuple[Any, Any]:
    to_base = g * y * _power(x, y - 1)
    if not (isinstance(y, Constant) and y.value.all()):
        to_base = where(equal(y, 0), 0.0, to_base)  # x ** 0 is 1 at 0 too
    positive = x > 0
    return to_base, where(positive, g * y_ * log(where(positive, x, 1.0)), 0.0)


def _no_negative_power(x: Any, y: np.ndarray) -> None:
    if y.dtype.kind == "i" and (y < 0).any():
        raise ArgumentError("integers have no negative powers; cast to a float first")


@elementwise("pow(x, y)", "number", _power_gradient, check=_no_negative_power)
def _power(x: Operand, y: Operand) -> Tensor:
    """`x` to the power `y`, with broadcasting."""


@operator("__pow__")
def pow(x: Operand, a: Operand) -> Tensor:
    """`x` to the power `a`, with broadcasting; also `x ** a`.

    A negative base with a fractional exponent gives NaN.
    Raises:
        ArgumentError: integers with a negative exponent, at the call where it is known, else at
            evaluation.
    Gradient: to `x`, and to `a` when it is a tensor.

    >>> K.eval(K.pow(K.constant([2.0, 3.0]), 2))
    array([4., 9.], dtype=float32)
    """
    base, exponent = tensors_of(x, a)
    if isinstance(exponent, Constant) and not is_float(base.spec.dtype):
        _no_negative_power(base, exponent.value)
    return _power(base, exponent)
