"""The gradient pane on a fake kernel: the newest loss, a chosen one, what is wrong, its values."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from bench_screen import at_each_size, bench, settle, submit, text_of
from fake_session import FakeSession

import kbench as K
from kbench.tui.panes.registry import SIDE_PANES
from kbench.workbench.analysis import gradients
from kbench.workbench.inspector import gradient_verbs
from tests.tui.panes.test_watch import session_with, until

GRADIENT = f"alt+{SIDE_PANES.index('gradient') + 1}"


@pytest.fixture(autouse=True)
def enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not make a quick computation slow."""
    monkeypatch.setattr(gradient_verbs, "BUDGET_SECONDS", 30.0)


def trained() -> FakeSession:
    """A dead bias, a live weight, a variable that the loss does not reach."""
    x, w = K.placeholder((None, 3), name="x"), K.variable(np.ones((3, 2)), name="w")
    b, other = K.variable([-1e6, -1e6], name="b"), K.variable(1.0, name="other")
    y = K.dot(x, w)
    loss = K.mean(K.square(y)) + K.sum(K.relu(b))
    session = session_with(x=x, w=w, b=b, other=other, y=y, loss=loss)
    function = K.function([x], [loss])
    session.script["train"] = lambda one, cell: (function([np.ones((4, 3))]), one.finish(cell))
    session.script["store"] = lambda one, cell: (w.set_value(np.zeros((3, 2))), one.finish(cell))
    return session


@at_each_size
async def test_what_must_be_fed_is_said_and_then_computed(size: tuple[int, int]) -> None:
    async with bench(size, trained()) as (app, pilot, _):
        await pilot.press(GRADIENT)
        await until(app, pilot, "needs values for x")
        await submit(pilot, "train")
        screen = await until(app, pilot, "dead !")
        assert "no path" in screen and "d loss / d" in screen and "7.35" in screen


async def test_g_in_the_variables_derives_a_tensor() -> None:
    async with bench((120, 40), trained()) as (app, pilot, _):
        await submit(pilot, "train")
        await pilot.press("f3", "G", "g")
        await until(app, pilot, "Grad: d y (sum 24)")
        assert app.screen.arrangement.focused_pane() == "gradient"


async def test_g_on_what_has_no_gradient_says_so() -> None:
    async with bench((120, 40), session_with(a=1, b=2, c=3)) as (app, pilot, _):
        await submit(pilot, "1")
        await pilot.press("f3", "G", "g")
        await settle(pilot)
        said = [one.message for one in app._notifications]
        assert said == ["c is a scalar; gradients need a tensor or a model"]


async def test_enter_opens_the_gradient_in_the_value_grid() -> None:
    async with bench((120, 40), trained()) as (app, pilot, _):
        await submit(pilot, "train")
        await pilot.press(GRADIENT)
        await until(app, pilot, "dead !")
        table: Any = app.query_one("#gradient")
        table.go(table.keys().index("gradient/w"))
        await pilot.press("enter")
        screen = await until(app, pilot, "d loss / d w")
        assert app.screen.arrangement.focused_pane() == "value" and "(3, 2)" in screen
        await until(app, pilot, "1 3 3")


async def test_it_follows_the_values_and_is_idle_while_hidden() -> None:
    async with bench((120, 40), trained()) as (app, pilot, session):
        await submit(pilot, "train")
        await pilot.press(GRADIENT)
        await until(app, pilot, "Grad: d loss (9)")
        await submit(pilot, "store")
        await until(app, pilot, "Grad: d loss (0)")
        await pilot.press("alt+2", "f2")
        await settle(pilot)
        session.asked.clear()
        await submit(pilot, "train")
        assert "gradient" not in session.asked


async def test_the_loss_is_chosen() -> None:
    session = trained()
    session.names["second"] = K.sum(session.names["w"])
    async with bench((120, 40), session) as (app, pilot, _):
        await pilot.press(GRADIENT)
        await until(app, pilot, "Grad: d second (6)")
        await submit(pilot, "train")
        await pilot.press(GRADIENT, "l")
        await until(app, pilot, "Gradients of")
        await pilot.press("down", "enter")
        await until(app, pilot, "Grad: d loss (9)")
        del session.names["loss"]
        await submit(pilot, "1")
        await until(app, pilot, "Grad: d second (6)")


async def test_without_a_loss_it_says_what_to_do() -> None:
    async with bench((120, 40)) as (app, pilot, _):
        await pilot.press(GRADIENT)
        await until(app, pilot, "press g on a tensor")
        await pilot.press("l", "ctrl+r", "c", "y", "enter")
        await settle(pilot)
        assert "press g on a tensor" in text_of(app)


async def test_a_slow_one_waits_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    compute, hangs = gradients.Gradients.compute, {"on": True}

    def slowly(self: gradients.Gradients, name: str) -> dict[str, Any]:
        while hangs["on"]:
            time.sleep(0.001)
        return compute(self, name)

    monkeypatch.setattr(gradients.Gradients, "compute", slowly)
    monkeypatch.setattr(gradient_verbs, "BUDGET_SECONDS", 0.05)
    async with bench((120, 40), trained()) as (app, pilot, _):
        await submit(pilot, "train")
        await pilot.press(GRADIENT)
        await until(app, pilot, "stopped: r computes it")
        await submit(pilot, "train")
        await until(app, pilot, "slow: r computes it")
        hangs["on"] = False
        await pilot.press(GRADIENT, "ctrl+r")
        await until(app, pilot, "dead !")


async def test_gradients_follow_the_running_cell() -> None:
    session = trained()
    w, loss, x = (session.names[name] for name in ("w", "loss", "x"))
    step = K.function([x], [loss], [(w, w * 2.0)])
    async with bench((120, 40), session) as (app, pilot, _):
        await pilot.press(GRADIENT)
        await submit(pilot, "train")
        await until(app, pilot, "7.35")
        await submit(pilot, "forever")
        session.inspector.sampling._runner = threading.get_ident()
        session.inspector.sampling._due = 0.0
        step([np.ones((4, 3))])
        await until(app, pilot, "14.7")
        session.interrupt()
        await settle(pilot)
