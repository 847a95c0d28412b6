"""Which nodes of a graph are drawn: calls as one node, folding, and the way to a hidden node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from kbench.workbench.analysis import graph_text
from kbench.workbench.protocol.graphs import GraphNode, Ran

COMPOSITE = "composite"
"""Kind of a row that stands for all rows of a call."""
_FIRST_COMPOSITE = 1 << 32
"""Ids from here on are those of composites: far beyond the number of nodes of any graph."""
_MAX_SPECS = 2
"""Results of a composite whose dtype and shape are told."""


def composed(rows: Sequence[GraphNode], opened: Set[int]) -> list[GraphNode]:
    """The rows with one in place of those of each call, unless its number is in `opened`.

    Such a row has the id `composite_id` of its call, takes what the call takes from elsewhere, and
    is called after the result that is used elsewhere.
    """
    members = members_of(rows)
    closed = {call: own for call, own in members.items() if call not in opened and len(own) > 1}
    stands = {row.id: composite_id(call) for call, own in closed.items() for row in own}
    used: dict[int, set[int | None]] = {}
    for row in rows:
        for source in row.inputs:
            if source is not None:
                used.setdefault(source, set()).add(stands.get(row.id))
    for row in rows:  # a constant of one call alone is a part of it
        users = used.get(row.id, {None})
        if row.kind == "constant" and len(users) == 1 and None not in users:
            stands[row.id] = next(key for key in users if key is not None)
    found: dict[int, GraphNode] = {}
    for row in rows:
        key = stands.get(row.id, row.id)
        if key in found:
            continue
        if key == row.id:
            found[key] = row.replaced(inputs=_mapped(row.inputs, stands))
        else:
            own = closed[key - _FIRST_COMPOSITE]
            results = [one for one in own if used.get(one.id, {None}) != {key}]
            found[key] = _composite(key, own, results or own, stands)
    return list(found.values())


def members_of(rows: Sequence[GraphNode]) -> dict[int, list[GraphNode]]:
    """The rows of each call, by its number."""
    found: dict[int, list[GraphNode]] = {}
    for row in rows:
        if row.call is not None:
            found.setdefault(row.call, []).append(row)
    return found


def composite_id(call: int) -> int:
    """The id of the row that stands for a call; no row of the graph has one as high."""
    return _FIRST_COMPOSITE + call


def _mapped(sources: Sequence[int | None], stands: Mapping[int, int]) -> list[int | None]:
    return [source if source is None else stands.get(source, source) for source in sources]


def _composite(
    key: int, own: Sequence[GraphNode], results: Sequence[GraphNode], stands: Mapping[int, int]
) -> GraphNode:
    """The row that stands for those of one call; `results` are used elsewhere, or by nobody."""
    first = results[0]
    taken = [source for row in own for source in _mapped(row.inputs, stands) if source != key]
    specs = list(dict.fromkeys(row.spec for row in results))
    more = ", …" if len(specs) > _MAX_SPECS else ""
    bad = max((row.bad or 0 for row in own), default=0)
    return GraphNode(
        id=key,
        inputs=list(dict.fromkeys(taken)),
        name=first.name,
        kind=COMPOSITE,
        op=first.called,
        spec=", ".join(specs[:_MAX_SPECS]) + more,
        place=first.place,
        last=first.last,
        bad=bad or None,
        ran=_ran([row.ran for row in own if row.ran is not None]),
        call=first.call,
        called=first.called,
    )


def _ran(parts: Sequence[Ran]) -> Ran | None:
    """How the parts of a composite ran: together, if a step ran them all as one."""
    if not parts:
        return None
    forms = ", ".join(dict.fromkeys(part.form for part in parts))
    steps = {(part.form, part.seconds) for part in parts if part.within}
    alone = [part.seconds for part in parts if not part.within]
    seconds = sum(alone) + sum(seconds for _, seconds in steps)
    return Ran(form=forms, seconds=seconds, within=not alone)


class Folds:
    """The rows of one graph, each with an `id` and the ids of its `inputs`.

    A folded node hides what is reached through it alone; what other nodes use too stays.
    """

    def __init__(self, rows: Sequence[GraphNode]) -> None:
        self.rows = {row.id: row for row in rows}
        used = {source for row in rows for source in row.inputs}
        kinds = {key: row.kind for key, row in self.rows.items()}
        inline = {key for key, kind in kinds.items() if kind in graph_text.INLINE_KINDS}
        self.inline = inline & used
        self.inputs = {key: self._known(row) for key, row in self.rows.items()}
        self.users: dict[int, list[int]] = {key: [] for key in self.rows}
        for key, sources in self.inputs.items():
            for source in sources:
                self.users[source].append(key)
        self.roots = [key for key in self.rows if not self.users[key] and key not in self.inline]
        self.folded: set[int] = set()

    def _known(self, row: GraphNode) -> list[int]:
        shown = (
            source for source in row.inputs if source in self.rows and source not in self.inline
        )
        return list(dict.fromkeys(shown))

    def _reached(self, roots: Sequence[int], through: set[int]) -> set[int]:
        """The nodes below some, without going on from those in `through`."""
        found = set(roots)
        queue = list(roots)
        for key in queue:  # grows while it is read
            if key in through:
                continue
            for source in self.inputs[key]:
                if source not in found:
                    found.add(source)
                    queue.append(source)
        return found

    def visible(self) -> list[GraphNode]:
        """The rows to draw, with what stands inline beside them; a folded one leads nowhere."""
        shown = self._reached(self.roots, self.folded)
        rows = []
        for key, row in self.rows.items():
            if key in self.inline:
                rows.append(row)
            elif key in shown:
                beside = [source for source in row.inputs if source in self.inline]
                rows.append(row.replaced(inputs=beside) if key in self.folded else row)
        return rows

    def hidden(self, key: int) -> int:
        """How many nodes a fold hides."""
        if key not in self.folded:
            return 0
        shown = self._reached(self.roots, self.folded)
        below = self._reached([key], set())
        return len(below - shown)

    def toggle(self, key: int) -> None:
        """Fold a node, or unfold it."""
        if key in self.folded:
            self.folded.discard(key)
        elif self.inputs.get(key):
            self.folded.add(key)

    def fold_all(self) -> None:
        """Leave only the outputs; unfolding one shows its inputs, folded."""
        self.folded = {key for key, sources in self.inputs.items() if sources}

    def unfold_all(self) -> None:
        """Show every node."""
        self.folded = set()

    def reveal(self, key: int) -> None:
        """Unfold what hides a node, along a shortest way to it from an output."""
        below: dict[int, int] = {}  # the way down from each user, towards the node
        queue = [key]
        for node in queue:  # grows while it is read
            if not self.users[node]:
                while node != key:
                    self.folded.discard(node)
                    node = below[node]
                return
            for user in self.users[node]:
                if user not in below:
                    below[user] = node
                    queue.append(user)

    def matches(self, words: str) -> list[int]:
        """Nodes whose name, operation or shape has all the words, in the order of drawing."""
        wanted = words.lower().split()
        found = []
        for key in graph_text.order(self.inputs, self.inline) if wanted else ():
            row = self.rows[key]
            text = f"{row.name} {row.op} {row.spec}".lower()
            if all(word in text for word in wanted):
                found.append(key)
        return found
