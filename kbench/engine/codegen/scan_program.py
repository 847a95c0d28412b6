"""Whole loops as one kernel: what a step computes, and the source that is written for it.

A step works on rows that never meet: products of a row with fixed matrices, and elementwise work
along its columns. So an item is a block of rows, which one thread takes through all steps. The
source knows no sizes; they are parameters, as are the addresses.
"""

from __future__ import annotations

import hashlib
from itertools import islice

from msgspec import Struct

from kbench.engine.codegen.loop_program import LoopProgram
from kbench.engine.codegen.writers.writer import Module, Statements
from kbench.engine.core.fork_safety import cached_property

KINDS = ("fixed", "moving", "state", "next")
"""Where an access lies: the same place in each step, one further on, that of two which holds a
state before the step, or the other, for the state after it."""


class Access(Struct, frozen=True):
    """Rows of some columns that steps read or write."""

    kind: str
    dtype: str


class Product(Struct, frozen=True):
    """The rows of an access times a packed matrix, into another access."""

    left: int
    target: int


class Loop(Struct, frozen=True):
    """Elementwise work along columns: its program, and the accesses that it reads and writes.

    The program has one loop dim; along it an access varies, or has one column for all.
    """

    program: LoopProgram
    reads: tuple[int, ...]
    writes: tuple[int, ...]

    @property
    def wide(self) -> tuple[int, ...]:
        """The accesses that have all of the loop's columns; others have one."""
        pairs = zip(self.reads, self.program.patterns, strict=True)
        return (*(access for access, (varies,) in pairs if varies), *self.writes)

    @property
    def lines(self) -> int:
        """How many values it computes, copies of what is read not counted."""
        return sum(not one.expr.is_leaf for one in self.program.values)


class Phase(Struct, frozen=True):
    """Products, then the elementwise work that reads them."""

    products: tuple[Product, ...]
    loops: tuple[Loop, ...]


class Recurrence(Struct, frozen=True, dict=True):
    """One step. With `split` its columns do not meet either, so that they may be cut as well."""

    accesses: tuple[Access, ...]
    phases: tuple[Phase, ...]
    split: bool

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """All products, in order: the second number of a matrix' fields."""
        return tuple(product for phase in self.phases for product in phase.products)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
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

_STEPS = {"fixed": "", "moving": " + t * {0}", "state": " + now * {0}", "next": " + then * {0}"}


class _LoopStatements(Statements):
    """A loop's statements, over the rows of its accesses at `b<access>`."""

    def __init__(self, loop: Loop, module: Module) -> None:
        super().__init__(loop.program, module)
        self.reads = loop.reads

    def location(self, number: int) -> tuple[str, str]:
        return f"b{self.reads[number]}", "k" if self.program.patterns[number][0] else "0"


class _Steps(Module):
    """The steps of a recurrence."""

    def __init__(self, program: Recurrence) -> None:
        super().__init__()
        self.program = program

    def place(self, number: int, row: str) -> str:
        """Where a row of an access begins in a step."""
        kind = self.program.accesses[number].kind
        moved = "" if kind == "fixed" else _STEPS[kind].format(self.field(f"s{number}"))
        return f"{self.field(f'p{number}')}{moved} + {row} * {self.field(f'q{number}')}"

    def run(self) -> None:
        """The whole kernel: every item goes through all steps."""
        field = self.field
        block, rows = field("block"), field("rows")
        self.open("for item in range(start, stop):")
        if self.program.split:
            pieces, across = field("pieces"), field("across")
            self.add(f"above = item // {pieces}", f"low = (item - above * {pieces}) * {across}")
            self.add(f"high = min(low + {across}, {field('n0')})", f"first = above * {block}")
        else:
            self.add(f"first = item * {block}")
        self.add(f"last = min(first + {block}, {rows})")
        with self.block(f"for t in range({field('begin')}, {field('end')}):"):
            self.add("now = t & 1", "then = 1 - now")
            products, loops = enumerate(self.program.products), enumerate(self.program.loops)
            for phase in self.program.phases:
                for number, product in islice(products, len(phase.products)):
                    self.product(number, product)
                for number, loop in islice(loops, len(phase.loops)):
                    self.columns(number, loop)
            self.add(self.call("compiler_fence"))

    def product(self, number: int, one: Product) -> None:
        """Rows of an item times a matrix."""
        field = self.field
        left, target = (self.place(n, "first") for n in (one.left, one.target))
        self.helpers.add("multiply_rows")
        tiles = ", ".join(map(field, ("wide", "narrow", "lanes", "most", "table")))
        self.add(self.call("compiler_fence"))
        self.add(f"multiply_rows({tiles}, {4 if self.program.dtype == 'float32' else 8},")
        self.add(f"              {left}, {field(f'q{one.left}')}, last - first,")
        matrix = ", ".join(field(f"{name}{number}") for name in ("depth", "packed", "columns"))
        self.add(f"              {matrix},")
        self.add(f"              {target}, {field(f'q{one.target}')})")

    def columns(self, number: int, loop: Loop) -> None:
        """The elementwise work of a loop, row by row."""
        program, one = loop.program, _LoopStatements(loop, self)
        full = [n for n in program.statements if program.full[n]]
        self.add(self.call("compiler_fence"))
        with self.block("for r in range(first, last):"):
            for access in sorted({*loop.reads, *loop.writes}):
                self.add(f"b{access} = {self.place(access, 'r')}")
            one.hoisted()
            one.compute([n for n in program.statements if n not in full])
            low, high = ("low", "high") if self.program.split else ("0", self.field(f"n{number}"))
            with self.block(f"for k in range({low}, {high}):"):
                one.loads(program.types)
                one.compute(full)
                for access, stored in zip(loop.writes, program.stores, strict=True):
                    dtype = self.program.accesses[access].dtype
                    one.store(f"b{access}", "k", f"t{stored}", dtype)


def source(program: Recurrence) -> str:
    """The module that defines `run`, the range kernel of a step."""
    steps = _Steps(program)
    steps.run()
    what = f": a loop whose steps have {len(program.products)} products"
    return steps.text(what, program.fields, "range_kernel")
