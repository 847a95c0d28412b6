"""The model of a lesson, without a screen: what follows on what, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbench.tui.lesson.lesson_model import LessonModel
from kbench.workbench.lessons import lesson_files, lesson_pages
from kbench.workbench.lessons.lesson_coach import Coach
from kbench.workbench.lessons.lesson_progress import Progress

EXERCISE = "row-means"


@pytest.fixture
def model(tmp_path: Path) -> LessonModel:
    """On the first step of the first lesson, of which nothing is done."""
    lesson = lesson_files.load(1)
    made = LessonModel()
    assert not made.open and made.passed() == set()
    made.take(Coach(lesson, {}, Progress(tmp_path / "lessons.json")), lesson_pages.pages(lesson))
    assert made.open and made.at == 0
    return made


def at_exercise(model: LessonModel) -> str:
    """Go to the exercise; returns its answer."""
    model.go(next(at for at, page in enumerate(model.pages) if page.exercise == EXERCISE))
    return model.lesson.exercise(EXERCISE).solution


def test_code_of_a_step_runs_and_then_enter_goes_on(model: LessonModel) -> None:
    model.go(next(at for at, page in enumerate(model.pages) if page.runs_again))
    cell = object()
    assert model.goes_on() == "give back" and model.idle
    assert model.begin(cell, model.page.code)
    assert model.running and not model.idle
    assert model.end(cell, "ok") == "nothing"
    assert model.at in model.ran and model.goes_on() == "next" and model.idle
    assert model.end(cell, "ok") is None  # it has ended before


def test_code_of_a_step_that_fails_is_given_back(model: LessonModel) -> None:
    model.go(next(at for at, page in enumerate(model.pages) if page.runs_again))
    cell = object()
    model.begin(cell, model.page.code)
    assert model.end(cell, "error") == "give back" and model.at not in model.ran


@pytest.mark.parametrize(
    ("status", "check", "follows", "then"),
    [
        ("ok", True, "judge", "check"),
        ("ok", False, "nothing", "check"),
        ("error", True, "give back", "give back"),
        ("interrupted", False, "nothing", "give back"),
    ],
)
def test_an_answer_runs(
    model: LessonModel, status: str, check: bool, follows: str, then: str
) -> None:
    answer, cell = at_exercise(model), object()
    assert model.begin(cell, answer, check)
    assert model.code() == answer
    assert model.end(cell, status) == follows
    assert model.goes_on() == then


def test_what_is_typed_for_no_step_is_nothing_to_the_lesson(model: LessonModel) -> None:
    at_exercise(model)
    model.draft = "x"
    cell = object()
    assert not model.begin(cell, "something_else = 3.5")
    assert model.end(cell, "ok") is None and model.draft == ""


def test_a_cell_that_ends_after_its_step_was_left_asks_for_nothing(model: LessonModel) -> None:
    answer, cell = at_exercise(model), object()
    at = model.at
    model.begin(cell, answer, check=True)
    model.go(at + 1)
    assert model.end(cell, "ok") == "nothing" and at in model.ran


def test_a_verdict_counts_on_its_step_alone(model: LessonModel) -> None:
    at_exercise(model)
    assert model.judge(EXERCISE, False) and model.unmet
    assert model.state(True, False, False, "").unmet
    assert not model.judge("another", False) and not model.unmet
    assert model.judge(EXERCISE, True) and model.at in model.ran


def test_an_entered_answer_tells_what_it_made(model: LessonModel) -> None:
    answer, cell = at_exercise(model), object()
    model.begin(cell, answer)
    model.enter(cell, EXERCISE)
    assert model.end(cell, "ok") == "tell made" and model.entered == EXERCISE


def test_what_was_begun_is_there_again(model: LessonModel) -> None:
    answer = at_exercise(model)
    at = model.at
    model.keep(answer, as_given=False)
    model.go(0)
    model.go(at)
    assert model.code() == answer
    model.keep("nothing for this step", as_given=False)
    assert model.code() == answer
    model.draft = answer.replace("1", "0")
    model.keep("", as_given=False)  # a command stands in place of the draft
    assert model.code() == answer.replace("1", "0")


def test_steps_before_are_made_once_and_again_in_another_kernel(model: LessonModel) -> None:
    at_exercise(model)
    made = list(model.unmade(model.at))
    assert made and [number - 1 for number, _, _ in made] == sorted(model.ran)
    assert list(model.unmade(model.at)) == []
    assert not model.restart(replayed=True) and list(model.unmade(model.at)) == []
    assert model.restart(replayed=False) and list(model.unmade(model.at)) == made


def test_a_lesson_that_is_left_is_taken_up_where_it_was(model: LessonModel) -> None:
    at_exercise(model)
    at, coach, pages = model.at, model.coach, model.pages
    assert coach is not None and model.left()[0] == EXERCISE
    model.leave()
    assert not model.open and not model.restart(replayed=False)
    model.take(coach, pages)
    assert model.at == at
