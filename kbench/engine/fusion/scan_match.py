"""Reads the executable of a step as columns: whether a compiled loop can run it, and what it does.

Everything in a step must be rows of one number (the batch) or the same for all of them; elementwise
work, parts and joins of the last axis, and products with matrices that no step changes. A step of
elementwise work alone may have values of any shape, all alike, which are then one long row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct, field

from kbench.engine.compiler.values import Value
from kbench.engine.core.types import Array, Ints
from kbench.engine.fusion.group import checks_values
from kbench.engine.fusion.scan_ir import NodeTable, ScanNode, ScanSource, ScanValue, Segments
from kbench.engine.graph.expr.expression import name_leaf
from kbench.engine.graph.traits.roles import Role

Rearrange = Callable[[Array], Array]


class NotCompilable(Exception):
    """Why no compiled loop can run a step."""


class BodyInput(Struct, frozen=True, eq=False):
    """What a step is given: an entry of a sequence ("read"), a "state", or what no step changes.

    `index` is its number there, or the slot of what is "fixed"; `views` lead from all entries to
    the same number of rearranged ones.
    """

    kind: str
    index: int
    shape: Ints
    dtype: str
    views: tuple[Rearrange, ...] = ()


class MatrixProduct(Struct, frozen=True):
    """A product: rows, and the matrix by the slot of what is fixed."""

    left: ScanValue
    matrix: int
    transposed: bool
    source: ScanSource
    result: ScanNode


class RowLayout(Struct, frozen=True):
    """How shapes are read as rows and columns: `flat` makes one long row of `shape`."""

    rows: int
    flat: Ints | None

    def columns(self, shape: Ints) -> int:
        """The columns of a shape; NotCompilable when it is not made of such rows."""
        if self.flat is not None:
            if shape != self.flat and math.prod(shape) != 1:
                raise NotCompilable(f"{shape} beside {self.flat}")
            return math.prod(shape)
        if len(shape) > 2 or len(shape) == 2 and shape[0] not in (1, self.rows):
            raise NotCompilable(f"{shape} is not made of {self.rows} rows")
        return shape[-1] if shape else 1

    def spread(self, stack: Array) -> Array:
        """Values behind each other along a first axis, as [values, rows, columns]."""
        shape = stack.shape[1:]
        width = self.columns(shape)
        rows = shape[0] if self.flat is None and len(shape) == 2 else 1
        whole = stack.reshape(len(stack), rows, width)
        if rows == self.rows:
            return whole
        return np.broadcast_to(whole, (len(stack), self.rows, width))


class ScanBody(Struct):
    """The body of a loop as columns."""

    layout: RowLayout
    sources: list[BodyInput]  # by the index of a ScanSource of kind "given"
    products: list[MatrixProduct]
    prelude: list[Value]  # what no step changes, computed before the loop, in order
    after: list[ScanValue]
    emits: list[ScanValue]


class _BodyMatcher(Struct):
    values: Sequence[Value]
    feeds: dict[int, int]  # id of a node -> its number among the feeds
    counts: tuple[int, int]  # sequences, states
    layout: RowLayout
    nodes: NodeTable = field(default_factory=NodeTable)
    sources: list[BodyInput] = field(default_factory=list)
    products: list[MatrixProduct] = field(default_factory=list)
    prelude: list[Value] = field(default_factory=list)
    known: dict[int, ScanValue | BodyInput] = field(default_factory=dict)

    def columns(self, slot: int) -> ScanValue:
        """The columns of a value that has been traced."""
        found = self.known[slot]
        if isinstance(found, BodyInput):
            found = self.known[slot] = self._framed(found)
        return found

    def _framed(self, raw: BodyInput) -> ScanValue:
        if raw.dtype == "float16":
            raise NotCompilable("float16 is rounded after each operation")
        width = self.layout.columns(raw.shape)
        self.sources.append(raw)
        leaf = self.nodes.leaf(ScanSource("given", len(self.sources) - 1), width, raw.dtype, 0)
        return ScanValue(raw.shape, raw.dtype, ((width, leaf),))

    # -------------------------------------------------------------- values

    def trace(self, value: Value) -> None:
        """Note what a value is; NotCompilable when there is no rule for it."""
        if not value.static or value.guard or 0 in value.shape:
            raise NotCompilable(f"{value.op.name} of unknown or no size")
        self.known[value.slot] = self._given(value) or self._fixed(value) or self._computed(value)

    def _given(self, value: Value) -> ScanValue | BodyInput | None:
        shape, dtype = value.shape, value.spec.dtype
        if value.source == "feed":
            index = self.feeds[id(value.origin)]
            if index < self.counts[0]:
                return BodyInput("read", index, shape, dtype)
            if index < sum(self.counts):
                return BodyInput("state", index - self.counts[0], shape, dtype)
            return BodyInput("fixed", value.slot, shape, dtype)
        if value.source == "constant":
            assert value.constant is not None
            if value.constant.size == 1:
                return self._number(value.constant.item(), value)
            return BodyInput("fixed", value.slot, shape, dtype)
        if value.role is Role.FILL and not value.inputs:
            return self._number(value.attrs["value"], value)
        if value.source:
            raise NotCompilable(f"{value.source} within the step")
        return None

    def _number(self, number: object, value: Value) -> ScanValue:
        if value.spec.dtype == "float16":
            raise NotCompilable("float16 is rounded after each operation")
        width = self.layout.columns(value.shape)
        node = self.nodes.number(np.asarray(number, value.spec.dtype).item(), value.spec.dtype)
        return ScanValue(value.shape, value.spec.dtype, ((width, node),))

    def _fixed(self, value: Value) -> BodyInput | None:
        """What only depends on what no step changes is computed once."""
        inputs = [self.known.get(slot) for slot in value.inputs]
        fixed = [isinstance(operand, BodyInput) and operand.kind == "fixed" for operand in inputs]
        given = [self.values[slot].source == "constant" for slot in value.inputs]
        if not value.op.pure or not any(fixed):
            return None
        if not all(a or b for a, b in zip(fixed, given, strict=True)):
            return None
        self.prelude.append(value)
        return BodyInput("fixed", value.slot, value.shape, value.spec.dtype)

    def _computed(self, value: Value) -> ScanValue | BodyInput:
        first = self.known[value.inputs[0]] if value.inputs else None
        if isinstance(first, BodyInput) and first.kind == "read":
            rearrange = _rearrangement(value)
            if rearrange is not None:
                views = (*first.views, rearrange)
                return BodyInput("read", first.index, value.shape, value.spec.dtype, views)
        if value.spec.dtype == "float16":
            raise NotCompilable("float16 is rounded after each operation")
        if value.op.expr is not None and not checks_values(value):
            segments = self._elementwise(value)
        else:
            rule = _RULES.get(value.role)
            if rule is None:
                raise NotCompilable(f"no rule for {value.op.name}")
            segments = rule(self, value)
        return ScanValue(value.shape, value.spec.dtype, segments)

    def _elementwise(self, value: Value) -> Segments:
        assert value.op.expr is not None
        expr = value.op.expr.with_attrs(value.attrs)
        names = tuple(map(name_leaf, value.op.names))
        operands = [self.columns(slot) for slot in value.inputs]
        width = self.layout.columns(value.shape)
        return self.nodes.elementwise(expr, names, operands, width, value.spec.dtype)

    def product(self, value: Value) -> Segments:
        """Rows times a fixed matrix."""
        if value.attrs.get("batch") != 0:
            raise NotCompilable(f"no rule for {value.op.name}")
        matrix = self.known[value.inputs[1]]
        left = self.columns(value.inputs[0])
        over, other = value.attrs["axes"]
        fits = isinstance(matrix, BodyInput) and matrix.kind == "fixed" and len(matrix.shape) == 2
        last = (len(left.shape) - 1,)
        if not fits or self.layout.flat is not None or over != last or len(other) != 1:
            raise NotCompilable("a product of other than rows with a fixed matrix")
        if left.dtype not in ("float32", "float64"):
            raise NotCompilable(f"a product of {left.dtype}")
        assert isinstance(matrix, BodyInput)
        source = ScanSource("dot", len(self.products))
        stage = 1 + max(node.stage for _, node in left.segments)
        width = self.layout.columns(value.shape)
        result = self.nodes.leaf(source, width, left.dtype, stage)
        self.products.append(MatrixProduct(left, matrix.index, other == (1,), source, result))
        return ((width, result),)

    # -------------------------------------------------------------- parts and joins

    def _last_axis(self, shape: Ints) -> int:
        """The number of the axis of columns."""
        if self.layout.flat is not None or not shape:
            raise NotCompilable("parts of values without rows")
        return len(shape) - 1

    def _columns_taken(self, value: Value, shape: Ints) -> tuple[int, int]:
        """Start and size along the columns of what an op takes or fills of a shape."""
        axis = self._last_axis(shape)
        extents = None if value.op.extents is None else value.op.extents(value.attrs, shape)
        if extents is None:
            raise NotCompilable("an index other than a part of the columns")
        if any(extents[i] != (0, size) for i, size in enumerate(shape) if i != axis):
            raise NotCompilable("a part of the rows")
        return extents[axis]

    def part(self, value: Value) -> Segments:
        x = self.columns(value.inputs[0])
        start, size = self._columns_taken(value, x.shape)
        return self.nodes.cut(x.segments, start, size)

    def place(self, value: Value) -> Segments:
        """Columns with zeros around them."""
        g = self.columns(value.inputs[0])
        start, size = self._columns_taken(value, value.shape)
        zero = self.nodes.number(0, value.spec.dtype)
        rest = value.shape[-1] - start - size
        sides = ((start, zero),), ((rest, zero),)
        return (*sides[0][: bool(start)], *g.segments, *sides[1][: bool(rest)])

    def concatenate(self, value: Value) -> Segments:
        if value.attrs["axis"] != self._last_axis(value.shape):
            raise NotCompilable("rows joined")
        return tuple(part for slot in value.inputs for part in self.columns(slot).segments)

    def broadcast(self, value: Value) -> Segments:
        x = self.columns(value.inputs[0])
        width = self.layout.columns(value.shape)
        return x.segments if x.width == width else ((width, x.segments[0][1]),)

    def reshape(self, value: Value) -> Segments:
        """Another shape of the same rows and columns."""
        x = self.columns(value.inputs[0])
        layout = self.layout
        same = layout.columns(value.shape) == x.width and _rows(value.shape) == _rows(x.shape)
        if layout.flat is not None or not same:
            raise NotCompilable("rows and columns are mixed")
        return x.segments


_RULES: dict[Role | None, Callable[[_BodyMatcher, Value], Segments]] = {
    Role.PART: _BodyMatcher.part,
    Role.PLACE: _BodyMatcher.place,
    Role.JOIN: _BodyMatcher.concatenate,
    Role.REPEAT: _BodyMatcher.broadcast,
    Role.RESHAPE: _BodyMatcher.reshape,
    Role.PRODUCT: _BodyMatcher.product,
}


def _rows(shape: Ints) -> int:
    return shape[0] if len(shape) == 2 else 1


def _rearrangement(value: Value) -> Rearrange | None:
    """How a view of one entry is taken of all entries at once."""
    if value.role is Role.RESHAPE:
        shape = value.shape
        return lambda stack: stack.reshape(len(stack), *shape)
    if value.role is Role.PERMUTE:
        order = (0, *(axis + 1 for axis in value.attrs["pattern"]))
        return lambda stack: stack.transpose(order)
    return None


# ------------------------------------------------------------------ a whole step


def _read_values(values: Sequence[Value], roots: Sequence[int]) -> list[Value]:
    """The values whose elements the roots need, in order: what only lends its shape is left out."""
    wanted = set(roots)
    for value in reversed(values):
        if value.slot in wanted:
            reads = (slot for n, slot in enumerate(value.inputs) if n not in value.op.shapes)
            wanted.update(reads)
    return [value for value in values if value.slot in wanted]


def match_body(
    values: Sequence[Value], roots: Sequence[int], feeds: Sequence[object], counts: tuple[int, int]
) -> ScanBody:
    """A body as columns; NotCompilable when it cannot be. The first roots are the states."""
    read = _read_values(values, roots)
    numbers = {id(feed): index for index, feed in enumerate(feeds)}
    reasons = []
    for layout in _row_layouts(read, numbers, counts):
        tracer = _BodyMatcher(values, numbers, counts, layout)
        try:
            for value in read:
                tracer.trace(value)
            results = [tracer.columns(root) for root in roots]
            return ScanBody(
                layout,
                tracer.sources,
                tracer.products,
                tracer.prelude,
                results[: counts[1]],
                results[counts[1] :],
            )
        except NotCompilable as reason:
            reasons.append(str(reason))
    raise NotCompilable("; ".join(reasons))


def _row_layouts(
    read: Sequence[Value], feeds: dict[int, int], counts: tuple[int, int]
) -> list[RowLayout]:
    """The ways to see rows and columns in a step."""
    changing: set[int] = set()
    for value in read:
        fed = feeds.get(id(value.origin)) if value.source == "feed" else None
        if (fed is not None and fed < sum(counts)) or any(
            slot in changing for slot in value.inputs
        ):
            changing.add(value.slot)
    shapes = {value.shape for value in read if value.slot in changing and value.static}
    tables = {shape[0] for shape in shapes if len(shape) == 2} - {1}
    large = {shape for shape in shapes if math.prod(shape) != 1}
    flat = [RowLayout(1, next(iter(large)))] if len(large) == 1 else []
    rows = [RowLayout(next(iter(tables), 1), None)] if len(tables) <= 1 else []
    return rows + flat
