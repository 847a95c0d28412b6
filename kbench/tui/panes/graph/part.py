"""One part of the graph pane: its nodes, which calls are open, and what is folded."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.workbench.analysis.graph_fold import (
    COMPOSITE,
    Folds,
    composed,
    composite_id,
    members_of,
)
from kbench.workbench.protocol.graphs import GraphNode


class GraphPart:
    """The layers of a model, or operations; those of one call are one node until it is opened.

    `more` says how many nodes are left out.
    """

    def __init__(self, rows: Sequence[GraphNode], title: str = "", more: str = "") -> None:
        self.title = title
        self.more = more
        self._rows = rows
        self._calls = members_of(rows)
        self._call_of = {row.id: row.call for row in rows}
        self._opened: set[int] = set()
        self.folds = Folds(composed(rows, self._opened))

    def take_over(self, before: GraphPart) -> None:
        """Open and fold what is open and folded in `before`, by the names of the nodes."""
        opened = {before._calls[call][0].name for call in before._opened}
        self._opened = {call for call, own in self._calls.items() if own[0].name in opened}
        self._compose({before.folds.rows[key].name for key in before.folds.folded})

    def _compose(self, folded: set[str]) -> None:
        """Draw closed calls as one node; the nodes with these names are folded."""
        self.folds = Folds(composed(self._rows, self._opened))
        known = self.folds.inputs.items()
        self.folds.folded = {
            key for key, taken in known if taken and self.folds.rows[key].name in folded
        }

    def _set_opened(self, opened: set[int]) -> None:
        folded = {self.folds.rows[key].name for key in self.folds.folded}
        self._opened = opened
        self._compose(folded)

    def node(self, key: int) -> GraphNode:
        """The tensor of a node: of a call its result."""
        row = self.folds.rows[key]
        if row.kind != COMPOSITE or row.call is None:
            return row
        return next(own for own in self._calls[row.call] if own.name == row.name)

    def operations(self, key: int) -> int:
        """How many operations one node stands for; 0 if for itself alone."""
        row = self.folds.rows[key]
        return len(self._calls[row.call]) if row.kind == COMPOSITE and row.call is not None else 0

    def open(self, key: int) -> int | None:
        """Draw the operations of a call one by one; its result, or None if it is no closed call."""
        row = self.folds.rows[key]
        if row.kind != COMPOSITE or row.call is None:
            return None
        result = self.node(key).id
        self._set_opened(self._opened | {row.call})
        return result

    def close(self, key: int) -> int | None:
        """Draw the call of its result as one node again, or None if `key` is not that result."""
        call = self.folds.rows[key].call
        if call not in self._opened or call is None:
            return None
        own = {row.id for row in self._calls[call]}
        if any(user in own for user in self.folds.users[key]):
            return None
        self._set_opened(self._opened - {call})
        return composite_id(call)

    def close_all(self) -> None:
        """Each call is one node."""
        self._set_opened(set())

    def open_all(self) -> None:
        """Each operation is a node."""
        self._set_opened(set(self._calls))

    def matches(self, words: str) -> list[int]:
        """Nodes with all the words: those that are drawn or folded, then those inside of calls."""
        found = self.folds.matches(words)
        if len(self.folds.rows) == len(self._rows):
            return found
        hidden = (key for key in Folds(self._rows).matches(words) if key not in self.folds.rows)
        return found + [key for key in hidden if self._stand(key) not in found]

    def reveal(self, key: int) -> None:
        """Open the call and unfold what hides a node."""
        if (stand := self._stand(key)) is not None:
            self.open(stand)
        self.folds.reveal(key)

    def _stand(self, key: int) -> int | None:
        """The node of the closed call that an operation is in; None if it is drawn itself."""
        call = self._call_of.get(key)
        return None if key in self.folds.rows or call is None else composite_id(call)
