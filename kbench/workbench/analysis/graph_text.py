"""A graph as lines of text: nodes from the output down to the inputs, rails beside them.

●    add_1    Add        float32[?, 8]
├─╮
● │  dense_2  Dense      float32[?, 8]
├─╯
●    dense_1  Dense      float32[?, 8]
●    input_1  InputLayer float32[?, 4]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kbench.workbench.protocol.graphs import GraphNode

INLINE_KINDS = ("variable", "constant")
"""Of nodes that stand on the line of the node that takes them."""
_PLAIN = str.maketrans("●│─├┤┼╮╯╭╰┴", "*|-+++\\//\\+")
_MAX_INLINE_INPUTS = 4
"""That are named on a line."""


class GraphLine(Struct, frozen=True):
    """`rails` and, unless the line only joins them, the node beside them."""

    rails: str
    row: GraphNode | None = None
    beside: str = ""


def lines(rows: Sequence[GraphNode], ascii: bool = False) -> list[GraphLine]:
    """The lines of rows as `describe.graph` gives them: with an `id` and the ids of `inputs`."""
    known = {row.id: row for row in rows}
    folded = {key for key, row in known.items() if row.kind in INLINE_KINDS and len(known) > 1}
    inputs = {key: _distinct(row, known, folded) for key, row in known.items()}
    rails = _Rails()
    found: list[GraphLine] = []
    for key in order(inputs, folded):
        texts = [_folded_text(known[source]) for source in known[key].inputs if source in folded]
        more = ", …" if len(texts) > _MAX_INLINE_INPUTS else ""
        beside = ", ".join(texts[:_MAX_INLINE_INPUTS]) + more
        found.append(GraphLine(rails.node(key), known[key], beside))
        joint = rails.follow(key, inputs[key])
        if joint:
            found.append(GraphLine(joint))
    if not ascii:
        return found
    return [
        GraphLine(line.rails.translate(_PLAIN), line.row, line.beside.replace("…", "..."))
        for line in found
    ]


def _distinct(row: GraphNode, known: Mapping[int, GraphNode], folded: set[int]) -> list[int]:
    shown = [source for source in row.inputs if source is not None]
    shown = [source for source in shown if source in known and source not in folded]
    return list(dict.fromkeys(shown))


def _folded_text(row: GraphNode) -> str:
    return f"{row.name.removesuffix(':0')} {row.spec}"


def order(inputs: Mapping[int, Sequence[int]], folded: set[int]) -> list[int]:
    """Every node before its inputs, and the inputs of one node in their order."""
    used = {source for sources in inputs.values() for source in sources}
    roots = [key for key in inputs if key not in used and key not in folded]
    return list(reversed(inputs_first(inputs, roots)))


def inputs_first(inputs: Mapping[int, Sequence[int]], roots: Iterable[int]) -> list[int]:
    """What is reached from `roots`, each behind its inputs; the last root is walked first."""
    done: dict[int, None] = {}
    stack = [(key, False) for key in roots]
    while stack:
        key, expanded = stack.pop()
        if expanded:
            done[key] = None
        elif key not in done:
            stack.append((key, True))
            stack.extend((source, False) for source in inputs[key] if source not in done)
    return list(done)


class _Rails:
    """The edges that are under way, one column each; None is a free column."""

    def __init__(self) -> None:
        self._columns: list[int | None] = []

    def _place(self, key: int) -> int:
        """The column of a node, a new one if no edge has led to it."""
        if key not in self._columns:
            self._columns[self._free()] = key
        return self._columns.index(key)

    def _free(self) -> int:
        if None not in self._columns:
            self._columns.append(None)
        return self._columns.index(None)

    def node(self, key: int) -> str:
        """The rails of the line on which a node stands."""
        at = self._place(key)
        marks = ["│" if node is not None else " " for node in self._columns]
        marks[at] = "●"
        return " ".join(marks)

    def follow(self, key: int, inputs: Sequence[int]) -> str:
        """Lead the node's column on to its inputs; the line that joins them if there must be."""
        at = self._place(key)
        before = list(self._columns)
        self._columns[at] = None
        targets = []
        for source in inputs:
            if source not in self._columns:
                free = at if self._columns[at] is None else self._free()
                self._columns[free] = source
            targets.append(self._columns.index(source))
        joint = "" if targets in ([], [at]) else self._joint(at, set(targets), before)
        while self._columns and self._columns[-1] is None:
            self._columns.pop()
        return joint

    def _joint(self, at: int, targets: set[int], before: list[int | None]) -> str:
        first, last = min({at, *targets}), max({at, *targets})
        text = ""
        for column, after in enumerate(self._columns):
            was = column < len(before) and before[column] is not None
            left, right = first < column, column < last
            inside = first <= column <= last
            if column == at:
                mark = _corner(left, right, up=True, down=column in targets)
            elif column in targets:
                mark = _corner(left, right, up=was, down=True)
            elif after is not None:
                mark = "┼" if inside else "│"
            else:
                mark = "─" if inside else " "
            text += mark + ("─" if inside and right else " ")
        return text.rstrip()


def _corner(left: bool, right: bool, up: bool, down: bool) -> str:
    """The character that joins these sides."""
    if left and right:
        return "┼" if down else "┴"
    if up and down:
        return "┤" if left else "├"
    if down:
        return "╮" if left else "╭"
    return "╯" if left else "╰"
