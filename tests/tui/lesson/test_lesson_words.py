"""Lessons as pages, and the words about them."""

from __future__ import annotations

from typing import Any

import pytest

from kbench.tui.lesson import lesson_words
from kbench.workbench.lessons import lesson_files, lesson_pages


def test_pages_hold_every_step_once() -> None:
    for lesson in lesson_files.catalogue():
        found = lesson_pages.pages(lesson)
        assert [found[0].first, found[-1].last] == [0, len(lesson.steps) - 1]
        for before, after in zip(found, found[1:], strict=False):
            assert after.first == before.last + 1
        names = [page.exercise for page in found if page.exercise]
        assert names == [step.name for step in lesson.steps if step.is_exercise]
        assert all(page.prose and "%lesson" not in page.code for page in found)
        for page in found:
            if page.exercise:
                assert page.answers(lesson.exercises[page.exercise].solution), page.exercise
                assert lesson_pages.blanks(page.code), page.exercise
                assert not lesson_pages.blanks(lesson.exercises[page.exercise].solution)


@pytest.mark.parametrize(
    ("code", "answers"),
    [
        ("K.set_value(w, 2 * start)", True),  # one line of the two
        ("twice = 2 * start\nK.set_value(w, twice)", True),
        ("K.set_value(w, 2 * start", False),
        ("K.set_value(w,2*start)", True),
        ("K.set_value(v, 2 * start)", False),
        ("K.get_value(w) / start", False),
        ("w", False),
    ],
)
def test_what_is_meant_for_the_step(code: str, answers: bool) -> None:
    found = lesson_pages.pages(lesson_files.load(2))
    page = next(page for page in found if page.exercise == "set-value")
    assert page.answers(code) == answers


def test_a_step_is_found_on_its_page() -> None:
    lesson = lesson_files.load(1)
    found = lesson_pages.pages(lesson)
    for step in range(len(lesson.steps)):
        page = found[lesson_pages.page_of(found, step)]
        assert page.first <= step <= page.last


@pytest.mark.parametrize(
    ("code", "places"),
    [
        ("x = ___", [(0, 4)]),
        ("a = 1\nK.___([1])", [(1, 2)]),
        ("'___'  # ___", []),
        ("my___name = 1", []),
        ("K.mean(y, axis=___1)", [(0, 15)]),
        ("f(___, ___", [(0, 2), (0, 7)]),
        ("", []),
    ],
)
def test_blanks_are_names_of_their_own(code: str, places: list[tuple[int, int]]) -> None:
    assert lesson_pages.blanks(code) == places


@pytest.mark.parametrize(
    ("starter", "answer", "span"),
    [
        ("x = f(___)\ny", "x = f(12)\ny", (0, 6, 8)),
        ("a\nx = ___", "a\nx = 3 + 4", (1, 4, 9)),
        ("x = f(___, ___)  # a", "x = f(12, 3)  # a", (0, 6, 8)),
        ("x = f(___, ___)", "x = f(1, 2)", (0, 6, 7)),
        ("x = ___", "y = 3", None),
        ("a\nx = ___", "b", None),
        ("x", "x", None),
    ],
)
def test_what_stands_in_place_of_a_blank(
    starter: str, answer: str, span: tuple[int, int, int] | None
) -> None:
    assert lesson_pages.filled_in(starter, answer) == span


@pytest.mark.parametrize(
    ("starter", "answer", "rest"),
    [
        ("run = f(___)\nbatch = [1]\nrun(batch)", "run = f(x)", {"batch": "batch = [1]"}),
        ("run = f(___)\nbatch = [1]\nrun(batch)", "run = f(x)\nbatch = [2]", {}),
        ("a = K.___(1)\nb = a.c(___)\nd = 1", "a = 1", {"d": "d = 1"}),
        ("f(___)", "f(1)", {}),
        ("f(", "f(1)", {}),
    ],
)
def test_what_an_answer_leaves_out(starter: str, answer: str, rest: dict[str, str]) -> None:
    assert lesson_pages.left_out(starter, answer) == rest


def test_names_that_code_makes() -> None:
    code = "a, b = 1, 2\nfor i in c:\n    d = i\ndef f(x):\n    e = x\na = 3\n_ = 4\nK.eval(z)"
    assert lesson_pages.made(code) == ["a", "b", "i", "d", "f"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"exercise": None, "code": False}, "Enter goes on"),
        ({"exercise": None, "code": True}, "Enter brings the code back"),
        ({"exercise": None, "code": True, "written": True}, "Enter runs the code in the prompt"),
        (
            {"exercise": None, "code": False, "written": True, "clear": "^C"},
            "Enter runs the code in the prompt, ^C clears it",
        ),
        ({"exercise": None, "code": True, "ran": True, "last": True}, "the end of the lesson"),
        ({"exercise": "e", "code": True}, "[ ] e: Enter brings the code back"),
        (
            {"exercise": "e", "code": True, "written": True, "blank": True},
            "[ ] e: fill in the ___, Enter runs it",
        ),
        (
            {"exercise": "e", "code": True, "written": True, "tried": True},
            "[ ] e: Enter runs it",
        ),
        (
            {"exercise": "e", "code": True, "written": True, "passed": True},
            "[x] e: passed. Enter runs it",
        ),
        ({"exercise": "e", "code": True, "tried": True}, "[ ] e: Enter checks it"),
        ({"exercise": "e", "code": True, "checking": True}, "checking e ..."),
        ({"exercise": "e", "code": True, "unmet": True, "failures": 1}, "not yet. Enter brings it"),
        ({"exercise": "e", "code": True, "unmet": True, "failures": 3}, "not yet, 3 checks failed"),
        (
            {"exercise": "e", "code": True, "unmet": True, "written": True},
            "[!] e: not yet. Enter runs it",
        ),
        ({"exercise": "e", "code": True, "passed": True}, "[x] e: passed. Enter goes on"),
        ({"exercise": "e", "code": True, "playing": True}, "free play"),
        ({"exercise": "e", "code": True, "running": True}, "running ..."),
    ],
)
def test_the_state_is_told_in_words(facts: dict[str, Any], words: str) -> None:
    assert words in lesson_words.state(lesson_words.PageState(**facts))[0]
