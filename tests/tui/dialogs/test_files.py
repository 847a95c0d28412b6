"""Files that the workbench writes: none is replaced, and none is given up, without a question."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
from bench_screen import bench, settle, submit, text_of, until
from fake_session import FakeSession
from PIL import Image
from textual import events
from textual.pilot import Pilot

from kbench.tui.panes.value.controller import ValueController
from kbench.workbench.session import events as session_events
from kbench.workbench.session.cell import Cell


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


def _image(width: int, kind: str) -> str:
    file = io.BytesIO()
    Image.linear_gradient("L").resize((width, 40)).convert("RGB").save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


def _shows(session: FakeSession, *pictures: tuple[str, int]) -> None:
    """Have the cell `plot` display pictures: their form, and how wide they are."""

    def act(session: FakeSession, cell: Cell) -> None:
        for at, (kind, width) in enumerate(pictures):
            data = {"text/plain": f"<Figure {at}>", f"image/{kind}": _image(width, kind)}
            session._emit(session_events.Result(cell.ident, f"<Figure {at}>", data, None))
        session.finish(cell)

    session.script["plot"] = act


PICTURES: list[tuple[list[tuple[str, int]], list[str], str, int]] = [
    # what the cell shows; what is pressed in the transcript; the file, and how wide it is
    ([("png", 1500)], ["alt+d", "enter"], "picture-1.png", 1500),
    ([("jpeg", 700)], ["alt+d", "enter"], "picture-1.png", 700),
    ([("jpeg", 700)], ["alt+d", "ctrl+u", *"a.jpg", "enter"], "a.jpg", 700),
    ([("png", 30), ("png", 60)], ["alt+d", "down", "enter", "enter"], "picture-1-2.png", 60),
]


@pytest.mark.parametrize(("shown", "keys", "name", "width"), PICTURES)
async def test_a_picture_is_written_with_every_pixel(
    shown: list[tuple[str, int]], keys: list[str], name: str, width: int, tmp_path: Path
) -> None:
    session = FakeSession()
    _shows(session, *shown)
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "plot")
        await pilot.press("escape", *keys)
        await written(app, pilot)
        words = [one.message for one in app._notifications][-1]
        assert words.startswith(f"written: {tmp_path / name}, {width} x 40 pixels, ")
    with Image.open(tmp_path / name) as image:
        assert image.size == (width, 40)
        assert image.format == ("PNG" if name.endswith(".png") else "JPEG")
    if shown[0][0] == "png":
        assert (tmp_path / name).read_bytes() == base64.b64decode(_image(width, "png"))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ([*"nowhere/a.png"], "not written: {}/nowhere/a.png: No such file or directory"),
        ([*"a.bmp"], "the name must end in .png"),
        ([*"a.png"], "a.png already exists: "),
        ([*"~nobody-of-this-name/a.png"], "No such file or directory"),
    ],
)
async def test_a_picture_that_is_not_written_is_told(
    keys: list[str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_text("precious")
    session = FakeSession()
    _shows(session, ("png", 30))
    async with bench((200, 50), session) as (app, pilot, _):
        await submit(pilot, "plot")
        await pilot.press("escape", "alt+d", "ctrl+u", *keys, "enter")
        await settle(pilot)
        said = [one.message for one in app._notifications]
        assert words.format(tmp_path) in "\n".join([*said, text_of(app)])
    assert (tmp_path / "a.png").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


async def test_a_cell_without_a_picture_says_so() -> None:
    session = FakeSession()
    _shows(session, ("png", 30))
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "define")
        await submit(pilot, "plot")
        await pilot.press("escape", "up", "alt+d")
        await settle(pilot)
        assert [one.message for one in app._notifications][-1] == "cell 1 shows no picture"
        session.cells[2].outputs.clear()  # as when there was too much output
        await pilot.press("down", "alt+d")
        await settle(pilot)
        last = [one.message for one in app._notifications][-1]
        assert last == "the picture of cell 2 is no longer kept"


async def test_help_and_hint_name_the_key_of_pictures() -> None:
    session = FakeSession()
    _shows(session, ("png", 30))
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("escape")
        await settle(pilot)
        assert "alt+D" not in text_of(app)
        await pilot.press("f2")
        await submit(pilot, "plot")
        await pilot.press("escape")
        await settle(pilot)
        assert "alt+D save picture" in text_of(app)
        await pilot.press("f1")
        await settle(pilot)
        assert "write its picture to a PNG file" in text_of(app)
