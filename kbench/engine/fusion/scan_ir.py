"""The values of a step by their columns: what a compiled loop computes, as nodes without shapes.

A value is a row of segments side by side, each computed by one node. So parts of the last axis and
joining along it cost nothing: a part of a sum is the sum of the parts. Nodes are shared: the
same work is the same object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from kbench.engine.graph.expr.expression import Expr


class ScanSource(Struct, frozen=True):
    """Memory that steps read: its kind ("read", "fixed", "state", "dot", ...) and number there."""

    kind: str
    index: int


class ScanNode(Struct, eq=False):
    """Some columns of a row, or a single one that stands for all.

    Either columns from `offset` on of a `source`, or a `number`, or `expr`, which reads `inputs` as
    the leaves `names`. `stage`
    is how many products there are, one behind the other, on the way to it.
    """

    width: int
    dtype: str
    stage: int = 0
    source: ScanSource | None = None
    offset: int = 0
    number: float | int | bool | None = None
    expr: Expr | None = None
    names: tuple[Expr, ...] = ()
    inputs: tuple[ScanNode, ...] = ()

    @property
    def plain(self) -> bool:
        """True for what is there already."""
        return self.source is not None or self.number is not None


Segments = tuple[tuple[int, ScanNode], ...]


class ScanValue(Struct, frozen=True):
    """A value of a step: its shape there, its dtype, and its columns."""

    shape: tuple[int, ...]
    dtype: str
    segments: Segments

    @property
    def width(self) -> int:
        return sum(width for width, _ in self.segments)

    def same(self, other: ScanValue) -> bool:
        """Whether both are computed by the same nodes."""
        return self.segments == other.segments and self.dtype == other.dtype


class NodeTable(Struct):
    """Makes nodes, each once."""

    _known: dict[object, ScanNode] = field(default_factory=dict)

    def leaf(
        self, source: ScanSource, width: int, dtype: str, stage: int, offset: int = 0
    ) -> ScanNode:
        key = (source, offset, width)
        return self._known.setdefault(key, ScanNode(width, dtype, stage, source, offset))

    def number(self, value: float | int | bool, dtype: str) -> ScanNode:
        key = (repr(value), dtype)  # -0.0 is not 0.0, and NaN is NaN
        return self._known.setdefault(key, ScanNode(1, dtype, number=value))

    def apply(
        self, expr: Expr, names: tuple[Expr, ...], inputs: tuple[ScanNode, ...], dtype: str
    ) -> ScanNode:
        key = (expr, names, dtype, *(id(value) for value in inputs))
        if key not in self._known:
            width = max(value.width for value in inputs)
            stage = max(value.stage for value in inputs)
            self._known[key] = ScanNode(width, dtype, stage, expr=expr, names=names, inputs=inputs)
        return self._known[key]

    def part(self, node: ScanNode, start: int, width: int) -> ScanNode:
        """Some columns of a node."""
        if node.width == 1 or (start == 0 and width == node.width):
            return node
        if node.source is not None:
            return self.leaf(node.source, width, node.dtype, node.stage, node.offset + start)
        assert node.expr is not None
        inputs = tuple(self.part(operand, start, width) for operand in node.inputs)
        return self.apply(node.expr, node.names, inputs, node.dtype)

    def cut(self, segments: Segments, start: int, width: int) -> Segments:
        """The segments of some columns."""
        found = []
        position = 0
        for size, node in segments:
            low, high = max(start, position), min(start + width, position + size)
            if low < high:
                found.append((high - low, self.part(node, low - position, high - low)))
            position += size
        return tuple(found)

    def elementwise(
        self,
        expr: Expr,
        names: tuple[Expr, ...],
        values: Sequence[ScanValue],
        width: int,
        dtype: str,
    ) -> Segments:
        """An expression of values, one of one column being repeated."""
        bounds = {0, width}
        for value in values:
            if value.width == width:
                bounds |= set(_bounds(value.segments))
        edges = sorted(bounds)
        found = []
        for low, high in zip(edges, edges[1:], strict=False):
            inputs = tuple(self._piece(value, width, low, high) for value in values)
            found.append((high - low, self._made(expr, names, inputs, dtype)))
        return tuple(found)

    def _piece(self, value: ScanValue, width: int, low: int, high: int) -> ScanNode:
        if value.width != width:
            return value.segments[0][1]
        ((_, node),) = self.cut(value.segments, low, high - low)
        return node

    def _made(
        self, expr: Expr, names: tuple[Expr, ...], inputs: tuple[ScanNode, ...], dtype: str
    ) -> ScanNode:
        """A node, or the other term of a sum with nothing: parts are added up that way."""
        if expr.is_call("add") and expr.args == names:
            for value, other in (inputs, inputs[::-1]):
                if value.number == 0 and other.dtype == dtype:
                    return other
        return self.apply(expr, names, inputs, dtype)


def _bounds(segments: Segments) -> Iterator[int]:
    position = 0
    for width, _ in segments:
        position += width
        yield position
