"""Fills the value pane, whose parts need a window, a picture or a graph, and answers its keys."""

from __future__ import annotations

import contextlib
from functools import partial

from msgspec.structs import replace

from kbench.tui.messages import FetchGraph, FetchPixel, RowsRead, ShowValue, ValueCommand
from kbench.tui.panes import rows as pane_rows
from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.value import words
from kbench.tui.panes.value.actions import commands
from kbench.tui.panes.value.actions.export import Exporter
from kbench.tui.panes.value.actions.search import ValueSearch
from kbench.tui.panes.value.nodes import NodeValues
from kbench.tui.panes.value.past import PastValues
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.panes.value.views.curve import CurveView
from kbench.tui.panes.value.views.entries import EntriesPage, EntriesRequest, EntriesView
from kbench.tui.panes.value.views.grid import WindowRequest
from kbench.tui.panes.value.views.picture import PictureRequest
from kbench.tui.panes.variables.view import VariablesTable
from kbench.tui.session.link import AskFailed, Latest
from kbench.tui.text.table import Table
from kbench.tui.text.text import safe
from kbench.workbench.contents.address import root_of
from kbench.workbench.core_types import JsonObject
from kbench.workbench.protocol.arrays import Curve, Image, Stats, Window
from kbench.workbench.protocol.contents import Open
from kbench.workbench.protocol.graphs import Graph
from kbench.workbench.protocol.names import Summary


