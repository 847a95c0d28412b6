"""KernelSession: cells run in an ipykernel process, so that no user code can stop the front end.

One thread owns the sockets and all state; every public method posts a closure to it and returns.
Cells wait on this side, so that neither an error nor the kernel's death loses what was typed ahead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from kbench.workbench.core_types import JsonObject, Reply
from kbench.workbench.history.journal import Journal
from kbench.workbench.output import stream
from kbench.workbench.output.rate_limit import DROPPED_FIELD
from kbench.workbench.output.stream import Output
from kbench.workbench.session import events, session_interface
from kbench.workbench.session.cell import Cell, CellExecution
from kbench.workbench.session.command_queue import CommandQueue
from kbench.workbench.session.kernel_process import KernelProcess, Process
from kbench.workbench.session.session_interface import (
    Completion,
    Session,
    failed_reply,
    jupyter_completion,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kbench.workbench.session.connection import KernelClient

STUCK_SECONDS = 2.0
"""From an interrupt until a cell that still runs counts as stuck."""
_SHUTDOWN_SECONDS = 1.5
"""For a kernel to end as it is asked, and once more after it is killed."""
_DRAIN_SECONDS = 2.0
"""For what a kernel that has died still said."""
_log = logging.getLogger("kbench")


class KernelSession(Session):
    """A session whose cells run in an ipykernel of their own. `record`: runs for the plan view."""

    def __init__(self, journal: Journal | None = None, record: bool = True) -> None:
        super().__init__(journal)
        self._record = record
        self._commands = CommandQueue()
        self._ready = threading.Event()
        self._settled = threading.Event()  # ready, or known never to be
        self._thread: threading.Thread | None = None
        self._process: Process | None = None
        self._client: KernelClient | None = None
        self._output = Output(self._emit, self.journal.folder)
        self._queue: deque[Cell] = deque()
        self._closing = False
        self._began = 0.0
        self._cell_of: dict[str, int] = {}
        self._current: CellExecution | None = None
        self._detail: JsonObject = {}  # more about the error that comes next, whoever made it
        self._stuck_at: float | None = None

    # ------------------------------------------------------------------ public, any thread

    def start(self) -> None:
        """Start the kernel process at once, and the thread that talks to it."""
        self._launch()
        self._thread = threading.Thread(target=self._run, name="kbench-session", daemon=True)
        self._thread.start()

    def ready(self, timeout: float | None = None) -> bool:
        self._settled.wait(timeout)
        return self._ready.is_set()

    @property
    def pid(self) -> int | None:
        """Process id of the kernel."""
        process = self._process
        return None if process is None else process.pid

    @property
    def log_file(self) -> Path | None:
        """What the kernel's process writes beside its cells; it goes when the session ends."""
        return getattr(self._process, "log", None)

    def execute(self, code: str, replay_of: int | None = None, unseen: str = "") -> int:
        cell = self._new_cell(code, replay_of, unseen)
        self._commands.post(lambda: self._enqueue(cell))
        return cell.ident

    def request(self, verb: str, **arguments: object) -> Future[Reply]:
        future: Future[Reply] = Future()
        if not self._commands.post(lambda: self._ask_now(verb, arguments, future)):
            future.set_result(failed_reply(verb, "kernel", "the session has ended"))
        return future

    def complete(self, code: str, position: int, timeout: float = 2.0) -> Completion:
        future: Future[JsonObject] = Future()
        content = {"code": code, "cursor_pos": position}
        if not self._commands.post(lambda: self._ask_shell("complete_request", content, future)):
            return Completion([], position, position, [])
        try:
            found = future.result(timeout)
        except (TimeoutError, ConnectionError):
            return Completion([], position, position, [])
        return jupyter_completion(code, position, found)

    def answer(self, text: str) -> None:
        self._commands.post(lambda: self._answer_now(text))

    def interrupt(self) -> None:
        self._commands.post(self._interrupt_now)

    def withdraw(self) -> list[str]:
        """Take back the cells that still wait, and return their code in order."""
        taken: Future[list[str]] = Future()
        if not self._commands.post(lambda: taken.set_result(self._withdraw_now())):
            return []
        return taken.result(5.0)

    def restart(self, replay: bool = True) -> None:
        self._ready.clear()
        self._settled.clear()
        self._commands.post(lambda: self._restart_now(replay))

    def shutdown(self) -> None:
        thread = self._thread
        if thread is None or self._closing:
            return
        self._commands.post(self._close_now)
        if thread is not threading.current_thread():
            thread.join(2 * _SHUTDOWN_SECONDS + 1.0)

    # ------------------------------------------------------------------ the session's thread

    def _launch(self) -> None:
        self._began = time.monotonic()
        process = KernelProcess()
        self._process = process
        process.start(lambda ended, code: self._commands.post(lambda: self._ended(ended, code)))

    def _run(self) -> None:
        self._guarded(self._connect)
        while not self._closing:
            self._guarded(self._turn)
        self._commands.close()
        while (command := self._commands.next()) is not None:  # so that every question is answered
            self._guarded(command)

    def _guarded(self, step: Callable[[], object]) -> None:
        """One step; a mistake in it, or a malformed message, must not end the session."""
        try:
            step()
        except Exception:
            _log.exception("the session met an unexpected error")

    def _turn(self) -> None:
        client = self._client
        self._commands.wait(None if client is None else client.wire, self._patience())
        while (command := self._commands.next()) is not None:
            self._guarded(command)
        if self._client is not None:
            self._client.receive()
            self._client.keep_time()
        if self._output.due() == 0.0:
            self._output.flush()
        if self._stuck_at is not None and time.monotonic() >= self._stuck_at:
            self._stuck_at = None
            if self._current is not None:
                self._emit(events.Stuck(STUCK_SECONDS, self._current.cell.ident))

    def _patience(self) -> float | None:
        """Seconds until something is due without any message; None for never."""
        due = [self._output.due(), None if self._client is None else self._client.patience()]
        if self._stuck_at is not None:
            due.append(max(0.0, self._stuck_at - time.monotonic()))
        return min((seconds for seconds in due if seconds is not None), default=None)

    def _connect(self) -> None:
        from kbench.workbench.session.connection import KernelClient

        if self._process is not None and self._process.alive():
            self._client = KernelClient(self._process.connection, self, self._record)

    # ------------------------------------------------------------------ cells

    def _enqueue(self, cell: Cell) -> None:
        self._queue.append(cell)
        self._pump()
        if cell.status == "queued" and not cell.unseen:  # typed ahead; lost but for this
            row = {"event": "Queued", "cell": cell.ident, "code": cell.code}
            self.journal.write({**row, "replay_of": cell.replay_of}, force=True)

    def _pump(self) -> None:
        """Send the next cell if the kernel is free."""
        client = self._client
        if client is None or not client.ready or self._current is not None or not self._queue:
            return
        cell = self._queue.popleft()
        current = self._current = CellExecution(cell)
        self._detail = {}
        cell.status = "running"
        self._emit(events.Busy())
        self._emit(events.CellStarted(cell.ident, cell.code, cell.replay_of))
        try:
            current.message = client.execute(cell.code, not cell.unseen, self.columns)
        except UnicodeError as error:  # a lone surrogate: neither Python nor the wire takes it
            self._emit(stream.error(cell.ident, type(error).__name__, str(error), [], {}))
            self._finish("error", None)
            return
        self._cell_of[current.message] = cell.ident

    def _maybe_done(self, current: CellExecution) -> None:
        if not current.done:
            return
        for text in current.pages:
            self._output.add(current.cell.ident, "stdout", text)
        self._finish(current.status, current.count)
        if current.exits:
            self._emit(events.ExitAsked())

    def _finish(self, status: str, count: int | None) -> None:
        current, self._current = self._current, None
        self._stuck_at = None
        if current is None:
            return
        cell = current.cell
        self._output.close(cell.ident)
        cell.status, cell.count = status, cell.count if count is None else count
        cell.seconds = time.monotonic() - current.began
        self._emit(events.CellDone(cell.ident, cell.count, status == "ok", cell.seconds, status))
        self._emit(events.Idle(cell.seconds))
        self._pump()

    def _withdraw_now(self) -> list[str]:
        codes = [cell.code for cell in self._queue]
        for cell in self._queue:
            cell.status = "withdrawn"
        self._queue.clear()
        return codes

    # ------------------------------------------------------------------ what the client tells

    def on_ready(self, hello: JsonObject, problem: str) -> None:
        self._emit(events.Started(hello, time.monotonic() - self._began, problem))
        self._ready.set()
        self._settled.set()
        self._pump()

    def _execution_of(self, message: str) -> CellExecution | None:
        """The cell that the kernel has, if the message is about it."""
        current = self._current
        return current if current is not None and message == current.message else None

    def on_reply(self, message: str, content: JsonObject) -> None:
        if current := self._execution_of(message):
            current.reply = content
            self._maybe_done(current)

    def on_idle(self, message: str) -> None:
        if current := self._execution_of(message):
            current.idle = True
            self._maybe_done(current)

    def on_output(self, message: str, kind: str, content: JsonObject) -> None:
        cell = self._cell_of.get(message)
        if cell is None:
            return
        if kind == "execute_input":
            self._on_running(message, content.get("execution_count"))
        elif kind == "stream":
            dropped = content.get(DROPPED_FIELD)
            self._output.add(cell, str(content["name"]), str(content["text"]))
            if type(dropped) is int:
                self._output.drop(cell, dropped)
        else:
            self._output.flush()
            event = stream.rich(cell, kind, content, self._detail)
            if isinstance(event, events.Error):
                self._detail = {}
            if event is not None:
                self._emit(event)

    def on_input(self, message: str, content: JsonObject) -> None:
        self._output.flush()
        cell = self._cell_of.get(message, 0)
        prompt, password = str(content["prompt"]), bool(content["password"])
        self._emit(events.InputRequested(cell, prompt, password))

    def on_push(self, kind: str, data: JsonObject) -> None:
        if kind == "changed":
            self._emit(events.Changed.of(data))
        elif kind == "error":
            self._detail = data
        else:
            self._emit(events.Told(kind, data))

    # ------------------------------------------------------------------ questions

    def _ask_now(self, verb: str, arguments: JsonObject, future: Future[Reply]) -> None:
        if self._client is None:
            session_interface.settle(future, failed_reply(verb, "kernel", "there is no kernel"))
        else:
            self._client.ask(verb, arguments, future)

    def _ask_shell(
        self,
        kind: str,
        content: JsonObject,
        future: Future[JsonObject],
        beside: bool = False,
    ) -> None:
        if self._client is None:
            future.set_exception(ConnectionError("there is no kernel"))
        else:
            self._client.ask_shell(kind, content, beside or self._current is not None, future)

    def _answer_now(self, text: str) -> None:
        if self._client is not None and self._current is not None:
            self._client.answer(text)

    # ------------------------------------------------------------------ interrupt, restart, end

    def _interrupt_now(self) -> None:
        if self._current is None or self._process is None:
            return
        self._stuck_at = time.monotonic() + STUCK_SECONDS
        self._current.interrupting = True
        if self._current.seen:
            self._signal_interrupt()

    def _on_running(self, message: str, count: object) -> None:
        if current := self._execution_of(message):
            current.seen = True
            # An interrupted cell gets no reply that tells its number.
            current.cell.count = count if type(count) is int else None
            if current.interrupting:
                self._signal_interrupt()

    def _signal_interrupt(self) -> None:
        self._ask_now("cancel", {}, Future())
        if self._process is not None:
            self._process.interrupt()

    def _ended(self, process: Process, code: int | None) -> None:
        """The process has ended by itself: take what it still said, keep what was typed."""
        if process is not self._process:
            return
        deadline = time.monotonic() + _DRAIN_SECONDS
        while self._client is not None and self._client.receive() and time.monotonic() < deadline:
            pass
        current = self._current
        self._disconnect()
        lost = current.cell.ident if current else None
        self._emit(events.Died(code, process.log_tail(), lost))
        self._settled.set()
        process.remove()

    def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()
        self._ready.clear()
        self._finish("lost", None)
        self._output.flush()
        self._cell_of.clear()

    def _restart_now(self, replay: bool) -> None:
        old, self._process = self._process, None
        self._disconnect()
        if old is not None:
            old.end(_SHUTDOWN_SECONDS)
        again = self.replayable()
        for cell in again:
            cell.status = "past"
        self._launch()
        self._connect()
        copies = [self._new_cell(*cell.rerun_arguments) for cell in again] if replay else []
        self._queue.extendleft(reversed(copies))
        self._emit(events.Restarted(len(copies)))

    def _close_now(self) -> None:
        process, self._process = self._process, None
        self._withdraw_now()
        if process is not None:
            if self._client is not None and self._client.ready and self._current is None:
                self._client.shutdown()
                process.wait(_SHUTDOWN_SECONDS)
            process.end(_SHUTDOWN_SECONDS)
        self._disconnect()
        self._settled.set()
        self._closing = True
        self.journal.end()
