"""The value pane on a fake kernel: pictures, searches, copies, exports, and what stands around."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_screen import SIZES, bench, settle, submit, text_of
from fake_session import FakeSession

from kbench.engine import config
from kbench.tui import slices, value_words
from kbench.tui.glyphs import ASCII, UNICODE
from kbench.tui.rows import Picture, Row, Statistics
from kbench.tui.slices import Target
from kbench.tui.widgets.picture import BAD, HALF
from kbench.tui.widgets.value import ValuePane
from kbench.workbench import export, seek


@asynccontextmanager
async def showing(
    values: Any, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[tuple[Any, Any, FakeSession]]:
    """A workbench whose value pane shows one array, with the focus."""
    session = FakeSession()
    session.script["make"] = lambda it, cell: (it.names.update(x=values), it.finish(cell))
    async with bench(size, session, **options) as (app, pilot, kernel):
        await submit(pilot, "make")
        app.said = []
        app.notify = lambda words, **_options: app.said.append(words)
        await pilot.press("f3", "enter")
        await settle(pilot)
        yield app, pilot, kernel


async def press(pilot: Any, *keys: str) -> str:
    """The screen after these keys, and what was notified meanwhile."""
    pilot.app.said.clear()
    await pilot.press(*keys)
    await settle(pilot, 2)
    return "\n".join([text_of(pilot.app), *pilot.app.said])


async def until(app: Any, words: str) -> None:
    """Wait, for as long as it takes within reason, until the screen says this."""
    for _ in range(2000):
        if words in text_of(app):
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{words!r} has not come to the screen:\n{text_of(app)}")


def pane(app: Any) -> ValuePane:
    found: ValuePane = app.screen_stack[0].query_one(ValuePane)
    return found


def ramp(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


# ------------------------------------------------------------------ pictures


@pytest.mark.parametrize("size", SIZES)
async def test_a_picture_steps_through_the_batch(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    async with showing(ramp((5, 6, 6, 3)), size) as (app, pilot, _):
        screen = await press(pilot, "i")
        assert "[0, :, :, :]  6x6  channels_last RGB" in screen and HALF * 6 in screen
        screen = await press(pilot, "right_square_bracket", "pagedown")
        assert "[4, :, :, :]" in screen
        assert "[3, :, :, :]" in await press(pilot, "up")
        screen = await press(pilot, "c")
        assert "[3, :, :, 0]" in screen
        screen = await press(pilot, "right", "right")
        assert "[3, :, :, 2]" in screen and "channel 2 of 3" in screen
        screen = await press(pilot, "i")
        assert "[3, :, :, 2]  at (3, 0, 0, 2)" in screen and HALF * 6 not in screen
        assert pane(app).grid.has_focus


async def test_a_picture_follows_the_data_format_and_the_chosen_axes() -> None:
    async with showing(ramp((4, 3, 8, 9)), (120, 40), ascii=True) as (app, pilot, _):
        screen = await press(pilot, "i")
        assert "[0, :, :, 0]  3x8  channels_last channel 0 of 9" in screen
        config.set_image_data_format("channels_first")
        await settle(pilot, 12)
        assert "channels_first RGB" in text_of(app) and "[0, :, :, :]  8x9" in text_of(app)
        await press(pilot, "a", "down", "down", "c", "down", "r", "enter")
        screen = text_of(app)
        assert "9x8" in screen and "channels_first RGB" in screen
        screen = await press(pilot, "colon", *"2, 0, 0, 0", "enter")
        assert "[2, :, :, :]" in screen


async def test_without_colours_a_picture_is_made_of_characters() -> None:
    values = ramp((4, 5))
    values[1, 2] = np.nan
    async with showing(values, (120, 40), ascii=True) as (app, pilot, _):
        screen = await press(pilot, "i")
        view = pane(app).picture
        lines = [view.row(y).plain for y in range(view.row_count())]
        assert lines[0][0] == " " and lines[-1][-1] == "@"
        assert any(BAD * 2 in line for line in lines) and BAD * 2 in screen
        assert HALF not in screen and screen.isascii()


async def test_what_is_no_picture_stays_as_cells() -> None:
    async with showing(np.arange(5)) as (app, pilot, _):
        screen = await press(pilot, "i")
        assert "a picture needs two axes" in screen and not pane(app).as_picture
        assert pane(app).grid.display and pane(app).grid.has_focus


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


def test_pixels_become_colours_and_marks() -> None:
    shared = {
        "shape": (1, 2),
        "index": (0, 0),
        "axes": (0, 1, None),
        "data_format": "channels_last",
    }
    grey = Picture(**shared, colours=False, limits=(0, 1), size=(1, 2), pixels=b"\x07\xff")
    assert grey.pixel(0, 0) == (7, 7, 7) and grey.pixel(0, 1) is None
    both = Picture(
        **shared, colours=True, limits=(0, 1), size=(1, 2), pixels=b"\x01\x02\x03\xff\xff\xff"
    )
    assert both.pixel(0, 0) == (1, 2, 3) and both.pixel(0, 1) is None


# ------------------------------------------------------------------ finding


async def test_find_goes_on_and_says_when_there_is_nothing() -> None:
    values = np.zeros((300, 40), np.float32)
    values[250, 7] = values[20, 3] = 0.75
    async with showing(values) as (app, pilot, _):
        screen = await press(pilot, "f", *"> x", "enter")
        assert "'x' is no number" in screen
        await pilot.press("backspace")
        screen = await press(pilot, *"0.5", "enter")
        assert "at (20, 3)" in screen and "0.75" in screen
        assert "at (250, 7)" in await press(pilot, "F")
        assert "at (20, 3)" in await press(pilot, "F")
        screen = await press(pilot, "f", "ctrl+u", *"nan", "enter")
        assert "nothing in x is NaN" in screen and "at (20, 3)" in screen
        assert "every value is finite" in await press(pilot, "n")


async def test_a_search_is_given_up_by_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seek, "PIECE", 10)
    monkeypatch.setattr(seek, "_BLOCK", 10)
    async with showing(np.zeros((1000, 1000), np.float32)) as (app, pilot, session):
        await pilot.press("f", *"1", "enter")
        await until(app, "looking for what is 1")
        assert "Esc stops" in text_of(app)
        screen = await press(pilot, "escape")
        assert "the search was given up" in screen and "looking for" not in screen
        asked = session.asked.count("find")
        await pilot.pause(0.1)
        assert session.asked.count("find") == asked < 100_000


# ------------------------------------------------------------------ moving


async def test_places_are_written_as_index_or_slice() -> None:
    async with showing(ramp((200, 3, 50))) as (app, pilot, _):
        assert "[7, :, :]" in await press(pilot, "colon", *"7, :, :", "enter")
        assert "at (180, 2, 7)" in await press(pilot, "colon", *"x[180:, 2, 7:]", "enter")
        assert "[:, 2, :]" in text_of(app)
        assert "at (199, 2, 49)" in await press(pilot, "colon", *"-1, 2, -1", "enter")
        screen = await press(pilot, "colon", *":, :, :", "enter")
        assert "at most two axes can be shown" in screen


async def test_a_long_vector_is_paged_sideways() -> None:
    async with showing(np.arange(100_000)) as (app, pilot, _):
        assert "at (99999)" in await press(pilot, "G")
        assert "99999" in text_of(app)
        assert "at (0)" in await press(pilot, "g")
        await press(pilot, "pagedown")
        assert pane(app).full_index()[0] > 3


RANKS: list[tuple[Any, str]] = [
    (np.float32(2.5), "a scalar"),
    (np.zeros((0, 3)), "no elements"),
    (np.zeros((3, 0)), "no elements"),
    (np.zeros((3, 0, 2)), "no elements"),
    (np.zeros((0, 3, 2)), "axis 0 is empty"),
    (ramp((2, 1, 2, 1, 2, 2)), "[0, 0, 0, 0, :, :]"),
    (np.array([["a", None], [1, "b"]], object), "no statistics for dtype object"),
    (np.array([[1j, 2]]), "no statistics for dtype complex128"),
    (np.array(["ab", "日本語"]), "日本語"),
]


async def test_keys_of_the_grid_say_where_there_is_none() -> None:
    async with showing([1, 2]) as (_, pilot, _):
        for key in ("a", "f", "n", "e"):
            assert "x has no cells" in await press(pilot, key)


@pytest.mark.parametrize(("values", "words"), RANKS)
async def test_every_key_on_every_kind_of_array(values: Any, words: str) -> None:
    async with showing(values) as (app, pilot, _):
        assert words in text_of(app)
        for key in (
            "G",
            "end",
            "pagedown",
            "right_square_bracket",
            "space",
            "escape",
            "y",
            "n",
            "i",
        ):
            await pilot.press(key)
        await press(pilot, "escape", "f", *"3", "enter")
        await press(pilot, "Y", "escape", "a", "escape", "e", "escape", "escape")
        assert app.is_running


async def test_wide_characters_keep_the_columns() -> None:
    async with showing(np.array([["日本語", "ab"], ["c", "de"]])) as (app, _, _kernel):
        lines = [line for line in text_of(app).split("\n") if "日本語" in line or " c " in line]
        assert len(lines) == 2
        assert lines[0].index("ab") + 3 == lines[1].index("de")  # three characters take six cells


# ------------------------------------------------------------------ copying and writing


async def test_copies_are_exact_and_tab_separated(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).standard_normal((400, 30))
    copied: list[str] = []
    async with showing(values) as (app, pilot, _):
        monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
        screen = await press(pilot, "down", "y")
        assert copied == [repr(float(values[1, 0]))] and "copied the value" in screen
        await press(pilot, "Y", "r")
        assert [float(one) for one in copied[-1].split("\t")] == values[1].tolist()
        screen = await press(pilot, "Y", "c")
        assert [float(one) for one in copied[-1].split("\n")] == values[:, 0].tolist()
        assert "copied the column, 400 values" in screen
        await press(pilot, "Y", "w")
        table = np.array(
            [[float(one) for one in line.split("\t")] for line in copied[-1].split("\n")]
        )
        (top, rows), (left, cols) = pane(app).grid.on_screen
        np.testing.assert_array_equal(table, values[top : top + rows, left : left + cols])
        await press(pilot, "Y", "i")
        assert copied[-1] == "x[1, 0]"


async def test_a_copy_is_cut_to_what_a_clipboard_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    async with showing(np.random.default_rng(0).random((2, 50_000))) as (app, pilot, _):
        monkeypatch.setattr(app, "copy_to_clipboard", copied.append)
        screen = await press(pilot, "Y", "r")
        count = len(copied[0].split("\t"))
        assert 60_000 < len(copied[0]) <= 70_000 and f"the first {count} values" in screen


async def test_full_precision_is_full() -> None:
    async with showing(np.array([[1 / 3]])) as (_, pilot, _kernel):
        screen = await press(pilot, "space")
        assert repr(1 / 3) in screen and "x[0, 0]" in screen and "float64" in screen


async def test_an_array_and_its_slice_are_written_and_not_over_a_file(tmp_path: Path) -> None:
    values = ramp((2, 3, 4))
    file = tmp_path / "x.npy"
    async with showing(values, (120, 40)) as (app, pilot, session):
        cells = len(session.cells)
        screen = await press(pilot, "e", "a", "ctrl+u", *"x.npy", "enter")
        assert "written" in screen
        np.testing.assert_array_equal(np.load(file), values)
        screen = await press(pilot, "e", "s", "ctrl+u", *"x.npy", "enter")
        assert "is there already" in screen
        await press(pilot, "k")
        np.testing.assert_array_equal(np.load(file), values)
        await press(pilot, "e", "s", "ctrl+u", *"x.npy", "enter")
        await press(pilot, "r")
        np.testing.assert_array_equal(np.load(file), values[0])
        screen = await press(pilot, "e", "a", "ctrl+u", *"x.txt", "enter")
        assert "must end in" in screen
        await press(pilot, "i", "e", "s", "ctrl+u", *"x.png", "enter")
        assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
        assert len(session.cells) == cells  # nothing was run in the user's session


async def test_a_long_export_is_given_up_by_escape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = export.value

    def value(*arguments: Any, progress: export.Progress, **options: Any) -> Path:
        while not progress.stop:
            time.sleep(0.001)
        return write(*arguments, progress=progress, **options)

    monkeypatch.setattr(export, "value", value)
    async with showing(np.zeros((30, 2))) as (app, pilot, _):
        await pilot.press("e", "ctrl+u", *"x.csv", "enter")
        await until(app, "writing x.csv")
        assert "Esc stops" in text_of(app)
        screen = await press(pilot, "escape")
        assert "given up; nothing is written" in screen
        assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ words


STATS = Statistics(-1.0, 2.0, 0.5, 0.25, 100, 41, 3, 1, (0, 1, 4, 2), True)


def test_statistics_say_everything_and_never_by_colour_alone() -> None:
    words = value_words.statistics(STATS, ASCII, with_range=True).plain
    for part in (
        "~mean .5",
        "sd .25",
        "zeros 41%",
        "NaN 3",
        "Inf 1",
        "!",
        "[-1 ",
        " 2]",
        "x exact",
    ):
        assert part in words
    assert "!" not in value_words.statistics(Statistics(count=4), ASCII, False).plain
    refused = Statistics(refused="no statistics for dtype object")
    assert value_words.statistics(refused, ASCII, True).plain.strip() == refused.refused


@pytest.mark.parametrize("glyphs", [ASCII, UNICODE])
@pytest.mark.parametrize("width", [12, 30, 80])
def test_the_histogram_fits_its_line(glyphs: Any, width: int) -> None:
    line = value_words.histogram_line(STATS, glyphs, width).plain
    assert len(line) <= max(width, 9) and line.startswith(" [-1 ") and line.endswith(" 2]")
    assert value_words.histogram_line(None, glyphs, width).plain == ""


STEPS = [
    ((0, 0, 5, 0), [0, 1], 1, (0, 1, 5, 0)),
    ((0, 2, 5, 0), [0, 1], 1, (1, 0, 5, 0)),
    ((1, 2, 5, 0), [0, 1], 1, None),
    ((1, 1, 5, 0), [0, 1], 100, (1, 2, 5, 0)),
    ((1, 1, 5, 0), [0, 1], -100, (0, 0, 5, 0)),
    ((0, 0, 5, 0), [0, 1], -1, None),
    ((0, 0, 5, 0), [], 1, None),
]


@pytest.mark.parametrize(("index", "axes", "step", "wanted"), STEPS)
def test_steps_between_slices(index: Any, axes: Any, step: int, wanted: Any) -> None:
    assert slices.stepped(index, (2, 3, 6, 7), axes, step) == wanted


def test_the_words_of_a_slice_name_the_cell_first() -> None:
    row = Row("h", "array", (2, 3, 4), "float32")
    words = value_words.place(row, Target((1, 0, 0), 1, 2, (2, 3)), 80)
    assert words.startswith("[1, :, :]  at (1, 2, 3)  rows 1 cols 2")


@pytest.mark.parametrize(
    ("width", "end"),
    [
        (80, "rows 1 cols 2  [ ] slice  a axes"),
        (49, "rows 1 cols 2  [ ] slice"),
        (40, "(1, 2, 3)  [ ] slice"),
        (24, "at (1, 2, 3)"),
        (3, "at (1, 2, 3)"),
    ],
)
def test_words_of_a_slice_that_do_not_fit_are_left_out_whole(width: int, end: str) -> None:
    row = Row("h", "array", (2, 3, 4), "float32")
    words = value_words.place(row, Target((1, 0, 0), 1, 2, (2, 3)), width)
    assert words.startswith("[1, :, :]") and words.endswith(end)
    assert len(words) <= max(width, 23)
