"""AttachedSession: a session in a kernel that somebody else has started and goes on using.

Cells of its other clients are shown as they run; ours wait while theirs do. The kernel is never
restarted or ended from here, and what was opened in it is closed when the session ends.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future

from kbench.workbench.core_types import JsonObject
from kbench.workbench.history.journal import Journal
from kbench.workbench.output import stream
from kbench.workbench.session import events, hashed_cells
from kbench.workbench.session.cell import Cell
from kbench.workbench.session.kernel_session import KernelSession
from kbench.workbench.session.running_kernels import ExistingKernel, Kernel, is_local

OTHER_CLIENT = "another client"
EXIT_COMMANDS = ("exit", "quit", "exit()", "quit()", "%exit", "%quit")
EARLIER_CELL_CODE = "# a cell that ran already when this session attached"
NOT_INSTALLED = (
    "kbench is not installed in this kernel's Python: cells run, but the panes stay empty; "
    "pip install kbench there and attach again"
)
MAX_INPUTS, MAX_INPUT_CHARACTERS = 1_000, 20_000
"""Of what the kernel has run before: how many are taken over, and how long each may be."""

_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError", "_IncompleteInputError")
_OWN_FILE = re.compile(r"\((?:(?:[^()]*[/\\])?\d+\.py|<string>), line (\d+)\)$")
"""How Python ends the words of a syntax error: `(2955584457.py, line 1)`. From Python 3.12 on,
IPython finds wrong tabs in a `<string>`."""


class AttachedSession(KernelSession):
    """A session in an existing kernel."""

    def __init__(self, kernel: Kernel, journal: Journal | None = None) -> None:
        super().__init__(journal)
        self.attached = kernel.name
        self._kernel = kernel
        self._busy: set[str] = set()  # requests of other clients that run
        self._theirs: dict[str, tuple[Cell, float]] = {}  # their cells, by request
        self._errors: dict[str, JsonObject] = {}
        self._earlier: list[tuple[int, str]] = []  # numbers and codes of cells before we came

    @property
    def pid(self) -> int | None:
        """Process id of the kernel, once it is known, if it runs on this machine."""
        return super().pid if is_local(self._kernel.connection) else None

    def execute(self, code: str, replay_of: int | None = None, unseen: str = "") -> int:
        """As ever, but a bare `exit` only leaves: it would end the kernel for its owner, too."""
        if code.strip() not in EXIT_COMMANDS:
            return super().execute(code, replay_of, unseen)
        cell = self._new_cell(code)
        cell.status = "withdrawn"
        self._commands.post(lambda: self._emit(events.ExitAsked()))
        return cell.ident

    def restart(self, replay: bool = True) -> None:
        """Does nothing: the kernel is restarted where it was started."""

    def interrupt_others(self) -> None:
        """Interrupt the kernel although the cell that runs is another client's."""
        self._commands.post(self._interrupt_others_now)

    # ------------------------------------------------------------------ the session's thread

    def _launch(self) -> None:
        self._began = time.monotonic()
        process = ExistingKernel(self._kernel, lambda: self._commands.post(self._returned_now))
        self._process = process
        process.start(lambda ended, code: self._commands.post(lambda: self._ended(ended, code)))

    def _connect(self) -> None:
        from kbench.workbench.session.connection import KernelClient

        self._client = KernelClient(self._kernel.connection, self, self._record, self._on_others)

    def _returned_now(self) -> None:
        """Somebody has restarted the kernel: its namespace is empty, its address the same."""
        for cell in self._all():
            if cell.status not in ("queued", "lost", "withdrawn"):
                cell.status = "past"
        self._began = time.monotonic()
        self._settled.clear()
        self._emit(events.Restarted(0))
        self._connect()

    def _close_now(self) -> None:
        self._withdraw_now()
        if self._process is not None:
            self._process.end(0.0)
        if self._client is not None:
            self._client.leave()
        self._disconnect()
        self._settled.set()
        self._closing = True
        self.journal.end()

    def _disconnect(self) -> None:
        super()._disconnect()
        for message in list(self._theirs):
            self._their_end(message, "lost")
        self._busy.clear()
        self._errors.clear()

    def _pump(self) -> None:
        if not self._busy:
            super()._pump()

    def _signal_interrupt(self) -> None:
        self._ask_now("cancel", {}, Future())
        if self._client is not None:
            self._client.interrupt()

    def _interrupt_others_now(self) -> None:
        if self._busy:
            self._signal_interrupt()

    # ------------------------------------------------------------------ what the client tells

    def on_ready(self, hello: JsonObject, problem: str) -> None:
        if self._process is not None:
            self._process.pid = hello.get("pid")
        if "No module named 'kbench'" in problem:
            problem = NOT_INSTALLED
        super().on_ready(hello, problem)
        future: Future[JsonObject] = Future()
        future.add_done_callback(self._on_history)
        content = {
            "hist_access_type": "range",
            "session": 0,
            "start": 1,
            "raw": True,
            "output": False,
        }
        self._ask_shell("history_request", content, future, beside=True)

    def _on_history(self, future: Future[JsonObject]) -> None:
        if future.exception() is not None:
            return
        rows = future.result().get("history") or []
        self._earlier = [(int(row[1]), str(row[2])) for row in rows if len(row) == 3]
        kept = [row for row in rows if len(row) == 3 and len(str(row[2])) <= MAX_INPUT_CHARACTERS]
        inputs = [str(row[2]) for row in kept[-MAX_INPUTS:]]
        count = int(rows[-1][1]) if rows else 0
        self._emit(events.Attached(self.attached, inputs, count))

    def on_output(self, message: str, kind: str, content: JsonObject) -> None:
        if kind == "error":  # what the inspector knows of it comes behind it
            self._errors[message] = self._naming_the_cell(message, content)
        elif kind == "stream" and content.get("name") == "stderr":
            text = hashed_cells.named(str(content["text"]), self._numbered())
            super().on_output(message, kind, {**content, "text": text})
        else:
            super().on_output(message, kind, content)

    def _naming_the_cell(self, message: str, error: JsonObject) -> JsonObject:
        """A syntax error with the cell's number in place of its file, which is made of a hash."""
        cell = self.cells.get(self._cell_of.get(message, 0))
        if error.get("ename") not in _SYNTAX_ERRORS or cell is None or cell.count is None:
            return error
        if len(error.get("traceback") or ()) > 1:  # of a text that the cell compiled
            return error
        value = _OWN_FILE.sub(rf"(cell {cell.count}, line \1)", str(error["evalue"]))
        return {**error, "evalue": value}

    def _numbered(self) -> Iterator[tuple[int, str]]:
        """Numbers and codes of all cells that the kernel has run, the newest first."""
        for cell in reversed(list(self.cells.values())):
            if cell.count is not None:
                yield cell.count, cell.code
        yield from reversed(self._earlier)

    def on_idle(self, message: str) -> None:
        self._show_error(message)
        super().on_idle(message)

    def _show_error(self, message: str) -> None:
        error = self._errors.pop(message, None)
        if error is not None:
            super().on_output(message, "error", error)

    # ------------------------------------------------------------------ other clients

    def _on_others(self, message: str, kind: str, content: JsonObject) -> None:
        """What the kernel says about cells that are not ours."""
        if kind == "shutdown_reply":
            if isinstance(self._process, ExistingKernel):
                self._process.said_goodbye()
        elif kind == "status":
            state = content.get("execution_state")
            if state == "busy":
                self._busy.add(message)
            elif state == "idle":
                self._their_end(message)
        elif kind == "execute_input":
            self._their_cell(message, str(content.get("code", "")), content.get("execution_count"))
        elif message in self._theirs:
            self.on_output(message, kind, content)
        elif message not in self._busy and kind in ("stream", "execute_result", "display_data"):
            self._their_cell(message, EARLIER_CELL_CODE, None)
            self.on_output(message, kind, content)

    def _their_cell(self, message: str, code: str, count: object) -> None:
        cell = self._new_cell(stream.cut(code))
        cell.origin, cell.status = OTHER_CLIENT, "running"
        cell.count = count if type(count) is int else None
        self._busy.add(message)
        self._theirs[message] = cell, time.monotonic()
        self._cell_of[message] = cell.ident
        self._emit(events.Busy())
        self._emit(events.CellStarted(cell.ident, cell.code, None, OTHER_CLIENT))

    def _their_end(self, message: str, status: str = "") -> None:
        self._busy.discard(message)
        error = self._errors.get(message)
        self._show_error(message)
        cell, began = self._theirs.pop(message, (None, 0.0))
        self._cell_of.pop(message, None)
        if cell is not None:
            self._output.close(cell.ident)
            stopped = error is not None and error.get("ename") == "KeyboardInterrupt"
            failed = "interrupted" if stopped else "error"
            cell.status = status or ("ok" if error is None else failed)
            cell.seconds = time.monotonic() - began
            ok = cell.status == "ok"
            done = events.CellDone(cell.ident, cell.count, ok, cell.seconds, cell.status)
            self._emit(done)
            self._emit(events.Idle(cell.seconds))
        self._pump()
