"""Fills the plan from the inspector, and answers its keys."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.dialogs import overlays
from kbench.tui.messages import TitleChanged
from kbench.tui.panes.plan import PlanTable
from kbench.tui.session.link import AskFailed, Latest
from kbench.tui.text.text import safe
from kbench.tui.transcript.cells import coloured
from kbench.tui.transcript.transcript import Transcript
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.tui.main_screen import MainScreen

MEASURE_TIMEOUT_SECONDS = 30.0
"""Seconds for measuring the machine; it takes one, but the machine may be busy."""


class PlanController:
    """Asks only while the pane is on the screen and something may have run."""

    def __init__(self, screen: MainScreen) -> None:
        self._screen = screen
        self._dirty = True
        self._request = Latest(screen.background)

    @property
    def _table(self) -> PlanTable | None:
        found = self._screen.query(PlanTable)
        return found.first() if found else None

    def changed(self) -> None:
        """Something may have run."""
        self._dirty = True
        self.refresh()

    def forget(self) -> None:
        """The kernel is another one."""
        self._dirty = True
        if self._table is not None:
            self._table.forget()

    def refresh(self) -> None:
        """Ask for the run on show, if it is on show and may be another."""
        idle_or_busy = self._screen.session_controller.state in ("idle", "busy")
        if self._dirty and idle_or_busy and self._screen.shows("plan"):
            self._request.submit(self._fetch)

    async def _fetch(self, measure: bool = False) -> None:
        table = self._table
        if table is None:
            return
        self._dirty = False
        wanted: JsonObject = {} if table.pinned is None else {"run": table.pinned}
        timeout = MEASURE_TIMEOUT_SECONDS if measure else 5.0
        try:
            data = await self._ask(timeout, wanted | ({"measure": True} if measure else {}))
            if data.get("run") is None and wanted:  # so many others ran that it is not kept
                table.pinned = None
                data = await self._ask(timeout, {})
        except AskFailed as error:
            self._dirty = True
            if measure:
                self._notify(str(error))
            else:
                self._screen.on_title_changed(TitleChanged("plan", f"Plan: {safe(str(error))}"))
            return
        table.show(data.get("run"), data.get("runs") or (), data.get("limits"))

    async def _ask(self, timeout: float, arguments: JsonObject) -> JsonObject:
        data: JsonObject = await self._screen.bench.link.ask("plan", timeout, **arguments)
        return data

    def _notify(self, words: str) -> None:
        self._screen.notify(safe(words), timeout=3, markup=False)

    # ------------------------------------------------------------------ keys

    def act(self, event: PlanTable.Wanted) -> None:
        """A key of the table."""
        if event.what == "run":
            self._request.submit(self._fetch)
        elif event.what == "measure":
            self._notify("measuring what this machine can do")
            self._request.submit(partial(self._fetch, measure=True))
        elif event.what == "details":
            lines = self._table.details() if self._table is not None else []
            overlays.show_text(self._screen, "The run", [Content(line) for line in lines])
        elif event.what == "place":
            show_place(self._screen, event.text)

    def open(self, key: str) -> None:
        """Show the generated source of a step."""
        self._screen.background(partial(self._open, key), opens=True)

    async def _open(self, key: str) -> None:
        table = self._table
        if table is None:
            return
        row, run = table.step(key), table.run.get("run")
        source = str(row.get("source") or "")
        if source.endswith("# … cut"):
            try:
                data = await self._ask(5.0, {"run": run, "step": row["step"]})
            except AskFailed as error:
                self._notify(str(error))
                return
            source = str(data.get("source") or "")
        if source:
            title = f"source of step {row['step']}: {safe(str(row.get('op')))}"
            overlays.show_text(self._screen, title, list(coloured(source)))
        else:
            form = safe(str(row.get("form") or ""))
            self._notify(f"this step has no generated source: it ran as {form}")


def show_place(screen: MainScreen, place: str) -> None:
    """Go to the cell of a place like `In [3] line 2`; of a file, say and copy where."""
    if not place:
        screen.notify("it is not known which line made this", timeout=2, markup=False)
    elif screen.query_one(Transcript).show_place(place):
        screen.action_pane("transcript")
        screen.notify(safe(place), timeout=3, markup=False)
    else:
        screen.app.copy_to_clipboard(place)
        screen.notify(f"{safe(place)} (copied)", timeout=5, markup=False)
