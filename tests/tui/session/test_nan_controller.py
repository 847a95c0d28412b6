"""NaN traces and comparisons on a fake kernel: keys, answers, what goes wrong."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from bench_screen import at_each_size, bench, session_with, settle, submit, text_of, until

import kbench as K
from kbench.workbench.nan import nan_verbs
from kbench.workbench.session import events

SHOWN = "array([-inf, 0.], dtype=float32)"


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not make a quick trace slow."""
    monkeypatch.setattr(nan_verbs, "BUDGET_SECONDS", 60.0)


def a_function() -> tuple[Any, Any]:
    """One whose call makes an infinity, and that call's cell."""
    x = K.placeholder((2,), name="x")
    f = K.function([x], [K.log(x)], name="f")

    def call(session: Any, cell: Any) -> None:
        f([np.array([0.0, 1.0], "float32")])
        session.result(cell, SHOWN)
        session.finish(cell)

    return f, call


@at_each_size
async def test_t_on_a_variable_traces_it(size: tuple[int, int]) -> None:
    f, call = a_function()
    session = session_with(f=f)
    session.script["f([a])"] = call
    async with bench(size, session) as (app, pilot, _):
        await submit(pilot, "f([a])")
        await pilot.press("f3", "t")
        shown = await until(app, pilot, "log of 0 is -Inf")
        assert "an infinity made by log at test_nan_controller.py" in shown
        assert "NaN trace: f" in shown
        await pilot.press("escape")
        await settle(pilot)
        assert "NaN trace" not in text_of(app)


async def test_a_cell_that_shows_it_tells_who_made_it() -> None:
    f, call = a_function()
    session = session_with(f=f)
    session.script["f([a])"] = call
    async with bench((200, 50), session) as (app, pilot, _):
        await submit(pilot, "f([a])")
        await until(app, pilot, "! an infinity made by log")
        await until(app, pilot, "alt+N traces")
        await pilot.press("escape", "alt+n")
        await until(app, pilot, "log of 0 is -Inf")


async def test_what_was_printed_is_traced_from_the_prompt() -> None:
    f, call = a_function()
    session = session_with(f=f)

    def printed(session: Any, cell: Any) -> None:
        f([np.array([0.0, 1.0], "float32")])
        session._emit(events.Stream(cell.ident, "stdout", "loss -inf\n"))
        session.finish(cell)

    session.script["print(f([a]))"] = printed
    async with bench((140, 40), session) as (app, pilot, _):
        await pilot.press("alt+n")
        assert "no cell shows NaN or an infinity" in [one.message for one in app._notifications]
        await submit(pilot, "print(f([a]))")
        await until(app, pilot, "alt+N traces")
        await pilot.press("alt+n")
        await until(app, pilot, "log of 0 is -Inf")
        assert "NaN trace: f " in text_of(app)


async def test_a_newer_cell_that_only_speaks_of_nan_is_passed_over() -> None:
    f, call = a_function()
    session = session_with(f=f)
    session.script["f([a])"] = call

    def told(session: Any, cell: Any) -> None:
        session.result(cell, "NaN made by log at In [1]")
        session.finish(cell)

    session.script["%nan f"] = told
    async with bench((140, 40), session) as (app, pilot, _):
        await submit(pilot, "f([a])")
        await until(app, pilot, "alt+N traces")
        await submit(pilot, "%nan f")
        await pilot.press("alt+n")
        await until(app, pilot, "log of 0 is -Inf")


async def test_enter_goes_from_a_trace_to_the_cell() -> None:
    async with bench((120, 40), session_with(a=np.ones(3))) as (app, pilot, _):
        await submit(pilot, "1")
        await submit(pilot, "2")
        await pilot.press("f3", "t")
        await until(app, pilot, "a tensor, a K.function")
        app.screen.show(["made there"], "In [1] line 1")  # type: ignore[attr-defined]
        await until(app, pilot, "Enter goes to In [1]")
        await pilot.press("enter")
        await settle(pilot)
        assert app.query_one("#transcript").current.code == "1"  # type: ignore[attr-defined]
        assert app.screen.arrangement.focused_pane() == "transcript"


async def test_a_cell_without_it_asks_nothing() -> None:
    async with bench((120, 40)) as (_, pilot, session):
        session.asked.clear()
        await submit(pilot, "1 + 1")
        assert "nan" not in session.asked


