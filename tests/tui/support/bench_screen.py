"""Helpers of the terminal tests: an app on a fake session, its screen as text."""

from __future__ import annotations

import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import textual._wait
from fake_session import FakeSession
from sampling import every
from textual.css.stylesheet import Stylesheet
from textual.document._syntax_aware_document import SyntaxAwareDocument
from textual.pilot import Pilot
from textual.screen import Screen

import kbench as K
from kbench.tui.app import WorkbenchApp
from kbench.tui.dialogs import dialogs, overlays
from kbench.tui.prompt import assist
from kbench.tui.session.link import Opened
from kbench.workbench.inspector import inspector

inspector.PUSH_SECONDS = 0.01  # tests need not wait for what people do not notice
assist.TYPING_PAUSE_SECONDS = 0.01
overlays.QUIT_GRACE_SECONDS = 0.01
dialogs.UNASKED_QUIET_SECONDS = 0.0
textual._wait.SLEEP_GRANULARITY = 0.005  # how long the process has to be idle after each key
textual._wait.SLEEP_IDLE = 0.0005
SIZES = ((80, 24), (120, 40), (200, 50))
at_each_size = pytest.mark.parametrize("size", every(3, [(one,) for one in SIZES]))

_parse_rules = Stylesheet._parse_rules
_rules: dict[Any, Any] = {}


def _rules_parsed_once(self: Stylesheet, css: str, **where: Any) -> Any:
    """What Textual keeps for one app, kept for all of a process: a tenth of a test's time."""
    key = (css, *where.items(), *self._variables.items())
    if key not in _rules:
        _rules[key] = _parse_rules(self, css, **where)
    return _rules[key]


Stylesheet._parse_rules = _rules_parsed_once  # type: ignore[method-assign]

_prepare_query = SyntaxAwareDocument.prepare_query
_queries: dict[Any, Any] = {}


def _prepared_once(self: SyntaxAwareDocument, query: str) -> Any:
    """The highlighting of Python, which is the same for all prompts: another tenth."""
    key = self.language, query
    if key not in _queries:
        _queries[key] = _prepare_query(self, query)
    return _queries[key]


SyntaxAwareDocument.prepare_query = _prepared_once  # type: ignore[method-assign]

_compositor_refresh = Screen._compositor_refresh
_paints: weakref.WeakKeyDictionary[Screen[Any], int] = weakref.WeakKeyDictionary()


def _counted(self: Screen[Any]) -> None:
    _paints[self] = _paints.get(self, 0) + 1
    _compositor_refresh(self)


Screen._compositor_refresh = _counted  # type: ignore[method-assign]


def paint_of(app: Any) -> tuple[int, int] | None:
    """Changes whenever the screen is painted; None while it is about to be."""
    screen = app.screen
    if screen._dirty_widgets or screen._layout_required or screen._repaint_required:
        return None
    return id(screen), _paints.get(screen, 0)


def text_of(app: Any) -> str:
    """The screen as lines of text, trailing blanks removed."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(part.text for part in strip).rstrip() for strip in strips)


@asynccontextmanager
async def bench(
    size: tuple[int, int] = (120, 40),
    session: FakeSession | None = None,
    folder: Path | None = None,
    **options: Any,
) -> AsyncIterator[tuple[WorkbenchApp, Pilot[int], FakeSession]]:
    """A running workbench whose kernel is the fake one."""
    kernel = session or FakeSession()
    app = WorkbenchApp(lambda: Opened(kernel, None, folder), **options)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield app, pilot, kernel
    app.link.close()


async def settle(pilot: Pilot[int], rounds: int = 3) -> None:
    """Let messages, workers and pushes run until the screen holds still."""
    before, painted = "", None
    for _ in range(100):
        await pilot.pause(0.012)
        busy = any(not worker.is_finished for worker in pilot.app.workers)
        paint = paint_of(pilot.app)
        is_same = before and paint is not None and paint == painted
        now = "" if busy else before if is_same else text_of(pilot.app)
        rounds = rounds - 1 if now == before and now else max(rounds, 2)
        before, painted = now, paint
        if rounds <= 0:
            return


async def until(app: Any, pilot: Pilot[int], words: str, patience: float = 60.0) -> str:
    """The screen once it shows some words, which a thread of the kernel may have to find."""
    deadline = time.monotonic() + patience
    while words not in text_of(app) and time.monotonic() < deadline:
        await pilot.pause(0.02)
    assert words in text_of(app), text_of(app)
    await settle(pilot)
    return text_of(app)


def session_with(**names: Any) -> FakeSession:
    """A fake session in which K and these names are known."""
    session = FakeSession()
    session.names.update(K=K, **names)
    return session


async def submit(pilot: Pilot[int], code: str) -> None:
    """Type a line and press Enter."""
    prompt = pilot.app.query_one("#prompt")
    prompt.focus()
    prompt.put(code)  # type: ignore[attr-defined]
    await pilot.press("enter")
    await settle(pilot)
