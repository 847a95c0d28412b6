"""KernelSession: cells run in an ipykernel process, so that no user code can stop the front end.

One thread owns the sockets and all state; every public method posts a closure to it and returns.
Cells wait on this side, so that neither an error nor the kernel's death loses what was typed ahead.
"""

from __future__ import annotations

import itertools
import queue
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from kbench.workbench import events, protocol
from kbench.workbench.base import Cell, Completion, Reply, Session, failed_reply
from kbench.workbench.journal import Journal
from kbench.workbench.launch import KernelProcess
from kbench.workbench.local import LocalSession
from kbench.workbench.output import Output

if TYPE_CHECKING:
    from kbench.workbench.wire import Message, Wire

__all__ = ["Cell", "Completion", "KernelSession", "LocalSession", "Session"]

STUCK_AFTER = 2.0
_HANDSHAKE_RETRY = 0.25
_SHUTDOWN_WAIT = 1.5
_DRAIN_ROUNDS = 200


class KernelSession(Session):
    """A session whose cells run in an ipykernel of their own."""

    def __init__(self, journal: Journal | None = None, record: bool = True) -> None:
        super().__init__(journal)
        self._record = record
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake_out, self._wake_in = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._ready = threading.Event()
        self._failed = threading.Event()
        self._thread: threading.Thread | None = None
        self._process: KernelProcess | None = None
        self._output = Output(self._emit, self.journal.folder)
        self._queue: deque[Cell] = deque()
        self._closing = False
        self._ask_numbers = itertools.count(1)
        self._reset()

    def _reset(self) -> None:
        """The state that belongs to one kernel process."""
        self._wire: Wire | None = None
        self._phase = "off"  # off, greeting, opening, ready, dead
        self._began = time.monotonic()
        self._next_greeting = 0.0
        self._heard_iopub = False
        self._subshell: str | None = None
        self._comm: str | None = None
        self._asked: dict[int, tuple[str, Future[Reply]]] = {}
        self._waiting: dict[str, Future[dict[str, Any]]] = {}
        self._cell_of: dict[str, int] = {}
        self._current: Cell | None = None
        self._current_message = ""
        self._current_began = 0.0
        self._reply: dict[str, Any] | None = None
        self._idle = False
        self._detail: dict[str, Any] = {}
        self._stuck_at: float | None = None

    # ------------------------------------------------------------------ public, any thread

    def start(self) -> None:
        """Start the kernel process at once, and the thread that talks to it."""
        self._launch()
        self._thread = threading.Thread(target=self._run, name="kbench-session", daemon=True)
        self._thread.start()

    def ready(self, timeout: float | None = None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ready.wait(0.05):
            if self._failed.is_set() or (deadline is not None and time.monotonic() > deadline):
                return False
        return True

    @property
    def pid(self) -> int | None:
        """Process id of the kernel."""
        return None if self._process is None else self._process.pid

    @property
    def inspecting(self) -> bool:
        """False when this kernel has no inspector."""
        return self._comm is not None

    def execute(self, code: str) -> int:
        cell = self._new_cell(code)
        self._post(lambda: self._enqueue(cell))
        return cell.ident

    def request(self, verb: str, **arguments: Any) -> Future[Reply]:
        future: Future[Reply] = Future()
        self._post(lambda: self._ask_now(verb, arguments, future))
        return future

    def complete(self, code: str, position: int, timeout: float = 2.0) -> Completion:
        future: Future[dict[str, Any]] = Future()
        content = {"code": code, "cursor_pos": position}
        self._post(lambda: self._ask_shell("complete_request", content, future))
        try:
            found = future.result(timeout)
        except (TimeoutError, ConnectionError):
            return Completion([], position, position, [])
        matches = [str(one) for one in found.get("matches", [])]
        typed = found.get("metadata", {}).get("_jupyter_types_experimental", [])
        kinds = [str(one.get("type", "")) for one in typed if isinstance(one, dict)]
        kinds = kinds if len(kinds) == len(matches) else [""] * len(matches)
        start, end = found.get("cursor_start", position), found.get("cursor_end", position)
        return Completion(matches, int(start), int(end), kinds)

    def answer(self, text: str) -> None:
        self._post(lambda: self._answer_now(text))

    def interrupt(self) -> None:
        self._post(self._interrupt_now)

    def withdraw(self) -> list[str]:
        """Take back the cells that still wait, and return their code in order."""
        taken: Future[list[str]] = Future()
        self._post(lambda: taken.set_result(self._withdraw_now()))
        return taken.result(5.0)

    def restart(self, replay: bool = True) -> None:
        self._ready.clear()
        self._failed.clear()
        self._post(lambda: self._restart_now(replay))

    def shutdown(self) -> None:
        thread = self._thread
        if thread is None or self._closing:
            return
        self._post(self._close_now)
        if thread is not threading.current_thread():
            thread.join(_SHUTDOWN_WAIT + 3.0)

    # ------------------------------------------------------------------ the session's thread

    def _post(self, command: Callable[[], None]) -> None:
        self._commands.put(command)
        try:
            self._wake_out.send(b"x")
        except (BlockingIOError, OSError):
            pass  # the buffer is full of wake-ups already, or the session has closed

    def _launch(self) -> None:
        self._process = KernelProcess()
        self._process.start(lambda process, code: self._post(lambda: self._ended(process, code)))

    def _run(self) -> None:
        self._connect()
        while not self._closing:
            self._wait_for_work()
            self._run_commands()
            if self._wire is not None:
                self._receive(self._wire)
            self._keep_time()
        self._output.flush()

    def _wait_for_work(self) -> None:
        if self._wire is None:
            select.select([self._wake_in], [], [], self._patience())
        else:
            self._poll(self._wire, self._patience())
        try:
            while self._wake_in.recv(4096):
                pass
        except (BlockingIOError, OSError):
            pass

    def _poll(self, wire: Wire, patience: float | None) -> None:
        import zmq

        poller = zmq.Poller()
        poller.register(self._wake_in.fileno(), zmq.POLLIN)
        for one in wire.sockets.values():
            poller.register(one, zmq.POLLIN)
        poller.poll(None if patience is None else int(patience * 1000) + 1)

    def _patience(self) -> float | None:
        """Seconds until something is due without any message; None for never."""
        now = time.monotonic()
        due = [self._output.due()]
        if self._phase == "greeting":
            due.append(max(0.0, self._next_greeting - now))
        if self._stuck_at is not None:
            due.append(max(0.0, self._stuck_at - now))
        return min((one for one in due if one is not None), default=None)

    def _run_commands(self) -> None:
        while not self._commands.empty() and not self._closing:
            self._commands.get()()

    def _keep_time(self) -> None:
        now = time.monotonic()
        if self._output.due() == 0.0:
            self._output.flush()
        if self._phase == "greeting" and now >= self._next_greeting:
            self._greet()
        if self._stuck_at is not None and now >= self._stuck_at:
            self._stuck_at = None
            if self._current is not None:
                self._emit(events.Stuck(STUCK_AFTER, self._current.ident))

    # ------------------------------------------------------------------ coming up

    def _connect(self) -> None:
        from kbench.workbench.wire import Wire

        assert self._process is not None
        self._wire = Wire(self._process.connection)
        self._phase = "greeting"

    def _greet(self) -> None:
        """Ask for the kernel's info until both the reply and its broadcast have been heard."""
        assert self._wire is not None
        self._wire.send("shell", "kernel_info_request", {})
        self._next_greeting = time.monotonic() + _HANDSHAKE_RETRY

    def _on_info(self, content: dict[str, Any]) -> None:
        if self._phase != "greeting" or not self._heard_iopub or self._wire is None:
            return
        self._phase = "opening"
        if "kernel subshells" in content.get("supported_features", []):
            self._wire.send("control", "create_subshell_request", {})
        else:
            self._open_inspector()

    def _open_inspector(self) -> None:
        assert self._wire is not None
        self._comm = f"kbench-{time.monotonic_ns()}"
        hello = {"id": 0, "verb": "hello", "push": True, "record": self._record}
        future: Future[Reply] = Future()
        future.add_done_callback(lambda done: self._on_hello(done.result()))
        self._asked[0] = ("hello", future)
        content = {"comm_id": self._comm, "target_name": protocol.TARGET, "data": hello}
        self._wire.send("shell", "comm_open", content)

    def _on_hello(self, reply: Reply) -> None:
        if self._phase != "opening":
            return
        problem = ""
        if not reply["ok"]:
            self._comm = None
            problem = reply["error"]["reason"]
        self._phase = "ready"
        self._ready.set()
        seconds = time.monotonic() - self._began
        self._emit(events.Started(reply.get("data", {}), seconds, problem))
        self._pump()

    # ------------------------------------------------------------------ cells

    def _enqueue(self, cell: Cell) -> None:
        self._queue.append(cell)
        self._pump()

    def _pump(self) -> None:
        """Send the next cell if the kernel is free."""
        if self._phase != "ready" or self._current is not None or not self._queue:
            return
        assert self._wire is not None
        cell = self._queue.popleft()
        self._current, self._reply, self._idle, self._detail = cell, None, False, {}
        self._current_began = time.monotonic()
        cell.status = "running"
        self._emit(events.Busy())
        self._emit(events.CellStarted(cell.ident, cell.code, cell.replay_of))
        content = {
            "code": cell.code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": True,
            "stop_on_error": False,
        }
        self._current_message = self._wire.send("shell", "execute_request", content)
        self._cell_of[self._current_message] = cell.ident

    def _maybe_done(self) -> None:
        if self._reply is None or not self._idle:
            return
        status = str(self._reply.get("status"))
        if self._reply.get("ename") == "KeyboardInterrupt" or status in ("aborted", "abort"):
            status = "interrupted"
        exits = False
        for one in self._reply.get("payload", []):
            if one.get("source") == "page":
                text = str(one.get("data", {}).get("text/plain", ""))
                self._output.add(self._current.ident if self._current else 0, "stdout", text)
            exits = exits or one.get("source") == "ask_exit"
        self._finish(status, self._reply.get("execution_count"))
        if exits:
            self._emit(events.ExitAsked())

    def _finish(self, status: str, count: int | None) -> None:
        cell, self._current = self._current, None
        self._stuck_at = None
        if cell is None:
            return
        self._output.close(cell.ident)
        cell.status, cell.count = status, count
        cell.seconds = time.monotonic() - self._current_began
        ok = status == "ok"
        self._emit(events.CellDone(cell.ident, count, ok, cell.seconds, status))
        self._emit(events.Idle(cell.seconds))
        self._pump()

    def _withdraw_now(self) -> list[str]:
        codes = [one.code for one in self._queue]
        for one in self._queue:
            one.status = "withdrawn"
        self._queue.clear()
        return codes

    # ------------------------------------------------------------------ messages in

    def _receive(self, wire: Wire) -> None:
        for message in wire.receive("iopub"):
            self._heard_iopub = True
            self._on_iopub(message)
        for channel in ("shell", "control", "stdin"):
            for message in wire.receive(channel):
                self._on_reply(message)

    def _on_reply(self, message: Message) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        parent = message["parent_header"].get("msg_id", "")
        if kind == "execute_reply" and parent == self._current_message:
            self._reply = content
            self._maybe_done()
        elif kind == "kernel_info_reply":
            self._on_info(content)
        elif kind == "create_subshell_reply":
            self._subshell = content.get("subshell_id")
            self._open_inspector()
        elif kind == "input_request":
            self._output.flush()
            cell = self._cell_of.get(parent, 0)
            prompt, password = str(content["prompt"]), bool(content["password"])
            self._emit(events.InputRequested(cell, prompt, password))
        elif parent in self._waiting:
            self._waiting.pop(parent).set_result(content)

    def _on_iopub(self, message: Message) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        parent = message["parent_header"].get("msg_id", "")
        if kind in ("comm_msg", "comm_close"):
            if content.get("comm_id") == self._comm:
                self._on_comm(kind, content.get("data", {}))
            return
        if kind == "status":
            if content["execution_state"] == "idle" and parent == self._current_message:
                self._idle = True
                self._maybe_done()
            return
        cell = self._cell_of.get(parent)
        if cell is not None:
            self._on_output(cell, kind, content)

    def _on_output(self, cell: int, kind: str, content: dict[str, Any]) -> None:
        if kind == "stream":
            self._output.add(cell, str(content["name"]), str(content["text"]))
            return
        self._output.flush()
        if kind in ("execute_result", "display_data", "update_display_data"):
            text = str(content["data"].get("text/plain", ""))
            count = content.get("execution_count")
            self._emit(events.Result(cell, text, content["data"], count))
        elif kind == "clear_output":
            self._emit(events.ClearOutput(cell, bool(content.get("wait"))))
        elif kind == "error":
            detail, self._detail = self._detail, {}
            name, value = str(content["ename"]), str(content["evalue"])
            self._emit(events.Error(cell, name, value, content["traceback"], detail))

    def _on_comm(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "comm_close":
            self._answer_all("inspector", "this kernel has no inspector")
        elif "push" in data:
            self._on_push(str(data["push"]), data["data"])
        elif data.get("id") in self._asked:
            self._asked.pop(data["id"])[1].set_result(data)

    def _on_push(self, kind: str, data: dict[str, Any]) -> None:
        if kind == "changed":
            refused = data.get("refused", {})
            changed = events.Changed(data["names"], data["config"], data["epoch"], refused)
            self._emit(changed)
        elif kind == "error":
            self._detail = data

    # ------------------------------------------------------------------ questions

    def _ask_now(self, verb: str, arguments: dict[str, Any], future: Future[Reply]) -> None:
        if self._phase != "ready" or self._comm is None or self._wire is None:
            reason = "this kernel has no inspector" if self._phase == "ready" else "no kernel"
            future.set_result(failed_reply(verb, "inspector", reason))
            return
        ident = next(self._ask_numbers)
        self._asked[ident] = (verb, future)
        data = {"id": ident, "verb": verb, **arguments}
        content = {"comm_id": self._comm, "data": data}
        self._wire.send("shell", "comm_msg", content, self._subshell)

    def _ask_shell(
        self, kind: str, content: dict[str, Any], future: Future[dict[str, Any]]
    ) -> None:
        if self._phase != "ready" or self._wire is None:
            future.set_exception(ConnectionError("no kernel"))
            return
        subshell = self._subshell if self._current is not None else None
        self._waiting[self._wire.send("shell", kind, content, subshell)] = future

    def _answer_all(self, kind: str, reason: str) -> None:
        asked, self._asked = self._asked, {}
        for verb, future in asked.values():
            future.set_result(failed_reply(verb, kind, reason))
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            one.set_exception(ConnectionError(reason))

    def _answer_now(self, text: str) -> None:
        if self._wire is not None and self._current is not None:
            self._wire.send("stdin", "input_reply", {"value": text})

    # ------------------------------------------------------------------ interrupt, restart, end

    def _interrupt_now(self) -> None:
        if self._current is None or self._process is None:
            return
        self._ask_now("cancel", {}, Future())
        self._process.interrupt()
        self._stuck_at = time.monotonic() + STUCK_AFTER

    def _ended(self, process: KernelProcess, code: int | None) -> None:
        """The process has ended by itself: take what it still said, keep what was typed."""
        if process is not self._process or self._closing:
            return
        if self._wire is not None:
            for _ in range(_DRAIN_ROUNDS):
                waiting = self._wire.receive("iopub")
                for message in waiting:
                    self._on_iopub(message)
                if not waiting:
                    break
        cell = self._current
        self._disconnect()
        self._phase = "dead"
        self._ready.clear()
        self._failed.set()
        self._emit(events.Died(code, process.log_tail(), cell.ident if cell else None))
        process.remove()

    def _disconnect(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None
        self._phase = "dead"
        self._answer_all("kernel", "the kernel has ended")
        self._finish("lost", None)
        self._output.flush()

    def _restart_now(self, replay: bool) -> None:
        old = self._process
        self._process = None
        self._disconnect()
        if old is not None:
            old.kill()
            old.wait(_SHUTDOWN_WAIT)
            old.remove()
        again = self.replayable()
        for one in again:
            one.status = "past"
        self._reset()
        self._launch()
        self._connect()
        copies = [self._new_cell(one.code, one.ident) for one in again] if replay else []
        self._queue.extendleft(reversed(copies))
        self._emit(events.Restarted(len(copies)))

    def _close_now(self) -> None:
        process, self._process = self._process, None
        if self._wire is not None and self._current is None and self._phase == "ready":
            self._wire.send("control", "shutdown_request", {"restart": False})
            if process is not None:
                process.wait(_SHUTDOWN_WAIT)
        if process is not None:
            process.kill()
            process.wait(_SHUTDOWN_WAIT)
            process.remove()
        self._disconnect()
        self._closing = True
        self.journal.close()
