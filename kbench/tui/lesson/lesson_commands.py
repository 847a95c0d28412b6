"""What can be done on a step of a lesson: the words after a colon, and the keys for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.dialogs.dialogs import ChoiceDialog
from kbench.tui.dialogs.pick import ListDialog
from kbench.tui.lesson import lesson_typed, lesson_words
from kbench.tui.lesson.lesson_model import LessonState
from kbench.tui.panes.registry import LESSON, new_view
from kbench.tui.prompt.prompt import completeness
from kbench.tui.themes import MUTED
from kbench.tui.transcript.cells import coloured
from kbench.workbench.lessons import lesson_cells, lesson_files, lesson_pages
from kbench.workbench.lessons.lesson_files import BLANK, Lesson, LessonError

if TYPE_CHECKING:
    from kbench.tui.transcript.cells import Block

CHANGED = "This lesson has changed since you took it, so it starts over."


class LessonCommands(LessonState):
    """What can be done on a step."""

    def choose(self) -> None:
        """All lessons and how far each is; the one that is chosen opens."""
        progress = self._progress()
        try:
            shelf = lesson_files.shelf()
        except LessonError as error:
            self.screen.notify(str(error), severity="error", markup=False)
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
                self.screen.background(partial(self._begin, numbers[at]))

        title = "Lessons" if left else "Lessons: all exercises are done"
        self.screen.app.push_screen(ListDialog(title, rows, at=left[0] if left else 0), act)

    async def _begin(self, number: int) -> None:
        try:
            lesson = lesson_files.load(number)
        except LessonError as error:
            self.screen.notify(str(error), severity="error", markup=False)
        else:
            await self.take(lesson)

    async def take(self, lesson: Lesson) -> None:
        """Open a lesson at the step where it was left."""
        from kbench.tui.lesson.lesson import LessonPane
        from kbench.workbench.lessons.lesson_coach import Coach

        progress = self._progress()
        words = [Content.styled(CHANGED, MUTED)] if progress.changed(lesson) else []
        self.coach = Coach(lesson, {}, progress)
        self.pages = lesson_pages.pages(lesson)
        self.hidden_cells.give_up()
        self.prompt.taught = True
        self._forget()
        self._ran = set()
        self.at = lesson_pages.page_of(self.pages, progress.step(lesson))
        choices = self.screen.choices
        choices.lesson, choices.folded, choices.zoom = True, False, ""
        if not self.screen.query(LessonPane):
            await self.screen.mount(new_view(LESSON))
        self.hidden_cells.prepare(lesson.number)
        self._catch_up(self.at)
        self._show(words, front=True)

    def _catch_up(self, until: int) -> None:
        """Make what the steps before made, as far as this kernel has not run them."""
        passed = self._passed()
        again = []
        for at in range(until):
            page = self.pages[at]
            solved = page.exercise is not None and page.exercise in passed
            if at in self._ran or not (page.runs_again or solved):
                continue
            code = self.lesson.exercise(page.exercise or "").solution if solved else page.code
            fails = page.step is not None and page.step.may_fail and not solved
            self.hidden_cells.make(code, "" if fails else f"step {at + 1}")
            self._ran.add(at)
            again.append(at + 1)
        if again:
            which = f"step {again[0]}" if len(again) == 1 else f"steps {again[0]} to {again[-1]}"
            words = f"lesson {self.lesson.number}: the code of {which} runs unseen"
            self.screen.session_controller.transcript.note(words)

    def command(self, text: str, draft: str = "") -> None:
        """Do what a word after a colon, or a key, says; `draft` is what it was typed between."""
        if draft.strip():
            self._draft = draft
        word, _, rest = text.strip().partition(" ")
        actions: dict[str, Callable[[], object]] = {
            "next": self._next, "back": self._back, "hint": self._hint,
            "solution": lambda: self._solution(rest.strip() == "sure"), "skip": self._skip,
            "check": partial(self._check, draft), "again": self._reset_code, "play": self._play,
            "list": self._list, "reset": self._reset,
            "fold": self._fold, "lessons": self.choose, "leave": self._leave, "help": self._help,
            "quit": self.screen.action_quit,
        }  # fmt: skip
        known = [name for name in actions if name == word] or [
            name for name in actions if word and name.startswith(word)
        ]
        if len(known) != 1:
            ways = ", ".join(f":{name}" for name in known or actions)
            self.show_message([Content(f"no command :{word}; there are {ways}"[:400])])
        elif self.open:
            actions[known[0]]()
        self._put_back()

    def _put_back(self) -> None:
        """What a command was typed in place of stands in the prompt again."""
        if self.open and not self.prompt.text and not self.playing and self._draft.strip():
            self.prompt.give(self._draft, self.page.code)

    def _next(self) -> None:
        if self.playing:
            self._restore_code()
            return
        page = self.page
        if page.runs_again and self.at not in self._ran and not self._busy():
            self.run(page.code)
        words = self._parting()
        if self.at + 1 < len(self.pages):
            self._go(self.at + 1, words)
        else:
            self._end()

    def _parting(self) -> list[Content]:
        """What is said of an exercise as it is left."""
        name = self.page.exercise
        if name is None or self.coach is None:
            return []
        guess = self.coach.progress.guess(self.lesson, name)
        if guess and self.page.step is not None and self.page.step.role == "predict":
            return [Content.styled("your guess was", MUTED), *coloured(guess)]
        if name in self._passed():
            return []
        return [Content.styled(f"{name} is not done; :back returns to it", MUTED)]

    def _back(self) -> None:
        if self.at == 0:
            self.show_message([Content("this is the first step")])
        else:
            self._go(self.at - 1)

    def _restore_code(self) -> None:
        """The code of the step, as the learner left it."""
        self.playing = False
        self._give()
        self.screen.action_pane("prompt")
        self.refresh_pane()

    def _reset_code(self) -> None:
        """The code of the step, as it was at first."""
        self._answers.pop(self.at, None)
        self._restore_code()

    def _check(self, draft: str = "") -> None:
        page, text = self.page, (self.prompt.text or draft).strip()
        if page.exercise is None:
            self.show_message([Content("there is nothing to check on this step; Enter goes on")])
        elif self.hidden_cells.checking:
            self.show_message([Content("it is being checked")])
        elif self._refuse_blanks(text):
            pass  # and the blank is selected
        elif text and completeness(text + "\n") == "incomplete":
            self.show_message(
                [Content("the code in the prompt is not complete yet; nothing was checked")]
            )
        elif text and text != page.code.strip() and page.answers(text):
            self.prompt.clear()
            self.prompt.remember(text)
            self.run(text, check=True)
        else:
            self._judge(page.exercise)

    def _judge(self, exercise: str) -> None:
        self._tried = False
        if not self.hidden_cells.judge(self.lesson.number, exercise):
            self.show_message([Content("the kernel is starting; check again in a moment")])
        self.refresh_pane()

    def _hint(self) -> None:
        if self.page.exercise is None or self.coach is None:
            self.show_message([Content("there is no exercise on this step, so no hint")])
        else:
            self.show_message([Content(self.coach.hint(self.page.exercise))])

    def _solution(self, sure: bool = False) -> None:
        name = self.page.exercise
        if name is None or self.coach is None:
            self.show_message([Content("there is no exercise on this step, so no solution")])
            return
        if sure or self.coach.progress.may_see_solution(self.lesson, name):
            self.show_message(lesson_words.solution(name, self.lesson.exercise(name).solution))
            return

        def act(answer: str | None) -> None:
            if answer == "s":
                self._solution(sure=True)

        question = "The solution is shown after two failed checks. Show it now?"
        answers = [("s", "show it"), ("t", "try on")]
        self.screen.app.push_screen(ChoiceDialog(question, answers), act)

    def _skip(self) -> None:
        name = self.page.exercise
        if name is None or self.coach is None:
            self.show_message([Content("there is no exercise on this step; :next goes on")])
            return
        code = self.coach.skip(name)
        self.prompt.keep()
        self.prompt.put("")
        self.prompt.remember(code)
        self._skipping = (self.run(code), name)

    def _play(self) -> None:
        self._keep()
        self.playing = True
        self.prompt.put("")
        self._draft = ""
        self.screen.action_pane("prompt")
        self.show_message([])
        self.refresh_pane()

    def _list(self) -> None:
        rows = lesson_words.step_rows(self.pages, self._passed(), self.at)

        def act(at: int | None) -> None:
            if at is not None and self.open:
                self._catch_up(at)
                self._go(at)

        title = f"Steps of lesson {self.lesson.number}"
        self.screen.app.push_screen(ListDialog(title, rows, at=self.at), act)

    def _reset(self) -> None:
        def act(answer: str | None) -> None:
            if answer == "b" and self.coach is not None:
                self.coach.progress.reset(self.lesson)
                self.prompt.put("")
                self._forget()
                self._go(0)

        question = f"Forget what was done in lesson {self.lesson.number}? Your names stay."
        answers = [("b", "start over"), ("k", "keep it")]
        self.screen.app.push_screen(ChoiceDialog(question, answers), act)

    def _end(self) -> None:
        """Beyond the last step."""
        left = [name for name in self.lesson.exercises if name not in self._passed()]
        following = next(
            (number for number in lesson_files.shelf() if number > self.lesson.number), None
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
                self.screen.background(partial(self._begin, following))
            elif answer == "l":
                self.choose()

        question = f"This is the end of lesson {self.lesson.number}. {done}"
        self.screen.app.push_screen(ChoiceDialog(question, answers), act)

    def _fold(self) -> None:
        self.screen.choices.folded = not self.screen.choices.folded
        self._lay_out()

    def unfold(self) -> None:
        """Show all of the lesson."""
        if self.screen.choices.folded:
            self._fold()

    def _help(self) -> None:
        from kbench.tui.dialogs import overlays

        overlays.show_text(self.screen, "Commands of a lesson", lesson_words.commands())

    def _leave(self) -> None:
        """Close the lesson; a blank is again what the kernel makes of it."""
        if self.prompt.as_given:
            self.prompt.put("")
        key = self.screen.bench.key_word("lessons")
        words = f"lesson {self.lesson.number} is closed, its place is kept; {key} takes it again"
        self.screen.session_controller.transcript.note(words)
        self.hidden_cells.give_up()
        self.hidden_cells.make(lesson_cells.CLOSING_CODE, "")
        self.coach = None
        self.prompt.taught = False
        choices = self.screen.choices
        choices.lesson, choices.tab = False, "variables"
        self.prompt.given = self._draft = ""
        self.screen.relayout()
        self.screen.action_pane("prompt")

    def consumes(self, code: str) -> bool:
        """Whether what was entered is a command, or code that cannot run yet."""
        number = lesson_typed.lesson_in(code)
        if number is not None and (number or self.open):
            self.prompt.put("")
            self._leave() if number == 0 else self.screen.background(partial(self._begin, number))
            return True
        typed = self.prompt.command
        if not self.open:
            return typed is not None and self._closed(typed.command)
        magic = lesson_typed.magic_in(code, self.page.exercise)
        if magic is not None:
            typed = lesson_typed.TypedCommand(magic, "")
        if typed is not None:
            self.prompt.put("")
            self.command(typed.command, typed.rest)
            return True
        return self._refuse_blanks(code)

    def _closed(self, command: str) -> bool:
        """A command of lessons while none is open; False for what is none."""
        if command not in lesson_words.COMMANDS:
            return False
        self.prompt.put("")
        if command == "quit":
            self.screen.action_quit()
        elif command == "help":
            self._help()
        else:
            if command != "lessons":
                self.screen.notify(f":{command} is for lessons; take one", markup=False)
            self.choose()
        return True

    def _refuse_blanks(self, code: str) -> bool:
        """Whether code still has a blank, which is then selected."""
        found = lesson_pages.blanks(code)
        if found and self.page.exercise in self._passed() and self.prompt.as_given:
            self._next()
        elif found:
            row = found[0][0] + 1
            begun = len(found) < len(lesson_pages.blanks(self.page.code))
            which = "has another" if begun else "still has a"
            words = f"line {row} {which} {BLANK} to fill in; nothing was run"
            self.show_message([Content.styled(words, "$text-accent")])
            self.prompt.select_blank()
        return bool(found)

    def run(self, code: str, check: bool = False) -> Block:
        """Run a cell of the learner's; `check`: judge the exercise then, if it answers that."""
        block = self.screen.session_controller.run(code)
        self._draft = ""
        if self.open:
            self.show_message([])
        if self.open and self.page.answers(code):
            if self.page.exercise:
                self._answers[self.at] = code
                if self.page.step is not None and self.page.step.role == "predict" and self.coach:
                    self.coach.progress.record_guess(self.lesson, self.page.exercise, code)
            self._cells[block] = (self.at, check and self.page.exercise is not None)
            self._unmet = False
            self.refresh_pane()
        return block
