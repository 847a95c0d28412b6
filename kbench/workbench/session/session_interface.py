"""The session interface that front ends program against, and the state that every kind shares.

A session runs cells in order, one at a time, tells what happens through `events`, and keeps a
journal of it. The two kinds are KernelSession (a process of its own) and LocalSession.
"""

from __future__ import annotations

import abc
import codeop
import itertools
import warnings
from concurrent.futures import Future
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kbench.engine.runtime.signal import Signal
from kbench.workbench.core_types import JsonObject, Reply
from kbench.workbench.history.journal import Journal
from kbench.workbench.history.output_store import OutputStore
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.question import Question, ReplyData
from kbench.workbench.protocol.session import Help
from kbench.workbench.session import events
from kbench.workbench.session.cell import FORGOTTEN, Cell, renumbered

if TYPE_CHECKING:
    from kbench.workbench.session.events import Event


class Completion(Struct, frozen=True):
    """Texts that may replace `start` to `end` of the code; `kinds` says what each is, or ''."""

    matches: list[str]
    start: int
    end: int
    kinds: list[str]


class Session(abc.ABC):
    """Runs cells and answers questions about their names. Every method is thread-safe.

    `execute` and `request` return at once; `ask`, `complete` and `inspect_object` wait for the
    answer up to a timeout, so a user interface calls them from a worker thread.
    """

    attached = ""  # the name of the kernel when it is not the session's own
    columns = 0  # that the front end shows of output, told to a kernel of our own with each cell

    def __init__(self, journal: Journal | None = None) -> None:
        self.events = Signal("session.events")
        self.journal = journal or Journal.create()
        self.cells: dict[int, Cell] = {}
        self._outputs = OutputStore(self.journal)
        self._numbers = itertools.count(1)

    @abc.abstractmethod
    def start(self) -> None:
        """Begin; returns at once. `Started` is emitted when cells can run."""

    @abc.abstractmethod
    def ready(self, timeout: float | None = None) -> bool:
        """Wait until `Started`; False when it did not come in time."""

    @abc.abstractmethod
    def execute(self, code: str, replay_of: int | None = None, unseen: str = "") -> int:
        """Queue a cell and return its number; it runs after those queued before it.

        `replay_of` is the cell whose place it takes in what is exported and run again later.
        An `unseen` cell, UNSEEN or FORGOTTEN, takes no number of the history.
        """

    @abc.abstractmethod
    def request(self, verb: str, **arguments: object) -> Future[Reply]:
        """Send a request to the inspector; the future's reply is as messages.py describes.

        This is the wire, and never raises; front ends ask questions by `ask`.
        """

    @abc.abstractmethod
    def complete(self, code: str, position: int, timeout: float = 2.0) -> Completion:
        """What could stand at `position`; nothing when the kernel does not answer in time."""

    @abc.abstractmethod
    def answer(self, text: str) -> None:
        """The line that a cell's `input` waits for."""

    @abc.abstractmethod
    def interrupt(self) -> None:
        """Stop the running cell: the engine's cancel flag and a KeyboardInterrupt."""

    @abc.abstractmethod
    def restart(self, replay: bool = True) -> None:
        """Begin anew with an empty namespace; `replay` runs the finished cells again."""

    @abc.abstractmethod
    def shutdown(self) -> None:
        """End; waits until it is done."""

    def ask(self, question: Question[ReplyData], timeout: float = 5.0) -> ReplyData:
        """Ask the inspector and wait for its answer.

        Raises:
            ProtocolError: it refuses, or no answer comes in time.
        """
        try:
            reply = self.request(question.verb, **question.arguments()).result(timeout)
        except TimeoutError:
            raise ProtocolError("timeout", f"no answer within {timeout:g} s") from None
        return question.answer(reply)

    def inspect_object(self, code: str, position: int) -> str:
        """Signature and documentation of the call around `position`."""
        try:
            return self.ask(Help(code=code, position=position), timeout=1.0).text
        except ProtocolError:
            return ""

    def is_complete(self, code: str) -> tuple[str, str]:
        """Whether Enter should run `code`: 'complete', 'incomplete' or 'invalid', and an indent.

        Decided here, so that it costs no round trip and works while the kernel starts.
        """
        return completeness(code)

    def queued(self) -> list[Cell]:
        """Cells that wait for their turn."""
        return [cell for cell in self._all() if cell.status == "queued"]

    def running(self) -> Cell | None:
        """The cell that runs now."""
        return next((cell for cell in self._all() if cell.status == "running"), None)

    def replayable(self) -> list[Cell]:
        """Cells that a restart runs again: those that ended by themselves, in order."""
        ended = (cell for cell in self._all() if cell.status in ("ok", "error"))
        return [cell for cell in ended if cell.unseen != FORGOTTEN]

    def adopt(self, cells: list[Cell]) -> list[Cell]:
        """Take over what an earlier session typed and showed, under numbers of this session.

        Here they count as past, so that a restart does not run them; returned is how they ended.
        """
        taken = renumbered(cells, self._numbers)
        for cell in taken:
            ran = cell.status in ("ok", "error", "interrupted")
            own = replace(cell, status="past") if ran else cell
            self._outputs.adopt(own)
            self.cells[cell.ident] = own
        return taken

    def _all(self) -> list[Cell]:
        """The cells at this moment, while other threads may add to them."""
        return list(self.cells.values())

    def _new_cell(self, code: str, replay_of: int | None = None, unseen: str = "") -> Cell:
        cell = Cell(next(self._numbers), code, replay_of=replay_of, unseen=unseen)
        self.cells[cell.ident] = cell
        return cell

    def _emit(self, event: Event) -> None:
        cell = self.cells.get(getattr(event, "cell", None) or 0)
        if cell is None or cell.unseen != FORGOTTEN:
            self.journal.record(event)
            self._keep(event)
        elif isinstance(event, events.CellDone):
            del self.cells[cell.ident]
        self.events.emit(event)

    def _keep(self, event: Event) -> None:
        """Remember what a cell showed, for a notebook made of the session."""
        cell = self.cells.get(getattr(event, "cell", None) or 0)
        if cell is not None:
            self._outputs.add(self.cells.values(), cell, event)


