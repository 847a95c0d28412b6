"""Each check of a lesson, on right answers in several styles and on wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keras_loaded
import lesson_runs
import pytest
from lesson_answers import ANSWERS

from kbench import backend as K
from kbench.workbench.lessons import lesson_files
from kbench.workbench.lessons.lesson_files import Lesson

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
    lesson_runs.reset()
    K.clear_session()


def test_every_exercise_has_answers_of_both_kinds() -> None:
    known = {(lesson.number, name) for lesson in LESSONS for name in lesson.exercises}
    assert set(ANSWERS) == known
    for place, (right, wrong) in ANSWERS.items():
        assert len(right) >= 1 and len(wrong) >= 3 and not {*right} & {*wrong}, place


@pytest.mark.parametrize(
    "lesson",
    [
        pytest.param(one, id=one.name, marks=() if one.number in QUICK else pytest.mark.slow)
        for one in lesson_runs.here()
    ],
)
def test_checks_tell_right_answers_from_wrong_ones(lesson: Lesson) -> None:
    """The lesson is walked through; at each exercise every answer is given in names of its own."""
    if any("import keras" in step.text for step in lesson.steps):
        keras_loaded.load()
    assert lesson_runs.misjudged(lesson) == []
