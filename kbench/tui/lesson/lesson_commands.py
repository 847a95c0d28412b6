"""What can be done on a step of a lesson: the words after a colon, and the keys for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.dialogs.dialogs import ChoiceDialog
from kbench.tui.dialogs.pick import ListDialog
from kbench.tui.lesson import lesson_words
from kbench.tui.prompt.typed_code import completeness
from kbench.tui.signal import QuitWanted
from kbench.tui.themes import MUTED
from kbench.tui.transcript.cells import coloured
from kbench.workbench.lessons import lesson_cells, lesson_files, lesson_pages
from kbench.workbench.lessons.lesson_files import BLANK, Lesson, LessonError

if TYPE_CHECKING:
    from kbench.tui.lesson.lesson_display import LessonDisplay
    from kbench.tui.lesson.lesson_model import LessonModel
    from kbench.tui.prompt.prompt import Prompt
    from kbench.tui.session.hidden_cells import HiddenCells
    from kbench.tui.session.session_controller import SessionController
    from kbench.tui.transcript.cells import Block
    from kbench.workbench.lessons.lesson_progress import Progress

CHANGED = "This lesson has changed since you took it, so it starts over."


class LessonCommands:
    """Each does what its word says, to the model, the display and the session."""

    def __init__(
        self,
        session: SessionController,
        model: LessonModel,
        display: LessonDisplay,
        hidden_cells: HiddenCells,
    ) -> None:
        self.bench = session.bench
        self._session = session
        self._model = model
        self._display = display
        self._hidden_cells = hidden_cells

    @property
    def _prompt(self) -> Prompt:
        return self.bench.prompt

    # ------------------------------------------------------------------ which lesson

    def choose(self) -> None:
        """All lessons and how far each is; the one that is chosen opens."""
        progress = self._progress()
        try:
            shelf = lesson_files.shelf()
        except LessonError as error:
            self.bench.notify(str(error), error=True)
            return
        numbers = list(shelf)
        rows = [lesson_words.lesson_row(number, shelf[number], progress) for number in numbers]
        left = [
            at
            for at, lesson in enumerate(shelf.values())
            if isinstance(lesson, Lesson) and len(progress.passed(lesson)) < len(lesson.exercises)
        ]

        def act(at: int | None) -> None:
            if at is not None:
                self.bench.run(partial(self.begin, numbers[at]))

        title = "Lessons" if left else "Lessons: all exercises are done"
        self.bench.open(ListDialog(title, rows, at=left[0] if left else 0), act)

    async def begin(self, number: int) -> None:
        """Open a lesson by its number."""
        try:
            lesson = lesson_files.load(number)
        except LessonError as error:
            self.bench.notify(str(error), error=True)
        else:
            await self.take(lesson)

    async def take(self, lesson: Lesson) -> None:
        """Open a lesson at the step where it was left."""
        from kbench.workbench.lessons.lesson_coach import Coach

        progress = self._progress()
        words = [Content.styled(CHANGED, MUTED)] if progress.changed(lesson) else []
        self._hidden_cells.give_up()
        self._model.take(Coach(lesson, {}, progress), lesson_pages.pages(lesson))
        self._display.teach(True)
        await self._display.mount()
        self._hidden_cells.prepare(lesson.number)
        self.catch_up(self._model.at)
        self._display.show(words, front=True)

    def _progress(self) -> Progress:
        from kbench.workbench.lessons.lesson_progress import Progress

        return Progress(self.bench.app.progress_file)

    def catch_up(self, until: int) -> None:
        """Make what the steps before made, as far as this kernel has not run them."""
        again = []
        for number, code, may_fail in self._model.unmade(until):
            self._hidden_cells.make(code, "" if may_fail else f"step {number}")
            again.append(number)
        if again:
            which = f"step {again[0]}" if len(again) == 1 else f"steps {again[0]} to {again[-1]}"
            words = f"lesson {self._model.lesson.number}: the code of {which} runs unseen"
            self.bench.transcript.note(words)

    # ------------------------------------------------------------------ commands

    def command(self, text: str, draft: str = "") -> None:
        """Do what a word after a colon, or a key, says; `draft` is what it was typed between."""
        if draft.strip():
            self._model.draft = draft
        word, _, rest = text.strip().partition(" ")
        actions: dict[str, Callable[[], object]] = {
            "next": self.next, "back": self._back, "hint": self._hint,
            "solution": lambda: self._solution(rest.strip() == "sure"), "skip": self._skip,
            "check": partial(self.check, draft), "again": self._reset_code, "play": self._play,
            "list": self._list, "reset": self._reset, "fold": self._display.fold,
            "lessons": self.choose, "leave": self.leave, "help": self.help, "quit": self._quit,
        }  # fmt: skip
        known = [name for name in actions if name == word] or [
            name for name in actions if word and name.startswith(word)
        ]
        if len(known) != 1:
            ways = ", ".join(f":{name}" for name in known or actions)
            self._display.say([Content(f"unknown command :{word}; choose from {ways}"[:400])])
        elif self._model.open:
            actions[known[0]]()
        self._put_back()

    def _put_back(self) -> None:
        """What a command was typed in place of stands in the prompt again."""
        model, prompt = self._model, self._prompt
        if model.open and not prompt.text and not model.playing and model.draft.strip():
            prompt.give(model.draft, model.page.code)

    def next(self) -> None:
        """Go on; past the last step, say what is left."""
        if self._model.playing:
            self.restore_code()
            return
        page = self._model.page
        if page.runs_again and self._model.at not in self._model.ran and not self.busy:
            self.run(page.code)
        words = self._parting()
        if self._model.at + 1 < len(self._model.pages):
            self.go(self._model.at + 1, words)
        else:
            self._end()

    @property
    def busy(self) -> bool:
        """Whether the page's code runs or is being judged."""
        return self._model.running or self._hidden_cells.checking

    def keep(self) -> None:
        """An answer that was begun is there again when its step is."""
        self._model.keep(self._prompt.text, self._prompt.as_given)

    def go(self, at: int, words: Sequence[Content] = ()) -> None:
        """To another step."""
        self.keep()
        self._model.go(at)
        self._display.show(words)

    def _quit(self) -> None:
        self.bench.tell(QuitWanted())

    def _parting(self) -> list[Content]:
        """What is said of an exercise as it is left."""
        name = self._model.page.exercise
        if name is None or self._model.coach is None:
            return []
        guess = self._model.coach.progress.guess(self._model.lesson, name)
        if guess and self._model.page.step is not None and self._model.page.step.role == "predict":
            return [Content.styled("your guess was", MUTED), *coloured(guess)]
        if name in self._model.passed():
            return []
        return [Content.styled(f"{name} is not done; :back returns to it", MUTED)]

    def _back(self) -> None:
        if self._model.at == 0:
            self._display.say([Content("this is the first step")])
        else:
            self.go(self._model.at - 1)

    def restore_code(self) -> None:
        """The code of the step, as the learner left it."""
        self._model.playing = False
        self._display.give()
        self.bench.go("prompt")
        self._display.refresh()

    def _reset_code(self) -> None:
        """The code of the step, as it was at first."""
        self._model.answers.pop(self._model.at, None)
        self.restore_code()

    def check(self, draft: str = "") -> None:
        """Run what stands in the prompt and judge it, or judge what has run."""
        page, text = self._model.page, (self._prompt.text or draft).strip()
        if page.exercise is None:
            self._display.say([Content("there is nothing to check on this step; Enter goes on")])
        elif self._hidden_cells.checking:
            self._display.say([Content("it is being checked")])
        elif self.refuse_blanks(text):
            pass  # and the blank is selected
        elif text and completeness(text + "\n") == "incomplete":
            self._display.say(
                [Content("the code in the prompt is not complete yet; nothing was checked")]
            )
        elif text and text != page.code.strip() and page.answers(text):
            self._prompt.clear()
            self._prompt.remember(text)
            self.run(text, check=True)
        else:
            self.judge(page.exercise)

    def judge(self, exercise: str) -> None:
        """Have an answer that has run judged."""
        self._model.tried = False
        if not self._hidden_cells.judge(self._model.lesson.number, exercise):
            self._display.say([Content("the kernel is starting; check again in a moment")])
        self._display.refresh()

    def _hint(self) -> None:
        if self._model.page.exercise is None or self._model.coach is None:
            self._display.say([Content("there is no exercise on this step, so no hint")])
        else:
            self._display.say([Content(self._model.coach.hint(self._model.page.exercise))])

    def _solution(self, sure: bool = False) -> None:
        name = self._model.page.exercise
        if name is None or self._model.coach is None:
            self._display.say([Content("there is no exercise on this step, so no solution")])
            return
        if sure or self._model.coach.progress.may_see_solution(self._model.lesson, name):
            self._display.say(
                lesson_words.solution(name, self._model.lesson.exercise(name).solution)
            )
            return

        def act(answer: str | None) -> None:
            if answer == "s":
                self._solution(sure=True)

        question = "The solution is shown after two failed checks. Show it now?"
        answers = [("s", "show it"), ("t", "try on")]
        self.bench.open(ChoiceDialog(question, answers), act)

    def _skip(self) -> None:
        name = self._model.page.exercise
        if name is None or self._model.coach is None:
            self._display.say([Content("there is no exercise on this step; :next goes on")])
            return
        code = self._model.coach.skip(name)
        self._prompt.keep()
        self._prompt.put("")
        self._prompt.remember(code)
        self._model.enter(self.run(code), name)

    def _play(self) -> None:
        self.keep()
        self._model.playing = True
        self._prompt.put("")
        self._model.draft = ""
        self.bench.go("prompt")
        self._display.say([])
        self._display.refresh()

    def _list(self) -> None:
        rows = lesson_words.step_rows(self._model.pages, self._model.passed(), self._model.at)

        def act(at: int | None) -> None:
            if at is not None and self._model.open:
                self.catch_up(at)
                self.go(at)

        title = f"Steps of lesson {self._model.lesson.number}"
        self.bench.open(ListDialog(title, rows, at=self._model.at), act)

    def _reset(self) -> None:
        def act(answer: str | None) -> None:
            if answer == "b" and self._model.coach is not None:
                self._model.coach.progress.reset(self._model.lesson)
                self._prompt.put("")
                self._model.forget()
                self.go(0)

        number = self._model.lesson.number
        question = f"Forget what was done in lesson {number}? Your variables stay."
        answers = [("b", "start over"), ("k", "keep it")]
        self.bench.open(ChoiceDialog(question, answers), act)

    def _end(self) -> None:
        """Beyond the last step."""
        left = self._model.left()
        following = next(
            (number for number in lesson_files.shelf() if number > self._model.lesson.number), None
        )
        done = (
            "All exercises are done."
            if not left
            else f"Exercises left: {', '.join(left)}; :list goes to them."
        )
        answers = [("l", "all lessons"), ("s", "stay here")]
        if following is not None:
            answers.insert(0, ("n", f"go on to lesson {following}"))

        def act(answer: str | None) -> None:
            if answer == "n" and following is not None:
                self.bench.run(partial(self.begin, following))
            elif answer == "l":
                self.choose()

        question = f"This is the end of lesson {self._model.lesson.number}. {done}"
        self.bench.open(ChoiceDialog(question, answers), act)

    def help(self) -> None:
        """All commands."""
        from kbench.tui.dialogs import overlays

        overlays.show_text(self.bench, "Commands of a lesson", lesson_words.commands())

    def leave(self) -> None:
        """Close the lesson; a blank is again what the kernel makes of it."""
        if self._prompt.as_given:
            self._prompt.put("")
        key = self.bench.key_word("lessons")
        number = self._model.lesson.number
        words = f"lesson {number} is closed, its place is kept; {key} takes it again"
        self.bench.transcript.note(words)
        self._hidden_cells.give_up()
        self._hidden_cells.make(lesson_cells.CLOSING_CODE, "")
        self._model.leave()
        self._display.teach(False)
        self._display.close()

    def refuse_blanks(self, code: str) -> bool:
        """Whether code still has a blank, which is then selected."""
        found = lesson_pages.blanks(code)
        if found and self._model.page.exercise in self._model.passed() and self._prompt.as_given:
            self.next()
        elif found:
            row = found[0][0] + 1
            begun = len(found) < len(lesson_pages.blanks(self._model.page.code))
            which = "has another" if begun else "still has a"
            words = f"line {row} {which} {BLANK} to fill in; nothing was run"
            self._display.say([Content.styled(words, "$text-accent")])
            self._prompt.select_blank()
        return bool(found)

    def run(self, code: str, check: bool = False) -> Block:
        """Run a cell of the learner's; `check`: judge the exercise then, if it answers that."""
        block = self._session.run(code)
        self.began(block, check)
        return block

    def began(self, block: Block, check: bool) -> None:
        """A cell of the learner's runs."""
        if self._model.open:
            self._display.say([])
        if self._model.begin(block, block.code, check):
            self._display.refresh()
