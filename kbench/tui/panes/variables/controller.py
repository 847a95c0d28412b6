"""The names: asks for the rows that are old, those on the screen first where they are thousands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kbench.tui.dialogs.dialogs import InputDialog
from kbench.tui.messages import RowsRead
from kbench.tui.panes import rows as pane_rows
from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.panes.variables.view import VariablesTable
from kbench.tui.session.link import AskFailed, Latest
from kbench.workbench.contents.address import root_of
from kbench.workbench.protocol.names import Parts, RowPage, Summary, VariableRow
from kbench.workbench.protocol.question import Question

Page = TypeVar("Page", bound=RowPage)

SYMBOLS = ("placeholder", "tensor", "update")
BATCH_NAMES = 1_000
"""Names whose statistics are asked for at once, where there are thousands."""
ROWS_TIMEOUT_SECONDS = 60.0
"""Seconds for all rows there are: ten thousand arrays are read within a few seconds."""


class VariablesController(PaneController):
    """One request at a time. Who shows one of the names is told of the rows that were read."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._dirty: set[str] = set()
        self._all = True  # every name must be asked for: first time, or another kernel
        self._many = False  # they are thousands: shown first, read one batch after the other
        self._parts_dirty = False
        self._requests = Latest(bench.run)
        bench.on(VariablesTable.PartsWanted, self._parts_wanted)
        bench.on(VariablesTable.FilterWanted, self._ask_filter)

    @property
    def _table(self) -> VariablesTable | None:
        return self.bench.view(VariablesTable)

    # ------------------------------------------------------------------ what happens

    def mounted(self) -> None:
        """It says that there are no names yet."""
        if (table := self._table) is not None:
            table.update_rows([], [])

    def started(self) -> None:
        """Everything is asked for anew."""
        self._all = True
        self.refresh()

    def forget(self) -> None:
        """What is shown is the old kernel's, and says so."""
        self._all = True
        if (table := self._table) is not None:
            table.forget()

    def changed(self, names: Sequence[str] | None = None, many: bool = False) -> None:
        """The kernel has pushed names whose rows are old; any may be, where they are too many."""
        self._dirty.update(names or ())
        self._all, self._many = self._all or many, self._many or many
        self.refresh()

    def cell_done(self) -> None:
        """Symbols may have been fed or evaluated."""
        if (table := self._table) is not None:
            symbols = (name for name, row in table.known.items() if row.kind in SYMBOLS)
            self._dirty.update(symbols)
        self.refresh()

    def refresh(self) -> None:
        """Ask for whatever is both old and visible."""
        if self.bench.state not in ("idle", "busy"):
            return
        names_shown = self.bench.shows("variables") or self.bench.shows("value")
        if names_shown and (self._all or self._dirty or self._parts_dirty):
            self._requests.submit(self._fetch_rows)

    def _parts_wanted(self, event: VariablesTable.PartsWanted) -> None:
        """A model was unfolded, or its rows were scrolled to."""
        self._parts_dirty = True
        self.refresh()

    def _ask_filter(self, event: VariablesTable.FilterWanted) -> None:
        """Filter the names while typing."""
        if (table := self._table) is not None:
            words = "show names that contain"
            self.bench.open(InputDialog(words, table.filter_text, live=table.set_filter))

    # ------------------------------------------------------------------ asking

    async def _fetch_rows(self) -> None:
        table = self._table
        if table is None:
            return
        everything, many, names = self._all, self._many, sorted(self._dirty)
        self._all, self._many, self._parts_dirty, self._dirty = False, False, False, set()
        if many:
            self.bench.title("variables", "Variables: reading ...")
        if everything or names:
            try:
                asked = Summary(statistics=not many) if everything else Summary(names=names)
                rows = await self._all_rows(asked, ROWS_TIMEOUT_SECONDS)
            except AskFailed as error:
                self._dirty.update(names)
                self._all, self._many = self._all or everything, self._many or many
                self.bench.title("variables", f"Variables: {error}")
                return
            found = pane_rows.rows_of(rows)
            present = {row.name for row in found}
            gone = (set(table.known) if everything else set(names)) - present
            table.update_rows(found, gone)
            table.outline.changed(present)
            self.bench.tell(RowsRead({row.name: row for row in found}, gone))
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
            try:
                found = await self._all_rows(Summary(names=wanted), ROWS_TIMEOUT_SECONDS)
            except AskFailed:
                self._dirty.update(changed, names[start:])
                return
            rows = pane_rows.rows_of(found)
            present = {row.name for row in rows}
            gone = set(wanted) - present
            table.update_rows(rows, gone, flash=False)
            table.outline.changed(set(changed) & present)
            self.bench.tell(RowsRead({row.name: row for row in rows}, gone))

    async def _fetch_parts(self, table: VariablesTable, names: list[str]) -> None:
        """What is below unfolded rows on the screen, and the part in the value pane."""
        asked = table.outline.wanted(set(table.keys_shown()))
        pane = self.bench.view(ValuePane)
        shown = pane.shown if pane is not None and pane.shown not in table.known else ""
        try:
            if asked:
                table.take_parts(asked, await self._all_rows(Parts(names=asked)))
            if shown and root_of(shown) in names:
                rows = pane_rows.rows_of(await self._all_rows(Summary(names=[shown])))
                table.outline.update(rows)
                found = {row.name: row for row in rows}
                self.bench.tell(RowsRead(found, {shown} - set(found)))
        except AskFailed as error:
            self.bench.title("variables", f"Variables: {error}")

    async def _all_rows(self, question: Question[Page], timeout: float = 5.0) -> list[VariableRow]:
        """The rows of a reply; the inspector gives them in pages."""
        rows: list[VariableRow] = []
        start: int | None = 0
        while start is not None:
            page = await self.bench.ask(question.replaced(start=start), timeout)
            rows += page.rows
            start = page.next if page.next is not None and page.next > start else None
        return rows
