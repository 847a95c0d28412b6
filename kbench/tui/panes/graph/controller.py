"""Fills the graph pane from the inspector, page by page, and answers the keys of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kbench.tui.dialogs.dialogs import InputDialog
from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.graph.view import GraphView
from kbench.tui.panes.variables.view import VariablesTable
from kbench.tui.session.link import AskFailed, Latest
from kbench.tui.text.glyphs import counted
from kbench.tui.text.text import safe
from kbench.workbench.contents.address import root_of
from kbench.workbench.protocol.graphs import Graph, GraphReply

MAX_NODES = 10_000
"""Nodes that are drawn; the title tells how many there are."""
GRAPH_KINDS = ("placeholder", "tensor", "update", "function", "variable")


class GraphController(PaneController):
    """One name at a time; fetched again after each cell while it is on the screen."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.name = ""
        self._shown = ""  # what is drawn
        self._dirty = False
        self._request = Latest(bench.run)
        bench.on(VariablesTable.Pointed, lambda event: self.point(event.name))
        bench.on(VariablesTable.GraphWanted, self._wanted)
        bench.on(GraphView.PlaceWanted, lambda event: bench.show_place(event.place))
        bench.on(GraphView.SearchWanted, lambda event: self.search(event.view))

    @property
    def _view(self) -> GraphView | None:
        return self.bench.view(GraphView, "graph")

    def _wanted(self, event: VariablesTable.GraphWanted) -> None:
        table = self.bench.view(VariablesTable)
        if table is not None and table.find(event.name) is not None:
            self.open(event.name)

    def open(self, name: str) -> None:
        """Show the graph of a name and go there."""
        self.follow(name)
        self.bench.go("graph")

    def follow(self, name: str) -> None:
        """Show the graph of a name as soon as the pane is on the screen."""
        if name != self.name:
            self.name, self._dirty = name, True
        self.refresh()

    def point(self, name: str) -> None:
        """The cursor in the variables is on a name: follow it if it has a graph."""
        table = self.bench.view(VariablesTable)
        row = None if table is None else table.find(name)
        if row is not None and (row.kind in GRAPH_KINDS or row.parts) and self.bench.shows("graph"):
            self.follow(name)

    def changed(self, names: Sequence[str] | None = None, many: bool = False) -> None:
        """Something has run; or of these names one may be the graph's."""
        if names is not None and root_of(self.name) not in names:
            return
        self._dirty = bool(self.name)
        self.refresh()

    def forget(self) -> None:
        """The kernel is another one."""
        self.name, self._shown, self._dirty = "", "", False
        if (view := self._view) is not None:
            view.clear()
            self._set_title("Graph")

    def refresh(self) -> None:
        """Ask for what is both old and on the screen."""
        if self._dirty and self.name and self.bench.shows("graph"):
            self._request.submit(self._fetch)

    def _set_title(self, words: str) -> None:
        self.bench.title("graph", words)

    async def _fetch(self) -> None:
        view, name = self._view, self.name
        if view is None or not name:
            return
        view.root = name
        self._dirty = False
        again = name == self._shown
        try:
            whole = await self._ask(name, 0)
            if not again:  # the nearest nodes at once
                view.show(whole)
                self._shown = name
            following = whole.next
            while following is not None and len(whole.rows) < MAX_NODES and name == self.name:
                page = await self._ask(name, following)
                if page.total != whole.total:  # another graph meanwhile
                    self._dirty = True
                    return
                whole.rows.extend(page.rows)
                following = page.next
        except AskFailed as error:
            view.clear()
            self._shown = ""
            self._set_title(f"Graph: {safe(name)}: {safe(str(error))}")
            return
        if name != self.name:
            return
        if again or whole.rows:
            view.show(whole.replaced(cut=max(whole.total - len(whole.rows), 0)), again=True)
        count = len(whole.layers or ()) or whole.total
        words = counted(count, "layer" if whole.layers else "node")
        self._set_title(f"Graph: {safe(name)} ({words})")

    async def _ask(self, name: str, start: int) -> GraphReply:
        return await self.bench.ask(Graph(name=name, start=start))

    # ------------------------------------------------------------------ keys

    def search(self, view: GraphView) -> None:
        """Ask what to look for; the cursor goes there while it is typed."""

        def live(words: str) -> None:
            view.search(words)

        ask = InputDialog("find a node by name, operation or shape", view.search_text, live=live)
        self.bench.open(ask, partial(self._searched, view))

    @staticmethod
    def _searched(view: GraphView, words: str | None) -> None:
        if words and not view.search(words):
            view.app.notify(f"no node has {words!r}", timeout=2, markup=False)
