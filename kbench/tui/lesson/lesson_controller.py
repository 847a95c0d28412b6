"""A lesson beside the live panes: what Enter does, and what the kernel answers.

The lesson, its checks and the stored progress are the workbench's and shared with notebooks; the
kernel judges. Whatever is typed is the learner's: nothing here runs unless it is said so.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.lesson import lesson_words
from kbench.tui.lesson.lesson_commands import LessonCommands
from kbench.tui.session.link import AskFailed
from kbench.tui.signal import CellEnded, KernelRestarted, Pushed, Signal, UnseenFailed
from kbench.tui.themes import MUTED
from kbench.workbench.core_types import JsonObject
from kbench.workbench.lessons import lesson_pages
from kbench.workbench.lessons.lesson_files import Verdict

if TYPE_CHECKING:
    from kbench.tui.main_screen import MainScreen
    from kbench.tui.transcript.cells import Block
    from kbench.workbench.session import events

LOST = "the check did not finish; check again once the kernel is back"


class LessonController(LessonCommands):
    """One learner's way through lessons on one screen."""

    def __init__(self, screen: MainScreen, signal: Signal) -> None:
        super().__init__(screen)
        signal.subscribe(CellEnded, lambda ended: self._cell_ended(ended.event, ended.block))
        signal.subscribe(UnseenFailed, lambda failed: self._failed(failed.event))
        signal.subscribe(KernelRestarted, lambda event: self._restarted(event.replayed))
        signal.subscribe(Pushed, self._pushed)

    async def begin(self, number: int | None) -> None:
        """What the command line asks for: None for no lesson, 0 for the list, else one of them."""
        if number:
            await self._begin(number)
        elif number is not None:
            self.choose()

    def typed(self) -> None:
        """What stands in the prompt is not lost to a command that is typed in its place."""
        text = self.prompt.text
        command = text.lstrip().startswith((":", "%")) and "\n" not in text
        if self.open and text.strip() and not command:
            self._draft = text
        if self.open and self._prompt_now() != self._shown_prompt:
            self.refresh_pane()

    def go_on(self) -> None:
        """Enter on the empty prompt: whatever comes next."""
        if not self.open or self._busy():
            return
        waits = self.page.exercise is not None and self.page.exercise not in self._passed()
        if waits and self._tried and not self.playing:
            self._check()
        elif self.playing or waits or (self.page.code and self.at not in self._ran):
            self._restore_code()
        else:
            self._next()

    def link_ready(self) -> None:
        """There is a session: what was asked for before runs first."""
        self.hidden_cells.link_ready()

    def _cell_ended(self, event: events.CellDone, block: Block | None) -> None:
        """A cell has ended, seen or not."""
        if not self.open:
            return
        if block is None:
            if self.hidden_cells.ended(event.cell):
                words = "the check was stopped" if event.status == "interrupted" else LOST
                self.show_message(lesson_words.verdict(words, False))
                self.refresh_pane()
            return
        at, check = self._cells.pop(block, (-1, False))
        if at < 0:
            return
        page = self.pages[at]
        known_to_fail = page.exercise is None and page.step is not None and page.step.may_fail
        if event.status == "ok" or (event.status == "error" and known_to_fail):
            self._ran.add(at)
        if at == self.at:
            self._ended_here(event.status, block, check)
        self.refresh_pane()

    def _ended_here(self, status: str, block: Block, check: bool) -> None:
        """The code of the page that is shown has run."""
        if self._skipping is not None and block is self._skipping[0]:
            name, self._skipping = self._skipping[1], None
            self.screen.background(partial(self._tell_made, block.code, name))
        elif self.page.exercise is not None:
            self._tried = status == "ok"
            if self._tried and check:
                self._judge(self.page.exercise)
            elif status == "error":
                self._give_back()
        elif self.page.code and status == "error" and self.at not in self._ran:
            self._give_back()

    async def _tell_made(self, code: str, exercise: str) -> None:
        """Say what entering an answer has made, and that it counts."""
        names = lesson_pages.made(code)
        rows: list[JsonObject] = []
        try:
            data = await self.screen.bench.link.ask("summary", names=names, statistics=False)
            rows = data.get("rows") or []
        except AskFailed:
            rows = []  # the names alone are said
        made = lesson_words.created(names, rows)
        words = f"answer entered; {exercise} counts as done"
        self.show_message([Content(f"{words}. It made {made}" if made else words)])

    def _give_back(self) -> None:
        """An answer that is not right yet is there to be changed."""
        if not self.prompt.text and not self.playing:
            self._give()

    def _pushed(self, event: Pushed) -> None:
        if event.kind == "lesson":
            self._judged(event.data)

    def _judged(self, data: JsonObject) -> None:
        """The kernel has judged an answer."""
        if not self.hidden_cells.take(data) or self.coach is None:
            return
        if data.get("problem"):
            self.show_message(lesson_words.verdict(str(data["problem"]), False))
            self.refresh_pane()
            return
        name, passed = str(data["exercise"]), bool(data["passed"])
        verdict = Verdict(passed, str(data["stage"]), str(data["message"]))
        lines = lesson_words.verdict(self.coach.take(name, verdict).message, passed)
        here = name == self.page.exercise
        self._unmet = here and not passed
        if here and passed:
            self._ran.add(self.at)
            self._make_rest()
        elif here:
            self._give_back()
            seen = self.coach.progress.may_see_solution(self.lesson, name)
            ways = ":hint helps" + (", :solution shows an answer" if seen else "")
            lines.append(Content.styled(ways, MUTED))
        if self.coach.progress.note:
            lines.append(Content.styled(self.coach.progress.note, MUTED))
        self.show_message(lines)
        self.refresh_pane()

    def _make_rest(self) -> None:
        """What the step makes besides the answer, when that was typed alone and it is not there."""
        answer = self._answers.get(self.at, "")
        rest = lesson_pages.left_out(self.page.code, answer) if answer else {}
        if rest:
            lines = [f"if {name!r} not in globals():\n    {rest[name]}" for name in rest]
            self.hidden_cells.make("\n".join(lines), "")
            words = f"lesson {self.lesson.number}: later steps need {', '.join(rest)}; made unseen"
            self.screen.session_controller.transcript.note(f"{words}, unless it was there")

    def _failed(self, event: events.Error) -> None:
        """An unseen cell has raised."""
        name = self.hidden_cells.name(event.cell)
        if name:
            words = f"{name} could not be run again: {event.name}: {event.value}"
            self.screen.session_controller.transcript.note(words[:300])

    def _restarted(self, replayed: bool) -> None:
        """Another kernel: unless the cells run again, what earlier steps made is made anew."""
        self._cells = {}
        if self.open and not replayed:
            self._ran = set()
            self.hidden_cells.give_up()
            self.hidden_cells.prepare(self.lesson.number)
            self._catch_up(self.at)
        if self.open:
            self.refresh_pane()
