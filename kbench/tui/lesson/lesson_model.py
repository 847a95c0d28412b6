"""The lesson that is open: where the learner is, how things stand, how the pane tells it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.lesson import lesson_words
from kbench.tui.panes.registry import LESSON
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session.hidden_cells import HiddenCells
from kbench.tui.session.link import Latest
from kbench.workbench.lessons import lesson_pages
from kbench.workbench.lessons.lesson_files import BLANK

if TYPE_CHECKING:
    from kbench.tui.lesson.lesson import LessonPane
    from kbench.tui.main_screen import MainScreen
    from kbench.tui.transcript.cells import Block
    from kbench.workbench.lessons.lesson_coach import Coach
    from kbench.workbench.lessons.lesson_files import Lesson
    from kbench.workbench.lessons.lesson_pages import Page
    from kbench.workbench.lessons.lesson_progress import Progress


class LessonState:
    """What is open, where the learner is, and how the pane tells it."""

    def __init__(self, screen: MainScreen) -> None:
        self.screen = screen
        self.coach: Coach | None = None
        self.pages: tuple[Page, ...] = ()
        self.at = 0
        self.playing = False
        self.hidden_cells = HiddenCells(screen)
        self._ran: set[int] = set()  # pages whose code the present kernel has run
        self._cells: dict[Block, tuple[int, bool]] = {}  # their page, and whether to check then
        self._skipping: tuple[Block, str] | None = None  # and the exercise
        self._answers: dict[int, str] = {}
        self._draft = ""  # what stood in the prompt before a command was typed there
        self._tried = self._unmet = False
        self._shown_prompt = (False, False)  # what the state says of the prompt
        self._pane_updates = Latest(screen.background)

    @property
    def lesson(self) -> Lesson:
        """The one that is open."""
        assert self.coach is not None
        return self.coach.lesson

    @property
    def open(self) -> bool:
        """Whether one is."""
        return self.coach is not None

    @property
    def page(self) -> Page:
        """Where the learner is."""
        return self.pages[self.at]

    @property
    def pane(self) -> LessonPane:
        """The widget, mounted with the first lesson."""
        from kbench.tui.lesson.lesson import LessonPane

        return self.screen.query_one(LessonPane)

    @property
    def prompt(self) -> Prompt:
        """The editor."""
        return self.screen.query_one(Prompt)

    def _progress(self) -> Progress:
        from kbench.workbench.lessons.lesson_progress import Progress

        return Progress(self.screen.bench.progress_file)

    def _passed(self) -> set[str]:
        return set() if self.coach is None else self.coach.progress.passed(self.lesson)

    def _busy(self) -> bool:
        own = any(at == self.at for at, _ in self._cells.values())
        return own or self.hidden_cells.checking

    def _forget(self) -> None:
        self._cells, self._answers, self._skipping = {}, {}, None
        self._tried = self._unmet = self.playing = False
        self._draft = ""

    def _go(self, at: int, words: Sequence[Content] = ()) -> None:
        self._keep()
        self.at = at
        self.playing = self._tried = self._unmet = False
        self._draft = ""
        if self.coach is not None:
            self.coach.progress.record_step(self.lesson, self.page.first)
        self._show(words)

    def _keep(self) -> None:
        """An answer that was begun is there again when its step is."""
        text = self._draft if self.prompt.as_given or not self.prompt.text else self.prompt.text
        if self.open and self.page.exercise and text.strip() and self.page.answers(text):
            self._answers[self.at] = text

    def _give(self) -> None:
        """The code of the page goes to the prompt, as the learner left it."""
        code = self.page.code
        self.prompt.give(self._answers.get(self.at) or code, code)

    def _show(self, words: Sequence[Content] = (), front: bool = False) -> None:
        """The page: its prose in the pane, its code in the prompt."""
        self._give()
        self._reveal(front)
        self._pane_updates.submit(partial(self._read, list(words)))
        self.refresh_pane()
        if front or self.screen.focused_pane() != LESSON:
            self.screen.action_pane("prompt")

    async def _read(self, words: list[Content]) -> None:
        pane = self.pane
        pane.set_message([])
        await pane.read(self.page.text)
        if words:
            pane.set_message(words)

    def _reveal(self, front: bool = True) -> None:
        """Bring the lesson to the front where it shares its place."""
        layout, choices = self.screen.layout_now, self.screen.choices
        if front and layout is not None and layout.kind == "compact":
            choices.side, choices.tab = True, LESSON
        elif layout is not None and layout.kind == "compact" and not choices.folded:
            choices.tab = LESSON
        self._lay_out()

    def _lay_out(self) -> None:
        self.pane.fold(self.screen.choices.folded)
        self.screen.relayout()

    def show_message(self, lines: Sequence[Content]) -> None:
        """Words below the prose, brought into view."""
        if lines:
            self.screen.choices.folded = False
            self._reveal()
            if not self.screen.shows(LESSON) or self.pane.short:
                self.screen.notify("\n".join(line.plain for line in lines[:4]), markup=False)
        self._pane_updates.submit(partial(self._set_message, list(lines)))

    async def _set_message(self, lines: list[Content]) -> None:
        self.pane.set_message(lines)

    def page_state(self) -> lesson_words.PageState:
        """How things stand on this page."""
        name = self.page.exercise
        progress = self.coach.progress if self.coach is not None else None
        return lesson_words.PageState(
            exercise=name,
            code=bool(self.page.code),
            written=self._shown_prompt[0],
            blank=self._shown_prompt[1],
            passed=name in self._passed(),
            failures=progress.failures(self.lesson, name) if progress and name else 0,
            unmet=self._unmet,
            tried=self._tried,
            ran=self.at in self._ran,
            running=any(at == self.at for at, _ in self._cells.values()),
            checking=self.hidden_cells.checking,
            playing=self.playing,
            last=self.at + 1 == len(self.pages),
            clear=self.screen.bench.key_word("interrupt"),
        )

    def refresh_pane(self) -> None:
        """Write title and state anew."""
        if self.coach is None:
            return
        lesson, key = self.lesson, self.screen.bench.key_word
        self._shown_prompt = self._prompt_now()
        place = lesson_words.where(self.at, self.pages, len(self._passed()), len(lesson.exercises))
        self.pane.set_title(f"Lesson {lesson.number}: {lesson.title}", place)
        ways = [("lesson_next", "next"), ("lesson_back", "back")]
        if self.page.exercise not in {None, *self._passed()}:
            ways = [("lesson_check", "check"), ("lesson_hint", "hint"), ("lesson_next", "next")]
        words, style = lesson_words.state(self.page_state())
        choices = [(f"{key(ident)} {what}", what) for ident, what in ways]
        self.pane.set_state(words, style, choices, f"{key('turn_down')} more")

    def _prompt_now(self) -> tuple[bool, bool]:
        """Whether something stands in the prompt, and whether with a blank."""
        text = self.prompt.text
        return bool(text.strip()), BLANK in text and bool(lesson_pages.blanks(text))
