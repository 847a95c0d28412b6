"""Widgets under several threads at once: the program's, a front end's, and their own."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from waiting import wait_for, wait_for_words

from kbench import backend as K
from kbench.notebook import GradPanel, GraphView, PlanTable, TensorView, WatchList, explorer
from kbench.notebook.base import redraw

ROUNDS = 15
Work = Callable[[random.Random], None]


def together(works: list[Work]) -> None:
    """Do all at the same time, each in turns of its own, and pass on what is raised."""
    problems: list[BaseException] = []

    def run(work: Work, seed: int) -> None:
        draw = random.Random(seed)
        try:
            for _ in range(ROUNDS):
                work(draw)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(one, at)) for at, one in enumerate(works)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
        assert not one.is_alive(), "two threads wait for each other"
    assert not problems, problems


@pytest.fixture
def names() -> dict[str, Any]:
    x = K.placeholder((None, 3), name="x")
    w = K.variable(np.ones((3, 2)), name="w")
    loss = K.mean(K.square(K.dot(x, w)))
    train = K.function([x], [loss], name="train")
    train([np.ones((1, 3))])
    return {"K": K, "x": x, "w": w, "loss": loss, "train": train, "a": np.ones((4, 5, 6))}


def test_the_last_word_is_drawn(names: dict[str, Any]) -> None:
    part = WatchList(["K.sum(w)"], names)
    part._repr_mimebundle_()

    def toggle(draw: random.Random) -> None:
        one = f"a + {draw.randrange(6)}"
        part.add(one) if draw.random() < 0.5 else part.remove(one)

    def store(draw: random.Random) -> None:
        K.set_value(names["w"], np.full((3, 2), draw.random()))

    together([toggle, toggle, store, lambda _draw: part.refresh()])
    part.add("1 + 1")
    wait_for(lambda: all(one in part.html for one in part.expressions))
    wait_for(lambda: part.html == part._static_html() and "not evaluated yet" not in part.html)
    part.close()


def test_a_slice_and_its_controls_agree_in_the_end(names: dict[str, Any]) -> None:
    w = names["v"] = K.variable(np.arange(120.0).reshape(4, 5, 6))
    view = TensorView(w, "v")
    view._repr_mimebundle_()

    def step(draw: random.Random) -> None:
        view.steppers[0].value = draw.randrange(4)

    def turn(draw: random.Random) -> None:
        view.look_at(draw.choice(["0, :, :", ":, 1, :", "2, 3, :", "9, 9, 9"]))

    together([step, turn, lambda _draw: K.set_value(w, np.zeros((4, 5, 6)))])
    view.look_at("3, :, :")
    wait_for(lambda: "v[3, :, :]" in view._body.value and ">0<" in view._body.value)
    assert view.steppers[0].value == 3 and view.index.value == "[3, :, :]"
    view.close()


def test_tabs_names_and_stores_at_once(names: dict[str, Any]) -> None:
    whole = explorer(names)
    whole._repr_mimebundle_()

    def tab(draw: random.Random) -> None:
        whole.selected_index = draw.randrange(8)

    def name(draw: random.Random) -> None:
        whole.choose(draw.choice(["w", "loss", "train", "a", "nothing"]))

    def run(draw: random.Random) -> None:
        names["train"]([np.full((2, 3), draw.random())])
        K.set_value(names["w"], np.full((3, 2), draw.random()))

    together([tab, name, run])
    whole.selected_index = 4
    whole.choose("loss")
    wait_for_words("graph of loss", lambda: whole.tabs["graph"].html)
    assert [one.redraws.running for one in whole._parts] == [at == 4 for at in range(7)]
    whole.close()


@pytest.mark.parametrize("kind, control", [(PlanTable, "run"), (GradPanel, "look")])
def test_a_choice_made_while_choices_are_brought_in_line_is_kept(
    kind: Any, control: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A front end's messages come on another thread, between any two lines of a redraw."""
    part = kind(namespace=names)
    part._repr_mimebundle_()
    names["train"]([np.ones((2, 3))])
    part.refresh()
    field = getattr(part, control)
    wait_for(lambda: len(field.options) > 1)
    chosen, bring_in_line = field.options[-1][1], part._set_options

    def choose_first(one: Any, options: Any, value: object) -> None:
        if one is field:
            monkeypatch.undo()
            field.value = chosen
        bring_in_line(one, options, value)

    monkeypatch.setattr(part, "_set_options", choose_first)
    part.refresh()
    wait_for(lambda: part._set_options == bring_in_line)
    part.refresh()
    wait_for(lambda: field.value == chosen)
    part.close()


@pytest.mark.parametrize("kind", [WatchList, GradPanel, GraphView])
def test_closing_while_it_works(
    kind: Any, names: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        part = kind(namespace=names)
        part._repr_mimebundle_()
        part.redraws.throttle.request()
        part.close()
        part._refresh_if_open()
    assert caplog.records == []


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.parametrize(
    "kind, push, heard", [(WatchList, "watch", "_told"), (GradPanel, "gradient", "_take")]
)
def test_what_fails_is_told_unless_the_widget_was_closed_meanwhile(
    kind: Any,
    push: str,
    heard: str,
    closes: bool,
    names: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached = []

    def fail(_self: Any, _data: object) -> None:
        reached.append(1)
        if closes:
            part.close()
        raise RuntimeError("drawn on what is gone")

    monkeypatch.setattr(kind, heard, fail)
    part = kind(namespace=names)
    part._repr_mimebundle_()
    part.hub.pushes[push].emit({})
    assert reached
    assert bool(caplog.records) is not closes
    part.close()


def test_a_press_never_waits_for_a_drawing() -> None:
    begun, go, done = threading.Event(), threading.Event(), []

    def action() -> None:
        begun.set()
        go.wait(30)
        done.append(1)

    throttle = redraw.Throttle(action)
    throttle.request()
    assert begun.wait(30)
    for _ in range(20):
        throttle.request_now()
    assert done == []
    go.set()
    wait_for(lambda: len(done) == 2)
