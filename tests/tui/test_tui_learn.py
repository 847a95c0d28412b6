"""Lessons beside the live panes, as a learner meets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_screen import SIZES, bench, settle, submit, text_of
from fake_session import FakeSession
from learner import enter, foot, said, taught, told, typed
from test_tui_screens import compare

from kbench.tui import geometry, keys, lesson_words
from kbench.tui.widgets.prompt import Prompt
from kbench.workbench import lesson_desk, lesson_pages, lessons
from kbench.workbench.lesson_progress import Progress
from kbench.workbench.lessons import Lesson

BLANK_CODE = "means = K.mean(y, axis=___)\nK.eval(means)"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path / "state"))


def silent() -> FakeSession:
    """A session without a kernel that runs nothing and judges nothing."""
    session = FakeSession()
    for number in (1, 2):
        session.script[lesson_desk.opening(number)] = lambda one, cell: one.finish(cell)
    return session


# ------------------------------------------------------------------ pages


def test_pages_hold_every_step_once() -> None:
    for lesson in lessons.catalogue():
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


def test_a_step_is_found_on_its_page() -> None:
    lesson = lessons.load(1)
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
        ("x = f(___, ___)", "x = f(1, 2)", None),
        ("x = ___", "y = 3", None),
        ("a\nx = ___", "b", None),
        ("x", "x", None),
    ],
)
def test_what_stands_in_place_of_a_blank(
    starter: str, answer: str, span: tuple[int, int, int] | None
) -> None:
    assert lesson_pages.filled_in(starter, answer) == span


def test_names_that_code_makes() -> None:
    code = "a, b = 1, 2\nfor i in c:\n    d = i\ndef f(x):\n    e = x\na = 3\n_ = 4\nK.eval(z)"
    assert lesson_pages.made(code) == ["a", "b", "i", "d", "f"]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"exercise": None, "code": False}, "Enter goes on"),
        ({"exercise": None, "code": True}, "Enter runs the code in the prompt"),
        ({"exercise": None, "code": True, "ran": True, "last": True}, "the end of the lesson"),
        ({"exercise": "e", "code": True}, "[ ] e: fill in the ___, Enter runs it"),
        ({"exercise": "e", "code": True, "tried": True}, "[ ] e: Enter checks it"),
        ({"exercise": "e", "code": True, "checking": True}, "checking e ..."),
        ({"exercise": "e", "code": True, "unmet": True, "failures": 1}, "[!] e: not yet"),
        ({"exercise": "e", "code": True, "unmet": True, "failures": 3}, "not yet, 3 checks failed"),
        ({"exercise": "e", "code": True, "passed": True}, "[x] e: passed. Enter goes on"),
        ({"exercise": "e", "code": True, "playing": True}, "free play"),
        ({"exercise": "e", "code": True, "running": True}, "running ..."),
    ],
)
def test_the_state_is_told_in_words(facts: dict[str, Any], words: str) -> None:
    assert words in lesson_words.state(lesson_words.Standing(**facts))[0]


# ------------------------------------------------------------------ screens


@pytest.mark.parametrize("size", SIZES)
async def test_screen(size: tuple[int, int], accept: bool) -> None:
    async with taught(1, size, silent(), clock=lambda: 0.0) as (app, pilot, _):
        compare(f"lesson-{size[0]}x{size[1]}", text_of(app), accept)
        assert app._main.focused_pane() == "prompt"
        await pilot.press("alt+z")
        await settle(pilot)
        compare(f"lesson-folded-{size[0]}x{size[1]}", text_of(app), accept)
        assert "step 1 of 18" in foot(app)


async def test_ascii_screen(accept: bool) -> None:
    async with taught(1, (80, 24), silent(), ascii=True, clock=lambda: 0.0) as (app, pilot, _):
        drawn = text_of(app)
        compare("lesson-ascii-80x24", drawn, accept)
        assert drawn.isascii()


async def test_the_lesson_comes_and_goes_with_its_pane() -> None:
    async with bench((120, 40), silent()) as (app, pilot, _):
        assert "lesson" not in app._main.layout_now.regions
        await pilot.press("alt+8")  # the pane is not there: which lesson?
        await settle(pilot)
        assert "A tour, and the four settings" in text_of(app)
        await pilot.press("enter")
        await settle(pilot)
        assert app._main.shows("lesson") and app._main.shows("variables")
        await enter(pilot, ":leave")
        assert not app._main.shows("lesson") and typed(app) == ""
        await pilot.press("alt+o", "alt+k")  # keys of lessons do nothing then
        await settle(pilot)
        assert not app._main.shows("lesson")


async def test_the_lesson_shares_the_drawer_with_the_panes() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, _):
        await pilot.press("alt+1")
        await settle(pilot)
        assert app._main.shows("variables") and not app._main.shows("lesson")
        await pilot.press("alt+8")
        await settle(pilot)
        assert app._main.shows("lesson") and app._main.focused_pane() == "lesson"
        await pilot.press("f1")
        await settle(pilot)
        assert "Help: Lesson" in text_of(app) and ":hint" in text_of(app)
        await pilot.press("escape", "alt+1")
        await enter(pilot, ":hint")
        assert app._main.shows("lesson") and "no exercise on this step" in said(app)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_every_pane_is_reached_with_the_lesson_open(size: tuple[int, int]) -> None:
    async with taught(1, size, silent()) as (app, pilot, _):
        seen = []
        for _step in geometry.FOCUS_ORDER:
            seen.append(app._main.focused_pane())
            await pilot.press("f6")
            await settle(pilot)
        assert sorted(seen) == sorted(geometry.FOCUS_ORDER)


async def test_words_are_seen_where_the_lesson_has_no_room() -> None:
    async with taught(1, (50, 12), silent()) as (app, pilot, _):
        await enter(pilot, ":hint")
        assert "no exercise on this step" in told(app)


# ------------------------------------------------------------------ the way through


async def test_a_learner_solves_an_exercise() -> None:
    async with taught() as (app, pilot, learning):
        lesson = learning.lesson
        assert typed(app).startswith("import numpy")
        await enter(pilot)
        assert "Enter goes on" in foot(app) and typed(app) == ""
        await enter(pilot)
        assert "Expressions first" in text_of(app) and typed(app).startswith("x = K.constant")
        for _press in range(4):
            await enter(pilot)
        prompt = app.query_one(Prompt)
        assert prompt.text == BLANK_CODE and prompt.selected_text == "___"
        await enter(pilot)  # with the blank in it
        assert "line 1 still has a ___" in said(app) and prompt.text == BLANK_CODE
        await pilot.press("0", "enter")  # anywhere in the code
        await settle(pilot)
        assert "Enter checks it" in foot(app)
        await enter(pilot)
        assert "not yet. `means` has shape (3,): axis 0 is 3, it should be 2." in said(app)
        assert foot(app).startswith(" [!] row-means: not yet")
        assert typed(app) == BLANK_CODE.replace("___", "0")  # to be changed
        assert prompt.selected_text == "0"
        await enter(pilot, BLANK_CODE.replace("___", "1"))
        await enter(pilot)
        assert "row-means: passed. 5 left" in said(app)
        assert foot(app).startswith(" [x] row-means: passed")
        assert learning.at == 3  # passing never goes on by itself
        assert Progress().passed(lesson) == {"row-means"}
        await enter(pilot)
        assert learning.at == 4 and Progress().step(lesson) == learning.page.first


async def test_the_check_leaves_nothing_behind() -> None:
    async with taught() as (app, pilot, learning):
        for _press in range(6):
            await enter(pilot)
        await enter(pilot, BLANK_CODE.replace("___", "1"))
        shell: Any = learning.screen.bench.link.session._shell  # type: ignore[union-attr]
        before = {name: id(value) for name, value in shell.user_ns.items()}
        count, runs = shell.execution_count, len(app.link.session.inspector.recorder.runs())
        blocks = len(app._main.conductor.transcript.blocks)
        await enter(pilot, ":check")
        assert "passed" in said(app)
        assert {name: id(value) for name, value in shell.user_ns.items()} == before
        assert shell.execution_count == count
        assert len(app.link.session.inspector.recorder.runs()) == runs
        assert len(app._main.conductor.transcript.blocks) == blocks
        assert not [cell for cell in app.link.session.cells.values() if "judge" in cell.code]


async def go_to(pilot: Any, learning: Any, name: str) -> None:
    """Jump to the page of an exercise, as the list of steps does."""
    at = next(at for at, page in enumerate(learning.pages) if page.exercise == name)
    learning._catch_up(at)
    learning._go(at)
    await settle(pilot)


async def test_hints_solution_and_skip() -> None:
    async with taught() as (app, pilot, learning):
        await go_to(pilot, learning, "row-means")
        await pilot.press("alt+i")
        await settle(pilot)
        assert "hint 1 of 2" in said(app) and typed(app) == BLANK_CODE
        await enter(pilot, ":hint")
        assert "hint 2 of 2" in said(app)
        assert typed(app) == BLANK_CODE  # it was in the way of the command, and is back
        await enter(pilot, ":solution")
        assert "after two failed checks" in text_of(app)
        await pilot.press("t")
        await settle(pilot)
        assert "axis=1" not in text_of(app)
        await enter(pilot, ":solution sure")
        assert "axis=1" in said(app)
        await enter(pilot, ":skip")
        assert "answer entered. It made `means`" in said(app) and "(2,)" in said(app)
        assert foot(app).startswith(" [x] row-means")
        assert "means" in learning.screen.bench.link.session._shell.user_ns  # type: ignore[union-attr]


async def test_the_solution_opens_after_two_failed_checks() -> None:
    async with taught() as (app, pilot, learning):
        await go_to(pilot, learning, "row-means")
        for _try in range(2):
            await enter(pilot, BLANK_CODE.replace("___", "0"))
            await pilot.press("alt+k")
            await settle(pilot)
        assert ":solution shows an answer" in said(app) and "2 checks failed" in foot(app)
        await enter(pilot, ":solution")
        assert "axis=1" in said(app)


async def test_blanks_are_filled_in_one_by_one() -> None:
    async with taught(2, (80, 24), silent()) as (app, pilot, learning):
        await go_to(pilot, learning, "feed")
        await pilot.press("x", "enter")
        await settle(pilot)
        assert typed(app).startswith("run = K.function([x], [___])")
        assert "line 1 has another ___" in said(app)
        await pilot.press("y", "enter")
        await settle(pilot)
        assert "Enter checks it" in foot(app)


async def test_one_key_runs_and_checks() -> None:
    async with taught() as (app, pilot, learning):
        await go_to(pilot, learning, "row-means")
        app.query_one(Prompt).put(BLANK_CODE.replace("___", "1"))
        await pilot.press("ctrl+enter")
        await settle(pilot)
        assert "row-means: passed" in said(app)
        await submit(pilot, "K.eval(y)")  # a trial of something else is not checked
        assert "passed" in foot(app)


async def test_a_prediction_is_kept_before_it_is_seen() -> None:
    async with taught() as (app, pilot, learning):
        await go_to(pilot, learning, "guess-dtype")
        assert "Predict" in text_of(app)
        await enter(pilot, 'guess = ("float32", "float64")')
        assert "float64" in Progress().guess(learning.lesson, "guess-dtype")
        await pilot.press("alt+o")
        await settle(pilot)
        assert "your guess was" in said(app) and typed(app).startswith("K.dtype(old)")


@pytest.mark.slow
async def test_free_play_and_back() -> None:
    async with taught() as (app, pilot, learning):
        await go_to(pilot, learning, "row-means")
        await enter(pilot, ":play")
        assert "free play" in foot(app) and typed(app) == ""
        await submit(pilot, "mine = 3")
        assert "free play" in foot(app)
        await enter(pilot, ":next")
        assert learning.page.exercise == "row-means" and typed(app) == BLANK_CODE
        await enter(pilot, ":back")
        assert learning.at == 2
        await enter(pilot, ":nonsense")
        assert "no command :nonsense" in said(app)


async def test_going_on_runs_what_later_steps_need() -> None:
    async with taught() as (app, pilot, learning):
        for _press in range(3):
            await pilot.press("alt+o")
            await settle(pilot)
        names = app.link.session._shell.user_ns  # type: ignore[union-attr]
        assert learning.page.exercise == "row-means" and "y" in names
        await pilot.press("alt+o")
        await settle(pilot)
        assert "row-means is not done" in said(app)


async def test_a_lesson_goes_on_where_it_was_left(tmp_path: Path) -> None:
    lesson = lessons.load(1)
    progress = Progress()
    progress.record_pass(lesson, "row-means")
    progress.record_step(lesson, 9)
    async with taught() as (app, _pilot, learning):
        assert learning.at == 4 and "epsilon, the fuzz factor" in text_of(app)
        assert "the code of steps 1 to 4 runs unseen" in text_of(app)
        names = app.link.session._shell.user_ns  # type: ignore[union-attr]
        assert "means" in names and "measure" not in names
        assert len(app._main.conductor.transcript.blocks) == 1  # the note
        assert "1 of 6 done" in text_of(app)


@pytest.mark.slow
async def test_reset_forgets_and_begins_anew() -> None:
    lesson = lessons.load(1)
    Progress().record_pass(lesson, "row-means")
    async with taught() as (app, pilot, learning):
        await go_to(pilot, learning, "row-means")
        await enter(pilot, ":reset")
        await pilot.press("b")
        await settle(pilot)
        assert learning.at == 0 and Progress().passed(lesson) == set()
        assert "0 of 6 done" in text_of(app)


async def test_steps_are_listed_and_gone_to() -> None:
    async with taught() as (app, pilot, learning):
        await enter(pilot, ":list")
        shown = text_of(app)
        assert "[ ] Exercise: row means   row-means" in shown
        await pilot.press("down", "down", "down", "enter")
        await settle(pilot)
        assert learning.page.exercise == "row-means"
        assert "y" in app.link.session._shell.user_ns  # type: ignore[union-attr]


@pytest.mark.slow
async def test_the_end_leads_to_the_next_lesson() -> None:
    lesson = lessons.load(1)
    Progress().record_step(lesson, len(lesson.steps) - 1)
    async with taught(1, (80, 24), silent()) as (app, pilot, learning):
        await enter(pilot)
        assert "This is the end of lesson 1. Exercises left: 6" in text_of(app)
        await pilot.press("n")
        await settle(pilot)
        assert learning.lesson.number == 2 and learning.at == 0


async def test_a_lesson_that_changed_says_so() -> None:
    lesson = lessons.load(1)
    progress = Progress()
    old = Lesson(**{**vars(lesson), "digest": "0" * 12})
    progress.record_step(old, 5)
    async with taught(1, (80, 24), silent()) as (app, _pilot, learning):
        assert learning.at == 0 and "has changed since you took it" in said(app)


async def test_actions_of_a_lesson_are_in_the_palette() -> None:
    from kbench.tui.commands import BenchCommands

    async with taught(1, (80, 24), silent()) as (app, pilot, _):
        found = {one.ident for one in BenchCommands(app.screen).commands()}  # type: ignore[arg-type]
        assert {key.id for key in keys.TABLE if key.where == "lesson"} <= found
        assert {"lesson_check", "lesson_hint", "lesson_fold", "tab_8"} <= found


async def test_the_lesson_is_read_on_from_the_prompt() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, _):
        text = app.query_one("#lesson-text")
        assert text.scroll_offset.y == 0
        await pilot.press("pagedown")
        await settle(pilot)
        assert text.scroll_offset.y > 0 and app._main.focused_pane() == "prompt"
        await pilot.press("pageup")
        await settle(pilot)
        assert text.scroll_offset.y == 0


async def test_commands_complete() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, _):
        prompt = app.query_one(Prompt)
        prompt.put(":so")
        await pilot.press("tab")
        await settle(pilot)
        assert prompt.text == ":solution"
        prompt.put(":")
        await settle(pilot)
        assert ":hint" in text_of(app)


async def test_code_of_a_lesson_is_no_draft(tmp_path: Path) -> None:
    async with taught(1, (80, 24), silent(), tmp_path) as (app, pilot, _):
        await settle(pilot)
        assert app._main.drafts.text == "" and typed(app)
        await pilot.press("x")
        await settle(pilot)
        assert app._main.drafts.text.endswith("x")


async def test_a_check_that_dies_with_its_kernel_is_survived() -> None:
    session = silent()
    async with taught(1, (80, 24), session) as (app, pilot, learning):
        await go_to(pilot, learning, "row-means")
        call = lesson_desk.call(1, "row-means", learning.backstage._ticket + 1)
        session.script[call] = lambda one, cell: None
        await enter(pilot, BLANK_CODE.replace("___", "1"))
        await enter(pilot, ":check")
        assert "checking row-means" in foot(app)
        session.die()
        await settle(pilot)
        assert "the check did not end" in said(app) and not learning.backstage.checking
        session.restart(replay=False)
        await settle(pilot)
        assert "runs unseen" in text_of(app)


async def test_a_check_can_be_interrupted() -> None:
    session = silent()
    async with taught(1, (80, 24), session) as (app, pilot, learning):
        await go_to(pilot, learning, "row-means")
        session.script[lesson_desk.call(1, "row-means", learning.backstage._ticket + 1)] = (
            lambda one, cell: None
        )
        await enter(pilot, BLANK_CODE.replace("___", "1"))
        await enter(pilot, ":check")
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert "the check was stopped" in said(app)


async def test_a_broken_lesson_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "01-broken.ipynb").write_text("{", encoding="utf-8")
    (tmp_path / "01-broken.toml").write_text("", encoding="utf-8")
    for name in (lessons.load(2).path, lessons.load(2).path.with_suffix(".toml")):
        (tmp_path / name.name).write_bytes(name.read_bytes())
    monkeypatch.setattr(lessons, "folder", lambda: tmp_path)
    async with taught(0, (120, 40), silent()) as (app, pilot, learning):
        assert "cannot be read" in text_of(app) and "Variables, placeholders" in text_of(app)
        await pilot.press("up", "enter")
        await settle(pilot)
        assert not learning.open and "is broken" in told(app)
