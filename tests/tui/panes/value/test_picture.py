"""Arrays as pictures on a fake kernel: which one, its colours, its cursor."""

from __future__ import annotations

import numpy as np
import pytest
from bench_screen import at_each_size, settle, submit, text_of
from sampling import every
from value_helpers import pane, press, ramp, showing

from kbench.engine.runtime import config
from kbench.tui.panes.rows import ArrayPicture
from kbench.tui.panes.value.views.picture import BAD, CURSOR, HALF, _colour


@at_each_size
async def test_a_picture_steps_through_the_batch(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    async with showing(ramp((5, 6, 6, 3)), size) as (app, pilot, _):
        screen = await press(pilot, "i")
        assert "at (0, 0, 0, :) 0 0.001855 0.003711" in screen
        assert "RGB" in screen
        assert HALF * 6 in screen
        screen = await press(pilot, "right_square_bracket", "pagedown")
        assert "at (4, 0, 0, :)" in screen
        assert "at (3, 0, 0, :)" in await press(pilot, "left_square_bracket")
        screen = await press(pilot, "c")
        assert "at (3, 0, 0, 0)" in screen
        screen = await press(pilot, "full_stop", "full_stop")
        assert "at (3, 0, 0, 2)" in screen and "channel 2 of 3" in screen
        screen = await press(pilot, "i")
        assert "[3, :, :, 2]  at (3, 0, 0, 2)" in screen and HALF * 6 not in screen
        assert pane(app).grid.has_focus


@pytest.mark.slow
async def test_a_picture_follows_the_data_format_and_the_chosen_axes() -> None:
    async with showing(ramp((4, 3, 8, 9)), (140, 40), ascii=True) as (app, pilot, _):
        screen = await press(pilot, "i")
        assert "at (0, 0, 0, 0) 0  channel 0 of 9 channels_last" in screen
        config.set_image_data_format("channels_first")
        await settle(pilot, 12)
        assert "RGB channels_first" in text_of(app) and "at (0, :, 0, 0)" in text_of(app)
        assert pane(app).picture.picture.size == (8, 9)
        await press(pilot, "a", "down", "down", "c", "down", "r", "enter")
        screen = text_of(app)
        assert pane(app).picture.picture.size == (9, 8) and "RGB channels_first" in screen
        screen = await press(pilot, "colon", *"2, 0, 7, 8", "enter")
        assert "at (2, :, 7, 8)" in screen


async def test_without_colours_a_picture_is_made_of_characters() -> None:
    values = ramp((4, 5))
    values[1, 2] = np.nan
    async with showing(values, (120, 40), ascii=True) as (app, pilot, _):
        screen = await press(pilot, "i")
        view = pane(app).picture
        lines = [view.row(y).plain for y in range(view.row_count())]
        assert lines[0][0] == CURSOR and lines[0][-1] == ":" and lines[-1][-1] == "@"
        assert any(BAD * 2 in line for line in lines) and BAD * 2 in screen
        assert HALF not in screen and screen.isascii()


async def test_what_is_no_picture_stays_as_cells() -> None:
    async with showing(np.arange(5)) as (app, pilot, _):
        screen = await press(pilot, "i")
        assert "a picture needs two axes" in screen and not pane(app).as_picture
        assert pane(app).grid.display and pane(app).grid.has_focus


@pytest.mark.slow
async def test_another_name_is_shown_as_cells_again() -> None:
    async with showing(ramp((4, 5))) as (app, pilot, session):
        await press(pilot, "i")
        assert pane(app).as_picture
        session.names["x"] = ramp((3, 2))  # another shape, the same name
        await submit(pilot, "1")
        assert "3x2" in text_of(app)
        session.names.pop("x")
        await submit(pilot, "2")
        assert not pane(app).as_picture and "x is gone" in text_of(app)


# Keys from the first pixel of an array, in a room that has fewer pixels than it or as many.
MOVES: list[tuple[str, tuple[int, ...], list[str], str]] = [
    ("small", (4, 5), ["right", "down", "l", "j"], "at (2, 2) 12"),
    ("edges", (4, 5), ["left", "up", *["down"] * 9, *["right"] * 9], "at (3, 4) 19"),
    ("back", (4, 5), ["down", "right", "k", "h"], "at (0, 0) 0"),
    ("index", (4, 5), ["colon", "3", "comma", "1", "enter", "up"], "at (2, 1) 11"),
    (
        "larger than the room",
        (900, 1200),
        ["colon", *"899, 1199", "enter"],
        "at (899, 1199) 1.08e+06",
    ),
    ("one pixel", (1, 1), ["right", "down"], "at (0, 0) 0"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "keys", "words"), every(2, [a[1:] for a in MOVES]), ids=[a[0] for a in MOVES]
)
async def test_the_cursor_tells_index_and_value(
    shape: tuple[int, ...], keys: list[str], words: str
) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    async with showing(values) as (app, pilot, _):
        await press(pilot, "i")
        screen = await press(pilot, *keys)
        assert words in screen
        assert values[pane(app).picture.at] == pytest.approx(float(words.split()[-1]), rel=1e-3)


async def test_the_cursor_stays_on_its_element_between_cells_and_pixels() -> None:
    async with showing(ramp((10, 12, 3))) as (app, pilot, _):
        await press(pilot, "colon", *"7, 9, 0", "enter")
        screen = await press(pilot, "i")
        assert "at (7, 9, :)" in screen
        screen = await press(pilot, "down", "i")
        assert "at (8, 9, 0)" in screen and pane(app).grid.at == (8, 9)


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_the_cursor_is_on_one_pixel_and_only_while_it_can_move(
    ascii_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    async with showing(ramp((40, 50)), ascii=ascii_only) as (app, pilot, _):
        await press(pilot, "i")
        view = pane(app).picture

        def drawn() -> list[object]:
            return [list(view.render_line(y)) for y in range(view.row_count())]

        def marked() -> int:
            if ascii_only:
                return sum(view.row(y).plain.count(CURSOR * 2) for y in range(view.row_count()))
            levels = view._mark_levels()
            colour = _colour(levels)
            styles = [one.style for line in drawn() for one in line]  # type: ignore[attr-defined]
            return sum((one.color == colour) + (one.bgcolor == colour) for one in styles if one)

        assert marked() == 1
        before = drawn()
        await press(pilot, "right")
        assert marked() == 1 and drawn() != before
        await press(pilot, "f3")
        assert marked() == 0


def test_pixels_become_colours_and_marks() -> None:
    shared = {
        "shape": (1, 2),
        "index": (0, 0),
        "axes": (0, 1, None),
        "data_format": "channels_last",
    }
    grey = ArrayPicture(**shared, colours=False, limits=(0, 1), size=(1, 2), pixels=b"\x07\xff")
    assert grey.pixel(0, 0) == (7, 7, 7) and grey.pixel(0, 1) is None
    both = ArrayPicture(
        **shared, colours=True, limits=(0, 1), size=(1, 2), pixels=b"\x01\x02\x03\xff\xff\xff"
    )
    assert both.pixel(0, 0) == (1, 2, 3) and both.pixel(0, 1) is None
