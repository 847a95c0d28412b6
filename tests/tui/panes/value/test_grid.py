"""Jumps in the value grid: what is on its way is waited for before anything is drawn for it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from bench_screen import bench, session_with, settle, until

from kbench.tui.panes.value.views import grid as value_grid
from kbench.tui.panes.value.views.grid import ValueGrid
from kbench.workbench.core_types import Reply

ROWS = 50_000
DOT = "·"


def numbers() -> np.ndarray[Any, Any]:
    return np.arange(100_000, 100_000 + 8 * ROWS).reshape(ROWS, 8)


async def test_a_jump_draws_its_cells_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_grid, "DOTS_SECONDS", 3600.0)
    drawn: list[str] = []
    row = ValueGrid.row
    monkeypatch.setattr(
        ValueGrid, "row", lambda grid, y: drawn.append(row(grid, y).plain) or row(grid, y)
    )
    async with bench((120, 40), session_with(x=numbers())) as (app, pilot, _):
        await pilot.press("f3", "enter")
        await settle(pilot)
        drawn.clear()
        for key, seen in (("G", "499992"), ("g", "100000"), ("pagedown", ">100104")):
            await pilot.press(key)
            await until(app, pilot, seen)
        assert drawn and not [one for one in drawn if DOT in one]


@pytest.mark.slow
async def test_what_does_not_come_is_drawn_as_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_with(x=numbers())
    async with bench((120, 40), session) as (app, pilot, _):
        await pilot.press("f3", "enter")
        await settle(pilot)
        waiting: list[Future[Reply]] = []
        monkeypatch.setattr(
            session, "request", lambda *_, **__: waiting.append(Future()) or waiting[-1]
        )
        await pilot.press("G")
        shown = await until(app, pilot, "49999 ")
        assert DOT in shown and len(waiting) == 1
        await pilot.press("k")
        await settle(pilot)
        grid = app.query_one(ValueGrid)
        assert grid.at == (ROWS - 2, 0) and len(waiting) == 1
