"""Helpers for tests of lessons in the terminal: an app on a lesson, and a way through it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench_screen import settle, text_of
from fake_session import FakeSession
from textual.pilot import Pilot

from kbench.tui.app import WorkbenchApp
from kbench.tui.lesson.lesson_controller import LessonController
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session.link import Opened
from kbench.workbench.history.journal import Journal
from kbench.workbench.lessons import lesson_cells
from kbench.workbench.session.local_session import LocalSession
from kbench.workbench.session.session_interface import Session

BLANK_CODE = "means = K.mean(y, axis=___)\nK.eval(means)"
PATIENCE = 120.0  # a bound, not an expectation


@asynccontextmanager
async def taught(
    number: int = 1,
    size: tuple[int, int] = (80, 24),
    session: Session | None = None,
    folder: Path | None = None,
    **options: Any,
) -> AsyncIterator[tuple[WorkbenchApp, Pilot[int], LessonController]]:
    """A workbench opened by `kbench learn NUMBER`; cells run for real in this process."""
    kernel = session or LocalSession(Journal(None))
    app = WorkbenchApp(lambda: Opened(kernel, None, folder), lesson=number, **options)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield app, pilot, app._main.lesson_controller
    app.link.close()


async def wait(pilot: Pilot[int], condition: Callable[[], Any], what: str) -> None:
    """Until a condition holds, with a generous limit."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what}:\n{text_of(pilot.app)}"
        await pilot.pause(0.02)


async def enter(pilot: Pilot[int], text: str | None = None) -> None:
    """Put a text into the prompt, unless None, and press Enter."""
    if text is not None:
        prompt = pilot.app.query_one(Prompt)
        prompt.focus()
        prompt.put(text)
    await pilot.press("enter")
    await settle(pilot)


def idle(controller: LessonController) -> bool:
    """Whether nothing of the lesson is under way."""
    state = controller.bench.state
    return state == "idle" and controller.model.idle and not controller.hidden_cells.checking


def said(app: Any) -> str:
    """What stands below the prose."""
    return str(app.query_one("#lesson-said").content)


def told(app: Any) -> str:
    """What floats in a corner for a while."""
    return "\n".join(one.message for one in app._notifications)


def foot(app: Any) -> str:
    """The line below the lesson."""
    return app.query_one("#lesson-foot").render().plain


def typed(app: Any) -> str:
    """What stands in the prompt."""
    return app.query_one(Prompt).text


def silent() -> FakeSession:
    """A session without a kernel that runs nothing and judges nothing."""
    session = FakeSession()
    for number in (1, 2):
        session.script[lesson_cells.opening_code(number)] = lambda one, cell: one.finish(cell)
    return session


async def go_to(pilot: Any, controller: Any, name: str) -> None:
    """Jump to the page of an exercise, as the list of steps does."""
    at = next(at for at, page in enumerate(controller.model.pages) if page.exercise == name)
    controller.commands.catch_up(at)
    controller.commands.go(at)
    await settle(pilot)
