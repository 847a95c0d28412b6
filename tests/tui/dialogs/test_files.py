"""Files that the workbench writes: none is replaced, and none is given up, without a question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_screen import bench, settle, submit, text_of, until
from textual import events
from textual.pilot import Pilot

from kbench.tui.panes.value.controller import ValueController


async def written(app: Any, pilot: Pilot[int]) -> None:
    """Wait until the workbench says that a file is there."""
    for _ in range(1000):
        if any(one.message.startswith("written: ") for one in app._notifications):
            return
        await pilot.pause(0.02)
    raise AssertionError("nothing was written")


@pytest.mark.parametrize(("answer", "kept"), [("k", True), ("escape", True), ("r", False)])
async def test_a_session_is_not_written_over_a_file_unasked(
    answer: str, kept: bool, tmp_path: Path
) -> None:
    target = tmp_path / "mine.py"
    target.write_text("precious = 1\n")
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("alt+s", "ctrl+u", *"mine.py", "enter")
        await until(app, pilot, "mine.py already exists")
        await pilot.press(answer)
        await settle(pilot)
        if not kept:
            await written(app, pilot)
    assert (target.read_text() == "precious = 1\n") is kept
    assert ("define" in target.read_text()) is not kept


async def test_a_home_folder_may_be_written_as_a_tilde(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("alt+s", "ctrl+u", "tilde", *"/mine.ipynb", "enter")
        await written(app, pilot)
    assert (tmp_path / "home" / "mine.ipynb").exists()


@pytest.mark.parametrize(("answer", "left"), [("s", False), ("q", True)])
async def test_leaving_asks_while_a_file_is_written(answer: str, left: bool) -> None:
    async with bench((80, 24)) as (app, pilot, _):
        app._main.panes.controller(ValueController).exporter.running = True
        await pilot.press("ctrl+q")
        await until(app, pilot, "A file is still being written.")
        assert "[q] cancel it and quit" in text_of(app)
        await pilot.press(answer)
        await settle(pilot)
        assert app.is_running is not left


@pytest.mark.parametrize("opener", ["alt+s", "f8"])
async def test_keys_of_a_line_act_before_what_is_typed_behind_them(opener: str) -> None:
    async with bench((80, 24)) as (app, pilot, _):
        await pilot.press(opener, *"old")
        for key in ("ctrl+u", "n", "o", "w", "home", "k"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await settle(pilot)
        field: Any = app.screen.query_one("Input")
        assert field.value == "know"
