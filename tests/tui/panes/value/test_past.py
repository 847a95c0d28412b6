"""The value pane goes back and forth through the cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from bench_screen import at_each_size, bench, settle, submit, text_of
from fake_session import FakeSession
from value_helpers import pane, press


def session_of_cells() -> FakeSession:
    """Four cells: an array is made, written to, left, made anew."""
    session = FakeSession()

    def cell(act: Any) -> Any:
        return lambda it, one: (act(it.names), it.finish(one))

    session.script.update(
        make=cell(lambda names: names.update(x=np.zeros((3, 4)), d={"a": [1]})),
        write=cell(lambda names: (names["x"].__setitem__((1, 2), 8.5), names["d"]["a"].append(2))),
        rest=cell(lambda names: None),
        anew=cell(lambda names: names.update(x=np.ones((3, 4)))),
    )
    return session


@at_each_size
async def test_an_array_is_followed_back_and_forth(size: tuple[int, int]) -> None:
    async with bench(size, session_of_cells()) as (app, pilot, _):
        for code in ("make", "write", "rest", "anew"):
            await submit(pilot, code)
        app.said = []
        app.notify = lambda words, *_arguments, **_options: app.said.append(words)
        await press(pilot, "f3", "down", "enter", "down", "right", "right")
        assert pane(app).shown == "x"
        screen = await press(pilot, "less_than_sign")
        assert "after cell 3 of 4, since 2" in screen and "8.5" in screen and "at (1, 2)" in screen
        screen = await press(pilot, "less_than_sign")
        assert "after cell 1 of 4" in screen and "8.5" not in screen and "at (1, 2)" in screen
        assert "nothing older is kept of x" in await press(pilot, "less_than_sign")
        assert "what was is not watched" in await press(pilot, "w")
        assert "after cell 3 of 4" in await press(pilot, "greater_than_sign")
        screen = await press(pilot, "greater_than_sign")
        assert "after cell" not in screen and pane(app).shown == "x"
        assert "is shown as it is now" in await press(pilot, "greater_than_sign")
        screen = await press(pilot, "at", *"2", "enter")
        assert "x@2" in screen and "8.5" in screen
        assert "the number of a cell" in await press(pilot, "at", *"z", "enter")
        await press(pilot, "escape", "f3", "down", "up", "up", "enter")
        assert pane(app).shown == "d" and "after cell" not in text_of(app)


async def test_what_is_inside_a_value_is_followed_too() -> None:
    async with bench((120, 40), session_of_cells()) as (app, pilot, _):
        await submit(pilot, "make")
        await submit(pilot, "write")
        app.said = []
        app.notify = lambda words, *_arguments, **_options: app.said.append(words)
        screen = await press(pilot, "f3", "enter", "enter")
        assert pane(app).shown == "d['a']" and "entry 0 of 2" in screen
        screen = await press(pilot, "less_than_sign")
        assert pane(app).shown == "d@1['a']" and "entry 0 of 1" in screen
        assert "d@1 > ['a'] list of 1" in screen and "after cell 1 of 2" in screen
        await press(pilot, "backspace")
        assert pane(app).shown == "d@1" and "after cell 1 of 2" in text_of(app)
        await submit(pilot, "rest")
        await settle(pilot)
        assert pane(app).shown == "d@1" and "[1]" in text_of(app)
