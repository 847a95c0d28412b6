"""Gradients in the inspector: which loss, which values, what is said of each, and that it stops."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kbench as K
from kbench.workbench.inspector import gradient_verbs
from kbench.workbench.inspector.inspector import Inspector


class Desk:
    """An inspector, and what it has told."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"K": K}
        self.told: list[dict[str, Any]] = []
        self._news = threading.Event()
        self.inspector = Inspector(self.names, self._take)
        self.ask("hello", record=True)

    def _take(self, message: dict[str, Any]) -> None:
        if message["push"] == "gradient":
            self.told.append(message["data"])
            self._news.set()

    def ask(self, verb: str, **arguments: Any) -> dict[str, Any]:
        return self.inspector.handle({"id": 1, "verb": verb, **arguments})

    def derive(self, **arguments: Any) -> dict[str, Any]:
        """What is told after a request; of a request that is refused, its error."""
        self._news.clear()
        reply = self.ask("gradient", **arguments)
        if not reply["ok"]:
            return {"error": reply["error"]["reason"]}
        if reply["data"]["state"] != "computing":
            return dict(reply["data"])
        assert self._news.wait(60.0)
        return self.told[-1]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(gradient_verbs, "BUDGET_SECONDS", 30.0)
    made = Desk()
    yield made
    made.inspector.close()


def model(desk: Desk) -> None:
    """A loss with a dead and a live weight, and a variable that it does not reach."""
    names = desk.names
    names["x"] = K.placeholder((None, 3), name="x")
    names["w"] = K.variable(np.ones((3, 2)), name="w")
    names["b"] = K.variable([-1e6, 0.0], name="b")
    names["other"] = K.variable(1.0, name="other")
    names["step"] = K.variable(1, dtype="int32", name="step")
    names["y"] = K.relu(K.dot(names["x"], names["w"]) + names["b"])
    names["loss"] = K.mean(K.square(names["y"]))


def by_name(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in data["rows"]}


def test_without_a_loss_there_is_nothing_to_compute(desk: Desk) -> None:
    assert desk.derive() == {"losses": [], "loss": "", "state": "none"}


def test_what_was_never_fed_is_named(desk: Desk) -> None:
    model(desk)
    assert "needs values for x: run" in desk.derive()["error"]


def test_the_newest_scalar_is_derived_on_what_was_fed_last(desk: Desk) -> None:
    model(desk)
    fed = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]], np.float32)
    K.function([desk.names["x"]], [desk.names["y"]])([fed])
    data = desk.derive()
    rows = by_name(data)
    assert data["loss"] == "loss" and set(rows) == {"w", "b"}
    assert data["unreached"] == ["other"] and data["fed"] == ["x float32[2, 3]"]
    wanted = K.function([desk.names["x"]], K.gradients(desk.names["loss"], [desk.names["w"]]))
    gradient = wanted([fed])[0]
    assert rows["w"]["norm"] == pytest.approx(float(np.linalg.norm(gradient)), rel=1e-5)
    assert rows["w"]["zeros"] == pytest.approx(0.5)
    assert rows["w"]["max"] == pytest.approx(float(gradient.max()))
    assert rows["w"]["ratio"] == pytest.approx(rows["w"]["norm"] / np.sqrt(6.0), rel=1e-5)
    newer = desk.names["total"] = K.sum(desk.names["w"])
    assert desk.derive()["loss"] == "total" and newer.last is None
    assert desk.derive(loss="loss")["loss"] == "loss"


MARKS = [
    ("K.sum(w * 0)", "dead"),
    ("K.sum(w * 1e9)", "exploding"),
    ("K.sum(w * 1e-20)", "vanishing"),
    ("K.sum(w * float('nan'))", "not finite"),
    ("K.sum(K.log(w - 1))", "not finite"),
    ("K.sum(w * w)", ""),
]