def completion(code: str, found: list[tuple[str, str]], start: int, end: int) -> Completion:
    """A completion from (text, kind) pairs: no leading dots, and magics only where one began."""
    typed = code[start:end]
    if typed.startswith(".") and all(text.startswith(".") for text, _ in found):
        found = [(text[1:], kind) for text, kind in found]
        start += 1
    if not typed.startswith("%"):
        found = [pair for pair in found if not pair[0].startswith("%")]
    return Completion([text for text, _ in found], start, end, [kind for _, kind in found])


def jupyter_completion(code: str, position: int, found: JsonObject) -> Completion:
    """A completion from the content of Jupyter's complete_reply."""
    matches = [str(match) for match in found.get("matches", [])]
    typed = found.get("metadata", {}).get("_jupyter_types_experimental", [])
    kinds = [str(entry.get("type", "")) for entry in typed if isinstance(entry, dict)]
    kinds = kinds if len(kinds) == len(matches) else [""] * len(matches)
    start, end = found.get("cursor_start", position), found.get("cursor_end", position)
    return completion(code, list(zip(matches, kinds, strict=True)), int(start), int(end))


def settle(future: Future[Reply], reply: Reply) -> None:
    """Give the answer, unless whoever asked has given up, be it at this moment."""
    if future.set_running_or_notify_cancel():
        future.set_result(reply)


def failed_reply(verb: str, kind: str, reason: str) -> Reply:
    """The reply to a request that never reached an inspector."""
    return {"verb": verb, "ok": False, "error": {"kind": kind, "reason": reason}}


def completeness(code: str) -> tuple[str, str]:
    """'complete', 'incomplete' or 'invalid' and the indent of the next line.

    A block ends with a blank line, as at Python's own prompt. Lines of the shell's own syntax
    (%magic, !command, name?) are complete; a %%cell ends with a blank line.
    """
    lines = code.split("\n")
    first, last = lines[0].strip(), lines[-1]
    if first.startswith("%%"):
        return ("complete", "") if len(lines) > 1 and not last.strip() else ("incomplete", "")
    if first.startswith(("%", "!", "?")) or first.endswith("?"):
        return "complete", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = codeop.compile_command(code, "<prompt>", "exec")
    except (SyntaxError, ValueError, OverflowError):
        return "invalid", ""
    block = len(lines) > 1 and last[:1] in (" ", "\t") and bool(last.strip())
    if compiled is not None and not block and not code.endswith("\\"):
        return "complete", ""
    indent = last[: len(last) - len(last.lstrip())]
    opens = last.split("#")[0].rstrip().endswith(":")
    return "incomplete", indent + "    " if opens else indent
