"""Keys that follow one another faster than the screen: each goes where the one before has led."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from bench_screen import bench, settle, submit, text_of
from fake_session import FakeSession
from sampling import every
from textual import events
from textual.keys import _character_to_key
from textual.widgets import Input

from kbench.tui.app import WorkbenchApp
from kbench.tui.keys import key_queue
from kbench.tui.keys.key_queue import KeyProbe, KeyQueue

Seen = Callable[[Any], bool]


def send(app: Any, *keys: str) -> None:
    """All keys at once, as a terminal sends them that was held up."""
    for key in keys:
        if len(key) == 1:
            app.post_message(events.Key(_character_to_key(key), key))
        else:
            app.post_message(events.Key(key, None))


def grid_at(app: Any) -> tuple[int, int]:
    at: tuple[int, int] = app.screen_stack[0].query_one("#grid").at
    return at


def line(app: Any) -> str:
    return "".join(one.value for one in app.screen.query(Input))


# Where the focus is, what is typed, and what must have come of it.
LED: list[tuple[str, str, list[str], Seen]] = [
    ("index", "f4", [":", "1", ",", "2", "enter"], lambda app: grid_at(app) == (1, 2)),
    ("index of digits", "f4", [":", "e", "n"], lambda app: line(app) == "en"),
    ("find", "f4", ["f", "n", "a", "n"], lambda app: line(app) == "nan"),
    ("filter", "f3", ["/", "l", "r"], lambda app: line(app) == "lr"),
    ("copy", "f4", ["Y", "i"], lambda app: app.clipboard == "h[0, 0, 0, 0]"),
    ("full", "f4", ["space", "q", "right"], lambda app: grid_at(app) == (0, 1)),
    ("help", "f3", ["f1", "q", "down"], lambda app: len(app.screen_stack) == 1),
    ("help again", "f3", ["f1", "escape", "f1"], lambda app: "Help: " in text_of(app)),
    ("jump", "f3", ["ctrl+o", "p", "x"], lambda app: app._main.query_one("#prompt").text == "x"),
    ("palette", "f3", ["ctrl+p", "s", "o"], lambda app: line(app) == "so"),
    ("history", "f3", ["f8", "d", "e"], lambda app: line(app) == "de"),
    (
        "axes",
        "f4",
        ["a", "down", "c", "enter"],
        lambda app: app._main.query_one("#value").target.col_axis == 1,
    ),
    ("export", "f4", ["e", "s", "ctrl+u", "z"], lambda app: line(app) == "z"),
    ("watch", "f4", ["alt+3", "a", "1", "2", "enter"], lambda app: "12" in text_of(app)),
    ("prompt", "f4", ["f2", "a", "b", "left", "c"], lambda app: "acb" in text_of(app)),
]


@pytest.mark.parametrize(
    ("where", "keys", "seen"), every(4, [one[1:] for one in LED]), ids=[a for a, *_ in LED]
)
async def test_keys_go_where_the_key_before_them_leads(
    where: str, keys: list[str], seen: Seen
) -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("f3", "enter", where)
        await settle(pilot)
        send(app, *keys)
        for _round in range(1000):
            if seen(app):
                break
            await asyncio.sleep(0.01)
        await settle(pilot)
        assert seen(app), text_of(app)


@pytest.mark.slow
async def test_a_dialog_that_never_comes_takes_what_was_meant_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_queue, "MAX_HOLD_SECONDS", 0.1)
    session = FakeSession()
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "define")
        await pilot.press("f3", "enter", "f4")
        await settle(pilot)
        unanswered: Future[Any] = Future()
        monkeypatch.setattr(session, "request", lambda verb, **_arguments: unanswered)
        send(app, "space", "right", "right")
        await asyncio.sleep(0.5)
        assert grid_at(app) == (0, 0)  # they were meant for the text, which was on its way
        await pilot.press("right")
        await settle(pilot)
        assert grid_at(app) == (0, 1)
        unanswered.set_result({"ok": False})


async def test_a_key_whose_way_is_lost_holds_the_next_ones_up_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench((120, 40)) as (app, pilot, _):
        monkeypatch.setattr(key_queue, "MAX_HOLD_SECONDS", 0.1)
        monkeypatch.setattr(WorkbenchApp, "on_key_probe", lambda self, message: None)
        send(app, "f3", "f2", "a", "b")
        for _round in range(1000):
            if "ab" in text_of(app):
                break
            await asyncio.sleep(0.01)
        assert "ab" in text_of(app)


async def test_characters_of_a_text_are_not_held_up() -> None:
    passed: list[str] = []

    class Still:
        """An app in which nothing comes back."""

        is_running = True
        focused = Input()
        screen = focused
        screen_stack = (focused,)

    async def forward(event: events.Event) -> None:
        passed.append(event.key)  # type: ignore[attr-defined]

    Still.focused.post_message = lambda message: isinstance(message, KeyProbe)  # type: ignore[method-assign]
    keys = KeyQueue(Still(), forward)  # type: ignore[arg-type]
    for key in ("a", "b", "enter", "c"):
        await keys.take(events.Key(key, key if len(key) == 1 else None))
    assert passed == ["a", "b", "enter"]
