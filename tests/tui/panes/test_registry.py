"""The table of panes: what it names is there."""

from __future__ import annotations

import pytest
from bench_screen import bench, settle, submit

from kbench.tui import layout
from kbench.tui.keys import keys
from kbench.tui.panes import registry
from kbench.tui.panes.registry import BY_ID, FOCUS_ORDER, PANES, SESSION, SIDE_PANES


def test_every_pane_has_a_name_and_a_letter_of_its_own() -> None:
    assert len(BY_ID) == len({pane.letter for pane in PANES}) == len(PANES)
    assert len({pane.title for pane in PANES}) == len(PANES)
    assert sorted(FOCUS_ORDER) == sorted((*SESSION, *SIDE_PANES)) == sorted(BY_ID)


def test_every_border_has_its_place_in_the_layout() -> None:
    kinds = ("compact", "two", "three")
    borders = {f"{kind} {pane.id}" for pane in PANES for kind in pane.shares}
    assert {border.split()[0] for border in borders} <= set(kinds)
    assert set(layout.LOWER_EDGES) <= borders <= set(layout.SHARES)


def test_every_hint_is_a_key_of_its_pane() -> None:
    for pane in PANES:
        for taker in pane.takers:
            assert all(list(keys.of(place)) for place in taker.places), pane.id
            assert [key.id for key, _ in keys.hints(taker)] == list(taker.hints), pane.id


def test_every_key_of_a_pane_is_taken_by_it() -> None:
    for pane in PANES:
        places = {place for taker in pane.takers for place in taker.places}
        assert pane.keys and {key.where for key in pane.keys} <= places, pane.id


@pytest.mark.slow
async def test_every_view_is_a_widget_of_the_panes_name() -> None:
    async with bench((200, 50)) as (app, pilot, _):
        await submit(pilot, "define")
        for pane in PANES:
            if pane.id == registry.LESSON:
                continue
            view = app.screen.query_one(f"#{pane.id}")
            assert view.has_class("pane")
            app.screen.action_pane(pane.id)
            await settle(pilot)
            assert app.screen.arrangement.focused_pane() == pane.id
            ours = {taker.widget for taker in pane.takers}
            assert app.screen.focused is not None and app.screen.focused.id in ours
        lesson = registry.new_view(registry.LESSON)
        assert lesson.id == registry.LESSON and lesson.has_class("pane")
