"""A cell waits for a line, by `input()` or in the debugger: the prompt takes it.

What stood in the prompt is put aside meanwhile and comes back. What is asked and answered stands in
the output of the cell, as a terminal has it. A password is typed into a dialog, which hides it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.tui.dialogs import overlays
from kbench.tui.signal import CellEnded, InputWanted, KernelLost

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench
    from kbench.tui.session.session_controller import SessionController
    from kbench.tui.session.typed_cells import TypedCells

END_OF_INPUT = "\x04"
"""What a kernel reads as the end of the input, for which `input()` raises EOFError."""


class Answers:
    """Takes what is typed while a cell waits for it, before anybody else of the chain."""

    def __init__(self, session: SessionController, typed: TypedCells) -> None:
        self._session = session
        self._cell: int | None = None  # the one that waits
        self._given: list[str] = []  # earlier answers, for Up and Down
        self._ahead: list[str] = []  # lines that were pasted with the one that was asked for
        typed.intercept(self._take)
        self._bench.on(InputWanted, self._asked)
        self._bench.on(CellEnded, lambda event: self._ended(event.event.cell))
        self._bench.on(KernelLost, lambda _: self._ended(self._cell))

    @property
    def _bench(self) -> ScreenBench:
        return self._session.bench

    def _asked(self, event: InputWanted) -> None:
        """A cell waits."""
        if event.password:
            overlays.ask_password(self._bench, event.prompt)
            return
        self._cell = event.cell
        self._session.add_output(event.cell, lambda block: block.ask(event.prompt))
        if self._ahead:
            self._answer(self._ahead.pop(0))
            return
        prompt = self._bench.prompt
        prompt.put_aside(self._given)
        self._tell(event.prompt.strip().rpartition("\n")[2] or "input")
        if self._bench.in_front:
            self._bench.go("prompt")

    def _tell(self, asks: str) -> None:
        self._bench.session.asks = asks
        self._session.lines.show_number()
        self._session.lines.show_hint()

    def _take(self, text: str) -> bool:
        """Enter at the prompt."""
        if not self._bench.prompt.answering:
            return False
        first, *self._ahead = text.split("\n")
        if first and first not in self._given[-1:]:
            self._given.append(first)
        self._come_back()
        self._answer(first)
        return True

    def end_of_input(self) -> None:
        """There is nothing to answer with."""
        self._come_back()
        self._answer(END_OF_INPUT)

    def _answer(self, text: str) -> None:
        session = self._bench.link.session
        if session is None or self._cell is None:
            return
        shown = "\n" if text == END_OF_INPUT else f"{text}\n"
        self._session.add_output(self._cell, lambda block: block.answer(shown))
        session.answer(text)

    def _ended(self, cell: int | None) -> None:
        """The cell has ended, answered or not; lines that it did not want are not lost."""
        if cell is None or cell != self._cell:
            return
        self._cell = None
        if self._bench.prompt.answering:
            self._come_back()
        ahead, self._ahead = "\n".join(self._ahead), []
        if ahead and not self._bench.prompt.text:
            self._bench.prompt.put(ahead)

    def _come_back(self) -> None:
        self._bench.prompt.take_back()
        self._tell("")
