"""The value on show as it was after earlier cells: the value before, the next, or by number."""

from __future__ import annotations

from functools import partial

from kbench.tui.dialogs.dialogs import InputDialog
from kbench.tui.panes import rows as pane_rows
from kbench.tui.panes.bench import Bench
from kbench.tui.panes.value import words
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.session.link import AskFailed
from kbench.tui.text.glyphs import human_bytes
from kbench.tui.text.text import safe
from kbench.workbench.contents.address import root_of, split_cell
from kbench.workbench.protocol.past import Past, PastReply

STEPS = {"cell_before": -1, "cell_after": 1}
"""What keys of the pane ask for, and how far that goes."""


class PastValues:
    """Asks for what was kept; a refusal is told, and what is shown stays."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def act(self, pane: ValuePane, what: str) -> bool:
        """Do what a key asks for; False where it asks for something else."""
        if what in STEPS:
            self._go(pane, Past(name=pane.shown, step=STEPS[what]))
        elif what == "cell_number":
            self._ask_number(pane)
        elif what == "watch" and split_cell(root_of(pane.shown))[1] is not None:
            self._bench.notify("what was is not watched: it does not change", 3)
        else:
            return False
        return True

    def _ask_number(self, pane: ValuePane) -> None:
        def check(text: str) -> str:
            return "" if text.strip().isdecimal() else "the number of a cell, as 3 of In [3]"

        def take(text: str | None) -> None:
            if text is not None:
                self._go(pane, Past(name=pane.shown, cell=int(text[:9])))

        title = f"{split_cell(pane.shown)[0]} as it was after cell"
        self._bench.open(InputDialog(title, check=check), take)

    def _go(self, pane: ValuePane, asked: Past) -> None:
        if pane.row is not None and pane.shown:
            self._bench.run(partial(self._run, pane, asked))

    async def _run(self, pane: ValuePane, asked: Past) -> None:
        try:
            reply = await self._bench.ask(asked)
        except AskFailed as error:
            self._bench.notify(safe(str(error)), 3)
            return
        if pane.shown != asked.name:
            return
        if reply.row is None:
            self._bench.notify(safe(self._missing(reply)), 4)
            return
        is_past = split_cell(reply.name)[1] is not None
        when = words.when(reply.cell, reply.until, reply.last) if is_past else ""
        pane.travel(pane_rows.row_of(reply.row), when)

    @staticmethod
    def _missing(reply: PastReply) -> str:
        """Why there is no value, and how much is kept."""
        name, cell = split_cell(reply.name)
        held = f" ({human_bytes(reply.kept)} of {human_bytes(reply.budget)} kept)"
        return f"{name} after cell {cell}: {reply.words}" + held * bool(reply.kept)
