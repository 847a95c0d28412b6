"""Elementary functions, element by element: powers, exponentials, rounding, trigonometry."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.spec import is_float
from kbench.engine.graph.convert import Constant, as_tensor, tensors_of
from kbench.engine.graph.declare import elementwise
from kbench.engine.graph.tensor import Operand, Tensor, operator
from kbench.engine.graph.traits.laws import is_number, same_spec
from kbench.engine.graph.traits.roles import Role
from kbench.engine.ops.elementwise.arithmetic import multiply, where
from kbench.engine.ops.elementwise.compare import equal

_ERF_SLOPE = 1.1283791670955126
"""2 / sqrt(pi): the slope of the error function at 0."""


def _abs_gradient(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    return (g * sign(x),)


@operator("__abs__")
@elementwise("abs(x)", "number", _abs_gradient)
def abs(x: Operand) -> Tensor:
    """Absolute value of every element; also `abs(x)`.

    Arguments:
        x: any numeric dtype and shape; bool becomes int32.
    Returns:
        Tensor of the shape of `x` and its dtype.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `sign(x)`, 0 at 0.
    Source: Keras 2.3 `backend.abs`.

    >>> K.eval(K.abs(K.constant([-2.0, 3.0])))
    array([2., 3.], dtype=float32)
    """


@elementwise("sign(x)", "number", lambda g, y, x: (_zeros(x),))
def sign(x: Operand) -> Tensor:
    """-1, 0 or 1 for every element; NaN stays NaN.

    Arguments:
        x: any numeric dtype and shape; bool becomes int32.
    Returns:
        Tensor of the shape of `x` and its dtype.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: zero everywhere.
    Source: Keras 2.3 `backend.sign`.

    >>> K.eval(K.sign(K.constant([-2.0, 0.0, 5.0])))
    array([-1.,  0.,  1.], dtype=float32)
    """


@elementwise("square(x)", "number", lambda g, y, x: (g * x * 2,))
def square(x: Operand) -> Tensor:
    """Every element times itself; integers wrap around as they do in NumPy.

    Arguments:
        x: any numeric dtype and shape; bool becomes int32.
    Returns:
        Tensor of the shape of `x` and its dtype.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `2 x`.
    Source: Keras 2.3 `backend.square`.

    >>> K.eval(K.square(K.constant([2.0, 3.0])))
    array([4., 9.], dtype=float32)
    """


def _sqrt_gradient(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    return (where(x < 0, 0.0, g * 0.5 / y),)


@elementwise("sqrt(where(x < 0, 0, x))", "float", _sqrt_gradient)
def sqrt(x: Operand) -> Tensor:
    """Square root of every element; negative values give 0, NaN stays NaN.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `1 / (2 sqrt(x))`, infinite at 0, and 0 for negatives.
    Source: Keras 2.3 `backend.sqrt`.

    >>> K.eval(K.sqrt(K.constant([4.0, -1.0])))
    array([2., 0.], dtype=float32)
    """


@elementwise("exp(x)", "float", lambda g, y, x: (g * y,))
def exp(x: Operand) -> Tensor:
    """e to the power of every element; overflow gives inf.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `exp(x)`.
    Source: Keras 2.3 `backend.exp`.

    >>> K.eval(K.exp(K.constant([0.0, 1.0]))).round(3)
    array([1.   , 2.718], dtype=float32)
    """


@elementwise("log(x)", "float", lambda g, y, x: (g / x,))
def log(x: Operand) -> Tensor:
    """Natural logarithm of every element; 0 gives -inf and negatives NaN, without a warning.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `1 / x`.
    Source: Keras 2.3 `backend.log`.

    >>> K.eval(K.log(K.constant([1.0, 0.0])))
    array([  0., -inf], dtype=float32)
    """


def _sin_gradient(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    return (g * cos(x),)


@elementwise("sin(x)", "float", _sin_gradient)
def sin(x: Operand) -> Tensor:
    """Sine of every element, in radians.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `cos(x)`.
    Source: Keras 2.3 `backend.sin`.

    >>> K.eval(K.sin(K.constant([0.0, 1.0]))).round(3)
    array([0.   , 0.841], dtype=float32)
    """


@elementwise("cos(x)", "float", lambda g, y, x: (-g * sin(x),))
def cos(x: Operand) -> Tensor:
    """Cosine of every element, in radians.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `-sin(x)`.
    Source: Keras 2.3 `backend.cos`.

    >>> K.eval(K.cos(K.constant([0.0, 1.0]))).round(3)
    array([1.  , 0.54], dtype=float32)
    """


def _erf_gradient(g: Tensor, y: Tensor, x: Tensor) -> tuple[Tensor]:
    return (g * exp(-square(x)) * _ERF_SLOPE,)


@elementwise("erf(x)", "float", _erf_gradient)
def erf(x: Operand) -> Tensor:
    """The error function of every element: the share of a normal distribution within `x` sqrt(2).

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float, between -1 and 1.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `2 / sqrt(pi) exp(-x x)`.
    Source: Keras 3 `ops.erf`.
    """


@elementwise("expm1(x)", "float", lambda g, y, x: (g * (y + 1),))
def expm1(x: Operand) -> Tensor:
    """`exp(x) - 1` of every element, exact near 0.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `exp(x)`.
    Source: Keras 3 `ops.expm1`.
    """


@elementwise("log1p(x)", "float", lambda g, y, x: (g / (x + 1),))
def log1p(x: Operand) -> Tensor:
    """`log(1 + x)` of every element, exact near 0; -1 gives -inf and less NaN.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: `1 / (1 + x)`.
    Source: Keras 3 `ops.log1p`.
    """


@elementwise("floor(x)", "float", lambda g, y, x: (None,))
def floor(x: Operand) -> Tensor:
    """The next integer below every element, as a float.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: zero everywhere.
    Source: Keras 3 `ops.floor`.
    """


@elementwise("ceil(x)", "float", lambda g, y, x: (None,))
def ceil(x: Operand) -> Tensor:
    """The next integer above every element, as a float.

    Arguments:
        x: any numeric dtype and shape; bool and integers become `floatx()`.
    Returns:
        Tensor of the shape of `x`, float.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: zero everywhere.
    Source: Keras 3 `ops.ceil`.
    """


@elementwise("rint(x)", "float", lambda g, y, x: (None,))
def _round(x: Operand) -> Tensor:
    """Nearest integer of floats, ties to even."""


def round(x: Operand) -> Tensor:
    """The nearest integer of every element, ties to even.

    Arguments:
        x: any dtype and shape; integers and bool stay as they are.
    Returns:
        Tensor of the shape of `x` and its dtype.
    Raises:
        DtypeError: `x` is not an array of numbers.
    Gradient: zero everywhere.
    Source: Keras 2.3 `backend.round`.

    >>> K.eval(K.round(K.constant([0.5, 1.5, -2.5])))
    array([ 0.,  2., -2.], dtype=float32)
    """
    tensor = as_tensor(x)
    return _round(tensor) if is_float(tensor.spec.dtype) else tensor


def _zeros(x: Tensor) -> Tensor:
    from kbench.engine.ops.layout.create import zeros_like

    return zeros_like(x)


def _power_gradient(g: Tensor, y_: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    to_base = g * y * _power(x, y - 1)
    if not (isinstance(y, Constant) and y.value.all()):
        to_base = where(equal(y, 0), 0.0, to_base)  # x ** 0 is 1 at 0 too
    positive = x > 0
    return to_base, where(positive, g * y_ * log(where(positive, x, 1.0)), 0.0)


def _no_negative_power(x: object, y: np.ndarray) -> None:
    if y.dtype.kind == "i" and (y < 0).any():
        raise ArgumentError("integers have no negative powers; cast to a float first")


def products_of_power(node: Tensor) -> Tensor | None:
    """x ** 1 = x, x ** 2 = square(x); floats to the powers 3 and 4 are products too"""
    base, exponent = node.inputs
    if not same_spec(node, base):
        return None
    if is_number(exponent, 1):
        return base
    wide = base.spec.dtype in ("float32", "float64")
    power = next((n for n in (2, 3, 4) if is_number(exponent, n)), None)
    if power is None or (power > 2 and not wide):
        return None
    squared = Tensor.derived(square.op, (base,), {}, node.spec, node)
    if power == 2:
        return squared
    if power == 4:
        return Tensor.derived(square.op, (squared,), {}, node.spec, node)
    return Tensor.derived(multiply.op, (squared, base), {}, node.spec, node)


@elementwise(
    "pow(x, y)", "number", _power_gradient, check=_no_negative_power, laws=(products_of_power,)
)
def _power(x: Operand, y: Operand) -> Tensor:
    """`x` to the power `y`, with broadcasting."""


@operator("__pow__")
def pow(x: Operand, a: Operand) -> Tensor:
    """`x` to the power `a`, element by element, with broadcasting; also `x ** a`.

    A negative base with a fractional exponent gives NaN.

    Arguments:
        x, a: any numeric dtypes and shapes that broadcast; bool becomes int32.
    Returns:
        Tensor of the common shape and dtype.
    Raises:
        ArgumentError: integers with a negative exponent, at the call where it is known, else at
            evaluation. ShapeError: the shapes do not broadcast.
    Gradient: to `x`, and to `a` when it is a tensor.
    Source: Keras 2.3 `backend.pow`.

    >>> K.eval(K.pow(K.constant([2.0, 3.0]), 2))
    array([4., 9.], dtype=float32)
    """
    base, exponent = tensors_of(x, a)
    if isinstance(exponent, Constant) and not is_float(base.spec.dtype):
        _no_negative_power(base, exponent.value)
    return _power(base, exponent)


def _settled_gradient(g: Tensor, y: Tensor, x: Tensor, least: Tensor) -> tuple[Tensor | None, ...]:
    return where(abs(x) < least, 0.0, g), None


@elementwise("where(abs(x) < least, 0.0, x)", "same", _settled_gradient, role=Role.SETTLED)
def settled(x: Operand, least: Operand) -> Tensor:
    """Each element that is at least `least` away from 0, and 0 for the others; NaN stays NaN.

    Plans settle the state that shrinks from step to step: `compiler/settle_states.py`.

    Gradient: to `x`, 0 for what becomes 0.
    """
