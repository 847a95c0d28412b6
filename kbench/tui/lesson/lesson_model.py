"""The lesson that is open: where the learner is and how things stand; no widget, no kernel.

A cell is whatever its caller takes for one; the model only keeps what it was run for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kbench.tui.lesson.lesson_words import PageState
from kbench.workbench.lessons import lesson_pages

if TYPE_CHECKING:
    from kbench.workbench.lessons.lesson_coach import Coach
    from kbench.workbench.lessons.lesson_files import Lesson
    from kbench.workbench.lessons.lesson_pages import Page

Follows = Literal["nothing", "judge", "give back", "tell made"]
"""What comes after the code of a page has run: a check, the code in the prompt again, words on
what an answer that was entered has made."""
GoesOn = Literal["check", "give back", "next"]
"""What Enter on the empty prompt does."""


class LessonModel:
    """One learner's way through one lesson at a time."""

    def __init__(self) -> None:
        self.coach: Coach | None = None
        self.pages: tuple[Page, ...] = ()
        self.at = 0
        self.playing = False
        self.ran: set[int] = set()  # pages whose code the present kernel has run
        self.answers: dict[int, str] = {}  # as the learner left them, by page
        self.draft = ""  # what stood in the prompt before a command was typed there
        self.tried = self.unmet = False  # run since the last check; the last check has failed
        self.entered = ""  # the exercise whose answer was entered for the learner
        self._running: dict[object, tuple[int, bool]] = {}  # cells: page, whether to check then
        self._entering: object = None  # the cell of that answer

    # ------------------------------------------------------------------ which lesson

    def take(self, coach: Coach, pages: tuple[Page, ...]) -> None:
        """Open a lesson at the step where it was left."""
        self.coach, self.pages = coach, pages
        self.forget()
        self.ran = set()
        self.at = lesson_pages.page_of(pages, coach.progress.step(coach.lesson))

    def leave(self) -> None:
        """No lesson is open; its place is kept."""
        self.coach, self.draft = None, ""

    def forget(self) -> None:
        """What was typed for the steps, and how they stand."""
        self._running, self.answers, self._entering = {}, {}, None
        self.tried = self.unmet = self.playing = False
        self.draft = ""

    @property
    def open(self) -> bool:
        """Whether a lesson is."""
        return self.coach is not None

    @property
    def lesson(self) -> Lesson:
        """The one that is open."""
        assert self.coach is not None
        return self.coach.lesson

    @property
    def page(self) -> Page:
        """Where the learner is."""
        return self.pages[self.at]

    def passed(self) -> set[str]:
        """Exercises that are done."""
        return set() if self.coach is None else self.coach.progress.passed(self.lesson)

    def left(self) -> list[str]:
        """Exercises that are not."""
        return [name for name in self.lesson.exercises if name not in self.passed()]

    @property
    def waits(self) -> bool:
        """Whether the page has an exercise that is not done."""
        return self.page.exercise is not None and self.page.exercise not in self.passed()

    # ------------------------------------------------------------------ steps

    def go(self, at: int) -> None:
        """To another page."""
        self.at = at
        self.playing = self.tried = self.unmet = False
        self.draft = ""
        if self.coach is not None:
            self.coach.progress.record_step(self.lesson, self.page.first)

    def keep(self, text: str, as_given: bool) -> None:
        """An answer that was begun is there again when its step is.

        `text` stands in the prompt, `as_given`: as the lesson has put it there.
        """
        text = self.draft if as_given or not text else text
        if self.open and self.page.exercise and text.strip() and self.page.answers(text):
            self.answers[self.at] = text

    def code(self) -> str:
        """The code of the page, as the learner left it."""
        return self.answers.get(self.at) or self.page.code

    def goes_on(self) -> GoesOn:
        """What Enter on the empty prompt does."""
        if self.waits and self.tried and not self.playing:
            return "check"
        unrun = bool(self.page.code) and self.at not in self.ran
        return "give back" if self.playing or self.waits or unrun else "next"

    def unmade(self, until: int) -> Iterator[tuple[int, str, bool]]:
        """Pages before one whose code this kernel has not run: number from 1, code, may it fail.

        They count as run then.
        """
        passed = self.passed()
        for at, page in enumerate(self.pages[:until]):
            solved = page.exercise is not None and page.exercise in passed
            if at in self.ran or not (page.runs_again or solved):
                continue
            self.ran.add(at)
            code = self.lesson.exercise(page.exercise or "").solution if solved else page.code
            yield at + 1, code, page.step is not None and page.step.may_fail and not solved

    # ------------------------------------------------------------------ cells

    def begin(self, cell: object, code: str, check: bool = False) -> bool:
        """A cell of the learner's begins; False if it is no code for the page.

        `check`: the exercise is to be judged once it has run.
        """
        self.draft = ""
        page = self.page if self.open else None
        if page is None or not page.answers(code):
            return False
        if page.exercise:
            self.answers[self.at] = code
            if page.step is not None and page.step.role == "predict" and self.coach:
                self.coach.progress.record_guess(self.lesson, page.exercise, code)
        self._running[cell] = (self.at, check and page.exercise is not None)
        self.unmet = False
        return True

    def enter(self, cell: object, exercise: str) -> None:
        """A cell runs an answer that was entered for the learner."""
        self._entering, self.entered = cell, exercise

    def end(self, cell: object, status: str) -> Follows | None:
        """A cell has ended: what follows on the page that is shown; None if it was for no page."""
        at, check = self._running.pop(cell, (-1, False))
        if at < 0:
            return None
        page = self.pages[at]
        known_to_fail = page.exercise is None and page.step is not None and page.step.may_fail
        if status == "ok" or (status == "error" and known_to_fail):
            self.ran.add(at)
        return self._follows(cell, status, check) if at == self.at else "nothing"

    def _follows(self, cell: object, status: str, check: bool) -> Follows:
        if cell is self._entering:
            self._entering = None
            return "tell made"
        if self.page.exercise is not None:
            self.tried = status == "ok"
            if self.tried and check:
                return "judge"
            return "give back" if status == "error" else "nothing"
        failed = bool(self.page.code) and status == "error" and self.at not in self.ran
        return "give back" if failed else "nothing"

    @property
    def running(self) -> bool:
        """Whether code of the page that is shown is running."""
        return any(at == self.at for at, _ in self._running.values())

    @property
    def idle(self) -> bool:
        """Whether no code of any page is."""
        return not self._running

    def judge(self, exercise: str, passed: bool) -> bool:
        """A verdict has come; whether it is on the page that is shown."""
        here = exercise == self.page.exercise
        self.unmet = here and not passed
        if here and passed:
            self.ran.add(self.at)
        return here

    def left_out(self) -> dict[str, str]:
        """What the step makes besides an answer that was typed alone: lines by names."""
        answer = self.answers.get(self.at, "")
        return lesson_pages.left_out(self.page.code, answer) if answer else {}

    def restart(self, replayed: bool) -> bool:
        """Another kernel; True if no cells run again, so that earlier steps are to be made anew."""
        self._running = {}
        if not self.open or replayed:
            return False
        self.ran = set()
        return True

    # ------------------------------------------------------------------ how things stand

    def state(self, written: bool, blank: bool, checking: bool, clear: str) -> PageState:
        """Of the page; `written` and `blank` say it of the prompt, `clear` is the key for it."""
        name = self.page.exercise
        progress = self.coach.progress if self.coach is not None else None
        return PageState(
            exercise=name,
            code=bool(self.page.code),
            written=written,
            blank=blank,
            passed=name in self.passed(),
            failures=progress.failures(self.lesson, name) if progress and name else 0,
            unmet=self.unmet,
            tried=self.tried,
            ran=self.at in self.ran,
            running=self.running,
            checking=checking,
            playing=self.playing,
            last=self.at + 1 == len(self.pages),
            clear=clear,
        )
