"""A lesson beside the live panes: what is typed for it, what Enter does, what the kernel answers.

The lesson, its checks and the stored progress are the workbench's and shared with notebooks; the
kernel judges. Whatever is typed is the learner's: nothing here runs unless it is said so. What is
no cell (commands, code that still has a blank) is taken from the chain of `session/typed_cells.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.lesson import lesson_typed, lesson_words
from kbench.tui.lesson.lesson_commands import LessonCommands
from kbench.tui.lesson.lesson_display import LessonDisplay
from kbench.tui.lesson.lesson_model import LessonModel
from kbench.tui.panes.registry import LESSON
from kbench.tui.session.hidden_cells import HiddenCells
from kbench.tui.session.link import AskFailed
from kbench.tui.signal import (
    CellEnded,
    CellTyped,
    KernelRestarted,
    PaneWanted,
    QuitWanted,
    UnseenFailed,
)
from kbench.tui.themes import MUTED
from kbench.workbench.core_types import JsonObject
from kbench.workbench.lessons import lesson_pages
from kbench.workbench.lessons.lesson_files import Verdict
from kbench.workbench.protocol.names import Summary, VariableRow

if TYPE_CHECKING:
    from kbench.tui.session.session_controller import SessionController
    from kbench.tui.session.typed_cells import TypedCells

LOST = "the check did not finish; check again once the kernel is back"


class LessonController:
    """Joins the model, the display and the commands to the session."""

    def __init__(self, session: SessionController, typed_cells: TypedCells) -> None:
        self.bench = session.bench
        self.model = LessonModel()
        self.hidden_cells = HiddenCells(session)
        self.display = LessonDisplay(self.bench, self.model, self.hidden_cells)
        self.commands = LessonCommands(session, self.model, self.display, self.hidden_cells)
        typed_cells.intercept(self._intercept)
        on = self.bench.on
        on(CellTyped, lambda typed: self.commands.began(typed.block, typed.now))
        on(CellEnded, self._cell_ended)
        on(UnseenFailed, self._unseen_failed)
        on(KernelRestarted, lambda event: self._restarted(event.replayed))
        on(PaneWanted, self._pane_wanted)
        self.bench.told("lesson", self._judged)

    async def begin(self, number: int | None) -> None:
        """What the command line asks for: None for no lesson, 0 for the list, else one of them."""
        if number:
            await self.commands.begin(number)
        elif number is not None:
            self.commands.choose()

    def _pane_wanted(self, event: PaneWanted) -> None:
        """Bring all of it to the front; where there is no lesson yet, one is chosen."""
        if event.pane == LESSON and self.model.open:
            self.display.unfold()
        elif event.pane == LESSON:
            self.commands.choose()

    # ------------------------------------------------------------------ the prompt

    def typed(self) -> None:
        """What stands in the prompt is not lost to a command that is typed in its place."""
        if not self.model.open:
            return
        text = self.bench.prompt.text
        command = text.lstrip().startswith((":", "%")) and "\n" not in text
        if text.strip() and not command:
            self.model.draft = text
        self.display.prompt_changed()

    def go_on(self) -> None:
        """Enter on the empty prompt: whatever comes next."""
        if not self.model.open or self.commands.busy:
            return
        follows = self.model.goes_on()
        if follows == "check":
            self.commands.check()
        elif follows == "give back":
            self.commands.restore_code()
        else:
            self.commands.next()

    def _intercept(self, code: str) -> bool:
        """Whether what was entered is a command, or code that cannot run yet."""
        prompt = self.bench.prompt
        number = lesson_typed.lesson_in(code)
        if number is not None and (number or self.model.open):
            prompt.put("")
            if number == 0:
                self.commands.leave()
            else:
                self.bench.run(partial(self.commands.begin, number))
            return True
        typed = prompt.command
        if not self.model.open:
            return typed is not None and self._closed(typed.command)
        magic = lesson_typed.magic_in(code, self.model.page.exercise)
        if magic is not None:
            typed = lesson_typed.TypedCommand(magic, "")
        if typed is not None:
            prompt.put("")
            self.commands.command(typed.command, typed.rest)
            return True
        return self.commands.refuse_blanks(code)

    def _closed(self, command: str) -> bool:
        """A command of lessons while none is open; False for what is none."""
        if command not in lesson_words.COMMANDS:
            return False
        self.bench.prompt.put("")
        if command == "quit":
            self.bench.tell(QuitWanted())
        elif command == "help":
            self.commands.help()
        else:
            if command != "lessons":
                self.bench.notify(f":{command} is for lessons; take one")
            self.commands.choose()
        return True

    # ------------------------------------------------------------------ the kernel

    def link_ready(self) -> None:
        """There is a session: what was asked for before runs first."""
        self.hidden_cells.link_ready()

    def _cell_ended(self, ended: CellEnded) -> None:
        """A cell has ended, seen or not."""
        block, status = ended.block, ended.event.status
        if not self.model.open:
            return
        if block is None:
            if self.hidden_cells.ended(ended.event.cell):
                words = "the check was stopped" if status == "interrupted" else LOST
                self.display.say(lesson_words.verdict(words, False))
                self.display.refresh()
            return
        follows = self.model.end(block, status)
        if follows is None:
            return
        if follows == "tell made":
            self.bench.run(partial(self._tell_made, block.code, self.model.entered))
        elif follows == "judge" and self.model.page.exercise is not None:
            self.commands.judge(self.model.page.exercise)
        elif follows == "give back":
            self.display.give_back()
        self.display.refresh()

    async def _tell_made(self, code: str, exercise: str) -> None:
        """Say what entering an answer has made, and that it counts."""
        names = lesson_pages.made(code)
        rows: list[VariableRow] = []
        try:
            data = await self.bench.ask(Summary(names=names, statistics=False))
            rows = data.rows
        except AskFailed:
            rows = []  # the names alone are said
        made = lesson_words.created(names, rows)
        words = f"answer entered; {exercise} counts as done"
        self.display.say([Content(f"{words}. It made {made}" if made else words)])

    def _judged(self, data: JsonObject) -> None:
        """The kernel has judged an answer."""
        coach = self.model.coach
        if not self.hidden_cells.take(data) or coach is None:
            return
        if data.get("problem"):
            self.display.say(lesson_words.verdict(str(data["problem"]), False))
            self.display.refresh()
            return
        name, passed = str(data["exercise"]), bool(data["passed"])
        verdict = Verdict(passed, str(data["stage"]), str(data["message"]))
        lines = lesson_words.verdict(coach.take(name, verdict).message, passed)
        here = self.model.judge(name, passed)
        if here and passed:
            self._make_rest()
        elif here:
            self.display.give_back()
            seen = coach.progress.may_see_solution(self.model.lesson, name)
            ways = ":hint helps" + (", :solution shows an answer" if seen else "")
            lines.append(Content.styled(ways, MUTED))
        if coach.progress.note:
            lines.append(Content.styled(coach.progress.note, MUTED))
        self.display.say(lines)
        self.display.refresh()

    def _make_rest(self) -> None:
        """What the step makes besides the answer, when that was typed alone and it is not there."""
        rest = self.model.left_out()
        if rest:
            lines = [f"if {name!r} not in globals():\n    {rest[name]}" for name in rest]
            self.hidden_cells.make("\n".join(lines), "")
            number = self.model.lesson.number
            words = f"lesson {number}: later steps need {', '.join(rest)}; made unseen"
            self.bench.transcript.note(f"{words}, unless it was there")

    def _unseen_failed(self, failed: UnseenFailed) -> None:
        """An unseen cell has raised."""
        error = failed.event
        name = self.hidden_cells.name(error.cell)
        if name:
            words = f"{name} could not be run again: {error.name}: {error.value}"
            self.bench.transcript.note(words[:300])

    def _restarted(self, replayed: bool) -> None:
        """Another kernel: unless the cells run again, what earlier steps made is made anew."""
        if self.model.restart(replayed):
            self.hidden_cells.give_up()
            self.hidden_cells.prepare(self.model.lesson.number)
            self.commands.catch_up(self.model.at)
        self.display.refresh()
