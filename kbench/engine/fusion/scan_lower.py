"""From the columns of a step to the program of its kernel: what runs when, and where values lie.

Products divide a step into phases: elementwise work of phase n reads products whose rows were
computed up to phase n - 1. A value that two phases need is kept by the first of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from msgspec import Struct, field

from kbench.engine.codegen.loop_program import Input, LoopProgram, LoopValue
from kbench.engine.codegen.scan_program import Access, Loop, Phase, Product, Recurrence
from kbench.engine.fusion.scan_ir import ScanNode, ScanSource, ScanValue
from kbench.engine.fusion.scan_match import MatrixProduct, ScanBody
from kbench.engine.graph.expr.expression import Expr, input_leaf, local_leaf, number_leaf

MAX_LINES = 240
"""Statements of a compiled step: they bound the time that compiling takes."""
MAX_ACCESSES = 120
"""Arrays that a compiled step reads or writes."""

KINDS = {"dot": "fixed", "temp": "fixed", "next": "next", "emit": "moving"}


class ColumnRange(Struct, frozen=True):
    """What an access of the program stands for: some columns of a source."""

    source: ScanSource
    offset: int
    width: int


class _Store(Struct, frozen=True):
    place: ColumnRange
    node: ScanNode


class ScanPlan(Struct):
    """A program, what its accesses stand for, and where results are found."""

    program: Recurrence
    places: list[ColumnRange]
    products: list[MatrixProduct]
    widths: dict[ScanSource, int]  # of "dot" and "temp", which are memory of a run
    dtypes: dict[ScanSource, str]
    last: dict[int, ScanSource]  # states that no step reads -> what emitted or state they equal


class _ScanPlanner(Struct):
    body: ScanBody
    rows_emits: Sequence[bool]  # whether the columns of an emitted value are contiguous
    demands: list[list[_Store]] = field(default_factory=list)
    aliases: dict[ScanSource, ScanSource] = field(default_factory=dict)
    widths: dict[ScanSource, int] = field(default_factory=dict)
    dtypes: dict[ScanSource, str] = field(default_factory=dict)
    left: dict[int, ColumnRange] = field(default_factory=dict)  # product -> where its rows lie
    places: dict[ColumnRange, int] = field(default_factory=dict)
    accesses: list[Access] = field(default_factory=list)

    def plan(self) -> ScanPlan:
        body = self.body
        stages = [node.stage for value in self._values() for _, node in value.segments]
        self.demands = [[] for _ in range(1 + max(stages, default=0))]
        last = self._unread()
        for index, value in enumerate(body.after):
            if index not in last:
                self._require_state(index, value)
        for index, value in enumerate(body.emits):
            self._require(ScanSource("emit", index), value)
        for number, product in enumerate(body.products):
            self._require_rows(number, product)
        self._keep_shared()
        phases = tuple(self._phase(stage) for stage in range(len(self.demands)))
        phases = tuple(phase for phase in phases if phase.products or phase.loops)
        program = Recurrence(tuple(self.accesses), phases, self._is_split(phases))
        return ScanPlan(program, list(self.places), body.products, self.widths, self.dtypes, last)

    def _values(self) -> Iterator[ScanValue]:
        yield from self.body.after
        yield from self.body.emits
        for product in self.body.products:
            yield product.left
            yield ScanValue((), "", ((0, product.result),))

    # -------------------------------------------------------------- what is computed

    def _unread(self) -> dict[int, ScanSource]:
        """States that no step reads and that equal something else."""
        body = self.body
        read = {source.index for source in body.sources if source.kind == "state"}
        found: dict[int, ScanSource] = {}
        for index, value in enumerate(body.after):
            others = [
                ScanSource("emit", n) for n, emit in enumerate(body.emits) if emit.same(value)
            ]
            others += [ScanSource("next", n) for n in sorted(read) if body.after[n].same(value)]
            if index not in read and others:
                found[index] = others[0]
        return found

    def _require(self, target: ScanSource, value: ScanValue) -> None:
        """Store a value, segment by segment, each in its phase."""
        self.dtypes[target] = value.dtype
        offset = 0
        for width, node in value.segments:
            place = ColumnRange(target, offset, width)
            self.demands[node.stage].append(_Store(place, node))
            offset += width
        self.widths[target] = offset

    def _require_state(self, index: int, value: ScanValue) -> None:
        """A state after the step; a product that is nothing else is written there at once."""
        target = ScanSource("next", index)
        source = _whole_source(value)
        if source is not None and source.kind == "dot" and source not in self.aliases:
            self.aliases[source] = target
            self.dtypes[target], self.widths[target] = value.dtype, value.width
            return
        self._require(target, value)

    def _require_rows(self, number: int, product: MatrixProduct) -> None:
        """See that the rows of a product lie in memory."""
        value = product.left
        if len(value.segments) == 1 and value.segments[0][1].source is not None:
            width, node = value.segments[0]
            if node.width == width:
                self.left[number] = ColumnRange(node.source, node.offset, width)  # type: ignore[arg-type]
                return
        for target in self._homes(value):
            self.left[number] = ColumnRange(target, 0, value.width)
            return
        target = ScanSource("temp", len(self.widths))
        self._require(target, value)
        self.left[number] = ColumnRange(target, 0, value.width)

    def _homes(self, value: ScanValue) -> Iterator[ScanSource]:
        """Where a value is stored anyway."""
        for index, state in enumerate(self.body.after):
            if state.same(value) and ScanSource("next", index) in self.widths:
                yield ScanSource("next", index)
        for index, emit in enumerate(self.body.emits):
            if emit.same(value) and self.rows_emits[index]:
                yield ScanSource("emit", index)
        for number, place in self.left.items():
            if place.source.kind == "temp" and self.body.products[number].left.same(value):
                yield place.source

    # -------------------------------------------------------------- values of several phases

    def _keep_shared(self) -> None:
        """Keep what a later phase needs of an earlier one; read it there."""
        computed: dict[ScanNode, tuple[int, ScanNode]] = {}  # phase, and the node as computed there
        for stage, stores in enumerate(self.demands):
            needed = dict.fromkeys(n for store in stores for n in _needed(store.node, computed))
            replaced = {read: self._kept(*computed[read]) for read in needed if read in computed}
            memo: dict[ScanNode, ScanNode] = {}
            self.demands[stage] = [
                _Store(store.place, _substituted(store.node, replaced, memo)) for store in stores
            ]
            for node in needed:
                computed.setdefault(node, (stage, memo.get(node, node)))

    def _kept(self, stage: int, node: ScanNode) -> ScanNode:
        """Where a node computed in a phase is found afterwards."""
        for store in self.demands[stage]:
            if store.node is node and store.place.width == node.width and self._rests(store.place):
                place = store.place
                return ScanNode(node.width, node.dtype, stage, place.source, place.offset)
        target = ScanSource("temp", len(self.widths))
        self.widths[target], self.dtypes[target] = node.width, node.dtype
        self.demands[stage].append(_Store(ColumnRange(target, 0, node.width), node))
        return ScanNode(node.width, node.dtype, stage, target, 0)

    def _rests(self, place: ColumnRange) -> bool:
        return place.source.kind != "emit" or self.rows_emits[place.source.index]

    # -------------------------------------------------------------- the program

    def _access(self, place: ColumnRange, dtype: str) -> int:
        source = self.aliases.get(place.source, place.source)
        place = ColumnRange(source, place.offset, place.width)
        if place not in self.places:
            self.places[place] = len(self.places)
            kind = KINDS.get(source.kind) or self._given_kind(source)
            self.accesses.append(Access(kind, dtype))
        return self.places[place]

    def _given_kind(self, source: ScanSource) -> str:
        return {"read": "moving", "state": "state", "fixed": "fixed"}[
            self.body.sources[source.index].kind
        ]

    def _phase(self, stage: int) -> Phase:
        products = []
        for number, product in enumerate(self.body.products):
            if product.result.stage != stage:
                continue
            self.widths[product.source] = product.result.width
            self.dtypes[product.source] = product.left.dtype
            left = self._access(self.left[number], product.left.dtype)
            target = ColumnRange(product.source, 0, product.result.width)
            products.append(Product(left, self._access(target, product.left.dtype)))
        widths: dict[int, list[_Store]] = {}
        for store in self.demands[stage]:
            widths.setdefault(store.place.width, []).append(store)
        loops = tuple(self._loop(width, stores) for width, stores in widths.items())
        return Phase(tuple(products), loops)

    def _loop(self, width: int, stores: Sequence[_Store]) -> Loop:
        """One loop over columns that computes and stores."""
        leaves: dict[ScanNode, Expr] = {}
        reads: dict[int, Input] = {}
        values: list[LoopValue] = []
        for node in _ordered([store.node for store in stores]):
            if node.source is not None:
                access = self._access(ColumnRange(node.source, node.offset, node.width), node.dtype)
                reads.setdefault(access, Input(node.dtype, (node.width == width,)))
                leaves[node] = input_leaf(list(reads).index(access))
            else:
                values.append(LoopValue(_expression(node, leaves), node.dtype))
                leaves[node] = local_leaf(len(values) - 1)
        for node in dict.fromkeys(store.node for store in stores if store.node.source is not None):
            values.append(LoopValue(leaves[node], node.dtype))
            leaves[node] = local_leaf(len(values) - 1)
        writes = [self._access(store.place, self.dtypes[store.place.source]) for store in stores]
        stored = tuple(leaves[store.node].index for store in stores)
        program = LoopProgram(tuple(reads.values()), tuple(values), stored)
        return Loop(program, tuple(reads), tuple(writes))

    def _is_split(self, phases: Sequence[Phase]) -> bool:
        """Whether columns never meet: each loop reads those that it writes, of all states."""
        places = list(self.places)
        loops = [loop for phase in phases for loop in phase.loops]
        if any(phase.products for phase in phases) or len(loops) != 1:
            return False
        wide = {places[n].width for n in loops[0].wide}
        states = [place for place in places if self.accesses[places.index(place)].kind == "state"]
        whole = all(place.offset == 0 for place in places)
        return len(wide) == 1 and whole and all(state.width in wide for state in states)


def _whole_source(value: ScanValue) -> ScanSource | None:
    """The source that a value is all columns of, if it is nothing else."""
    if len(value.segments) != 1:
        return None
    width, node = value.segments[0]
    return node.source if node.offset == 0 and node.width == width else None


def _needed(root: ScanNode, computed: Container[ScanNode]) -> list[ScanNode]:
    """The nodes to compute for one, and in front of them those that an earlier phase computed."""
    found: dict[ScanNode, None] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        if node in found or node.plain:
            continue
        found[node] = None
        if node not in computed:
            stack.extend(node.inputs)
    return list(found)


def _substituted(
    node: ScanNode, replaced: dict[ScanNode, ScanNode], memo: dict[ScanNode, ScanNode]
) -> ScanNode:
    if node in replaced:
        return replaced[node]
    if node.plain:
        return node
    if node not in memo:
        inputs = tuple(_substituted(operand, replaced, memo) for operand in node.inputs)
        same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
        made = ScanNode(
            node.width, node.dtype, node.stage, expr=node.expr, names=node.names, inputs=inputs
        )
        memo[node] = node if same else made
    return memo[node]


def _ordered(roots: Sequence[ScanNode]) -> list[ScanNode]:
    """Nodes behind their inputs."""
    order: dict[ScanNode, None] = {}
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if node in order:
            continue
        if ready:
            order[node] = None
            continue
        stack.append((node, True))
        stack.extend((operand, False) for operand in reversed(node.inputs) if operand not in order)
    return list(order)


def _expression(node: ScanNode, leaves: dict[ScanNode, Expr]) -> Expr:
    if node.number is not None:
        return number_leaf(node.number)
    assert node.expr is not None
    table = dict(zip(node.names, (leaves[operand] for operand in node.inputs), strict=True))
    return node.expr.replaced(table)


def lower_body(body: ScanBody, rows_emits: Sequence[bool]) -> ScanPlan | None:
    """The program of a body; None when it is too large to be compiled."""
    planned = _ScanPlanner(body, rows_emits).plan()
    lines = sum(loop.lines for loop in planned.program.loops)
    if lines > MAX_LINES or len(planned.places) > MAX_ACCESSES or not planned.program.loops:
        return None
    return planned
