"""Each check of a lesson, on right answers in several styles and on wrong ones."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras_loaded
import pytest
from lesson_answers import ANSWERS

from kbench import backend as K
from kbench.engine.runtime import config
from kbench.workbench.lessons import lesson_files
from kbench.workbench.lessons.lesson_checks import judge
from kbench.workbench.lessons.lesson_files import BLANK, Lesson

LESSONS = lesson_files.catalogue()
QUICK = (1, 2, 3, 4, 10)
pytestmark = keras_loaded.OWN_WARNINGS


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A state folder of its own and the default settings, before and after."""
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setenv("KERAS_BACKEND", "")
    monkeypatch.delenv("KERAS_BACKEND")
    yield
    reset()
    K.clear_session()


def reset() -> None:
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


def test_every_exercise_has_answers_of_both_kinds() -> None:
    known = {(lesson.number, name) for lesson in LESSONS for name in lesson.exercises}
    assert set(ANSWERS) == known
    for place, (right, wrong) in ANSWERS.items():
        assert len(right) >= 1 and len(wrong) >= 3 and not {*right} & {*wrong}, place


@pytest.mark.parametrize(
    "lesson",
    [
        pytest.param(one, id=one.name, marks=() if one.number in QUICK else pytest.mark.slow)
        for one in LESSONS
    ],
)
def test_checks_tell_right_answers_from_wrong_ones(lesson: Lesson) -> None:
    """The lesson is walked through; at each exercise every answer is given in names of its own."""
    if any("import keras" in step.text for step in lesson.steps):
        keras_loaded.load()
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
    assert not found, "\n".join(found)
