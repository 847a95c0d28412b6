"""What a row kernel need not compute as it stands, because of what softmax is.

The shares of a row sum to 1, and their logarithms are differences. Where values are finite the
results differ by rounding only; NaN and infinities come out as they would have. Each law saves a
sweep over the row, or an exponential or logarithm of each element.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

_WIDE = ("float32", "float64")
"""Dtypes for which the laws hold up to their rounding; float16 rounds every step."""
_HELD = re.compile(r"(minimum|maximum)\((\w+), (\w+)\)")
_TWO = re.compile(r"(\w+) ([*+]) (\w+)")


@dataclass(frozen=True)
class Shares:
    """What the softmax of a row is made of, by the names of nodes."""

    x: str
    top: str
    total: str
    scale: str


class RowBuilder(Protocol):
    """What the laws need of whoever builds a row program."""

    shares: dict[str, Shares]
    ones: dict[str, str]

    def node(self, expr: str, dtype: str, along: str = "", down: str = "") -> str: ...
    def expression(self, name: str) -> str: ...
    def is_positive(self, name: str) -> bool: ...
    def varies(self, name: str) -> bool: ...


def sum_along(builder: RowBuilder, x: str, dtype: str) -> str:
    """The sum of a row: what is known of the shares of a softmax is not added up."""
    if dtype in _WIDE:
        if x in builder.shares:
            one = _one(builder, x, dtype)
            builder.ones[one] = x
            return one
        for first, second in _operands(builder, x, "*"):
            found = _shifted(builder, first, dtype) if second in builder.shares else None
            if found is not None:
                value, shift = found
                rest = builder.node(builder.node(f"{value} * {second}", dtype), dtype, "sum")
                return builder.node(f"{rest} + {shift} * {_one(builder, second, dtype)}", dtype)
    return builder.node(x, dtype, "sum")


def _one(builder: RowBuilder, shares: str, dtype: str) -> str:
    """1 up to rounding; NaN where the shares are."""
    made = builder.shares[shares]
    return builder.node(f"{made.total} * {made.scale}", dtype)


def _operands(builder: RowBuilder, name: str, sign: str) -> list[tuple[str, str]]:
    """The two operands of a product or sum, both ways round; none where it is something else."""
    found = _TWO.fullmatch(builder.expression(name))
    if found is None or found.group(2) != sign:
        return []
    return [(found.group(1), found.group(3)), (found.group(3), found.group(1))]


def _shifted(builder: RowBuilder, name: str, dtype: str) -> tuple[str, str] | None:
    """A value of each element and a fold's result that is added to it, if it is such a sum."""
    for value, shift in _operands(builder, name, "+"):
        if builder.varies(value) and shift[0] == "t" and not builder.varies(shift):
            return value, shift
    return None


def quotient(builder: RowBuilder, x: str, y: str, dtype: str) -> str | None:
    """`x / y` where `y` is the sum of shares; None for another `y`."""
    if y not in builder.ones:
        return None
    return x if builder.ones[y] == x else builder.node(f"{x} * {y}", dtype)


def logarithm(builder: RowBuilder, x: str, dtype: str) -> str | None:
    """The logarithm of shares, perhaps held between positive numbers; None for another `x`."""
    if dtype not in _WIDE:
        return None
    if x in builder.shares:
        made = builder.shares[x]
        size = builder.node(f"log({made.total})", dtype)
        return builder.node(f"{made.x} - {made.top} - {size}", dtype)
    held = _HELD.fullmatch(builder.expression(x))
    if held is None:
        return None
    kind, first, second = held.groups()
    for value, bound in ((first, second), (second, first)):
        inner = logarithm(builder, value, dtype) if builder.is_positive(bound) else None
        if inner is not None:
            return builder.node(f"{kind}({inner}, {builder.node(f'log({bound})', dtype)})", dtype)
    return None
