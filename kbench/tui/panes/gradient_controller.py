"""Which loss the gradient pane shows, and when the kernel computes: never while it is hidden."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from kbench.tui.dialogs.pick import ListDialog
from kbench.tui.panes import rows
from kbench.tui.panes.gradient import GradientTable
from kbench.tui.session.link import AskFailed, Latest
from kbench.tui.value.value import ValuePane
from kbench.workbench.core_types import Row

if TYPE_CHECKING:
    from kbench.tui.main_screen import MainScreen


class GradientController:
    """Has the gradients of one loss computed: the chosen one, else the newest scalar."""

    def __init__(self, screen: MainScreen) -> None:
        self.screen = screen
        self.loss = ""  # chosen by the user; '' follows the newest
        self._losses: list[str] = []
        self._dirty = True
        self._forced = False
        self._newest_number = 0  # number of the newest that was told: its reply may come behind it
        self._requests = Latest(screen.background)

    @property
    def _table(self) -> GradientTable | None:
        found = self.screen.query(GradientTable)
        return found.first() if found else None

    # ------------------------------------------------------------------ what happens

    def changed(self) -> None:
        """A variable, a setting or the namespace has changed."""
        self._dirty = True
        self.refresh()

    def forget(self) -> None:
        """The kernel is another one, or gone."""
        self.loss, self._dirty, self._losses, self._newest_number = "", True, [], 0
        if (table := self._table) is not None:
            table.clear()

    def refresh(self) -> None:
        """Have gradients computed, if they are on the screen, old, and no cell runs."""
        wanted = self._dirty or self._forced
        if wanted and self.screen.session_controller.state == "idle" and self._shown():
            self._requests.submit(self._ask)

    def _shown(self) -> bool:
        """Whether the gradients are on the screen, or one of them in the value grid."""
        if self.screen.shows("gradient"):
            return True
        table, pane = self._table, self.screen.query(ValuePane)
        opened = pane.first().shown if pane else ""
        return table is not None and self.screen.shows("value") and bool(table.row_of(opened))

    async def _ask(self) -> None:
        table = self._table
        if table is None or not (self._dirty or self._forced):
            return
        forced, self._dirty, self._forced = self._forced, False, False
        try:
            data = await self.screen.bench.link.ask("gradient", loss=self.loss, force=forced)
        except AskFailed as error:
            if self.loss and not forced:  # the chosen loss is gone
                self.loss, self._dirty = "", True
                self.refresh()
            else:
                table.fail(self.loss, str(error))
            return
        self._losses = [str(loss) for loss in data.get("losses") or []]
        state, loss = str(data.get("state") or ""), str(data.get("loss") or "")
        if state == "none":
            table.clear()
        elif state == "slow":
            table.note(loss, "slow: r computes it")
        elif state == "held":
            self._dirty = True
        elif state == "computing" and int(data.get("number") or 0) > self._newest_number:
            table.note(loss, "computing, c stops it")

    def on_push(self, data: Row) -> None:
        """The kernel has computed, or has not."""
        table, loss = self._table, str(data.get("loss") or "")
        if table is None:
            return
        self._newest_number = int(data.get("number") or 0)
        if data.get("stopped") == "cell":
            self._dirty = True
            table.note(loss, "a cell began")
            self.refresh()
        elif data.get("stopped"):
            table.note(loss, "stopped: r computes it")
        elif data.get("error"):
            table.fail(loss, str(data["error"]))
        else:
            table.show(data)
            pane = self.screen.query_one(ValuePane)
            if table.row_of(pane.shown):
                self.screen.background(partial(self._open, pane.shown, follow=False))

    # ------------------------------------------------------------------ keys

    def act(self, what: str) -> None:
        """Do what a key of the pane asks for."""
        if what == "compute":
            self._force(self.loss)
        elif what == "choose":
            self._choose()
        elif what == "stop":
            self.screen.background(self._stop)

    def derive(self, name: str) -> None:
        """Show the gradients of what is called `name`, and go there."""
        self.screen.action_pane("gradient")
        self._force(name)

    def _force(self, loss: str) -> None:
        self.loss, self._forced = loss, True
        if self.screen.session_controller.state == "busy":
            self.screen.notify("computed when the running cell ends", timeout=2, markup=False)
        self.refresh()

    def _choose(self) -> None:
        if not self._losses:
            self.screen.notify("there is no scalar tensor to derive", timeout=2, markup=False)
            return
        losses = list(self._losses)

        def take(at: int | None) -> None:
            if at is not None:
                self._force(losses[at])

        self.screen.app.push_screen(ListDialog("Gradients of", losses), take)

    async def _stop(self) -> None:
        try:
            await self.screen.bench.link.ask("gradient", loss=self.loss, stop=True)
        except AskFailed as error:
            self.screen.notify(str(error), severity="warning", markup=False)

    def open(self, key: str) -> None:
        """Show a gradient in the value grid."""
        table = self._table
        if table is None or not table.row_of(key):
            self.screen.notify("the loss does not depend on it", timeout=2, markup=False)
            return

        self.screen.background(partial(self._open, key, follow=True))

    async def _open(self, key: str, follow: bool) -> None:
        table, pane = self._table, self.screen.query_one(ValuePane)
        try:
            data = await self.screen.bench.link.ask("summary", names=[key])
        except AskFailed as error:
            self.screen.notify(str(error), severity="warning", markup=False)
            return
        found = rows.rows_of(data)
        if not found or table is None:
            return
        name = str(table.row_of(key).get("name") or "")
        pane.open(replace(found[0], label=f"d {table.data.get('loss')} / d {name}", code=key))
        if follow:
            self.screen.action_pane("value")
