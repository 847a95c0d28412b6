"""The value pane on a fake kernel: searches, places, copies, exports."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_screen import text_of
from sampling import every
from value_helpers import pane, press, ramp, showing, until

from kbench.workbench.analysis import array_search
from kbench.workbench.export import export

# ------------------------------------------------------------------ finding


@pytest.mark.slow
async def test_find_goes_on_and_says_when_there_is_nothing() -> None:
    values = np.zeros((300, 40), np.float32)
    values[250, 7] = values[20, 3] = 0.75
    async with showing(values) as (app, pilot, _):
        screen = await press(pilot, "f", *"> x", "enter")
        assert "'x' is not a number" in screen
        await pilot.press("backspace")
        screen = await press(pilot, *"0.5", "enter")
        assert "at (20, 3)" in screen and "0.75" in screen
        assert "at (250, 7)" in await press(pilot, "F")
        assert "at (20, 3)" in await press(pilot, "F")
        screen = await press(pilot, "f", "ctrl+u", *"nan", "enter")
        assert "nothing in x is NaN" in screen and "at (20, 3)" in screen
        assert "every value is finite" in await press(pilot, "n")


@pytest.mark.slow
async def test_a_search_is_given_up_by_escape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_search, "MAX_CHUNK_ELEMENTS", 10)
    monkeypatch.setattr(array_search, "_BLOCK_ELEMENTS", 10)
    async with showing(np.zeros((1000, 1000), np.float32)) as (app, pilot, session):
        await pilot.press("f", *"1", "enter")
        await until(app, "looking for what is 1")
        assert "Esc stops" in text_of(app)
        screen = await press(pilot, "escape")
        assert "search cancelled" in screen and "looking for" not in screen
        asked = session.asked.count("find")
        await pilot.pause(0.1)
        assert session.asked.count("find") == asked < 100_000


# ------------------------------------------------------------------ moving


@pytest.mark.slow
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


async def test_keys_of_the_grid_do_nothing_where_there_is_none() -> None:
    async with showing([1, 2]) as (app, pilot, _):
        for key in ("a", "f", "n", "e"):
            assert "entry 0 of 2" in await press(pilot, key) and pane(app).entries.has_focus


@pytest.mark.slow
@pytest.mark.parametrize(("values", "words"), every(3, RANKS))
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


@pytest.mark.slow
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


@pytest.mark.slow
async def test_an_array_and_its_slice_are_written_and_not_over_a_file(tmp_path: Path) -> None:
    values = ramp((2, 3, 4))
    file = tmp_path / "x.npy"
    async with showing(values, (120, 40)) as (app, pilot, session):
        cells = len(session.cells)
        screen = await press(pilot, "e", "a", "ctrl+u", *"x.npy", "enter")
        assert "written" in screen
        np.testing.assert_array_equal(np.load(file), values)
        screen = await press(pilot, "e", "s", "ctrl+u", *"x.npy", "enter")
        assert "already exists" in screen
        await press(pilot, "k")
        np.testing.assert_array_equal(np.load(file), values)
        await press(pilot, "e", "s", "ctrl+u", *"x.npy", "enter")
        await press(pilot, "r")
        np.testing.assert_array_equal(np.load(file), values[0])
        screen = await press(pilot, "e", "a", "ctrl+u", *"x.txt", "enter")
        assert "must end in" in screen
        await press(pilot, "i")
        await press(pilot, "e", "s", "ctrl+u", *"x.png", "enter")
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
        assert "cancelled; nothing is written" in screen
        assert list(tmp_path.iterdir()) == []
