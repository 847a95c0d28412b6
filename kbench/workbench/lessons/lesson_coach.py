"""The coach: check, hint, solution and overview of one lesson, as plain text for any front end.

It joins a lesson, the learner's names and the stored progress. Notebook magics, the terminal
workbench and the command line show what it says; none of them decides anything themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbench.workbench.lessons.lesson_files import (
    BLANK,
    Exercise,
    Lesson,
    LessonError,
    Verdict,
)
from kbench.workbench.lessons.lesson_progress import Progress


class Coach:
    """One learner on one lesson."""

    def __init__(
        self, lesson: Lesson, namespace: Mapping[str, object], progress: Progress | None = None
    ) -> None:
        self.lesson = lesson
        self.progress = progress or Progress()
        self._namespace = namespace

    @property
    def current(self) -> str | None:
        """The first exercise that is not done, or None when all are."""
        done = self.progress.passed(self.lesson)
        return next((name for name in self.lesson.exercises if name not in done), None)

    def check(self, name: str | None = None) -> Verdict:
        """Judge one exercise (the current one by default) and remember the outcome."""
        # Loaded here: a front end whose kernel judges needs no engine of its own.
        from kbench.workbench.lessons.lesson_checks import judge

        exercise = self._exercise(name)
        return self.take(exercise.name, judge(exercise, self._namespace))

    def take(self, name: str, verdict: Verdict) -> Verdict:
        """Remember a judgement made elsewhere; returned in the words for the learner."""
        exercise = self._exercise(name)
        if verdict.passed:
            again = exercise.name in self.progress.passed(self.lesson)
            self.progress.record_pass(self.lesson, exercise.name)
            return Verdict(True, "", f"{exercise.name}: passed. {self._left(again)}")
        self.progress.record_failure(self.lesson, exercise.name)
        return Verdict(False, verdict.stage, f"{exercise.name}: not yet. {verdict.message}")

    def hint(self, name: str | None = None) -> str:
        """The next hint; after the last one, the last again."""
        exercise = self._exercise(name)
        shown = self.progress.hints(self.lesson, exercise.name)
        index = min(shown, len(exercise.hints) - 1)
        if shown < len(exercise.hints):
            self.progress.record_hint(self.lesson, exercise.name)
        return f"hint {index + 1} of {len(exercise.hints)}: {exercise.hints[index]}"

    def solution(self, name: str | None = None, sure: bool = False) -> str:
        """The solution, after two failed checks, when done, or when the learner is `sure`."""
        exercise = self._exercise(name)
        if sure or self.progress.may_see_solution(self.lesson, exercise.name):
            return exercise.solution
        failed = self.progress.failures(self.lesson, exercise.name)
        checks = "1 failed check" if failed == 1 else f"{failed} failed checks"
        return (
            f"{exercise.name}: {checks} so far; the solution is shown after 2, "
            f"or at once with: %solution --sure {exercise.name}"
        )

    def skip(self, name: str | None = None) -> str:
        """The code that enters the answer; the exercise then counts as done."""
        exercise = self._exercise(name)
        self.progress.record_pass(self.lesson, exercise.name)
        return exercise.solution

    def reset(self, again: str = "%again") -> str:
        """Forget what was done in the lesson; the names of the learner stay.

        `again` is how the front end calls the command that shows the code of an exercise.
        """
        self.progress.reset(self.lesson)
        return (
            f"Lesson {self.lesson.number} starts over: no exercise counts as done, and hints begin "
            f"again. Your variables stay. {again} shows the original code of an exercise."
        )

    def again(self, name: str | None = None) -> str:
        """The code of an exercise with its blanks, as it was at first.

        Raises:
            LessonError: no such exercise, or the notebook was saved with an answer in it.
        """
        exercise = self._exercise(name)
        starter = self.lesson.starter(exercise.name)
        if BLANK not in starter:
            raise LessonError(
                f"{self.lesson.path.name} was saved with your answer to {exercise.name}; "
                "an unchanged copy of it has the blanks"
            )
        return starter

    def overview(self) -> str:
        """The lesson's exercises, one line each, with what is done."""
        done = self.progress.passed(self.lesson)
        lines = [f"Lesson {self.lesson.number}: {self.lesson.title}"]
        for name in self.lesson.exercises:
            lines.append(f"  [{'x' if name in done else ' '}] {name}")
        if self.progress.note:
            lines.append(self.progress.note)
        return "\n".join(lines)

    def _exercise(self, name: str | None) -> Exercise:
        """The one named, else the current one, else (all done) the last."""
        return self.lesson.exercise(name or self.current or list(self.lesson.exercises)[-1])

    def _left(self, again: bool) -> str:
        done = self.progress.passed(self.lesson)
        left = sum(name not in done for name in self.lesson.exercises)
        if left:
            return f"{left} left in this lesson."
        return "All of this lesson is done." if again else "That was the last one of this lesson."
