"""The panes on a fake kernel: what is shown, and that keys do what the help page says."""

from __future__ import annotations

import pytest
from bench_screen import SIZES, bench, settle, submit, text_of


@pytest.mark.parametrize("size", SIZES)
async def test_a_session_shows_input_output_and_names(size: tuple[int, int]) -> None:
    async with bench(size) as (app, pilot, _):
        await submit(pilot, "define")
        await submit(pilot, "40 + 2")
        screen = text_of(app)
        assert "In [1]: define" in screen
        assert "Out[2]: 40 + 2" in screen
        assert "NaN 1!" in screen
        assert "idle 12.0 ms" in screen and "channels_last" in screen


async def test_value_pane_walks_slices_axes_and_nan() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("f3", "enter")
        await settle(pilot)
        assert "Value: h" in text_of(app)
        assert "[0, 0, :, :]" in text_of(app)
        await pilot.press("right_square_bracket")
        await settle(pilot)
        assert "[0, 1, :, :]" in text_of(app)
        await pilot.press("n")
        await settle(pilot)
        assert "at (2, 3, 1, 2)" in text_of(app) and "NaN!" in text_of(app)
        await pilot.press("a")
        await settle(pilot)
        print(text_of(app))
        assert "axes of h" in text_of(app)
        await pilot.press("r", "enter")
        await settle(pilot)
        assert "rows 0 cols 3" in text_of(app)
