"""How an operation over the last axes is written in a row program.

A row program folds and computes over the columns of one row, in one pass
(`codegen/row_sweeps.py`). An operation that has a form says with it which lines it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from kbench.engine.graph.expr.expression import Expr


class Shares(Struct, frozen=True):
    """What the softmax of a row is made of: leaves of the program."""

    x: Expr
    top: Expr
    total: Expr
    scale: Expr


class RowBuilder(Protocol):
    """What forms, and the laws of row programs, need of whoever builds one."""

    shares: dict[Expr, Shares]
    ones: dict[Expr, Expr]

    def node(self, expr: Expr, dtype: str, along: str = "") -> Expr: ...
    def mean(self, x: Expr, dtype: str) -> Expr: ...
    def variance(self, x: Expr, dtype: str) -> Expr: ...
    def exponentials(self, x: Expr, dtype: str) -> tuple[Expr, Expr, Expr]: ...
    def expression(self, leaf: Expr) -> Expr | None: ...
    def is_positive(self, leaf: Expr) -> bool: ...
    def varies(self, leaf: Expr) -> bool: ...


class RowForm(Struct, frozen=True):
    """The lines of an operation: `write(rows, dtype, *operands)` gives the leaf of its result.

    It folds a row along `axis`, its first operand being the row. One that does not (`folds`)
    spreads one value of each row over the columns. With `picks` the second operand says a column
    for each row. `dear`: it sweeps a row so often that it is worth a kernel alone. `sole`: it has
    no other kernel, so it is one where rows are few or long, too, and where all is one row.
    """

    write: Callable[..., Expr]
    folds: bool = True
    picks: bool = False
    dear: bool = False
    sole: bool = False