@pytest.mark.parametrize(("code", "mark"), MARKS)
def test_what_is_wrong_with_a_gradient_is_said(desk: Desk, code: str, mark: str) -> None:
    desk.names["w"] = K.variable(np.ones((3, 2)), name="w")
    desk.names["loss"] = eval(code, dict(desk.names))
    assert by_name(desk.derive())["w"]["mark"] == mark


def test_a_gradient_is_an_array_for_the_value_grid(desk: Desk) -> None:
    desk.names["w"] = K.variable([1.0, 2.0], name="w")
    desk.names["loss"] = K.sum(K.square(desk.names["w"]))
    desk.derive()
    window = desk.ask("window", name="gradient/w")["data"]
    assert sum(window["cells"], []) == ["2", "4"]
    rows = desk.ask("summary", names=["gradient/w"])["data"]["rows"]
    assert rows[0]["kind"] == "array" and rows[0]["max"] == 4
    assert "gradient/w" not in desk.ask("changes")["data"]["all"]


def test_values_of_one_call_come_before_values_of_several(desk: Desk) -> None:
    names = desk.names
    names["x"], names["t"] = K.placeholder((None,), name="x"), K.placeholder((None,), name="t")
    names["w"] = K.variable(2.0, name="w")
    names["y"] = names["x"] * names["w"]
    names["loss"] = K.mean(K.square(names["y"] - names["t"]))
    K.function([names["x"]], [names["y"]])([[1.0, 2.0]])
    assert "needs values for t" in desk.derive()["error"]
    K.function([names["x"], names["t"]], [names["loss"]])([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    K.function([names["x"]], [names["y"]])([[5.0]])
    data = desk.derive()
    assert data["fed"] == ["x float32[3]", "t float32[3]"] and not data["origin"]


NO_LOSS = [
    ("x", "is not a symbol that depends on variables"),
    ("n", "is not a symbol that depends on variables"),
    ("i", "which has no gradient"),
    ("nope", "no name nope"),
    ("c", "depends on no variable"),
]


@pytest.mark.parametrize(("name", "words"), NO_LOSS)
def test_what_is_no_loss_says_why(desk: Desk, name: str, words: str) -> None:
    desk.names["x"] = K.placeholder((2,), name="x")
    desk.names["n"] = 3
    desk.names["i"] = K.argmax(K.variable([1.0, 2.0]))
    desk.names["c"] = K.sum(desk.names["x"])
    K.function([desk.names["x"]], [desk.names["c"]])([[1.0, 2.0]])
    assert words in desk.derive(loss=name)["error"]


def test_an_engine_error_is_told_in_words(desk: Desk) -> None:
    desk.names["w"] = K.variable([1.0, 2.0], name="w")
    x = desk.names["x"] = K.placeholder((None,), name="x")
    desk.names["loss"] = K.sum(x * desk.names["w"])
    K.function([x], [x])([np.ones(5)])
    assert "shape" in desk.derive()["error"]


def slow_loss(desk: Desk) -> None:
    desk.names["w"] = K.variable(np.ones((400, 400)) / 400, name="w")
    product = desk.names["w"]
    for _ in range(4000):
        product = K.dot(product, desk.names["w"])
    desk.names["loss"] = K.sum(product)


def test_a_slow_one_waits_to_be_asked_for_and_can_be_stopped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gradient_verbs, "BUDGET_SECONDS", 0.05)
    slow_loss(desk)
    assert desk.derive()["stopped"] == "time"
    assert desk.derive()["state"] == "slow"
    threading.Timer(0.2, lambda: desk.ask("gradient", loss="loss", stop=True)).start()
    began = time.monotonic()
    assert desk.derive(force=True)["stopped"] == "time"
    assert time.monotonic() - began < 60.0


def test_a_cell_that_begins_stops_it(desk: Desk) -> None:
    slow_loss(desk)
    threading.Timer(0.2, desk.inspector.cell_started).start()
    assert desk.derive(force=True)["stopped"] == "cell"
    assert desk.derive()["state"] == "held"
    desk.inspector.cell_ended()
