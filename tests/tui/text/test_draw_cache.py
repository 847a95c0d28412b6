"""What was drawn for a widget goes with it."""

from __future__ import annotations

import gc

import pytest
from bench_screen import bench, settle
from textual._styles_cache import StylesCache

from kbench.tui.text import draw_cache


def drawn() -> int:
    """How many widgets' drawn lines are in memory."""
    gc.collect()
    return sum(type(one) is StylesCache for one in gc.get_objects())


@pytest.mark.slow
async def test_closed_dialogs_leave_no_drawn_lines_behind() -> None:
    async with bench((80, 24)) as (_app, pilot, _):
        before = 0
        for _round in range(8):
            await pilot.press("f1")
            await settle(pilot)
            await pilot.press("escape")
            await settle(pilot)
            before = before or drawn()  # after the first, whose kind of widget is kept once
        assert 0 < before and drawn() <= before + 2


def test_a_second_time_changes_nothing() -> None:
    draw_cache.key_by_colours()
    known = StylesCache.get_inner_outer
    draw_cache.key_by_colours()
    assert StylesCache.get_inner_outer is known
