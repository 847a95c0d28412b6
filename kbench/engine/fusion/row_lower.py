"""The row program of a cluster's members, and what it reads and gives."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from kbench.engine.codegen.loop_program import (
    DTYPES,
    Fold,
    Input,
    LoopProgram,
    LoopValue,
    Schedule,
)
from kbench.engine.codegen.row_kernel import MAX_KEPT_COLUMNS
from kbench.engine.codegen.writers.running_folds import LONG_ROW, SHORT_ROW
from kbench.engine.compiler.values import Value
from kbench.engine.fusion import row_simplify
from kbench.engine.fusion.group import (
    MAX_INPUTS,
    MAX_OUTPUTS,
    Fused,
    GroupInput,
    behaviours,
    checks_values,
    expression_of,
    merge_axes,
    resolve_input,
)
from kbench.engine.graph.expr.expression import (
    COLUMN,
    Expr,
    call,
    input_leaf,
    local_leaf,
    number_leaf,
)
from kbench.engine.graph.expr.scalars import Cost
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.traits.row_form import RowForm, Shares

MAX_NODES = 96
"""Nodes of a row program, which is compiled in one go."""
MAX_INLINE_DEPTH = 12
"""How far a value is computed within instead of being read."""

ALIASES = (Role.RESHAPE, Role.REPEAT, Role.IDENTITY)
"""What only gives the elements of another value, in another shape."""


class RowGroup(Fused):
    """One step: a program of rows over `dims`, and the values it gives."""

    program: LoopProgram
    dims: tuple[int, ...]
    outputs: list[Value]
    values: Sequence[Value]  # of the whole plan, in which all of these stand
    places: tuple[int, ...]  # which of what is read says a column for each row


def is_elementwise(value: Value) -> bool:
    """Whether each element of a value is made of those at the same place, or of the same row."""
    return value.op.expr is not None or (
        spreads(value) and not value.source and value.attrs["axis"] == len(value.shape) - 1
    )


def spreads(value: Value) -> bool:
    """Whether an op writes one value of each row somewhere among the columns."""
    return value.op.rows is not None and not value.op.rows.folds


def down_fold(value: Value) -> str:
    """How a fold goes down the columns; '' when it cannot."""
    if value.spec.dtype[0] != "f":
        return ""
    fold = value.op.fold
    return fold if fold in ("sum", "mean", "var") else ""


class _NotLowerable(Exception):
    """A cluster that is beyond what a kernel can do."""


class _RowLowering(Struct):
    """A program under construction."""

    shape: tuple[int, ...]
    cut: int
    values: Sequence[Value]
    stored: set[int]  # slots that are there in memory anyway
    guard: object
    inside: set[int]
    compared: Collection[int]  # slots that have to be the same wherever they are looked at
    nodes: list[LoopValue] = field(default_factory=list)  # that fold axes of `shape`
    sources: list[GroupInput] = field(default_factory=list)
    leaves: dict[int, Expr] = field(default_factory=dict)  # of members
    others: dict[tuple[int, tuple[int, ...]], Expr] = field(default_factory=dict)
    places: set[int] = field(default_factory=set)  # slots that say a column for each row
    # What a softmax is made of.
    shares: dict[Expr, Shares] = field(default_factory=dict)
    ones: dict[Expr, Expr] = field(default_factory=dict)  # sums of these, and of which

    # -------------------------------------------------------------- nodes

    def node(self, expr: Expr, dtype: str, along: str = "") -> Expr:
        """The leaf of a value, perhaps folded along the rows."""
        fold = Fold(along, self.cut, len(self.shape)) if along else None
        return self._made(LoopValue(expr, dtype, fold))

    def _made(self, made: LoopValue) -> Expr:
        """The leaf of a value, which is added when there is none like it."""
        if made not in self.nodes:
            if len(self.nodes) >= MAX_NODES or made.dtype not in DTYPES:
                raise _NotLowerable
            self.nodes.append(made)
        return local_leaf(self.nodes.index(made))

    def read(self, source: GroupInput) -> Expr:
        """The leaf of an input."""
        if source not in self.sources:
            if len(self.sources) >= MAX_INPUTS or source.dtype not in DTYPES:
                raise _NotLowerable
            self.sources.append(source)
        return input_leaf(self.sources.index(source))

    def number(self, number: float, dtype: str) -> Expr:
        """A number as an input, so that a kernel fits rows of any length."""
        return self.read(GroupInput(-1, number, dtype, (False,) * len(self.shape)))

    def member(self, value: Value) -> Expr:
        """The leaf of a member, which is written with what it needs when it is asked for."""
        if value.slot not in self.leaves:
            if not is_elementwise(value):
                x = self.operand(value.inputs[0], self.shape, 0)
                self.leaves[value.slot] = self.fold(value, x, value.spec.dtype)
            else:
                self.leaves[value.slot] = self.statement(value, 0)
        return self.leaves[value.slot]

    def output(self, value: Value) -> Expr:
        """The leaf of a member that is stored: one value for each element, where it has these.

        A value of the rows' whole shape may be made of values of each row alone.
        """
        leaf = self.member(value)
        if is_elementwise(value) and value.shape == self.shape and not self.varies(leaf):
            nowhere = call("less", COLUMN, number_leaf(0))
            leaf = self.node(call("where", nowhere, leaf, leaf), value.spec.dtype)
        return leaf

    def fold(self, value: Value, x: Expr, dtype: str) -> Expr:
        """A fold of `x`, and what is made of it."""
        if down_fold(value) and value.attrs["axis"][0] == 0:
            return self._made(LoopValue(x, dtype, Fold(down_fold(value), 0, self.cut)))
        if value.op.rows is not None:
            return self.written(value.op.rows, value, x, 0)
        if value.op.fold == "mean":
            return self.mean(x, dtype)
        if value.op.fold == "sum":
            return row_simplify.sum_along(self, x, dtype)
        return self.node(x, dtype, value.op.fold or "")

    def written(self, form: RowForm, value: Value, first: Expr, depth: int) -> Expr:
        """What the form of an op makes of its first operand, and of a column for each row."""
        operands = [first]
        if form.picks:
            place = value.inputs[1]
            operands.append(self.operand(place, self.shape[: self.cut], depth))
            self.places.add(place)
        return form.write(self, value.spec.dtype, *operands)

    def mean(self, x: Expr, dtype: str) -> Expr:
        """The mean of a row, which is added up and divided in float64."""
        count = self.number(float(self.columns), "float64")
        return self.node(self.node(x, "float64", "sum") / count, dtype)

    def variance(self, x: Expr, dtype: str) -> Expr:
        """The mean square distance of a row from its mean, in float64; of equal numbers it is 0.

        Values of float32 are read once: distances are from the first. As that is one of the row,
        however far from the others, the squares lose a digit for each power of ten of columns.
        """
        count = self.number(float(self.columns), "float64")
        known = self.sources if x.kind == "input" else self.nodes
        if known[x.index].dtype == "float64":
            top = self.node(x, "float64", "max")
            apart = self.node(x - top, "float64")
            middle = self.node(top + self.mean(apart, "float64"), "float64")
            return self.mean(self.node(call("square", x - middle), "float64"), dtype)
        apart = self.node(x - self.node(x, "float64", "first"), "float64")
        total = self.node(apart, "float64", "sum")
        squares = self.node(self.node(call("square", apart), "float64"), "float64", "sum")
        rest = self.node(squares - total * total / count, "float64")
        above = call("where", call("less", rest, number_leaf(0)), number_leaf(0), rest)
        return self.node(above / count, dtype)

    def statement(self, value: Value, depth: int) -> Expr:
        """An elementwise value, computed as its own op does, so that every tier rounds alike."""
        dtype = value.spec.dtype
        if value.op.rows is not None:
            g = self.operand(value.inputs[0], self.shape[: self.cut], depth)
            return self.written(value.op.rows, value, g, depth)
        operands = [self.operand(slot, value.shape, depth) for slot in value.inputs]
        if value.op.computes("divide") and value.shape == self.shape:
            known = row_simplify.quotient(self, operands[0], operands[1], dtype)
            if known is not None:
                return known
        if value.op.computes("log"):
            known = row_simplify.logarithm(self, operands[0], dtype)
            if known is not None:
                return known
        return self.node(expression_of(value, operands), dtype)

    def expression(self, leaf: Expr) -> Expr | None:
        """The statement of a node; None for a fold or an input."""
        node = self.nodes[leaf.index] if leaf.kind == "local" else None
        return None if node is None or node.fold is not None else node.expr

    def is_positive(self, leaf: Expr) -> bool:
        """Whether a value is a number above 0."""
        if leaf.kind != "input":
            return False
        source = self.sources[leaf.index]
        value = self.values[source.slot]
        number = source.number if value.source != "constant" or source.slot < 0 else value.constant
        return number is not None and np.ndim(number) == 0 and bool(number > 0)

    def varies(self, leaf: Expr) -> bool:
        """Whether a value is one for each element, rather than for each row."""
        if leaf.kind == "input":
            return any(self.sources[leaf.index].varies[self.cut :])
        node = self.nodes[leaf.index]
        if node.fold is not None:
            return False
        return node.has_column or any(self.varies(read) for read in node.reads)

    def exponentials(self, x: Expr, dtype: str) -> tuple[Expr, Expr, Expr]:
        """The largest value of a row, the exponentials against it, and their sum."""
        top = self.node(x, dtype, "max")
        grown = self.node(call("exp", x - top), dtype)
        return top, grown, self.node(grown, dtype, "sum")

    @property
    def columns(self) -> int:
        return math.prod(self.shape[self.cut :])

    # -------------------------------------------------------------- what members use

    def operand(self, slot: int, shape: tuple[int, ...], depth: int) -> Expr:
        """The leaf of an operand of a value of `shape`."""
        if slot in self.inside:
            return self.member(self.values[slot])
        if (slot, shape) not in self.others:
            self.others[slot, shape] = self._make_operand(self.values[slot], shape, depth)
        return self.others[slot, shape]

    def _make_operand(self, value: Value, shape: tuple[int, ...], depth: int) -> Expr:
        if value.role in ALIASES and self._leads_inside(value):
            return self.operand(value.inputs[0], shape, depth)
        if self._is_computed(value, depth):
            return self.statement(value, depth + 1)
        found = resolve_input(value, shape, self.values)
        tail = (False,) * (len(self.shape) - len(shape))  # one value for each row
        return self.read(replace(found, varies=(*found.varies, *tail)))

    def _leads_inside(self, value: Value) -> bool:
        source = value.inputs[0]
        while source not in self.inside:
            read = self.values[source]
            if read.role not in ALIASES:
                return False
            source = read.inputs[0]
        return True

    def _is_computed(self, value: Value, depth: int) -> bool:
        """Whether an elementwise value is computed within: if nobody else needs it, or cheaply."""
        if value.source or not is_elementwise(value) or not value.static or checks_values(value):
            return False
        if value.shape != self.shape or value.guard != self.guard or depth >= MAX_INLINE_DEPTH:
            return False
        if value.slot in self.compared:
            return False
        cheap = value.op.expr is None or value.op.expr.cost == Cost.CHEAP
        return value.slot not in self.stored or cheap

    # -------------------------------------------------------------- dims

    def dims(self) -> tuple[tuple[int, ...], list[tuple[bool, ...]]]:
        """Merged dims, the columns last, and the pattern of each source over them."""
        shape, cut = self.shape, self.cut
        columns = behaviours(self.sources, len(shape))
        dims, rows = merge_axes(shape[:cut], columns[:cut])
        _, across = merge_axes(shape[cut:], columns[cut:])
        if not dims:
            dims, rows = [1], [(False,) * len(self.sources)]
        # One column: what varies at all varies along it.
        if len(across) > 1 or not across and len(rows) > 1:
            raise _NotLowerable
        patterns = [tuple(pattern) for pattern in zip(*rows, *(across or rows), strict=True)]
        return (*dims, self.columns), patterns


def lower_cluster(
    key: tuple[tuple[int, ...], int],
    members: Sequence[Value],
    outputs: list[Value],
    values: Sequence[Value],
    stored: set[int],
    compared: Collection[int],
) -> RowGroup | None:
    """The step of a cluster that gives `outputs`; None where it is beyond a kernel."""
    shape, cut = key
    if len(outputs) > MAX_OUTPUTS:
        return None
    inside = {member.slot for member in members}
    lowering = _RowLowering(shape, cut, values, stored, members[0].guard, inside, compared)
    try:
        numbers = [lowering.output(output).index for output in outputs]
        return _group(lowering, outputs, numbers)
    except (_NotLowerable, ValueError):
        return None


def _schedule(columns: int, is_swept: bool) -> Schedule:
    """How rows of so many columns are walked; they are swept where folds go along them."""
    if columns <= SHORT_ROW and is_swept:
        return Schedule.SHORT_ROWS
    if columns > MAX_KEPT_COLUMNS:
        return Schedule.LONG_ROWS
    return Schedule.WIDE_ROWS if columns >= LONG_ROW else Schedule.ROWS


def _group(lowering: _RowLowering, outputs: list[Value], numbers: list[int]) -> RowGroup | None:
    """Put the outputs in the program's order: what is stored by rows, then folds of columns."""
    nodes, sources = lowering.nodes, lowering.sources
    dims, patterns = lowering.dims()
    if len(set(numbers)) < len(numbers) or not sources:
        return None
    inputs = [Input(one.dtype, pattern) for one, pattern in zip(sources, patterns, strict=True)]
    values = tuple(_over_dims(node, lowering.cut, len(dims)) for node in nodes)
    downs = {n for n, one in enumerate(values) if one.fold is not None and one.fold.start == 0}
    order = sorted(range(len(outputs)), key=lambda i: (numbers[i] in downs, numbers[i]))
    along = {n for n, one in enumerate(values) if one.fold is not None} - downs
    schedule = _schedule(dims[-1], bool(along))
    program = LoopProgram(tuple(inputs), values, tuple(numbers[i] for i in order), schedule)
    if schedule is Schedule.LONG_ROWS and downs and not program.across:
        return None
    members = [lowering.values[slot] for slot in sorted(lowering.leaves)]
    places = tuple(n for n, source in enumerate(sources) if source.slot in lowering.places)
    if {sources[n].slot for n in places} != lowering.places:
        return None
    results = [outputs[i] for i in order]
    return RowGroup(members, sources, program, dims, results, lowering.values, places)


def _over_dims(made: LoopValue, cut: int, rank: int) -> LoopValue:
    """A value whose fold over axes is one of the loop dims that they have become."""
    if made.fold is None:
        return made
    along = made.fold.start == cut
    span = (rank - 1, rank) if along else (0, rank - 1)
    return replace(made, fold=Fold(made.fold.kind, *span))
