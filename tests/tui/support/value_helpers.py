"""What the tests of the value pane share: a workbench that shows one array."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from bench_screen import bench, settle, submit, text_of
from fake_session import FakeSession

from kbench.tui.panes.value.view import ValuePane


@asynccontextmanager
async def showing(
    values: Any, size: tuple[int, int] = (140, 40), **options: Any
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
