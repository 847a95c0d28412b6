"""The line plot of what has one axis: at every size, with gaps, after changes; and who has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench_screen import at_each_size, settle, text_of
from value_helpers import pane, press, showing

from kbench.tui.panes.value.views.curve import BAD, CURSOR, CurveView

WAVE = np.sin(np.linspace(0, 9, 5_000)).astype(np.float32)


def curve_of(app: Any) -> CurveView:
    found: CurveView = pane(app).query_one(CurveView)
    return found


def lines_of(app: Any) -> list[str]:
    view = curve_of(app)
    return [view.row(y).plain for y in range(view.row_count())]


@at_each_size
async def test_a_line_is_plotted_with_its_range(size: tuple[int, int]) -> None:
    async with showing(WAVE, size) as (app, _, _session):
        lines = lines_of(app)
        assert len(lines) >= 3 and all(len(line) <= pane(app).size.width for line in lines)
        assert lines[0].split()[0] == "1" and lines[-2].split()[0] == "-1"
        assert lines[-1].split()[0] == "0" and lines[-1].split()[-1] == "4999"
        assert pane(app).grid.size.height == 2
        for line in lines:
            assert line.rstrip() in text_of(app)


async def test_gaps_and_the_cursor_are_on_the_axis() -> None:
    values = np.arange(200.0)
    values[100:140] = np.nan
    async with showing(values, (120, 40), ascii=True) as (app, pilot, _):
        await press(pilot, "end")
        lines = lines_of(app)
        axis = lines[-1][lines[-1].index("+") + 1 :].split(" ")[0]
        assert axis.endswith(CURSOR) and axis.count(BAD) == pytest.approx(len(axis) / 5, abs=1)
        first = lines[-1].index(BAD)
        assert all(line[first + 1 : first + 4].strip() == "" for line in lines[:-1])
        assert any("*" in line[: first - 1] for line in lines[:-1])


async def test_a_plot_follows_the_slice_and_the_value() -> None:
    values = np.stack([np.arange(50.0), 7 * np.arange(50.0)])
    async with showing(values, (120, 40)) as (app, pilot, session):
        assert not curve_of(app).display
        await press(pilot, "colon", *"1, :", "enter")
        assert lines_of(app)[0].split()[0] == "343"
        session.names["x"][1] *= 2
        pane(app).refetch()
        await settle(pilot)
        assert lines_of(app)[0].split()[0] == "686"
        await press(pilot, "colon", *":, :", "enter")
        assert not curve_of(app).display and pane(app).grid.size.height > 2


@pytest.mark.parametrize(
    "values", [np.array(["a", "b", "c"]), np.zeros(2), np.zeros((4, 4)), np.ones(9) * 1j]
)
async def test_other_values_have_no_plot(values: np.ndarray) -> None:
    async with showing(values, (120, 40)) as (app, _pilot, _):
        assert not curve_of(app).display and not pane(app).grid.has_class("line")


async def test_a_line_of_nan_alone_has_a_mark_for_each() -> None:
    async with showing(np.full(30, np.nan), (120, 40)) as (app, _pilot, _):
        assert lines_of(app)[-1].count(BAD) == 29  # and the cursor
