"""LocalSession: cells run in this process and in the caller's thread, behind the same interface.

For scripts, plain line mode and unit tests. It cannot survive what kills its process, and a cell
that runs holds up its caller; in return it starts in a fraction of a second.
"""

from __future__ import annotations

import _thread
import contextlib
import io
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

from kbench.engine.core import cancel, errors, fork_safety
from kbench.workbench.core_types import JsonObject, Reply
from kbench.workbench.errors import explanation
from kbench.workbench.history.journal import Journal
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.output import stream as output
from kbench.workbench.output.stream import Output
from kbench.workbench.protocol import messages
from kbench.workbench.session import events
from kbench.workbench.session.session_interface import (
    Completion,
    Session,
    completion,
    failed_reply,
)
from kbench.workbench.watches import watched_set

if TYPE_CHECKING:
    from kbench.workbench import ipython_types
    from kbench.workbench.session.events import Event


class LocalSession(Session):
    """A session whose `execute` returns when the cell has run."""

    def __init__(
        self, journal: Journal | None = None, namespace: dict[str, object] | None = None
    ) -> None:
        super().__init__(journal)
        self._given = namespace
        self._lock = fork_safety.lock()
        self._output = Output(self._emit, self.journal.folder)
        self._shell: ipython_types.Shell | None = None
        self._inspector: Inspector | None = None
        self._runner: int | None = None
        self._running = 0
        self._detail: JsonObject = {}
        self._answers: list[str] = []
        self._stdout, self._stderr = sys.stdout, sys.stderr

    def start(self) -> None:
        began = time.monotonic()
        with self._lock:
            self._release()
            self._shell = _make_shell(self, self._given)
            namespace = self._shell.user_ns
            hidden = self._shell.user_ns_hidden
            watched = watched_set.of_shell(self._shell)
            self._inspector = Inspector(namespace, self.publish, hidden, watched)
            hello = self._inspector.handle({"id": 0, "verb": "hello", "push": True})
        self._emit(events.Started(hello.get("data", {}), time.monotonic() - began))

    def ready(self, timeout: float | None = None) -> bool:
        return self._shell is not None

    def execute(self, code: str, replay_of: int | None = None, unseen: str = "") -> int:
        cell = self._new_cell(code, replay_of, unseen)
        with self._lock:
            self._run(cell.ident)
        return cell.ident

    def request(self, verb: str, **arguments: object) -> Future[Reply]:
        future: Future[Reply] = Future()
        if self._inspector is None:
            future.set_result(failed_reply(verb, "inspector", "the session has not started"))
        else:
            pages = [self._inspector.handle({**arguments, "id": 1, "verb": verb})]
            while (start := messages.following(pages[-1])) is not None:
                request = {**arguments, "id": 1, "verb": verb, "start": start}
                pages.append(self._inspector.handle(request))
            future.set_result(messages.joined(pages))
        return future

    def complete(self, code: str, position: int, timeout: float = 2.0) -> Completion:
        from IPython.core.completer import provisionalcompleter

        with provisionalcompleter(), self._lock:
            assert self._shell is not None, "start the session first"
            found = list(self._shell.Completer.completions(code, position))
        if not found:
            return Completion([], position, position, [])
        pairs = [(str(match.text), str(match.type or "")) for match in found]
        return completion(code, pairs, found[0].start, found[0].end)

    def answer(self, text: str) -> None:
        """Give the next `input` of a cell its line, before the cell is executed."""
        self._answers.append(text)

    def interrupt(self) -> None:
        if self._runner is None:
            return
        cancel.request()
        if self._runner == threading.main_thread().ident:
            _thread.interrupt_main()

    def restart(self, replay: bool = True) -> None:
        with self._lock:
            again = self.replayable()
            for cell in again:
                cell.status = "past"
            self._given = None
            self.start()
            copies = [self._new_cell(*cell.rerun_arguments) for cell in again] if replay else []
            self._emit(events.Restarted(len(copies)))
            for copy in copies:
                self._run(copy.ident)

    def shutdown(self) -> None:
        with self._lock:
            self._release()
            self.journal.end()

    def _release(self) -> None:
        """Give up the shell and its inspector."""
        if self._inspector is not None:
            self._inspector.close()
        if self._shell is not None:
            type(self._shell).clear_instance()
            errors.set_place_namer(None)
        self._shell = self._inspector = None

    # ------------------------------------------------------------------ running

    def _run(self, ident: int) -> None:
        cell = self.cells[ident]
        shell, inspector = self._shell, self._inspector
        assert shell is not None and inspector is not None, "start the session first"
        cell.status, self._running = "running", ident
        self._emit(events.CellStarted(ident, cell.code, cell.replay_of))
        began = time.monotonic()
        self._runner = threading.get_ident()
        self._stdout, self._stderr = sys.stdout, sys.stderr
        inspector.cell_started()
        try:
            with self._redirected(ident):
                result = shell.run_cell(cell.code, store_history=not cell.unseen)
            error = result.error_before_exec or result.error_in_exec
        except KeyboardInterrupt as raised:
            error = raised
        finally:
            self._runner = None
        inspector.cell_ended(0 if cell.unseen else shell.execution_count - 1)
        cell.status = "ok" if error is None else "error"
        if isinstance(error, KeyboardInterrupt):
            cell.status = "interrupted"
        cell.count, cell.seconds = shell.execution_count - 1, time.monotonic() - began
        self._output.close(ident)
        done = events.CellDone(ident, cell.count, error is None, cell.seconds, cell.status)
        self._emit(done)

    @contextlib.contextmanager
    def _redirected(self, ident: int) -> Iterator[None]:
        out, err = _Writer(self._output, ident, "stdout"), _Writer(self._output, ident, "stderr")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield

    def show(self, kind: str, **content: Any) -> None:
        """What the running cell shows, as a kernel's message of this kind; called by the shell."""
        self._output.flush()
        event = output.rich(self._running, kind, content, {})
        if event is not None:
            self._emit(event)

    def fail(self, error: BaseException, traceback: list[str]) -> None:
        """An exception of the running cell; called by the shell."""
        self._output.flush()
        name, value = type(error).__name__, explanation.safe_text(error)
        detail, self._detail = self._detail, {}
        self._emit(output.error(self._running, name, value, traceback, detail))

    def next_answer(self, prompt: str = "") -> str:
        """What a cell's `input` gets."""
        if not self._answers:
            raise EOFError("no input in this session")
        return self._answers.pop(0)

    def _emit(self, event: Event) -> None:
        """As for every session, but what a handler prints is not taken for the cell's output."""
        with contextlib.redirect_stdout(self._stdout), contextlib.redirect_stderr(self._stderr):
            super()._emit(event)

    @property
    def inspector(self) -> Inspector | None:
        """What answers questions about the names, once the session has started."""
        return self._inspector

    def publish(self, message: JsonObject) -> None:
        """What the inspector and the shell say unasked."""
        data = message["data"]
        if message["push"] == "error":
            self._detail = data
        elif message["push"] == "changed":
            self._emit(events.Changed.of(data))
        else:
            self._emit(events.Told(message["push"], data))


