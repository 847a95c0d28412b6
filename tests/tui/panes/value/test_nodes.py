"""Enter on a node of a graph shows its value, from the graph pane and from the value pane."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from bench_screen import bench, settle, submit, text_of
from fake_session import FakeSession
from value_helpers import pane, press

import kbench as K

FED = np.array([[1.0, 2.0, 3.0]] * 6, np.float32)


@pytest.mark.slow
async def test_enter_on_a_node_shows_its_value_or_how_to_have_it() -> None:
    session = FakeSession()
    x = K.placeholder((None, 3), name="x")
    hidden = K.relu(K.dot(x, K.variable(np.eye(3), name="w")))
    step = K.function([x], [K.mean(hidden)])

    def cell(act: Any) -> Any:
        return lambda it, one: (act(), it.finish(one))

    session.script["make"] = cell(lambda: session.names.update(h=hidden, x=x, step=step))
    session.script["feed"] = cell(lambda: step([FED]))
    session.script["again"] = cell(lambda: step([2 * FED]))
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "make")
        app.said = []
        app.notify = lambda words, *_arguments, **_options: app.said.append(words)
        await press(pilot, "f3", "enter")
        assert pane(app).graph.has_focus
        screen = await press(pilot, "enter")
        assert "x was not fed yet: call the K.function" in screen and pane(app).shown == "h"
        await submit(pilot, "feed")
        screen = await press(pilot, "f4", "enter")
        assert "(6, 3)" in screen and pane(app).when == "on the last feed, variables as now"
        assert pane(app).grid.has_focus and pane(app).row.stats.high == 3
        await submit(pilot, "again")
        await settle(pilot)
        assert pane(app).row.stats.high == 6
        await press(pilot, "f4", "backspace")
        assert pane(app).shown == "h" and pane(app).graph.has_focus
        assert pane(app).when == ""
        await press(pilot, "f3", "o", "down", "enter")  # the pane of graphs
        screen = text_of(app)
        assert pane(app).shown.endswith(" in h") and pane(app).grid.has_focus, screen


async def test_a_node_follows_the_running_cell() -> None:
    session = FakeSession()
    x, w = K.placeholder((None, 3), name="x"), K.variable(np.eye(3), name="w")
    hidden = K.relu(K.dot(x, w))
    train = K.function([x], [K.mean(hidden)], [(w, w * 2.0)], name="train")
    session.names.update(h=hidden, x=x)
    async with bench((120, 40), session) as (app, pilot, _):
        train([FED])
        await submit(pilot, "1")
        app.said = []
        await press(pilot, "f3", "enter", "enter")
        await settle(pilot)
        assert pane(app).row.stats.high == 6
        await submit(pilot, "forever")
        session.inspector.sampling._runner = threading.get_ident()
        for high in (12, 24):
            session.inspector.sampling._due = 0.0
            train([FED])
            await settle(pilot)
            assert pane(app).row.stats.high == high and pane(app).when.endswith("live")
        session.interrupt()
        await settle(pilot)
        assert pane(app).row.stats.high == 24 and "live" not in pane(app).when
