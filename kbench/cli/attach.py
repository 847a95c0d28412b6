"""`kbench --existing`: which kernel is meant, and the line-by-line prompt in it.

The workbench asks here for the kernels to choose from; `--plain`, pipes and poor terminals get a
prompt of lines, in which cells of the kernel's other clients are told as they run.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from typing import TYPE_CHECKING

from kbench.cli.exit_codes import FAILED, INTERRUPTED, NO_KERNEL, OK
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.names import Summary
from kbench.workbench.protocol.session import Changes
from kbench.workbench.session import running_kernels
from kbench.workbench.session.running_kernels import AttachError, Kernel

if TYPE_CHECKING:
    from kbench.workbench.protocol.names import VariableRow
    from kbench.workbench.session import events
    from kbench.workbench.session.session_interface import Session

Choice = tuple[Kernel, str]
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_START_SECONDS = 60.0
"""Seconds in which a busy kernel may come to load the inspector."""


def kernels(wanted: str) -> list[Choice]:
    """What `wanted` may mean, each with a few words; Python kernels that answer only.

    Raises:
        AttachError: there is none.
    """
    found = running_kernels.find(wanted)
    if len(found) == 1:
        return [(found[0], running_kernels.ask(found[0]).words)]
    words = running_kernels.ask_all(found)
    usable = [
        (kernel, f"{kernel.name}  {said}, {kernel.notebook}started {kernel.when}")
        for kernel, said in zip(found, words, strict=True)
        if said
    ]
    if not usable:
        raise AttachError(
            f"{len(found)} kernels are running; none of them is a Python kernel that answers"
        )
    return usable


def choose(rows: list[str], what: str) -> int | None:
    """A numbered list and the number that the user types; None for none."""
    for number, row in enumerate(rows, 1):
        print(f"{number:>3}  {clean(row)}")
    while True:
        try:
            answer = input(f"{what} (1 to {len(rows)}, Enter for none): ").strip()
        except EOFError:
            return None
        if not answer:
            return None
        if answer.isdigit() and 1 <= int(answer) <= len(rows):
            return int(answer) - 1
        print(f"{answer!r} is not one of them")


def plain(choices: list[Choice]) -> int:
    """The prompt of lines in one of the kernels; returns the exit code."""
    at: int | None = 0
    if len(choices) > 1:
        if not sys.stdin.isatty():
            names = ", ".join(kernel.name for kernel, _ in choices)
            print(f"kbench: several kernels are running, name one: {names}", file=sys.stderr)
            return NO_KERNEL
        at = choose([words for _, words in choices], "attach to")
    if at is None:
        return OK
    from kbench.workbench.session.attached_session import AttachedSession

    client = _Client(AttachedSession(choices[at][0]))
    try:
        return client.run()
    finally:
        client.session.shutdown()


def clean(text: str) -> str:
    """Without what would move the cursor or change the terminal."""
    return _UNSAFE.sub("?", _ESCAPES.sub("", text))


class _Client:
    """Lines in, lines out. Events are printed from the session's thread, one at a time."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._count = 0
        self._done = threading.Condition()
        self._ended: dict[int, bool] = {}
        self._asked: list[tuple[str, bool]] = []
        self._gone = self._leaving = False
        self._known = threading.Event()  # how many cells the kernel has run
        self._epoch = 0
        session.events.subscribe(self._take)

    def run(self) -> int:
        """Read and run until the end of the input."""
        self.session.start()
        if not self.session.ready(2.0):
            print("the kernel is busy; waiting for its cell to end", file=sys.stderr)
            if not self.session.ready(_START_SECONDS):
                print("kbench: the kernel did not become free", file=sys.stderr)
                return NO_KERNEL
        self._known.wait(1.0)
        if not sys.stdin.isatty():
            return self._run_cell(sys.stdin.read(), loud=False)
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - gives `input` its line editing
        print("Lines run in the kernel; %vars lists its names, ctrl+D leaves it running.")
        while not self._leaving:
            try:
                code = self._read()
            except EOFError:
                print()
                break
            except KeyboardInterrupt:
                print()
                continue
            if code.strip() == "%vars":
                self._vars([])
            elif code.strip():
                self._run_cell(code)
        return OK

    def _read(self) -> str:
        head = f"In [{self._count + 1}]: "
        lines = [input(head)]
        while self.session.is_complete("\n".join(lines))[0] == "incomplete":
            lines.append(input(" " * (len(head) - 5) + "...: "))
        return "\n".join(lines)

    def _run_cell(self, code: str, loud: bool = True) -> int:
        """Run a cell to its end; ctrl+C interrupts it."""
        cell = self.session.execute(code)
        stopped = 0
        while cell not in self._ended and not self._gone and not self._leaving:
            try:
                with self._done:
                    self._done.wait(0.2)
                while self._asked:
                    self.session.answer(self._input(*self._asked.pop(0)))
            except KeyboardInterrupt:
                stopped += 1
                if stopped > 2:
                    return INTERRUPTED
                self.session.interrupt()
        if loud and not self._gone:
            self._tell_changes()
        return OK if self._ended.get(cell, self._leaving) else FAILED

    @staticmethod
    def _input(prompt: str, password: bool) -> str:
        if password:
            import getpass

            return getpass.getpass(prompt)
        with contextlib.suppress(EOFError):
            return input(prompt)
        return ""

    def _tell_changes(self) -> None:
        """The rows of the names that the cell has changed."""
        with contextlib.suppress(ProtocolError):
            changes = self.session.ask(Changes(since=self._epoch))
            self._epoch = changes.epoch
            names = sorted(set(changes.names) & set(changes.all))
            if changes.many:
                print(f"{changes.many} names have changed; %vars shows them")
            if names:
                self._vars(names)

    def _vars(self, names: list[str]) -> None:
        """The rows of names, or of all, as lines."""
        try:
            reply = self.session.ask(Summary(names=names or None))
        except ProtocolError as error:
            print(f"no names: {clean(error.reason)}")
            return
        for row in reply.rows:
            print(clean(_line(row)))

    # ------------------------------------------------------------------ the session's thread

    def _take(self, event: object) -> None:
        handler = getattr(self, f"_on_{type(event).__name__}", None)
        if handler is not None:
            handler(event)
        with self._done:
            self._done.notify_all()

    def _on_Attached(self, event: events.Attached) -> None:
        self._count = event.count
        if sys.stdin.isatty():
            name = clean(event.kernel)
            print(f"attached to kernel {name}, which has run {event.count} cells", flush=True)
        self._known.set()  # last: the prompt follows at once

    def _on_CellStarted(self, event: events.CellStarted) -> None:
        if event.origin:
            print(f"\n{event.origin} runs: {clean(event.code)}")

    def _on_Stream(self, event: events.Stream) -> None:
        out = sys.stdout if event.name == "stdout" else sys.stderr
        out.write(event.text if not out.isatty() else clean(event.text))
        out.flush()

    def _on_Result(self, event: events.Result) -> None:
        label = f"Out[{event.count}]: " if event.count is not None and sys.stdin.isatty() else ""
        print(f"{label}{clean(event.text)}", flush=True)

    def _on_Error(self, event: events.Error) -> None:
        print(clean("\n".join(event.traceback)), file=sys.stderr, flush=True)
        for line in event.detail.get("drawing", ()):
            print(clean(str(line)), file=sys.stderr)

    def _on_CellDone(self, event: events.CellDone) -> None:
        if event.count is not None:
            self._count = event.count
        self._ended[event.cell] = event.ok

    def _on_InputRequested(self, event: events.InputRequested) -> None:
        self._asked.append((event.prompt, event.password))

    def _on_Started(self, event: events.Started) -> None:
        self._gone = False
        self._epoch = event.hello.get("epoch", 0)
        if event.problem:
            print(f"kbench: {clean(event.problem)}", file=sys.stderr)

    def _on_Died(self, event: events.Died) -> None:
        self._gone = True
        print("kbench: the kernel has ended or is being restarted", file=sys.stderr)

    def _on_ExitAsked(self, event: events.ExitAsked) -> None:
        self._leaving = True


def _line(row: VariableRow) -> str:
    """A row of the table of names as a line."""
    facts = [row.name, row.kind, row.dtype or ""]
    if row.shape is not None:
        facts.append(str(tuple(row.shape)))
    facts.append(row.text or "")
    if row.min is not None:
        facts.append(f"[{row.min} {row.max}]")
    return "  ".join(fact for fact in facts if fact)
