"""Whole screens as text, at every layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_screen import bench, settle, submit, text_of
from fake_session import FakeSession
from sampling import every

SCREENS = Path(__file__).with_name("screens")
ALL_SIZES = [(20, 5), (60, 16), (80, 24), (120, 40), (200, 50)]


def compare(name: str, drawn: str, accept: bool) -> None:
    """Hold a screen against the accepted one."""
    path = SCREENS / f"{name}.txt"
    if accept:
        SCREENS.mkdir(exist_ok=True)
        path.write_text(drawn + "\n", encoding="utf-8")
    assert drawn + "\n" == path.read_text(encoding="utf-8"), f"{path} differs: --accept-screens"


async def play(pilot: Any) -> None:
    """Cells of every kind."""
    await submit(pilot, "define")
    await submit(pilot, "K.dot(w, x)")
    await submit(pilot, "[1, 2, 3]")


@pytest.mark.parametrize("size", ALL_SIZES)
async def test_screen(size: tuple[int, int], accept: bool) -> None:
    async with bench(size, clock=lambda: 0.0) as (app, pilot, _):
        await settle(pilot)
        compare(f"empty-{size[0]}x{size[1]}", text_of(app), accept)
        await play(pilot)
        await pilot.pause(1.1)  # rows that have changed are no longer marked
        await settle(pilot)
        compare(f"used-{size[0]}x{size[1]}", text_of(app), accept)


@pytest.mark.slow
async def test_ascii_screen(accept: bool) -> None:
    async with bench((120, 40), ascii=True, clock=lambda: 0.0) as (app, pilot, _):
        await play(pilot)
        await pilot.pause(1.1)
        await settle(pilot)
        compare("ascii-120x40", text_of(app), accept)


@pytest.mark.parametrize(("value", "colourless"), [("1", True), ("", False)])
@pytest.mark.parametrize("theme", ["dark", "light", "ansi", "textual-light"])
async def test_no_colour_still_tells_state(
    theme: str, value: str, colourless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    async with bench((120, 40), theme=theme) as (app, pilot, _):
        await play(pilot)
        await pilot.press("f3")
        await settle(pilot)
        parts = [part for strip in app.screen._compositor.render_strips() for part in strip]
        colours = [
            colour
            for part in parts
            if part.style
            for colour in (part.style.color, part.style.bgcolor)
            if colour and not colour.is_default
        ]
        assert bool(colours) is not colourless
        assert "NaN 1!" in text_of(app) and "ShapeError" in text_of(app)
        if colourless:
            reversed_text = [part.text for part in parts if part.style and part.style.reverse]
            assert any(text.lstrip().startswith(">") for text in reversed_text)  # the row's cursor
            assert sum(map(len, reversed_text)) < 3 * 120  # and neither panels nor bars


@pytest.mark.parametrize(
    "theme", every(2, ["ansi-dark", "ansi-light", "kbench-light", "kbench-contrast"])
)
async def test_other_themes_draw(theme: str) -> None:
    async with bench((120, 40), FakeSession(), theme=theme) as (app, pilot, _):
        await play(pilot)
        await pilot.press("f3", "enter")
        await settle(pilot)
        assert app.theme == theme and "Value: h" in text_of(app)


async def test_an_unknown_theme_is_said_and_replaced() -> None:
    async with bench((120, 40), theme="nonsense") as (app, pilot, _):
        await settle(pilot)
        assert app.theme == "kbench-dark"
        assert any("nonsense" in one for one in app.problems)
