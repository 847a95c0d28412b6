"""Completions: functions look like functions, with the shapes that K tells of them."""

from __future__ import annotations

from typing import Any

import pytest
from bench_screen import bench, session_with, settle, text_of

from kbench.tui.prompt import assist
from kbench.workbench.session.session_interface import Completion


def completing(*matches: str, before: str = "K.") -> Any:
    """A session that knows K, and has these completions behind `K.`."""
    session = session_with(weights=[1, 2])
    session.complete = lambda code, position, timeout=2.0: Completion(
        list(matches),
        code.rfind(before) + len(before) if before else 0,
        position,
        [""] * len(matches),
    )
    return session


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
async def test_functions_have_a_mark_and_a_signature(size: tuple[int, int]) -> None:
    async with bench(size, completing("relu", "reverse", "conv1d", "callbacks")) as (app, pilot, _):
        await pilot.press(*"K.")
        await settle(pilot)
        screen = text_of(app)
        assert "ƒ relu()" in screen and "(x, alpha=0.0, max_value=None, threshold=0.0)" in screen
        assert "ƒ conv1d()" in screen and "(x: float[batch, steps, channels], " in screen
        assert "callbacks()" not in screen
        await pilot.press("down", "down", "enter")
        await settle(pilot)
        assert app.query_one("#prompt").text == "K.reverse"  # type: ignore[attr-defined]


async def test_values_and_ascii() -> None:
    session = completing("weights", "print", before="")
    async with bench((120, 40), session, ascii=True) as (app, pilot, _):
        await pilot.press("x", "tab")
        await settle(pilot)
        screen = text_of(app)
        assert "f print()" in screen and "  weights  " in screen and "weights()" not in screen


async def test_a_kernel_that_does_not_tell_leaves_plain_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = completing("relu", "reverse")
    ask = session.request

    def refuse(verb: str, **arguments: Any) -> Any:
        return ask("nonsense" if verb == "meanings" else verb, **arguments)

    monkeypatch.setattr(session, "request", refuse)
    monkeypatch.setattr(assist, "MEANING_SECONDS", 0.05)
    async with bench((120, 40), session) as (app, pilot, _):
        await pilot.press(*"K.", "tab")
        await settle(pilot)
        assert "relu" in text_of(app) and "relu()" not in text_of(app)
