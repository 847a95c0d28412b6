"""The way through a lesson, as a learner goes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_screen import settle, submit, text_of
from learner import BLANK_CODE, enter, foot, go_to, said, silent, taught, typed
from msgspec.structs import replace
from textual.content import Content
from textual.widgets import Static

from kbench.tui.keys import keys
from kbench.tui.lesson.lesson import LessonPane, LessonText
from kbench.tui.prompt.prompt import Prompt
from kbench.workbench.lessons import lesson_files
from kbench.workbench.lessons.lesson_progress import Progress


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path / "state"))


async def test_a_learner_solves_an_exercise() -> None:
    async with taught() as (app, pilot, controller):
        lesson = controller.model.lesson
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
        assert controller.model.at == 3  # passing never goes on by itself
        assert Progress().passed(lesson) == {"row-means"}
        await enter(pilot)
        assert controller.model.at == 4 and Progress().step(lesson) == controller.model.page.first


@pytest.mark.slow
async def test_the_check_leaves_nothing_behind() -> None:
    async with taught() as (app, pilot, controller):
        for _press in range(6):
            await enter(pilot)
        await enter(pilot, BLANK_CODE.replace("___", "1"))
        shell: Any = controller.bench.link.session._shell  # type: ignore[union-attr]
        before = {name: id(value) for name, value in shell.user_ns.items()}
        count, runs = shell.execution_count, len(app.link.session.inspector.recorder.runs())
        blocks = len(app._main.session_controller.transcript.blocks)
        await enter(pilot, ":check")
        assert "passed" in said(app)
        assert {name: id(value) for name, value in shell.user_ns.items()} == before
        assert shell.execution_count == count
        assert len(app.link.session.inspector.recorder.runs()) == runs
        assert len(app._main.session_controller.transcript.blocks) == blocks
        assert not [cell for cell in app.link.session.cells.values() if "judge" in cell.code]


async def test_hints_solution_and_skip() -> None:
    async with taught() as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
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
        made = "answer entered; row-means counts as done. It made `means`"
        assert made in said(app) and "(2,)" in said(app)
        assert foot(app).startswith(" [x] row-means")
        assert "means" in controller.bench.link.session._shell.user_ns  # type: ignore[union-attr]


@pytest.mark.slow
async def test_the_solution_opens_after_two_failed_checks() -> None:
    async with taught() as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        for _try in range(2):
            await enter(pilot, BLANK_CODE.replace("___", "0"))
            await pilot.press("alt+k")
            await settle(pilot)
        assert ":solution shows an answer" in said(app) and "2 checks failed" in foot(app)
        await enter(pilot, ":solution")
        assert "axis=1" in said(app)


async def test_blanks_are_filled_in_one_by_one() -> None:
    async with taught(2, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "feed")
        await pilot.press("x", "enter")
        await settle(pilot)
        assert typed(app).startswith("run = K.function([x], [___])")
        assert "line 1 has another ___" in said(app)
        await pilot.press("y", "enter")
        await settle(pilot)
        assert "Enter checks it" in foot(app)


async def test_tab_goes_to_the_next_blank_where_there_is_nothing_to_complete() -> None:
    async with taught(2, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "feed")
        prompt = app.query_one(Prompt)
        for place in (1, 0, 1):  # the second, and around to the first
            await pilot.press("tab")
            await settle(pilot)
            assert prompt.selected_text == "___"
            assert prompt.text.split("\n")[0][: prompt.selection.start[1]].count("___") == place
        await pilot.press("0", "tab")
        await settle(pilot)
        assert "[0]" in typed(app) and prompt.selected_text == "___"


async def test_one_key_runs_and_checks() -> None:
    async with taught() as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        app.query_one(Prompt).put(BLANK_CODE.replace("___", "1"))
        await pilot.press("ctrl+enter")
        await settle(pilot)
        assert "row-means: passed" in said(app)
        await submit(pilot, "K.eval(y)")  # a trial of something else is not checked
        assert "passed" in foot(app)


@pytest.mark.slow
async def test_an_answer_of_one_line_leaves_no_names_out() -> None:
    async with taught(2) as (app, pilot, controller):
        await go_to(pilot, controller, "feed")
        await enter(pilot, "run = K.function([x], [y])")
        await enter(pilot)
        assert "feed: passed" in said(app) and "later steps need batch" in text_of(app)
        await enter(pilot)
        await enter(pilot, typed(app).replace("___", "K.dot(x, w) - b"))
        names = app.link.session._shell.user_ns  # type: ignore[union-attr]
        assert names["batch"].shape == (3, 2)
        kept = names["b"]
        await enter(pilot, "layer = y + b")
        await enter(pilot)
        assert "affine: passed" in said(app) and names["b"] is kept


async def test_a_prediction_is_kept_before_it_is_seen() -> None:
    async with taught() as (app, pilot, controller):
        await go_to(pilot, controller, "guess-dtype")
        assert "Predict" in text_of(app)
        await enter(pilot, 'guess = ("float32", "float64")')
        assert "float64" in Progress().guess(controller.model.lesson, "guess-dtype")
        await pilot.press("alt+o")
        await settle(pilot)
        assert "your guess was" in said(app) and typed(app).startswith("K.dtype(old)")


@pytest.mark.slow
async def test_free_play_and_back() -> None:
    async with taught() as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        await enter(pilot, ":play")
        assert "free play" in foot(app) and typed(app) == ""
        await submit(pilot, "mine = 3")
        assert "free play" in foot(app)
        await enter(pilot, ":next")
        assert controller.model.page.exercise == "row-means" and typed(app) == BLANK_CODE
        await enter(pilot, ":back")
        assert controller.model.at == 2
        await enter(pilot, ":nonsense")
        assert "unknown command :nonsense" in said(app)


async def test_going_on_runs_what_later_steps_need() -> None:
    async with taught() as (app, pilot, controller):
        for _press in range(3):
            await pilot.press("alt+o")
            await settle(pilot)
        names = app.link.session._shell.user_ns  # type: ignore[union-attr]
        assert controller.model.page.exercise == "row-means" and "y" in names
        await pilot.press("alt+o")
        await settle(pilot)
        assert "row-means is not done" in said(app)


async def test_a_lesson_goes_on_where_it_was_left(tmp_path: Path) -> None:
    lesson = lesson_files.load(1)
    progress = Progress()
    progress.record_pass(lesson, "row-means")
    progress.record_step(lesson, 9)
    async with taught() as (app, _pilot, controller):
        assert controller.model.at == 4 and "epsilon, the fuzz factor" in text_of(app)
        assert "the code of steps 1 to 4 runs unseen" in text_of(app)
        names = app.link.session._shell.user_ns  # type: ignore[union-attr]
        assert "means" in names and "measure" not in names
        assert len(app._main.session_controller.transcript.blocks) == 1  # the note
        assert "1 of 6 done" in text_of(app)


@pytest.mark.slow
async def test_reset_forgets_and_begins_anew() -> None:
    lesson = lesson_files.load(1)
    Progress().record_pass(lesson, "row-means")
    async with taught() as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        await enter(pilot, ":reset")
        await pilot.press("b")
        await settle(pilot)
        assert controller.model.at == 0 and Progress().passed(lesson) == set()
        assert "0 of 6 done" in text_of(app)


async def test_steps_are_listed_and_gone_to() -> None:
    async with taught() as (app, pilot, controller):
        await enter(pilot, ":list")
        shown = text_of(app)
        assert "[ ] Exercise: row means   row-means" in shown
        await pilot.press("down", "down", "down", "enter")
        await settle(pilot)
        assert controller.model.page.exercise == "row-means"
        assert "y" in app.link.session._shell.user_ns  # type: ignore[union-attr]


@pytest.mark.slow
async def test_the_end_leads_to_the_next_lesson() -> None:
    lesson = lesson_files.load(1)
    Progress().record_step(lesson, len(lesson.steps) - 1)
    async with taught(1, (80, 24), silent()) as (app, pilot, controller):
        await enter(pilot)
        assert "This is the end of lesson 1. Exercises left: row-means" in text_of(app)
        await pilot.press("n")
        await settle(pilot)
        assert controller.model.lesson.number == 2 and controller.model.at == 0


async def test_a_lesson_that_changed_says_so() -> None:
    lesson = lesson_files.load(1)
    progress = Progress()
    old = replace(lesson, digest="0" * 12)
    progress.record_step(old, 5)
    async with taught(1, (80, 24), silent()) as (app, _pilot, controller):
        assert controller.model.at == 0 and "has changed since you took it" in said(app)


async def test_actions_of_a_lesson_are_in_the_palette() -> None:
    from kbench.tui.keys.commands import BenchCommands

    async with taught(1, (80, 24), silent()) as (app, pilot, _):
        found = {one.ident for one in BenchCommands(app.screen).commands()}  # type: ignore[arg-type]
        assert {key.id for key in keys.TABLE if key.where == "lesson"} <= found
        assert {"lesson_check", "lesson_hint", "lesson_fold", "tab_8"} <= found


async def test_the_lesson_is_read_on_from_the_prompt() -> None:
    async with taught(1, (60, 16), silent()) as (app, pilot, _):
        text = app.query_one("#lesson-text")
        assert text.scroll_offset.y == 0 and "PgDn more" in foot(app)
        await pilot.press("pagedown")
        await settle(pilot)
        assert text.scroll_offset.y > 0 and app._main.arrangement.focused_pane() == "prompt"
        assert "more" not in foot(app)  # this was the end
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
        assert app._main.unsent_input.text == "" and typed(app)
        await pilot.press("x")
        await settle(pilot)
        assert app._main.unsent_input.text.endswith("x")


async def test_a_verdict_comes_into_view_however_late_it_gets_its_place() -> None:
    async with taught(7, (80, 24), silent()) as (app, pilot, controller):
        await go_to(pilot, controller, "alive")
        pane = app.query_one(LessonPane)
        text = pane.query_one(LessonText)
        pane.set_message([Content("alive: not yet")])
        await settle(pilot)
        shown = text.scroll_y
        assert shown > 0
        text.scroll_home(animate=False)
        pane.query_one("#lesson-said", Static).update("alive: not yet\nwhy\nhow")  # late
        await settle(pilot)
        assert text.scroll_y > shown
        pane.turn("up")  # the learner reads: it stays
        await settle(pilot)
        pane.query_one("#lesson-said", Static).update("alive: not yet")
        await settle(pilot)
        assert text.scroll_y < shown
