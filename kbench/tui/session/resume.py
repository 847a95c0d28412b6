"""Earlier sessions: offered, shown in the transcript, run again if the user says so."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from kbench.tui.dialogs.dialogs import ChoiceDialog
from kbench.tui.dialogs.pick import ListDialog
from kbench.tui.signal import CellEnded
from kbench.tui.text.glyphs import counted
from kbench.tui.text.text import one_line
from kbench.tui.transcript.cells import Block, ErrorPart, ResultPart

if TYPE_CHECKING:
    from kbench.tui.screen_bench import ScreenBench
    from kbench.tui.session.session_controller import SessionController
    from kbench.workbench.history.session_archive import EarlierSession
    from kbench.workbench.session.cell import Cell

REMIND_WITHIN_SECONDS = 7 * 86_400.0
"""Seconds in which a session that did not end is spoken of unasked: a week."""
NEXT_QUESTION_SECONDS = 0.4
"""Seconds in which the result of a cell is seen before the next question."""
_STATES = {"ok": "ok", "past": "ok", "lost": "lost", "withdrawn": "ok"}


class ResumeController:
    """What is left to run again, and the questions about it."""

    def __init__(self, bench: ScreenBench, session: SessionController) -> None:
        self.bench = bench
        self._session = session
        bench.on(CellEnded, self._cell_ended)
        self._left: list[Cell] = []  # of those that are asked about one by one
        self._awaited = ""  # the cell after which the next question comes

    # ------------------------------------------------------------------ offering

    async def remind(self) -> None:
        """Say that a session did not end, lately."""
        past = [
            session
            for session in await self._unfinished()
            if time.time() - session.ended < REMIND_WITHIN_SECONDS
        ]
        if past:
            key = self.bench.key_word("resume")
            cells = counted(len(past[0].cells), "cell")
            words = f"the session of {past[0].when} ended unexpectedly; {key} restores its {cells}"
            self.bench.notify(words, 8)

    async def offer(self) -> None:
        """Let the user choose a session, of those that did not end where there are any."""
        from kbench.workbench.history import session_archive

        past: list[EarlierSession] = await self.bench.link.call(session_archive.resumable)
        if not past:
            self.bench.notify("no session is kept; there is nothing to resume")
        elif len(past) == 1:
            await self.show(past[0])
        else:
            self._pick(past)

    async def _unfinished(self) -> list[EarlierSession]:
        def look() -> list[EarlierSession]:
            from kbench.workbench.history import session_archive

            return session_archive.unfinished()

        found: list[EarlierSession] = await self.bench.link.call(look)
        return found

    def _pick(self, past: list[EarlierSession]) -> None:
        from kbench.workbench.history import session_archive

        def take(at: int | None) -> None:
            if at is not None:
                self.bench.run(partial(self.show, past[at]))

        def drop(at: int) -> None:
            session_archive.dismiss(past[at])

        rows = [session.words for session in past]
        title = "Earlier sessions" if past[0].finished else "Sessions that ended unexpectedly"
        self.bench.open(ListDialog(title, rows, drop), take)

    # ------------------------------------------------------------------ showing

    async def show(self, past: EarlierSession) -> None:
        """Put its cells into the transcript, and ask what shall run again."""
        from kbench.workbench.history import session_archive

        session = self.bench.link.session
        if session is None:
            return
        cells: list[Cell] = await self.bench.link.call(session_archive.adopt, session, past)
        transcript = self.bench.transcript
        how = "" if past.finished else ", which ended unexpectedly"
        transcript.note(f"session of {past.when}{how}; nothing was run again")
        for cell in cells:
            self._put(transcript.add(block_of(cell)), cell)
        prompt = self.bench.prompt
        if past.draft.strip() and not prompt.text:
            prompt.put(past.draft)
        self._session.lines.show_number()
        left = session_archive.runnable(cells)
        if left:
            self._ask(past, left)

    def _put(self, block: Block, cell: Cell) -> None:
        """Show the pictures of a cell, too."""
        from kbench.workbench.session import events

        shown = [event for event in cell.outputs if isinstance(event, events.Result)]
        parts = [part for part in block.parts if isinstance(part, ResultPart)]
        for part, event in zip(parts, shown, strict=True):
            self._session.pictures.add(block, part, event)

    def _ask(self, past: EarlierSession, cells: list[Cell]) -> None:
        from kbench.workbench.history import session_archive

        whole = session_archive.finished_cells(cells)

        def act(answer: str | None) -> None:
            if answer == "a":
                self._run(whole)
            elif answer == "o":
                self._left = list(cells)
                self._next()

        rest = len(cells) - len(whole)
        beside = f", without the {rest} that did not finish" if rest else ""
        key = self.bench.key_word("cell_edit")
        answers = [
            ("a", f"run all again ({counted(len(whole), 'cell')}{beside})"),
            ("o", "one by one"),
            ("n", f"nothing now; {key} on a cell brings it to the prompt"),
        ]
        question = f"The cells of {past.when} are back. Their variables are not."
        self.bench.open(ChoiceDialog(question, answers, unasked=True), act)

    # ------------------------------------------------------------------ running

    def _run(self, cells: list[Cell]) -> Block | None:
        block = None
        for cell in cells:
            block = self._session.run(cell.code, cell.ident)
        return block

    def _next(self) -> None:
        """Ask about the next cell."""
        if not self._left:
            return
        cell = self._left.pop(0)

        def act(answer: str | None) -> None:
            if answer == "r":
                block = self._run([cell])
                self._awaited = block.ident if block is not None else ""
            elif answer == "s":
                self._next()
            elif answer == "a":
                rest, self._left = [cell, *self._left], []
                self._run(rest)
            else:
                self._left = []

        width = max(min(96, self.bench.size.width * 9 // 10) - 6, 10)
        lines = [one_line(line, width) for line in cell.code.split("\n")]
        shown = "\n".join([*lines[:5], *(["..."] if len(lines) > 5 else [])])
        answers = [
            ("r", "run it"),
            ("s", "skip it"),
            ("a", f"run it and the {len(self._left)} behind it"),
            ("q", "stop here"),
        ]
        self.bench.open(ChoiceDialog(shown, answers), act)

    def _cell_ended(self, ended: CellEnded) -> None:
        """The cell that was asked about has ended: its result is on the screen, so go on."""
        if self._awaited and str(ended.event.cell) == self._awaited:
            self._awaited = ""
            if self._left:
                self.bench.later(NEXT_QUESTION_SECONDS, self._next)


def block_of(cell: Cell) -> Block:
    """A cell of another session as a block of the transcript."""
    from kbench.workbench.session import events

    state = _STATES.get(cell.status, "failed")
    origin = f"{cell.origin}, not run" if cell.status == "withdrawn" else cell.origin
    block = Block(str(cell.ident), cell.code, state, origin, past=True)
    block.count, block.seconds = cell.count, cell.seconds
    for event in cell.outputs:
        if isinstance(event, events.Stream):
            block.stream(event.name, event.text)
        elif isinstance(event, events.Result):
            block.add(ResultPart(event.text, labelled=event.count is not None))
        else:
            texts = (event.name, event.value, event.traceback)
            block.add(ErrorPart(*texts, event.detail, block.ident))
    return block
