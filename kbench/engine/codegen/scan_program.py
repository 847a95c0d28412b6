"""Whole loops as one kernel: what a step computes, and the source that is written for it.

A step works on rows that never meet: products of a row with fixed matrices, and elementwise work
along its columns. So an item is a block of rows, which one thread takes through all steps. The
source knows no sizes; they are parameters, as are the addresses.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from kbench.engine.codegen.typed_expr import translate
from kbench.engine.codegen.writer import imported
from kbench.engine.core.fork_safety import cached_property
from kbench.engine.graph.expr.expression import Expr, input_leaf, local_leaf

KINDS = ("fixed", "moving", "state", "next")
"""Where an access lies: the same place in each step, one further on, that of two which holds a
state before the step, or the other, for the state after it."""


@dataclass(frozen=True)
class Access:
    """Rows of some columns that steps read or write."""

    kind: str
    dtype: str


@dataclass(frozen=True)
class Product:
    """The rows of an access times a packed matrix, into another access."""

    left: int
    target: int


@dataclass(frozen=True)
class Line:
    """`t<number> = expr` over accesses `a<number>` and earlier lines, once in a row if `single`."""

    expr: Expr
    dtype: str
    single: bool


@dataclass(frozen=True)
class Columns:
    """Elementwise work along columns of equal number; `single` accesses have one column.

    `stores` are pairs of an access and the leaf that is stored there.
    """

    single: tuple[int, ...]
    wide: tuple[int, ...]
    lines: tuple[Line, ...]
    stores: tuple[tuple[int, Expr], ...]


@dataclass(frozen=True)
class Phase:
    """Products, then the elementwise work that reads them."""

    products: tuple[Product, ...]
    loops: tuple[Columns, ...]


@dataclass(frozen=True)
class Recurrence:
    """One step. With `split` its columns do not meet either, so that they may be cut as well."""

    accesses: tuple[Access, ...]
    phases: tuple[Phase, ...]
    split: bool

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """All products, in order: the second number of a matrix' fields."""
        return tuple(product for phase in self.phases for product in phase.products)

    @cached_property
    def loops(self) -> tuple[Columns, ...]:
        """All elementwise loops, in order."""
        return tuple(loop for phase in self.phases for loop in phase.loops)

    @cached_property
    def dtype(self) -> str:
        """Dtype of the products; '' when there are none."""
        return self.accesses[self.products[0].left].dtype if self.products else ""

    @cached_property
    def name(self) -> str:
        """A name that is unique to what the step computes."""
        text = repr((self.accesses, self.phases, self.split))
        return f"scan_{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The integers of the parameter block, in order."""
        names = ["begin", "end", "rows", "block", "across", "pieces"]
        names += ["wide", "narrow", "lanes", "most", "table"]
        for number in range(len(self.accesses)):
            names += [f"p{number}", f"s{number}", f"q{number}"]
        names += [f"n{number}" for number in range(len(self.loops))]
        for number in range(len(self.products)):
            names += [f"packed{number}", f"depth{number}", f"columns{number}"]
        return tuple(names)


# ------------------------------------------------------------------ the source

_STEPS = {"fixed": "", "moving": " + t * s{0}", "state": " + now * s{0}", "next": " + then * s{0}"}


def _place(program: Recurrence, number: int, row: str) -> str:
    moved = _STEPS[program.accesses[number].kind].format(number)
    return f"p{number}{moved} + {row} * q{number}"


class _Writer:
    """One step's source under construction."""

    def __init__(self, program: Recurrence) -> None:
        self.program = program
        self.lines: list[str] = []
        self.used: set[str] = set()

    def add(self, depth: int, *texts: str) -> None:
        self.lines += ["    " * depth + text for text in texts]

    def body(self) -> None:
        """Everything below the parameters."""
        split = self.program.split
        self.add(1, "for item in range(start, stop):")
        if split:
            self.add(2, "above = item // pieces", "low = (item - above * pieces) * across")
            self.add(2, "high = min(low + across, n0)", "first = above * block")
        else:
            self.add(2, "first = item * block")
        self.add(2, "last = min(first + block, rows)")
        self.add(2, "for t in range(begin, end):", "    now = t & 1", "    then = 1 - now")
        products = loops = 0
        for phase in self.program.phases:
            for product in phase.products:
                self.product(products, product)
                products += 1
            for loop in phase.loops:
                self.columns(loops, loop)
                loops += 1
        self.add(3, "compiler_fence()")

    def product(self, number: int, one: Product) -> None:
        left, target = (_place(self.program, n, "first") for n in (one.left, one.target))
        size = 4 if self.program.dtype == "float32" else 8
        self.used.add("multiply_rows")
        self.add(3, "compiler_fence()", f"multiply_rows(wide, narrow, lanes, most, table, {size},")
        self.add(3, f"              {left}, q{one.left}, last - first,")
        self.add(3, f"              depth{number}, packed{number}, columns{number},")
        self.add(3, f"              {target}, q{one.target})")

    def columns(self, number: int, loop: Columns) -> None:
        low, high = ("low", "high") if self.program.split else ("0", f"n{number}")
        accesses = self.program.accesses
        types: dict[Expr, str] = {}
        self.add(3, "compiler_fence()", "for r in range(first, last):")
        touched = sorted({*loop.single, *loop.wide, *(access for access, _ in loop.stores)})
        self.add(4, *[f"b{n} = {_place(self.program, n, 'r')}" for n in touched])
        single: list[str] = []
        wide: list[str] = []
        for n in (*loop.single, *loop.wide):
            dtype = accesses[n].dtype
            types[input_leaf(n)] = dtype
            self.used.add(f"load_{dtype}")
            place = "0" if n in loop.single else "k"
            target = single if n in loop.single else wide
            target.append(f"a{n} = load_{dtype}(b{n}, {place})")
        for position, line in enumerate(loop.lines):
            found = translate(line.expr, types, line.dtype)
            self.used |= found.used
            types[local_leaf(position)] = line.dtype
            (single if line.single else wide).append(f"t{position} = {found.source}")
        for n, value in loop.stores:
            dtype = accesses[n].dtype
            self.used.add(f"store_{dtype}")
            wide.append(f"store_{dtype}(b{n}, k, {value})")
        self.add(4, *single, f"for k in range({low}, {high}):")
        self.add(5, *wide)


def source(program: Recurrence) -> str:
    """The module that defines `run`, the range kernel of a step."""
    writer = _Writer(program)
    writer.body()
    words = set(re.findall(r"\w+", "\n".join(writer.lines)))
    fields = [f"    {n} = field(params, {i})" for i, n in enumerate(program.fields) if n in words]
    own = ["multiply_rows", "compiler_fence"] if program.products else ["compiler_fence"]
    imports = sorted({"field", "range_kernel", *writer.used} - set(own))
    count = len(program.products)
    header = [f'"""Generated by kbench: a loop whose steps have {count} products."""']
    header += ["import numpy as np", *imported("intrinsics.scan_tile", own)]
    header += imported("intrinsics.toolkit", imports)
    header += ["", "", "@range_kernel", "def run(params, start, stop):"]
    return "\n".join(header + fields + writer.lines) + "\n"