class ValueController(PaneController):
    """One request at a time, the newest wins. A failure stays in the pane."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._requests = Latest(bench.run)
        self._pixel = Latest(bench.run)
        self._curve = Latest(bench.run)
        self.search = ValueSearch(bench)
        self.exporter = Exporter(bench)
        self._past = PastValues(bench)
        self._nodes = NodeValues(bench)
        self.round_trips: list[float] = []
        self._tools = commands.ValueTools(bench, self.search, self.exporter, self.exact)
        bench.on(RowsRead, lambda event: self._follow(event.rows, event.gone))
        bench.on(ShowValue, lambda event: self.open(event.name))
        bench.on(Table.Opened, self._opened)
        bench.on(VariablesTable.Pointed, self._pointed)
        bench.on(VariablesTable.ExactWanted, lambda event: self.exact(event.name))
        bench.on(ValuePane.Fetch, lambda event: self.fetch_window(event.request))
        bench.on(EntriesView.Fetch, lambda event: self.fetch_entries(event.request))
        bench.on(EntriesView.Chosen, lambda event: self._chosen(event.row))
        bench.on(ValuePane.FetchPicture, lambda event: self.fetch_picture(event.request))
        bench.on(CurveView.Wanted, lambda event: self.fetch_curve(event.question))
        bench.on(FetchPixel, lambda event: self.fetch_pixel(event.window))
        bench.on(FetchGraph, lambda event: self.fetch_graph(event.name))
        bench.on(ValueCommand, self._command)

    @property
    def pane(self) -> ValuePane | None:
        """The widget, None until it is mounted."""
        return self.bench.view(ValuePane)

    # ------------------------------------------------------------------ what happens

    def forget(self) -> None:
        """What is shown is the old kernel's, and says so."""
        if (pane := self.pane) is not None:
            pane.forget()

    def settings_changed(self, settings: JsonObject) -> None:
        """How numbers are shown may be another way."""
        if (pane := self.pane) is not None:
            pane.settings_changed(settings)

    def state_changed(self) -> None:
        """A cell that begins may be followed."""
        if (pane := self.pane) is not None:
            self._nodes.follow(pane)

    def refresh(self) -> None:
        """The pane may be on the screen now, while a cell runs."""
        self.state_changed()

    def cell_done(self) -> None:
        """What is inside a value may have changed without a change of the value's row."""
        pane = self.pane
        if pane is None or pane.row is None or not self.bench.shows("value"):
            return
        if self._nodes.again(pane):
            return
        if pane.row.openable:
            pane.refetch()
        elif pane.row.held and root_of(pane.shown) != pane.shown:
            self.bench.run(partial(self._reread, pane.shown))

    async def _reread(self, name: str) -> None:
        """The row of an array inside a value, and its cells."""
        pane = self.pane
        with contextlib.suppress(AskFailed):  # the cells say why
            rows = pane_rows.rows_of((await self.bench.ask(Summary(names=[name]))).rows)
            if pane is not None and name == pane.shown:
                pane.update_row(rows[0] if rows else None)
                pane.refetch()

    def _opened(self, event: Table.Opened) -> None:
        """Enter in the variables."""
        if event.table.id == "variables":
            self.open(event.key)

    def _pointed(self, event: VariablesTable.Pointed) -> None:
        """The pane follows the cursor in the variables while both are on the screen."""
        if self.bench.shows("value"):
            self.show(event.name)

    def _command(self, event: ValueCommand) -> None:
        """A key of the pane that needs the kernel or a dialog; the watches answer one of them."""
        pane = self.pane
        if pane is None or self._past.act(pane, event.what) or event.what == "watch":
            return
        window = pane.grid.window
        if event.what == "back":
            pane.action_back()
        elif event.what == "open" and window is not None and window.dtype == "object":
            self.enter(pane)
        else:
            commands.act(self._tools, pane, event.what)

    def _chosen(self, row: pane_rows.NameRow) -> None:
        """What is inside is opened, unless only the program could say what it is."""
        if row.kind == "property":
            self.bench.notify(words.PROPERTY, 3)
        elif (pane := self.pane) is not None:
            pane.enter(row)

    def _follow(self, rows: dict[str, pane_rows.NameRow], gone: set[str]) -> None:
        pane = self.pane
        if pane is None:
            return
        if not pane.shown:
            held = [name for name, row in rows.items() if row.held and row.shape]
            if held and self.bench.shows("value"):
                self.show(held[-1])
        elif pane.shown in gone:
            pane.update_row(None)
        elif pane.shown in rows and pane.update_row(rows[pane.shown]):
            pane.refetch()

    # ------------------------------------------------------------------ asking

    def open(self, name: str) -> None:
        """Show a name in the value pane and go there."""
        if self.show(name):
            self.bench.go("value")

    def show(self, name: str, as_graph: bool = False) -> bool:
        """Show a name in the value pane, wherever the focus is."""
        table, pane = self.bench.view(VariablesTable), self.pane
        row = table.find(name) if table is not None else None
        if pane is None or row is None:
            return False
        if pane.shown != name or pane.row is None or pane.as_graph != as_graph:
            pane.open(row, as_graph)
        return True

    def fetch_graph(self, name: str) -> None:
        """Fetch a graph for the value pane."""
        self._requests.submit(lambda: self._fetch_graph(name))

    async def _fetch_graph(self, name: str) -> None:
        pane = self.pane
        if pane is None or name != pane.shown:
            return
        try:
            data = await self.bench.ask(Graph(name=name, start=0))
        except AskFailed as error:
            pane.set_note(str(error))
            return
        if name == pane.shown:
            pane.graph.root = name
            pane.show_graph(data)

    def fetch_window(self, request: WindowRequest) -> None:
        """Fetch a window for the value pane."""
        self._requests.submit(lambda: self._fetch_window(request))

    async def _fetch_window(self, request: WindowRequest) -> None:
        pane = self.pane
        if pane is None or request.name != pane.shown:
            return
        asked = Window(
            name=request.name,
            rows=[request.row, request.rows],
            cols=[request.col, request.cols],
            limits=self._limits(pane),
        )
        if request.index:
            axes = {"row_axis": request.row_axis, "col_axis": request.col_axis}
            asked = asked.replaced(index=list(request.index), **axes)
        began = self.bench.clock()
        try:
            data = await self.bench.ask(asked)
        except AskFailed as error:
            pane.set_note(str(error))
            return
        self.round_trips.append(self.bench.clock() - began)
        if request.name == pane.shown:
            pane.show_window(pane_rows.ArrayWindow.of(data))

    def fetch_entries(self, request: EntriesRequest) -> None:
        """Fetch a page of entries or lines for the value pane."""
        self._requests.submit(lambda: self._fetch_entries(request))

    async def _fetch_entries(self, request: EntriesRequest) -> None:
        pane = self.pane
        if pane is None or request.name != pane.shown:
            return
        asked = Open(
            name=request.name, start=request.start, count=request.count, width=request.width
        )
        try:
            data = await self.bench.ask(asked)
        except AskFailed as error:
            pane.set_note(str(error))
            return
        if request.name == pane.shown:
            pane.show_entries(EntriesPage.of(data), pane_rows.row_of(data.row))

    def enter(self, pane: ValuePane) -> None:
        """Open the element of an array of objects that the cursor is on."""
        place = ", ".join(str(index) for index in pane.full_index())
        self.bench.run(partial(self._enter, f"{pane.shown}[{place}]"))

    async def _enter(self, name: str) -> None:
        pane = self.pane
        try:
            data = await self.bench.ask(Open(name=name, count=1))
        except AskFailed as error:
            self.bench.notify(safe(str(error)), warning=True)
            return
        if pane is not None:
            pane.enter(pane_rows.row_of(data.row))

    def fetch_picture(self, request: PictureRequest) -> None:
        """Fetch a picture for the value pane."""
        self._requests.submit(lambda: self._fetch_picture(request))

    async def _fetch_picture(self, request: PictureRequest) -> None:
        pane = self.pane
        if pane is None or request.name != pane.shown:
            return
        asked = Image(
            name=request.name,
            size=list(request.size),
            colours=request.colours,
            index=list(request.index) or None,
            limits=self._limits(pane),
        )
        if request.col_axis is not None:
            asked = asked.replaced(row_axis=request.row_axis, col_axis=request.col_axis)
        try:
            data = await self.bench.ask(asked)
        except AskFailed as error:
            pane.refuse_picture(str(error))
            return
        if request.name == pane.shown:
            pane.show_picture(pane_rows.ArrayPicture.of(data))

    def fetch_curve(self, question: Curve) -> None:
        """Fetch the plot of a line."""
        self._curve.submit(partial(self._fetch_curve, question))

    async def _fetch_curve(self, question: Curve) -> None:
        view, reply = self.bench.view(CurveView), None
        with contextlib.suppress(AskFailed):  # of texts, say: the cells are there all the same
            reply = await self.bench.ask(question)
        if view is not None:
            view.show(question, reply)

    def fetch_pixel(self, window: Window | None) -> None:
        """Fetch what the cursor in a picture is on."""
        if window is not None:
            self._pixel.submit(partial(self._fetch_pixel, window))

    async def _fetch_pixel(self, window: Window) -> None:
        pane = self.pane
        with contextlib.suppress(AskFailed):  # the index alone is told
            data = await self.bench.ask(window)
            if pane is not None and data.cells:
                pane.show_pixel(window, " ".join(data.cells[0]))

    @staticmethod
    def _limits(pane: ValuePane) -> list[float] | None:
        """The range of the whole array, to which shades refer."""
        stats = pane.stats or (pane.row.stats if pane.row else None)
        if stats is None or stats.low is None or stats.high is None:
            return None
        return [float(stats.low), float(stats.high)]

    def exact(self, name: str) -> None:
        """Have the statistics of every element of a large array computed."""
        self.bench.run(partial(self._exact, name))

    async def _exact(self, name: str) -> None:
        pane, table = self.pane, self.bench.view(VariablesTable)
        row = table.find(name) if table is not None else None
        if table is None or row is None:
            return
        try:
            data = await self.bench.ask(Stats(name=name, exact=True), timeout=60.0)
        except AskFailed as error:
            self.bench.notify(str(error), warning=True)
            return
        stats = pane_rows.Statistics.of(data)
        if table.known.get(name) == row:
            table.update_rows([replace(row, stats=stats)], [])
        if pane is not None and pane.shown == name:
            pane.show_stats(stats)
