"""Comparisons and logic, element by element; results are bool and carry no gradient."""

from __future__ import annotations

from kbench.engine.declare import elementwise
from kbench.engine.tensor import Operand, Tensor, operator


def _none(g: Tensor, y_: Tensor, *inputs: Tensor) -> tuple[None, ...]:
    return (None,) * len(inputs)


@elementwise("x == y", "compare", _none)
def equal(x: Operand, y: Operand) -> Tensor:
    """Where two operands are equal, with broadcasting; NaN equals nothing. bool result."""


@elementwise("x != y", "compare", _none)
def not_equal(x: Operand, y: Operand) -> Tensor:
    """Where two operands differ, with broadcasting. bool result."""


@operator("__gt__")
@elementwise("x > y", "compare", _none)
def greater(x: Operand, y: Operand) -> Tensor:
    """Where `x > y`, with broadcasting. bool result."""


@operator("__ge__")
@elementwise("x >= y", "compare", _none)
def greater_equal(x: Operand, y: Operand) -> Tensor:
    """Where `x >= y`, with broadcasting. bool result."""


@operator("__lt__")
@elementwise("x < y", "compare", _none)
def less(x: Operand, y: Operand) -> Tensor:
    """Where `x < y`, with broadcasting. bool result."""


@operator("__le__")
@elementwise("x <= y", "compare", _none)
def less_equal(x: Operand, y: Operand) -> Tensor:
    """Where `x <= y`, with broadcasting. bool result."""


@operator("__and__")
@elementwise("logical_and(x, y)", "bool", _none)
def logical_and(x: Operand, y: Operand) -> Tensor:
    """Where both hold; also `x & y`. Other dtypes are compared with 0 first."""


@operator("__or__")
@elementwise("logical_or(x, y)", "bool", _none)
def logical_or(x: Operand, y: Operand) -> Tensor:
    """Where either holds; also `x | y`. Other dtypes are compared with 0 first."""


@operator("__xor__")
@elementwise("x != y", "bool", _none)
def logical_xor(x: Operand, y: Operand) -> Tensor:
    """Where exactly one holds; also `x ^ y`. Other dtypes are compared with 0 first."""


@operator("__invert__")
@elementwise("logical_not(x)", "bool", _none)
def logical_not(x: Operand) -> Tensor:
    """Where `x` does not hold; also `~x`. Other dtypes are compared with 0 first."""
