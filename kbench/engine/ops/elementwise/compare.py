"""Comparisons and logic, element by element; results are bool and carry no gradient."""

from __future__ import annotations

from kbench.engine.graph.declare import elementwise
from kbench.engine.graph.tensor import Operand, Tensor, operator


def _none(g: Tensor, y_: Tensor, *inputs: Tensor) -> tuple[None, ...]:
    return (None,) * len(inputs)


@elementwise("x == y", "compare", _none)
def equal(x: Operand, y: Operand) -> Tensor:
    """Where two operands are equal, element by element.

    Arguments:
        x, y: any dtypes and shapes that broadcast; numbers and arrays take the tensor's dtype.
    Returns:
        Tensor bool of the common shape. A comparison with NaN is False.
    Raises:
        ShapeError: the shapes do not broadcast. DtypeError: no array of numbers.
    Gradient: none.
    Source: Keras 2.3 `backend.equal`.

    >>> K.eval(K.equal(K.constant([1.0, 2.0, 3.0]), 2.0))
    array([False,  True, False])
    """


@elementwise("x != y", "compare", _none)
def not_equal(x: Operand, y: Operand) -> Tensor:
    """Where two operands differ, element by element.

    Arguments:
        x, y: any dtypes and shapes that broadcast; numbers and arrays take the tensor's dtype.
    Returns:
        Tensor bool of the common shape. A comparison with NaN is True.
    Raises:
        ShapeError: the shapes do not broadcast. DtypeError: no array of numbers.
    Gradient: none.
    Source: Keras 2.3 `backend.not_equal`.

    >>> K.eval(K.not_equal(K.constant([1.0, 2.0, 3.0]), 2.0))
    array([ True, False,  True])
    """


@operator("__gt__")
@elementwise("x > y", "compare", _none)
def greater(x: Operand, y: Operand) -> Tensor:
    """Where `x` is above `y`, element by element. Also `x > y`.

    Arguments:
        x, y: any dtypes and shapes that broadcast; numbers and arrays take the tensor's dtype.
    Returns:
        Tensor bool of the common shape. A comparison with NaN is False.
    Raises:
        ShapeError: the shapes do not broadcast. DtypeError: no array of numbers.
    Gradient: none.
    Source: Keras 2.3 `backend.greater`.

    >>> K.eval(K.greater(K.constant([1.0, 2.0, 3.0]), 2.0))
    array([False, False,  True])
    """


@operator("__ge__")
@elementwise("x >= y", "compare", _none)
def greater_equal(x: Operand, y: Operand) -> Tensor:
    """Where `x` is at least `y`, element by element. Also `x >= y`.

    Arguments:
        x, y: any dtypes and shapes that broadcast; numbers and arrays take the tensor's dtype.
    Returns:
        Tensor bool of the common shape. A comparison with NaN is False.
    Raises:
        ShapeError: the shapes do not broadcast. DtypeError: no array of numbers.
    Gradient: none.
    Source: Keras 2.3 `backend.greater_equal`.

    >>> K.eval(K.greater_equal(K.constant([1.0, 2.0, 3.0]), 2.0))
    array([False,  True,  True])
    """


@operator("__lt__")
@elementwise("x < y", "compare", _none)
def less(x: Operand, y: Operand) -> Tensor:
    """Where `x` is below `y`, element by element. Also `x < y`.

    Arguments:
        x, y: any dtypes and shapes that broadcast; numbers and arrays take the tensor's dtype.
    Returns:
        Tensor bool of the common shape. A comparison with NaN is False.
    Raises:
        ShapeError: the shapes do not broadcast. DtypeError: no array of numbers.
    Gradient: none.
    Source: Keras 2.3 `backend.less`.

    >>> K.eval(K.less(K.constant([1.0, 2.0, 3.0]), 2.0))
    array([ True, False, False])
    """


@operator("__le__")
@elementwise("x <= y", "compare", _none)
def less_equal(x: Operand, y: Operand) -> Tensor:
    """Where `x` is at most `y`, element by element. Also `x <= y`.

    Arguments:
        x, y: any dtypes and shapes that broadcast; numbers and arrays take the tensor's dtype.
    Returns:
        Tensor bool of the common shape. A comparison with NaN is False.
    Raises:
        ShapeError: the shapes do not broadcast. DtypeError: no array of numbers.
    Gradient: none.
    Source: Keras 2.3 `backend.less_equal`.

    >>> K.eval(K.less_equal(K.constant([1.0, 2.0, 3.0]), 2.0))
    array([ True,  True, False])
    """


@operator("__and__")
@elementwise("logical_and(x, y)", "bool", _none)
def logical_and(x: Operand, y: Operand) -> Tensor:
    """Where both hold; also `x & y`. Other dtypes than bool are a DtypeError."""


@operator("__or__")
@elementwise("logical_or(x, y)", "bool", _none)
def logical_or(x: Operand, y: Operand) -> Tensor:
    """Where either holds; also `x | y`. Other dtypes than bool are a DtypeError."""


@operator("__xor__")
@elementwise("x != y", "bool", _none)
def logical_xor(x: Operand, y: Operand) -> Tensor:
    """Where exactly one holds; also `x ^ y`. Other dtypes than bool are a DtypeError."""


@operator("__invert__")
@elementwise("logical_not(x)", "bool", _none)
def logical_not(x: Operand) -> Tensor:
    """Where `x` does not hold; also `~x`. Other dtypes than bool are a DtypeError."""
