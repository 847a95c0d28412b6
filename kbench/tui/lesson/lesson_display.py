"""How a lesson shows itself: its page in the pane, its code in the prompt, words below it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.lesson import lesson_words
from kbench.tui.panes.registry import LESSON, new_view
from kbench.tui.session.link import Latest
from kbench.workbench.lessons import lesson_pages
from kbench.workbench.lessons.lesson_files import BLANK

if TYPE_CHECKING:
    from kbench.tui.lesson.lesson import LessonPane
    from kbench.tui.lesson.lesson_model import LessonModel
    from kbench.tui.prompt.prompt import Prompt
    from kbench.tui.screen_bench import ScreenBench
    from kbench.tui.session.hidden_cells import HiddenCells


class LessonDisplay:
    """Reads the model, and writes the pane and the prompt."""

    def __init__(self, bench: ScreenBench, model: LessonModel, hidden_cells: HiddenCells) -> None:
        self.bench = bench
        self._model = model
        self._hidden_cells = hidden_cells
        self._shown_prompt = (False, False)  # what the state says of the prompt
        self._pane_updates = Latest(bench.run)

    @property
    def pane(self) -> LessonPane:
        """The widget, mounted with the first lesson."""
        from kbench.tui.lesson.lesson import LessonPane

        return self.bench.one(LessonPane)

    @property
    def prompt(self) -> Prompt:
        """The editor."""
        return self.bench.prompt

    # ------------------------------------------------------------------ there or not

    async def mount(self) -> None:
        """Give the pane its place on the screen."""
        choices = self.bench.arrangement.choices
        choices.lesson, choices.folded, choices.zoom = True, False, ""
        if not self.bench.has(LESSON):
            await self.bench.mount(new_view(LESSON))

    def teach(self, taught: bool) -> None:
        """While a lesson is open, prompt and transcript speak of it."""
        self.prompt.taught = self.bench.transcript.taught = taught

    def close(self) -> None:
        """Take the pane away."""
        choices = self.bench.arrangement.choices
        choices.lesson, choices.tab = False, "variables"
        self.prompt.given = ""
        self.bench.arrangement.relayout()
        self.bench.go("prompt")

    # ------------------------------------------------------------------ the page

    def give(self) -> None:
        """The code of the page goes to the prompt, as the learner left it."""
        self.prompt.give(self._model.code(), self._model.page.code)

    def give_back(self) -> None:
        """An answer that is not right yet is there to be changed."""
        if not self.prompt.text and not self._model.playing:
            self.give()

    def show(self, words: Sequence[Content] = (), front: bool = False) -> None:
        """The page: its prose in the pane, its code in the prompt."""
        self.give()
        self._reveal(front)
        self._pane_updates.submit(partial(self._read, list(words)))
        self.refresh()
        if front or self.bench.arrangement.focused_pane() != LESSON:
            self.bench.go("prompt")

    async def _read(self, words: list[Content]) -> None:
        pane = self.pane
        pane.set_message([])
        await pane.read(self._model.page.text)
        if words:
            pane.set_message(words)

    def _reveal(self, front: bool = True) -> None:
        """Bring the lesson to the front where it shares its place."""
        layout, choices = self.bench.arrangement.layout_now, self.bench.arrangement.choices
        if front and layout is not None and layout.kind == "compact":
            choices.side, choices.tab = True, LESSON
        elif layout is not None and layout.kind == "compact" and not choices.folded:
            choices.tab = LESSON
        self._lay_out()

    def _lay_out(self) -> None:
        self.pane.fold(self.bench.arrangement.choices.folded)
        self.bench.arrangement.relayout()

    def fold(self) -> None:
        """Only the line that tells the state, or all again."""
        self.bench.arrangement.choices.folded = not self.bench.arrangement.choices.folded
        self._lay_out()

    def unfold(self) -> None:
        """Show all of the lesson."""
        if self.bench.arrangement.choices.folded:
            self.fold()

    # ------------------------------------------------------------------ words

    def say(self, lines: Sequence[Content]) -> None:
        """Words below the prose, brought into view."""
        if lines:
            self.bench.arrangement.choices.folded = False
            self._reveal()
            if not self.bench.shows(LESSON) or self.pane.short:
                self.bench.notify("\n".join(line.plain for line in lines[:4]))
        self._pane_updates.submit(partial(self._set_message, list(lines)))

    async def _set_message(self, lines: list[Content]) -> None:
        self.pane.set_message(lines)

    def prompt_changed(self) -> None:
        """The state says another thing of the prompt, maybe."""
        if self._prompt_now() != self._shown_prompt:
            self.refresh()

    def refresh(self) -> None:
        """Write title and state anew."""
        model, key = self._model, self.bench.key_word
        if not model.open:
            return
        lesson = model.lesson
        self._shown_prompt = self._prompt_now()
        done = len(model.passed())
        place = lesson_words.where(model.at, model.pages, done, len(lesson.exercises))
        self.pane.set_title(f"Lesson {lesson.number}: {lesson.title}", place)
        ways = [("lesson_next", "next"), ("lesson_back", "back")]
        if model.waits:
            ways = [("lesson_check", "check"), ("lesson_hint", "hint"), ("lesson_next", "next")]
        checking = self._hidden_cells.checking
        now = model.state(*self._shown_prompt, checking, key("interrupt"))
        words, style = lesson_words.state(now)
        choices = [(f"{key(ident)} {what}", what) for ident, what in ways]
        self.pane.set_state(words, style, choices, f"{key('turn_down')} more")

    def _prompt_now(self) -> tuple[bool, bool]:
        """Whether something stands in the prompt, and whether with a blank."""
        text = self.prompt.text
        return bool(text.strip()), BLANK in text and bool(lesson_pages.blanks(text))