class _Writer(io.TextIOBase):
    """Standard output of a cell."""

    encoding = "utf-8"

    def __init__(self, output: Output, cell: int, name: str) -> None:
        self._to = output
        self._cell = cell
        self._name = name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._to.add(self._cell, self._name, text)
        return len(text)


def _make_shell(session: LocalSession, namespace: dict[str, object] | None) -> ipython_types.Shell:
    """An IPython shell that hands results, displays and errors to the session."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from kbench.workbench.kernel import pane_channel
    from kbench.workbench.kernel.extension import offer, prepare

    class Hook(DisplayHook):
        def start_displayhook(self) -> None: ...
        def write_output_prompt(self) -> None: ...
        def finish_displayhook(self) -> None: ...

        def write_format_data(self, format_dict: JsonObject, md_dict: object = None) -> None:
            session.show("execute_result", data=format_dict, execution_count=self.prompt_count)

    class Publisher(DisplayPublisher):
        def publish(self, data: JsonObject, *args: object, **more: Any) -> None:
            kind = "update_display_data" if more.get("update") else "display_data"
            session.show(kind, data=data, transient=more.get("transient"))

        def clear_output(self, wait: bool = False) -> None:
            session.show("clear_output", wait=wait)

    class Shell(InteractiveShell):
        displayhook_class = Hook
        display_pub_class = Publisher

        def _showtraceback(
            self, etype: type[BaseException], evalue: BaseException, stb: list[str]
        ) -> None:
            session.fail(evalue, list(stb))

        def enable_gui(self, gui: object = None) -> None: ...

    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "nocolor"
    settings.IPCompleter.use_jedi = False
    # As the process's one shell, `display` and `get_ipython` reach it; where there is one already
    # (a session inside IPython), that one keeps this place.
    build = Shell if InteractiveShell.initialized() else Shell.instance
    made = build(user_ns=namespace, config=settings)
    shell = cast("ipython_types.Shell", made)
    prepare(shell, session.publish)
    setattr(shell, pane_channel.ATTRIBUTE, session)  # as a kernel's shell has its channel
    offer(shell, "input", session.next_answer)
    return shell
