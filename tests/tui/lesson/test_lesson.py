"""Lessons beside the live panes: where they stand, how they come, go and end badly."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_screen import at_each_size, bench, settle, text_of
from learner import BLANK_CODE, enter, foot, go_to, said, silent, taught, told, typed

from kbench.tui.panes.registry import FOCUS_ORDER
from kbench.workbench.lessons import lesson_cells, lesson_files
from tests.tui.test_screens import compare


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_STATE_DIR", str(tmp_path / "state"))


@at_each_size
async def test_screen(size: tuple[int, int], accept: bool) -> None:
    async with taught(1, size, silent(), clock=lambda: 0.0) as (app, pilot, _):
        compare(f"lesson-{size[0]}x{size[1]}", text_of(app), accept)
        assert app._main.arrangement.focused_pane() == "prompt"
        await pilot.press("alt+z")
        await settle(pilot)
        compare(f"lesson-folded-{size[0]}x{size[1]}", text_of(app), accept)
        assert "step 1 of 19" in foot(app)


async def test_ascii_screen(accept: bool) -> None:
    async with taught(1, (80, 24), silent(), ascii=True, clock=lambda: 0.0) as (app, pilot, _):
        drawn = text_of(app)
        compare("lesson-ascii-80x24", drawn, accept)
        assert drawn.isascii()


async def test_the_lesson_comes_and_goes_with_its_pane() -> None:
    async with bench((120, 40), silent()) as (app, pilot, _):
        assert "lesson" not in app._main.arrangement.layout_now.regions
        await pilot.press("alt+8")  # the pane is not there: which lesson?
        await settle(pilot)
        assert "A tour, and the four settings" in text_of(app)
        await pilot.press("enter")
        await settle(pilot)
        assert app._main.arrangement.shows("lesson") and app._main.arrangement.shows("variables")
        await enter(pilot, ":leave")
        assert not app._main.arrangement.shows("lesson") and typed(app) == ""
        await pilot.press("alt+o", "alt+k")  # keys of lessons do nothing then
        await settle(pilot)
        assert not app._main.arrangement.shows("lesson")


async def test_the_lesson_shares_the_drawer_with_the_panes() -> None:
    async with taught(1, (80, 24), silent()) as (app, pilot, _):
        await pilot.press("alt+1")
        await settle(pilot)
        assert app._main.arrangement.shows("variables") and not app._main.arrangement.shows(
            "lesson"
        )
        await pilot.press("alt+8")
        await settle(pilot)
        assert (
            app._main.arrangement.shows("lesson")
            and app._main.arrangement.focused_pane() == "lesson"
        )
        await pilot.press("f1")
        await settle(pilot)
        assert "Help: Lesson" in text_of(app) and ":hint" in text_of(app)
        await pilot.press("escape", "alt+1")
        await enter(pilot, ":hint")
        assert app._main.arrangement.shows("lesson") and "no exercise on this step" in said(app)


@pytest.mark.slow
@at_each_size
async def test_every_pane_is_reached_with_the_lesson_open(size: tuple[int, int]) -> None:
    async with taught(1, size, silent()) as (app, pilot, _):
        seen = []
        for _step in FOCUS_ORDER:
            seen.append(app._main.arrangement.focused_pane())
            await pilot.press("f6")
            await settle(pilot)
        assert sorted(seen) == sorted(FOCUS_ORDER)


async def test_words_are_seen_where_the_lesson_has_no_room() -> None:
    async with taught(1, (40, 9), silent()) as (app, pilot, _):
        assert "step 1 of 19" in text_of(app) and "Enter runs" in text_of(app)
        await enter(pilot, ":hint")
        assert "no exercise on this step" in told(app)


@pytest.mark.parametrize("size", [(50, 12), (40, 30), (100, 14)])
async def test_prose_is_read_where_no_pane_has_room(size: tuple[int, int]) -> None:
    async with taught(1, size, silent()) as (app, pilot, _):
        drawn = text_of(app)
        assert "Lesson 1" in drawn and "In ten minutes" in drawn and "In [1]" in drawn
        await enter(pilot, ":hint")
        assert "no exercise on this step" in text_of(app) and not told(app)
        await pilot.press("alt+z")
        await settle(pilot)
        assert "In ten minutes" not in text_of(app) and "step 1 of 19" in text_of(app)


async def test_a_check_that_dies_with_its_kernel_is_survived() -> None:
    session = silent()
    async with taught(1, (80, 24), session) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        call = lesson_cells.judging_code(1, "row-means", controller.hidden_cells._ticket + 1)
        session.script[call] = lambda one, cell: None
        await enter(pilot, BLANK_CODE.replace("___", "1"))
        await enter(pilot, ":check")
        assert "checking row-means" in foot(app)
        session.die()
        await settle(pilot)
        assert "the check did not finish" in said(app) and not controller.hidden_cells.checking
        session.restart(replay=False)
        await settle(pilot)
        assert "runs unseen" in text_of(app)


async def test_a_check_can_be_interrupted() -> None:
    session = silent()
    async with taught(1, (80, 24), session) as (app, pilot, controller):
        await go_to(pilot, controller, "row-means")
        session.script[
            lesson_cells.judging_code(1, "row-means", controller.hidden_cells._ticket + 1)
        ] = lambda one, cell: None
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
    for name in (lesson_files.load(2).path, lesson_files.load(2).path.with_suffix(".toml")):
        (tmp_path / name.name).write_bytes(name.read_bytes())
    monkeypatch.setattr(lesson_files, "folder", lambda: tmp_path)
    async with taught(0, (120, 40), silent()) as (app, pilot, controller):
        assert "cannot be read" in text_of(app) and "Variables, placeholders" in text_of(app)
        await pilot.press("up", "enter")
        await settle(pilot)
        assert not controller.model.open and "is broken" in told(app)
