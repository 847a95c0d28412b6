"""The conversation with one kernel: greeting, inspector, questions paired with their answers.

Lives on the session's thread. What a kernel says about cells is handed to the session as it comes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from kbench.workbench.core_types import JsonObject, Message, Reply
from kbench.workbench.output.rate_limit import RateLimit
from kbench.workbench.protocol import messages
from kbench.workbench.session.cell import METADATA_FIELD
from kbench.workbench.session.session_interface import failed_reply, settle
from kbench.workbench.session.wire import Wire

_GREETING_SECONDS = 0.25
"""Between two greetings of a kernel that comes up."""
_UNANSWERED_SECONDS = 5.0
"""After which a request of the opening is sent again: a kernel that is restarted at this moment
may have taken the first one with it."""
_LINGER_MILLISECONDS = 300
"""For what `leave` says."""
_NO_INSPECTOR = "this kernel has no inspector"
_LOAD = "get_ipython().run_line_magic('load_ext', 'kbench.workbench.kernel.{}')"
OtherClientsHandler = Callable[[str, str, JsonObject], None]
"""Gets the id of their request, the kind of the message, and its content."""


class ClientListener(Protocol):
    """What a client tells its session."""

    def on_ready(self, hello: JsonObject, problem: str) -> None: ...
    def on_reply(self, message: str, content: JsonObject) -> None: ...
    def on_idle(self, message: str) -> None: ...
    def on_output(self, message: str, kind: str, content: JsonObject) -> None: ...
    def on_input(self, message: str, content: JsonObject) -> None: ...
    def on_push(self, kind: str, data: JsonObject) -> None: ...


class KernelClient:
    """One kernel, from the first greeting until `close`.

    `others` makes the client a guest's: the kernel belongs to somebody else, may be busy while it
    is greeted, and what it says about cells of other clients goes to `others`.
    """

    def __init__(
        self,
        connection: JsonObject,
        host: ClientListener,
        record: bool,
        others: OtherClientsHandler | None = None,
    ) -> None:
        self.wire = Wire(connection, None if others is None else RateLimit())
        self.ready = False
        self.info: JsonObject = {}  # the kernel's answer to the greeting
        self._others = others
        self._host = host
        self._record = record
        self._opening = False
        self._heard_broadcast = False
        self._loading = ""  # id of the message that loads the inspector into a kernel without
        self._send_at = 0.0  # when to greet, or to send what was not answered
        self._subshell: str | None = None
        self._comm: str | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[object, tuple[str, Callable[[Reply], None]]] = {}
        self._waiting: dict[str, Future[JsonObject]] = {}

    # ------------------------------------------------------------------ coming up

    def patience(self) -> float | None:
        """Seconds until `keep_time` should be called; None for never."""
        return None if self.ready else max(0.0, self._send_at - time.monotonic())

    def keep_time(self) -> None:
        """Greet until both the answer and the kernel's broadcast have been heard, then open.

        Whoever subscribes late misses what a kernel broadcasts, and so would lose output.
        """
        if self.patience() != 0.0:
            return
        if self._opening:
            self._open()
            return
        # A kernel that runs another client's cell answers on the control channel only.
        self.wire.send("shell" if self._others is None else "control", "kernel_info_request", {})
        self._send_at = time.monotonic() + _GREETING_SECONDS

    def _on_info(self, content: JsonObject) -> None:
        if not (self._opening or self.ready) and self._heard_broadcast:
            self._opening, self.info = True, content
            self._open()

    def _open(self) -> None:
        """The next request of the opening, or the same once more if nothing answered it."""
        self._send_at = time.monotonic() + _UNANSWERED_SECONDS
        has_subshells = "kernel subshells" in self.info.get("supported_features", [])
        if has_subshells and self._subshell is None:
            self.wire.send("control", "create_subshell_request", {})
        elif self._comm is not None or not self._loading:
            self._open_inspector()

    def _on_subshell(self, subshell: str | None) -> None:
        if self._subshell is not None and subshell is not None:  # asked for twice, answered late
            self.wire.send("control", "delete_subshell_request", {"subshell_id": subshell})
        elif subshell is not None:
            self._subshell = subshell
            self._open()
        else:
            self._open_inspector()

    def _open_inspector(self) -> None:
        """Open the comm; the kernel takes it twice as once, as it has the same id."""
        self._comm = self._comm or f"kbench-{time.monotonic_ns()}"
        hello = {"id": 0, "verb": "hello", "push": True, "record": self._record}
        self._asked[0] = ("hello", self._on_hello)
        content = {"comm_id": self._comm, "target_name": messages.TARGET, "data": hello}
        self.wire.send("shell", "comm_open", content, self._beside)

    @property
    def _beside(self) -> str | None:
        """The subshell, by which a guest's first questions pass the cell that may be running."""
        return None if self._others is None else self._subshell

    def _load_inspector(self) -> None:
        """The kernel does not know the inspector's target: have it load the extension, once."""
        code = _LOAD.format("extension" if self._others is None else "guest_extension")
        content = {"code": code, "silent": True, "store_history": False, "allow_stdin": False}
        self._loading = self.wire.send("shell", "execute_request", content, self._beside)
        self._comm = None  # the refused comm may be closed more than once

    def _on_loaded(self, content: JsonObject) -> None:
        if content.get("status") == "ok":
            self._open_inspector()
        else:
            reason = f"{content.get('ename')}: {content.get('evalue')}"
            self._fail_asked("inspector", f"{_NO_INSPECTOR}; {reason}")

    def _on_hello(self, reply: Reply) -> None:
        if not self._opening:
            return
        self._opening, self.ready = False, True
        if not reply["ok"]:
            self._comm = None
        problem = "" if reply["ok"] else str(reply["error"]["reason"])
        self._host.on_ready(reply.get("data", {}), problem)

    # ------------------------------------------------------------------ saying

    def execute(self, code: str, counted: bool = True, columns: int = 0) -> str:
        """Send a cell; the id of the message names it in what the kernel says of it.

        `columns` tells a kernel of our own how wide output is shown.
        """
        content = {
            "code": code,
            "silent": False,
            "store_history": counted,
            "user_expressions": {},
            "allow_stdin": True,
            "stop_on_error": False,
        }
        told = columns if self._others is None else 0
        metadata = {METADATA_FIELD: told} if told else None
        return self.wire.send("shell", "execute_request", content, metadata=metadata)

    def ask(self, verb: str, arguments: JsonObject, future: Future[Reply]) -> None:
        """Ask the inspector, on a subshell where the kernel has them."""
        if not self.ready or self._comm is None:
            reason = _NO_INSPECTOR if self.ready else "the kernel is not ready"
            settle(future, failed_reply(verb, "inspector", reason))
            return
        pages: list[Reply] = []

        def answer(reply: Reply) -> None:
            """Gather the pages of a summary; any other reply is its own and only page."""
            pages.append(reply)
            following = messages.following(reply)
            if following is None:
                settle(future, messages.joined(pages))
            else:
                self._send(verb, {**arguments, "start": following}, answer)

        self._send(verb, arguments, answer)

    def _send(self, verb: str, arguments: JsonObject, answer: Callable[[Reply], None]) -> None:
        number = next(self._numbers)
        self._asked[number] = (verb, answer)
        data = {**arguments, "id": number, "verb": verb}
        content = {"comm_id": self._comm, "data": data}
        self.wire.send("shell", "comm_msg", content, self._subshell)

    def ask_shell(
        self, kind: str, content: JsonObject, busy: bool, future: Future[JsonObject]
    ) -> None:
        """A question of Jupyter's own protocol; while a cell runs it goes to the subshell."""
        if not self.ready:
            future.set_exception(ConnectionError("the kernel is not ready"))
            return
        subshell = self._subshell if busy else None
        self._waiting[self.wire.send("shell", kind, content, subshell)] = future

    def answer(self, text: str) -> None:
        """The line that a cell waits for."""
        self.wire.send("stdin", "input_reply", {"value": text})

    def shutdown(self) -> None:
        """Ask the kernel to end."""
        self.wire.send("control", "shutdown_request", {"restart": False})

    def interrupt(self) -> None:
        """Ask the kernel to interrupt its cell; for one whose process is not ours to signal."""
        self.wire.send("control", "interrupt_request", {})

    def leave(self) -> None:
        """Take back what was opened in a kernel that goes on without us."""
        if self._comm is not None:
            self.wire.send("shell", "comm_close", {"comm_id": self._comm, "data": {}})
        if self._subshell is not None:
            content = {"subshell_id": self._subshell}
            self.wire.send("control", "delete_subshell_request", content)

    # ------------------------------------------------------------------ hearing

    def receive(self) -> int:
        """Handle what waits on every channel; how many messages that was.

        What is printed is sent before a reply or a question, by another socket: so it is read
        after them, and handled first.
        """
        replies = [
            message for name in ("shell", "control", "stdin") for message in self.wire.receive(name)
        ]
        broadcasts = self.wire.receive("iopub")
        self._heard_broadcast = self._heard_broadcast or bool(broadcasts)
        for message in broadcasts:
            self._on_broadcast(message)
        for message in replies:
            self._on_reply(message)
        return len(broadcasts) + len(replies)

    def _on_reply(self, message: Message) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        parent = str(message["parent_header"].get("msg_id", ""))
        if kind == "execute_reply" and parent == self._loading:
            self._on_loaded(content)
        elif kind == "execute_reply":
            self._host.on_reply(parent, content)
        elif kind == "kernel_info_reply":
            self._on_info(content)
        elif kind == "create_subshell_reply":
            self._on_subshell(content.get("subshell_id"))
        elif kind == "input_request":
            self._host.on_input(parent, content)
        elif parent in self._waiting:
            self._waiting.pop(parent).set_result(content)

    def _on_broadcast(self, message: Message) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        parent = str(message["parent_header"].get("msg_id", ""))
        if self._others is not None and self.wire.is_others(message):
            self._others(parent, kind, content)
        elif kind in ("comm_msg", "comm_close"):
            if content.get("comm_id") == self._comm:
                self._on_comm(kind, content.get("data", {}))
        elif kind == "status":
            if content.get("execution_state") == "idle":
                self._host.on_idle(parent)
        else:
            self._host.on_output(parent, kind, content)

    def _on_comm(self, kind: str, data: JsonObject) -> None:
        if kind == "comm_close" and not self.ready and not self._loading:
            self._load_inspector()
        elif kind == "comm_close":
            self._fail_asked("inspector", _NO_INSPECTOR)
        elif "push" in data:
            self._host.on_push(str(data["push"]), data["data"])
        elif data.get("id") in self._asked:
            self._asked.pop(data["id"])[1](data)

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """Close the sockets and answer every open question with a refusal."""
        self.ready = self._opening = False
        self.wire.close(0 if self._others is None else _LINGER_MILLISECONDS)
        self._fail_asked("kernel", "the kernel has ended")
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(ConnectionError("the kernel has ended"))

    def _fail_asked(self, kind: str, reason: str) -> None:
        asked, self._asked = self._asked, {}
        for verb, answer in asked.values():
            answer(failed_reply(verb, kind, reason))
