"""Which nodes of a graph are drawn: folding, what a fold hides, and the way to a hidden node."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.workbench.analysis import graph_text
from kbench.workbench.protocol.graphs import GraphNode


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
