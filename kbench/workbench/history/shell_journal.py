"""The journal of an IPython prompt: what was typed there, the values shown, and the errors.

Printed text goes straight to the terminal and is not in it.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from kbench.workbench.core_types import JsonObject
from kbench.workbench.errors import explanation
from kbench.workbench.history.journal import Journal
from kbench.workbench.output import stream
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell, renumbered

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import CellInfo, CellResult, DisplayHook, Shell


class ShellJournal:
    """Records a shell from now on; `end` says that its user has left it."""

    def __init__(self, shell: Shell, journal: Journal | None = None) -> None:
        self.journal = journal or Journal.create()
        self._numbers = itertools.count(1)
        self._cell = 0
        self._began = 0.0
        self._replay_of: int | None = None
        shell.events.register("pre_run_cell", self._on_start)
        shell.events.register("post_run_cell", self._on_end)
        self._follow_values(shell.displayhook)

    def adopt(self, cells: list[Cell]) -> list[Cell]:
        """Cells of an earlier session, under numbers of this one."""
        return renumbered(cells, self._numbers)

    def run(self, shell: Shell, cell: Cell) -> bool:
        """Run an adopted cell again; whether it ended without an error."""
        self._replay_of = cell.ident
        try:
            return bool(shell.run_cell(cell.code, store_history=True).success)
        finally:
            self._replay_of = None

    def end(self) -> None:
        """The session ends as its user wished."""
        self.journal.end()

    def _follow_values(self, hook: DisplayHook) -> None:
        show = hook.write_format_data

        def show_and_record(data: JsonObject, *more: object) -> None:
            content = {"data": dict(data), "execution_count": hook.prompt_count}
            self.journal.record(stream.result(self._cell, content))
            show(data, *more)

        hook.write_format_data = show_and_record

    def _on_start(self, info: CellInfo) -> None:
        self._cell, self._began = next(self._numbers), time.monotonic()
        code = str(info.raw_cell)
        self.journal.record(events.CellStarted(self._cell, code, self._replay_of))

    def _on_end(self, result: CellResult) -> None:
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            name, value = type(error).__name__, explanation.safe_text(error)
            self.journal.record(stream.error(self._cell, name, value, [], {}))
        stopped = isinstance(error, KeyboardInterrupt)
        status = "ok" if error is None else "interrupted" if stopped else "error"
        seconds = time.monotonic() - self._began
        count = result.execution_count if type(result.execution_count) is int else None
        done = events.CellDone(self._cell, count, error is None, seconds, status)
        self.journal.record(done)
