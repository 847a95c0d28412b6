"""Fills the panes from the inspector: asks only for what is on screen and has changed."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from textual.widget import Widget

from kbench.tui.messages import TitleChanged
from kbench.tui.panes import rows as pane_rows
from kbench.tui.panes.settings import SettingsPane
from kbench.tui.panes.variables import VariablesTable
from kbench.tui.session.link import AskFailed, Latest, Work
from kbench.tui.text.outline import root_of
from kbench.tui.value.export import Exporter
from kbench.tui.value.grid import WindowRequest
from kbench.tui.value.picture import PictureRequest
from kbench.tui.value.search import ValueSearch
from kbench.tui.value.value import ValuePane
from kbench.workbench.core_types import JsonObject, SettingValue

if TYPE_CHECKING:
    from kbench.tui.main_screen import MainScreen
    from kbench.tui.session.link import Link


SYMBOLS = ("placeholder", "tensor", "update")
BATCH_NAMES = 1_000
"""Names whose statistics are asked for at once, where there are thousands."""
ROWS_TIMEOUT_SECONDS = 60.0
"""Seconds for all rows there are: ten thousand arrays are read within a few seconds."""

Pane = TypeVar("Pane", bound=Widget)


class Panes:
    """One request at a time per pane; the newest wins. A failure stays in its pane."""

    def __init__(self, screen: MainScreen) -> None:
        self.screen = screen
        self._dirty: set[str] = set()
        self._all = True  # every name must be asked for: first time, or another kernel
        self._many = False  # they are thousands: shown first, read one batch after the other
        self._parts_dirty = False
        self._requests = {name: Latest(self._work) for name in ("variables", "value")}
        self._pixel = Latest(self._work)
        self.search = ValueSearch(screen)
        self.exporter = Exporter(screen)
        self.round_trips: list[float] = []

    def _work(self, work: Work) -> None:
        self.screen.background(work)

    @property
    def link(self) -> Link:
        """The link to the session."""
        return self.screen.bench.link

    def _find(self, kind: type[Pane]) -> Pane | None:
        found = self.screen.query(kind)
        return found.first() if found else None

    # ------------------------------------------------------------------ what happens

    def kernel_started(self) -> None:
        """A kernel answers: everything is asked for anew."""
        self._all = True
        self.screen.watch_controller.changed()
        self.screen.gradient_controller.changed()
        self.screen.plan_controller.changed()
        self.screen.graph_controller.changed()
        self.refresh()

    def kernel_lost(self) -> None:
        """Nothing of the old kernel can be asked any more; what is shown says so."""
        self._all = True
        self.screen.watch_controller.forget()
        self.screen.gradient_controller.forget()
        self.screen.plan_controller.forget()
        self.screen.graph_controller.forget()
        for pane in (self._find(VariablesTable), self._find(ValuePane)):
            if pane is not None:
                pane.forget()

    def changed(self, names: list[str], many: bool = False) -> None:
        """The kernel has pushed names whose rows are old; any may be, where they are too many."""
        self._dirty.update(names)
        self._all, self._many = self._all or many, self._many or many
        self.screen.watch_controller.changed()
        self.screen.gradient_controller.changed()
        self.screen.plan_controller.changed()
        self.screen.graph_controller.changed(names)
        self.refresh()

    def cell_done(self) -> None:
        """A run may have been recorded, and symbols may have been fed or evaluated."""
        table = self._find(VariablesTable)
        if table is not None:
            symbols = (name for name, row in table.known.items() if row.kind in SYMBOLS)
            self._dirty.update(symbols)
        self.screen.watch_controller.changed()
        self.screen.gradient_controller.changed()
        self.screen.plan_controller.changed()
        self.screen.graph_controller.changed()
        self.refresh()

    def shown_changed(self) -> None:
        """Another set of panes is on the screen: they catch up."""
        self.screen.watch_controller.refresh()
        self.screen.gradient_controller.refresh()
        self.screen.plan_controller.refresh()
        self.screen.graph_controller.refresh()
        self.refresh()

    def refresh(self) -> None:
        """Ask for whatever is both old and visible."""
        if self.screen.session_controller.state not in ("idle", "busy"):
            return
        names_shown = self.screen.shows("variables") or self.screen.shows("value")
        if names_shown and (self._all or self._dirty or self._parts_dirty):
            self._requests["variables"].submit(self._fetch_rows)

    def parts_wanted(self) -> None:
        """A model was unfolded, or its rows were scrolled to."""
        self._parts_dirty = True
        self.refresh()

    # ------------------------------------------------------------------ variables

    async def _fetch_rows(self) -> None:
        table = self._find(VariablesTable)
        if table is None:
            return
        everything, many, names = self._all, self._many, sorted(self._dirty)
        self._all, self._many, self._parts_dirty, self._dirty = False, False, False, set()
        if many:
            self.screen.on_title_changed(TitleChanged("variables", "Variables: reading ..."))
        if everything or names:
            try:
                wanted = {"statistics": not many} if everything else {"names": names}
                rows = await self._all_rows("summary", {**wanted, "timeout": ROWS_TIMEOUT_SECONDS})
            except AskFailed as error:
                self._dirty.update(names)
                self._all, self._many = self._all or everything, self._many or many
                words = f"Variables: {error}"
                self.screen.on_title_changed(TitleChanged("variables", words))
                return
            found = pane_rows.rows_of({"rows": rows})
            present = {row.name for row in found}
            gone = (set(table.known) if everything else set(names)) - present
            table.update_rows(found, gone)
            table.outline.changed(present)
            self._follow_value({row.name: row for row in found}, gone)
            if many:
                await self._fetch_ranges(table, [row.name for row in found if row.held])
        await self._fetch_parts(table, names)

    async def _fetch_ranges(self, table: VariablesTable, names: list[str]) -> None:
        """The statistics of thousands of names; whatever changes meanwhile comes first."""
        for start in range(0, len(names), BATCH_NAMES):
            if self._all:
                return
            changed, self._dirty = sorted(self._dirty), set()
            wanted = [*changed, *names[start : start + BATCH_NAMES]]
            batch = {"names": wanted, "timeout": ROWS_TIMEOUT_SECONDS}
            try:
                rows = pane_rows.rows_of({"rows": await self._all_rows("summary", batch)})
            except AskFailed:
                self._dirty.update(changed, names[start:])
                return
            present = {row.name for row in rows}
            gone = set(wanted) - present
            table.update_rows(rows, gone, flash=False)
            table.outline.changed(set(changed) & present)
            self._follow_value({row.name: row for row in rows}, gone)

    async def _fetch_parts(self, table: VariablesTable, names: list[str]) -> None:
        """What is below unfolded rows on the screen, and the part in the value pane."""
        asked = table.outline.wanted(set(table.keys_shown()))
        pane = self._find(ValuePane)
        shown = pane.shown if pane is not None and "/" in pane.shown else ""
        try:
            if asked:
                table.take_parts(asked, await self._all_rows("parts", {"names": asked}))
            if shown and root_of(shown) in names:
                rows = pane_rows.rows_of(
                    {"rows": await self._all_rows("summary", {"names": [shown]})}
                )
                table.outline.update(rows)
                found = {row.name: row for row in rows}
                self._follow_value(found, {shown} - set(found))
        except AskFailed as error:
            self.screen.on_title_changed(TitleChanged("variables", f"Variables: {error}"))

    async def _all_rows(self, verb: str, arguments: JsonObject) -> list[JsonObject]:
        """The rows of a reply; the inspector gives them in pages."""
        rows: list[JsonObject] = []
        start: int | None = 0
        while start is not None:
            data = await self.link.ask(verb, start=start, **arguments)
            rows += data.get("rows") or []
            following = data.get("next")
            start = following if isinstance(following, int) and following > start else None
        return rows

    def _follow_value(self, rows: dict[str, pane_rows.NameRow], gone: set[str]) -> None:
        pane = self._find(ValuePane)
        if pane is None:
            return
        if not pane.shown:
            held = [name for name, row in rows.items() if row.held and row.shape]
            if held and self.screen.shows("value"):
                self.show_value(held[-1])
        elif pane.shown in gone:
            pane.update_row(None)
        elif pane.shown in rows and pane.update_row(rows[pane.shown]):
            pane.refetch()

    # ------------------------------------------------------------------ value

    def open_value(self, name: str) -> None:
        """Show a name in the value pane and go there."""
        if self.show_value(name):
            self.screen.action_pane("value")

    def show_value(self, name: str, as_graph: bool = False) -> bool:
        """Show a name in the value pane, wherever the focus is."""
        table, pane = self._find(VariablesTable), self._find(ValuePane)
        row = table.find(name) if table is not None else None
        if pane is None or row is None:
            return False
        if pane.shown != name or pane.row is None or pane.as_graph != as_graph:
            pane.open(row, as_graph)
        return True

    def open_graph(self, name: str) -> None:
        """Show how a name comes about and go there."""
        table = self._find(VariablesTable)
        if table is not None and table.find(name) is not None:
            self.screen.graph_controller.open(name)

    def fetch_graph(self, name: str) -> None:
        """Fetch a graph for the value pane."""
        self._requests["value"].submit(lambda: self._fetch_graph(name))

    async def _fetch_graph(self, name: str) -> None:
        pane = self._find(ValuePane)
        if pane is None or name != pane.shown:
            return
        try:
            data = await self.link.ask("graph", name=name, start=0)
        except AskFailed as error:
            pane.set_note(str(error))
            return
        if name == pane.shown:
            pane.show_graph(data)

    def fetch_window(self, request: WindowRequest) -> None:
        """Fetch a window for the value pane."""
        self._requests["value"].submit(lambda: self._fetch_window(request))

    async def _fetch_window(self, request: WindowRequest) -> None:
        pane = self._find(ValuePane)
        if pane is None or request.name != pane.shown:
            return
        arguments: JsonObject = {
            "name": request.name,
            "rows": [request.row, request.rows],
            "cols": [request.col, request.cols],
        }
        if request.index:
            arguments["index"] = list(request.index)
            arguments["row_axis"], arguments["col_axis"] = request.row_axis, request.col_axis
        arguments |= self._limits(pane)
        began = self.screen.bench.clock()
        try:
            data = await self.link.ask("window", **arguments)
        except AskFailed as error:
            pane.set_note(str(error))
            return
        self.round_trips.append(self.screen.bench.clock() - began)
        if request.name == pane.shown:
            pane.show_window(pane_rows.ArrayWindow.of(data))

    def fetch_picture(self, request: PictureRequest) -> None:
        """Fetch a picture for the value pane."""
        self._requests["value"].submit(lambda: self._fetch_picture(request))

    async def _fetch_picture(self, request: PictureRequest) -> None:
        pane = self._find(ValuePane)
        if pane is None or request.name != pane.shown:
            return
        arguments: JsonObject = {"size": list(request.size), "colours": request.colours}
        if request.index:
            arguments["index"] = list(request.index)
        if request.col_axis is not None:
            arguments |= {"row_axis": request.row_axis, "col_axis": request.col_axis}
        try:
            data = await self.link.ask(
                "image", name=request.name, **arguments, **self._limits(pane)
            )
        except AskFailed as error:
            pane.refuse_picture(str(error))
            return
        if request.name == pane.shown:
            pane.show_picture(pane_rows.ArrayPicture.of(data))

    def fetch_pixel(self, window: JsonObject) -> None:
        """Fetch what the cursor in a picture is on."""
        if window:
            self._pixel.submit(partial(self._fetch_pixel, window))

    async def _fetch_pixel(self, window: JsonObject) -> None:
        pane = self._find(ValuePane)
        with contextlib.suppress(AskFailed):  # the index alone is told
            data = await self.link.ask("window", **window)
            if pane is not None and data["cells"]:
                pane.show_pixel(window, " ".join(data["cells"][0]))

    @staticmethod
    def _limits(pane: ValuePane) -> JsonObject:
        """The range of the whole array, to which shades refer, as an argument of a request."""
        stats = pane.stats or (pane.row.stats if pane.row else None)
        if stats is None or stats.low is None or stats.high is None:
            return {}
        return {"limits": [float(stats.low), float(stats.high)]}

    async def exact(self, name: str) -> None:
        """Statistics of every element of a large array."""
        pane, table = self._find(ValuePane), self._find(VariablesTable)
        row = table.find(name) if table is not None else None
        if table is None or row is None:
            return
        try:
            data = await self.link.ask("stats", timeout=60.0, name=name, exact=True)
        except AskFailed as error:
            self.screen.notify(str(error), severity="warning", markup=False)
            return
        stats = pane_rows.Statistics.of(data)
        if table.known.get(name) == row:
            table.update_rows([replace(row, stats=stats)], [])
        if pane is not None and pane.shown == name:
            pane.show_stats(stats)

    # ------------------------------------------------------------------ settings

    def show_settings(self, settings: JsonObject) -> None:
        """What is set, as the kernel says it."""
        pane, value = self._find(SettingsPane), self._find(ValuePane)
        if pane is not None:
            pane.show(settings)
        if value is not None:
            value.settings_changed(settings)

    def assign(self, name: str, value: SettingValue) -> None:
        """Set one setting; the kernel's answer is shown, be it a refusal."""
        self.screen.background(partial(self._assign, name, value))

    async def _assign(self, name: str, value: SettingValue) -> None:
        pane = self._find(SettingsPane)
        assert pane is not None  # it is what assigns
        try:
            data = await self.link.ask("config", set={name: value})
        except AskFailed as error:
            pane.refuse(str(error))
            return
        pane.accept("set when the running cell ends" if data.get("queued") else "")
        self.screen.session_controller.take_settings(data.get("config") or {})
        self.refresh()

    def setting_refused(self, reason: str) -> None:
        """The kernel refused a setting after the fact."""
        pane = self._find(SettingsPane)
        if pane is not None:
            pane.refuse(reason)
