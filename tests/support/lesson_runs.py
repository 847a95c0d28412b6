"""Lessons as tests run them: those whose Keras is installed here, and answers given in them."""

from __future__ import annotations

import contextlib
import io
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from lesson_answers import ANSWERS

from kbench import backend as K
from kbench.engine.runtime import config
from kbench.workbench.lessons import lesson_files
from kbench.workbench.lessons.lesson_checks import judge
from kbench.workbench.lessons.lesson_files import BLANK, Lesson

OF_KERAS_3 = "the-same-model-in-keras-3"


def here() -> list[Lesson]:
    """The lessons that this environment can run: Keras 3 and Keras 2.3.1 are one package."""
    try:
        found = version("keras")
    except PackageNotFoundError:
        found = ""
    newer = found.startswith("3.")
    lessons = lesson_files.catalogue()
    return [one for one in lessons if newer or not one.path.stem.endswith(OF_KERAS_3)]


def reset() -> None:
    """The settings as they are at the start."""
    for name, value in (("epsilon", 1e-7), ("floatx", "float32")):
        config.assign(name, value)
    K.set_image_data_format("channels_last")


def filled(starter: str, answer: str) -> str:
    """The starter with its blanks filled in, or the whole cell that the answer is."""
    if answer.startswith("\n"):
        return answer
    for piece in answer.split(" | "):
        starter = starter.replace(BLANK, piece, 1)
    assert BLANK not in starter, answer
    return starter


def run(code: str, names: dict[str, Any]) -> str:
    """What running a cell raises, as text; empty where it runs."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, "<answer>", "exec"), names)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def misjudged(lesson: Lesson) -> list[str]:
    """Right answers that a check refuses, and wrong ones that it accepts.

    The lesson is walked through; at each exercise every answer is given in names of its own.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for step in lesson.steps:
        if step.role == "check" or not step.is_code:
            continue
        if not step.is_exercise:
            assert not run(step.plain, names) or step.may_fail
            continue
        exercise = lesson.exercises[step.name]
        right, wrong = ANSWERS[lesson.number, step.name]
        for answer, fits in [*((one, True) for one in right), *((one, False) for one in wrong)]:
            own = dict(names)
            raised = run(filled(step.plain, answer), own)
            verdict = judge(exercise, own)
            if verdict.passed != fits or (raised and fits):
                words = "refused" if fits else "accepted"
                found.append(f"{step.name}: {answer!r} is {words}: {raised or verdict.message}")
            reset()
        assert not run(exercise.solution, names)
        assert judge(exercise, names).passed, step.name
        reset()
    return found


def walked(lesson: Lesson) -> str:
    """What is typed to `kbench learn`: at each exercise a check, the solution, a check again."""
    lines = []
    for step in lesson.steps:
        if step.is_exercise:
            lines += [":check", *lesson.exercises[step.name].solution.splitlines(), ":check"]
            lines.append(":next")
        else:
            lines.append(":next" if step.role == "check" else "")
    return "\n".join(lines) + "\n"
