"""What a row kernel need not compute as it stands, because of what softmax is.

The shares of a row sum to 1, and their logarithms are differences. Where values are finite the
results differ by rounding only; NaN and infinities come out as they would have. Each law saves a
sweep over the row, or an exponential or logarithm of each element.
"""

from __future__ import annotations

from kbench.engine.graph.expr.expression import Expr, call
from kbench.engine.graph.traits.row_form import RowBuilder

_WIDE = ("float32", "float64")
"""Dtypes for which the laws hold up to their rounding; float16 rounds every step."""


def sum_along(builder: RowBuilder, x: Expr, dtype: str) -> Expr:
    """The sum of a row: what is known of the shares of a softmax is not added up."""
    if dtype in _WIDE:
        if x in builder.shares:
            one = _one(builder, x, dtype)
            builder.ones[one] = x
            return one
        for first, second in _operands(builder, x, "multiply"):
            found = _shifted(builder, first, dtype) if second in builder.shares else None
            if found is not None:
                value, shift = found
                rest = builder.node(builder.node(value * second, dtype), dtype, "sum")
                return builder.node(rest + shift * _one(builder, second, dtype), dtype)
    return builder.node(x, dtype, "sum")


def _one(builder: RowBuilder, shares: Expr, dtype: str) -> Expr:
    """1 up to rounding; NaN where the shares are."""
    made = builder.shares[shares]
    return builder.node(made.total * made.scale, dtype)


def _operands(builder: RowBuilder, leaf: Expr, *functions: str) -> list[tuple[Expr, Expr]]:
    """The two operands of one of these functions, both ways round; none of something else."""
    found = builder.expression(leaf)
    if found is None or not any(map(found.is_call, functions)):
        return []
    first, second = found.args
    return [(first, second), (second, first)] if first.is_leaf and second.is_leaf else []


def _shifted(builder: RowBuilder, leaf: Expr, dtype: str) -> tuple[Expr, Expr] | None:
    """A value of each element and a fold's result that is added to it, if it is such a sum."""
    for value, shift in _operands(builder, leaf, "add"):
        if builder.varies(value) and shift.kind == "local" and not builder.varies(shift):
            return value, shift
    return None


def quotient(builder: RowBuilder, x: Expr, y: Expr, dtype: str) -> Expr | None:
    """`x / y` where `y` is the sum of shares; None for another `y`."""
    if y not in builder.ones:
        return None
    return x if builder.ones[y] is x else builder.node(x * y, dtype)


def logarithm(builder: RowBuilder, x: Expr, dtype: str) -> Expr | None:
    """The logarithm of shares, perhaps held between positive numbers; None for another `x`."""
    if dtype not in _WIDE:
        return None
    if x in builder.shares:
        made = builder.shares[x]
        size = builder.node(call("log", made.total), dtype)
        return builder.node(made.x - made.top - size, dtype)
    held = builder.expression(x)
    for value, bound in _operands(builder, x, "minimum", "maximum"):
        inner = logarithm(builder, value, dtype) if builder.is_positive(bound) else None
        if inner is not None and held is not None:
            limit = builder.node(call("log", bound), dtype)
            return builder.node(call(held.scalar.name, inner, limit), dtype)
    return None
