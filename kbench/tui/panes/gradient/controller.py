"""Which loss the gradient pane shows, and when the kernel computes: never while it is hidden."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from kbench.tui.dialogs.pick import ListDialog
from kbench.tui.panes import rows
from kbench.tui.panes.bench import Bench, PaneController
from kbench.tui.panes.following import Following
from kbench.tui.panes.gradient.view import GradientTable
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.panes.variables.view import VariablesTable
from kbench.tui.session.link import AskFailed, Latest
from kbench.tui.text.table import Table
from kbench.workbench.core_types import Row
from kbench.workbench.protocol.findings import Gradient
from kbench.workbench.protocol.names import Summary


class GradientController(PaneController):
    """Has the gradients of one loss computed: the chosen one, else the newest scalar."""

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self.loss = ""  # chosen by the user; '' follows the newest
        self._losses: list[str] = []
        self._dirty = True
        self._forced = False
        self._newest_number = 0  # number of the newest that was told: its reply may come behind it
        self._requests = Latest(bench.run)
        self._following = Following(bench, self._requests.submit)
        bench.on(GradientTable.Wanted, lambda event: self.act(event.what))
        bench.on(VariablesTable.DeriveWanted, lambda event: self.derive(event.name))
        bench.on(Table.Opened, self._opened)
        bench.told("gradient", self.on_push)

    @property
    def _table(self) -> GradientTable | None:
        return self.bench.view(GradientTable)

    # ------------------------------------------------------------------ what happens

    def mounted(self) -> None:
        """It says that there is nothing yet."""
        if (table := self._table) is not None:
            table.clear()

    def changed(self, names: Sequence[str] | None = None, many: bool = False) -> None:
        """A variable, a setting or the namespace has changed."""
        self._dirty = True
        self.refresh()

    def forget(self) -> None:
        """The kernel is another one, or gone."""
        self.loss, self._dirty, self._losses, self._newest_number = "", True, [], 0
        if (table := self._table) is not None:
            table.clear()

    def state_changed(self) -> None:
        """While a cell runs they follow it where they are quick, and wait else."""
        self.refresh()

    def refresh(self) -> None:
        """Have gradients computed, if they are on the screen and old; or followed by a cell."""
        wanted = self._dirty or self._forced
        followed = bool(self._losses) and self._shown()
        self._following.update(self._question if followed else None)
        if wanted and self.bench.state == "idle" and self._shown():
            self._requests.submit(self._ask)

    def _question(self) -> Gradient:
        return Gradient(loss=self.loss, live=True)

    def _shown(self) -> bool:
        """Whether the gradients are on the screen, or one of them in the value grid."""
        if self.bench.shows("gradient"):
            return True
        table, pane = self._table, self.bench.view(ValuePane)
        opened = "" if pane is None else pane.shown
        return table is not None and self.bench.shows("value") and bool(table.row_of(opened))

    async def _ask(self) -> None:
        table = self._table
        if table is None or not (self._dirty or self._forced):
            return
        forced, self._dirty, self._forced = self._forced, False, False
        try:
            data = await self.bench.ask(Gradient(loss=self.loss, force=forced))
        except AskFailed as error:
            if self.loss and not forced:  # the chosen loss is gone
                self.loss, self._dirty = "", True
                self.refresh()
            else:
                table.fail(self.loss, str(error))
            return
        self._losses, state, loss = data.losses, data.state, data.loss
        if state == "none":
            table.clear()
        elif state == "slow":
            table.note(loss, "slow: r computes it")
        elif state == "held":
            self._dirty = True
        elif state == "computing" and (data.number or 0) > self._newest_number:
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
            pane = self.bench.view(ValuePane)
            if pane is not None and table.row_of(pane.shown):
                self.bench.run(partial(self._open, pane.shown, follow=False))

    # ------------------------------------------------------------------ keys

    def act(self, what: str) -> None:
        """Do what a key of the pane asks for."""
        if what == "compute":
            self._force(self.loss)
        elif what == "choose":
            self._choose()
        elif what == "stop":
            self.bench.run(self._stop)

    def derive(self, name: str) -> None:
        """Show the gradients of what is called `name`, and go there."""
        self.bench.go("gradient")
        self._force(name)

    def _force(self, loss: str) -> None:
        self.loss, self._forced = loss, True
        if self.bench.state == "busy":
            self.bench.notify("computed when the running cell ends", 2)
        self.refresh()

    def _choose(self) -> None:
        if not self._losses:
            self.bench.notify("no scalar tensor to differentiate", 2)
            return
        losses = list(self._losses)

        def take(at: int | None) -> None:
            if at is not None:
                self._force(losses[at])

        self.bench.open(ListDialog("Gradients of", losses), take)

    async def _stop(self) -> None:
        try:
            await self.bench.ask(Gradient(loss=self.loss, stop=True))
        except AskFailed as error:
            self.bench.notify(str(error), warning=True)

    def _opened(self, event: Table.Opened) -> None:
        """Enter in the table shows a gradient in the value grid."""
        if event.table.id == "gradient":
            self.open(event.key)

    def open(self, key: str) -> None:
        """Show a gradient in the value grid."""
        table = self._table
        if table is None or not table.row_of(key):
            self.bench.notify("the loss does not depend on it", 2)
            return

        self.bench.run(partial(self._open, key, follow=True))

    async def _open(self, key: str, follow: bool) -> None:
        table, pane = self._table, self.bench.view(ValuePane)
        try:
            data = await self.bench.ask(Summary(names=[key]))
        except AskFailed as error:
            self.bench.notify(str(error), warning=True)
            return
        found = rows.rows_of(data.rows)
        if not found or table is None or pane is None:
            return
        name = str(table.row_of(key).get("name") or "")
        pane.open(replace(found[0], label=f"d {table.data.get('loss')} / d {name}", code=key))
        if follow:
            self.bench.go("value")
