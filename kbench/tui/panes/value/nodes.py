"""The value of a node of a graph in the value pane, and again after each cell."""

from __future__ import annotations

import contextlib
from functools import partial

from kbench.tui.panes import rows as pane_rows
from kbench.tui.panes.bench import Bench
from kbench.tui.panes.following import Following
from kbench.tui.panes.graph.view import GraphView
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.session.link import AskFailed
from kbench.tui.text.text import safe
from kbench.workbench.core_types import JsonObject
from kbench.workbench.protocol.graphs import Node, NodeReply
from kbench.workbench.protocol.record import MissingFieldError

TIMEOUT_SECONDS = 10.0
"""Seconds for a value: it may have to be computed."""


class NodeValues:
    """Asks for what is wanted; a refusal is told, and what is shown stays."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._asked: Node | None = None
        self._shown = ""  # the address of what was found for it
        self._following = Following(bench, bench.run)
        bench.told("node", self._followed)
        bench.on(GraphView.ValueWanted, self._wanted)

    def _wanted(self, event: GraphView.ValueWanted) -> None:
        node = event.node
        asked = Node(name=event.root, number=node.id, node=node.name, layers=event.layers)
        inside = event.view.id == "value-graph"
        self._bench.run(partial(self._show, asked, inside))

    async def _show(self, asked: Node, inside: bool) -> None:
        pane = self._bench.view(ValuePane)
        try:
            reply = await self._bench.ask(asked, TIMEOUT_SECONDS)
        except AskFailed as error:
            self._bench.notify(safe(str(error)), 5)
            return
        if pane is None:
            return
        self._asked, self._shown = asked, reply.name
        row = pane_rows.row_of(reply.row)
        if inside:
            pane.enter(row)
        else:
            pane.open(row)
            self._bench.go("value")
        pane.set_when(reply.words)

    def follow(self, pane: ValuePane) -> None:
        """While a cell runs: have a node that is shown looked at between its calls."""
        asked, question = self._asked, None
        if asked is not None and pane.shown == self._shown and self._bench.shows("value"):
            question = partial(asked.replaced, live=True)
        self._following.update(question)

    def _followed(self, data: JsonObject) -> None:
        pane = self._bench.view(ValuePane)
        if pane is None or pane.shown != self._shown or data.get("name") != self._shown:
            return
        with contextlib.suppress(MissingFieldError):  # of another version
            reply = NodeReply.from_json(data)
            pane.travel(pane_rows.row_of(reply.row), reply.words)

    def again(self, pane: ValuePane) -> bool:
        """After a cell: read the value anew, if it is that of a node."""
        asked = self._asked
        if asked is None or pane.shown != self._shown:
            return False
        self._bench.run(partial(self._refresh, pane, asked))
        return True

    async def _refresh(self, pane: ValuePane, asked: Node) -> None:
        try:
            reply = await self._bench.ask(asked, TIMEOUT_SECONDS)
        except AskFailed as error:
            pane.set_note(safe(str(error)))
            return
        if pane.shown == reply.name:
            pane.travel(pane_rows.row_of(reply.row), reply.words)