async def test_what_cannot_be_traced_says_why() -> None:
    async with bench((120, 40), session_with(a=np.ones(3))) as (app, pilot, _):
        await submit(pilot, "1")
        await pilot.press("f3", "t")
        await until(app, pilot, "a tensor, a K.function or a Keras model is needed")
        await pilot.press("escape")
        await submit(pilot, "1 + 1")
        await pilot.press("escape", "alt+n")
        await until(app, pilot, "shows no tensor and no call")


@pytest.mark.slow
async def test_closing_gives_a_trace_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[bool] = []

    def endless(*_: Any) -> Any:
        from kbench.engine.core import cancel

        try:
            while True:
                cancel.check()
        finally:
            stopped.append(True)

    monkeypatch.setattr(nan_verbs, "traced", endless)
    async with bench((120, 40), session_with(y=K.constant(1.0))) as (app, pilot, _):
        await submit(pilot, "1")
        await pilot.press("f3", "t")
        await until(app, pilot, "Esc cancels")
        await pilot.press("escape")
        deadline = time.monotonic() + 60.0
        while not stopped and time.monotonic() < deadline:
            await pilot.pause(0.02)
        assert stopped


# ------------------------------------------------------------------ A/B


def comparing(session: Any, cell: Any) -> None:
    """Run the cell for good."""
    found = eval(cell.code, dict(session.names))
    session.result(cell, found.text(50))
    session.finish(cell)


@at_each_size
async def test_an_expression_is_compared_under_settings(size: tuple[int, int]) -> None:
    line = (
        "K.compare(lambda K: K.constant([0.0, 1.0]) + K.epsilon(), "
        "settings={'epsilon': [1e-07, 0.001]})"
    )
    session = session_with()
    session.script[line] = comparing
    async with bench(size, session) as (app, pilot, _):
        await pilot.press("f2")
        app.query_one("#prompt").put("K.constant([0.0, 1.0]) + K.epsilon()")
        await pilot.press("alt+c")
        await until(app, pilot, "compare an expression")
        await pilot.press("enter")
        await until(app, pilot, "[p] epsilon: now 1e-07, and 1e-3")
        await pilot.press("p")
        await until(app, pilot, "epsilon=1e-07,1e-3")
        await pilot.press("enter")
        shown = await until(app, pilot, "largest differences")
        assert "comparison of 2 variants" in shown
        assert "epsilon=0.001" in shown and "[0]" in shown
        assert K.epsilon() == 1e-7


async def test_a_variable_is_compared_and_wrong_variants_are_refused() -> None:
    w = K.variable([1.0, 2.0])
    session = session_with(w=w)
    session.script["K.compare(lambda K: w, ['kbench', 'numpy'])"] = comparing
    async with bench((120, 40), session) as (app, pilot, _):
        await submit(pilot, "1")
        await pilot.press("f3", "c")
        await until(app, pilot, "compare an expression")
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press("e")
        await settle(pilot)
        box = app.screen.query_one("Input")
        for text, words in (
            ("epsilon", "name=value,value is needed"),
            ("speed=1", "unknown setting; choose from"),
            ("", "are needed"),
        ):
            box.value = text
            await pilot.press("enter")
            assert words in text_of(app)
        box.value = "engine=kbench,numpy"
        await pilot.press("enter")
        await until(app, pilot, "no differences")


async def test_one_value_is_compared_with_that_of_now() -> None:
    session = session_with()
    line = "K.compare(lambda K: K.epsilon() * K.ones(1), settings={'epsilon': [0.1, 0.25]})"
    session.script[line] = comparing
    K.set_epsilon(0.1)
    try:
        async with bench((120, 40), session) as (app, pilot, _):
            await submit(pilot, "1")
            app.query_one("#prompt").put("K.epsilon() * K.ones(1)")
            await pilot.press("alt+c", "enter")
            await until(app, pilot, "[p] epsilon: now 0.1, and 1e-7")
            await pilot.press("p")
            shown = await until(app, pilot, "epsilon=0.1,1e-7")
            assert "a single one is compared with now" in shown
            box = app.screen.query_one("Input")
            box.value = "epsilon=0.1"
            await pilot.press("enter")
            assert "epsilon is 0.1 already; name another value" in text_of(app)
            box.value = "epsilon=0.25"
            await pilot.press("enter")
            shown = await until(app, pilot, "largest differences")
            assert "epsilon=0.1 " in shown and "epsilon=0.25" in shown
    finally:
        K.set_epsilon(1e-7)


async def test_what_is_no_expression_is_refused() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await pilot.press("alt+c")
        await until(app, pilot, "compare an expression")
        app.screen.query_one("Input").value = "x = [bold]1"
        await pilot.press("enter")
        assert "one expression is needed" in text_of(app)
