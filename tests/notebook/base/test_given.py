"""Widgets take what a user has at hand: a name, or the value itself; and refuse in one sentence."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras_loaded
import numpy as np
import pytest
from seen import settled, text_of
from waiting import wait_for, wait_for_words

import kbench
from kbench import backend as K
from kbench.engine.core.errors import ArgumentError
from kbench.engine.graph import variables
from kbench.engine.runtime import config, profile
from kbench.engine.runtime.signal import Signal
from kbench.notebook import (
    CompareView,
    GradPanel,
    GraphView,
    PlanTable,
    TensorView,
    VariableTable,
    WatchList,
    explore,
    explorer,
)
from kbench.notebook.base import inspector_hub, redraw
from kbench.notebook.widgets.graph_view import drawn

pytestmark = keras_loaded.OWN_WARNINGS
Names = dict[str, Any]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    """The names of the running shell, with a run of each kind recorded."""
    rng = np.random.default_rng(0)
    x = K.placeholder((None, 3), name="x")
    w, b = K.variable(rng.normal(size=(3, 2)), name="w"), K.variable(np.zeros(2), name="b")
    y = K.dot(x, w) + b
    loss = K.mean(K.square(y))
    made = {
        "K": K, "x": x, "w": w, "b": b, "y": y, "loss": loss, "data": np.ones((4, 3)),
        "f": K.function([x], [loss], name="train"), "g": K.function([x], [y], name="train"),
        "model": keras_loaded.residual(), "z": K.sum(w * 2.0),
    }  # fmt: skip
    monkeypatch.setattr(
        redraw, "named", lambda given=None: (made if given is None else given, None)
    )
    holder = inspector_hub.acquire(None)  # what was fed is known from here on
    stop = holder.record()
    made["f"]([made["data"]])
    made["g"]([made["data"]])
    K.eval(made["z"])
    yield made
    stop()
    inspector_hub.release(holder)
    assert not inspector_hub._hubs
    for one in (profile.run_finished, profile.inputs_fed, variables.changed, config.changed):
        assert not one, f"{one.name} is listened to"
    assert isinstance(profile.run_finished, Signal)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "TensorView": TensorView,
    "PlanTable": PlanTable,
    "GradPanel": GradPanel,
    "GraphView": GraphView,
    "WatchList": WatchList,
    "VariableTable": VariableTable,
    "CompareView": CompareView,
    "explorer": explorer,
    "explore": explore,
}
OBJECTS: dict[str, Callable[[Names], Any]] = {
    "K.function": lambda names: names["f"],
    "model": lambda names: names["model"],
    "layer": lambda names: names["model"].layers[1],
    "tensor": lambda names: names["y"],
    "scalar": lambda names: names["loss"],
    "known": lambda names: names["z"],
    "placeholder": lambda names: names["x"],
    "variable": lambda names: names["w"],
    "array": lambda names: names["data"],
    "tensors": lambda names: [names["y"], names["loss"]],
    "variables": lambda names: [names["w"], names["b"]],
    "functions": lambda names: [names["f"], names["g"]],
    "name of a tensor": lambda names: "loss",
    "name of a variable": lambda names: "w",
    "name of a function": lambda names: "f",
    "without a name": lambda names: K.mean(names["w"] * 3.0),
    "variable without a name": lambda names: K.variable(np.ones((2, 2)), name="class"),
    "function without a name": lambda names: K.function([], [K.sum(names["w"])], name="w"),
}
SHOWN: dict[str, dict[str, str]] = {  # what must be read; what is not here is refused
    "TensorView": {
        "K.function": "float32[]", "model": "first/kernel", "layer": "float32[", "tensor": "[4, 2]",
        "scalar": "float32[]", "known": "float32[]", "placeholder": "[4, 3]", "variable": "[3, 2]",
        "array": "float64[4, 3]", "tensors": "[4, 2]", "variables": "[3, 2]",
        "name of a tensor": "float32[]", "name of a variable": "[3, 2]",
        "name of a function": "float32[]", "without a name": "float32[]",
        "variable without a name": "[2, 2]", "function without a name": "float32[]",
    },
    "PlanTable": {
        "K.function": "f ", "model": "no call of model was recorded", "tensor": "K.eval(y)",
        "scalar": "K.eval(loss)", "known": "z ", "placeholder": "K.eval(x)",
        "variable": "K.eval(w)", "functions": "g ", "tensors": "no call of given",
        "variables": "no call of given", "name of a tensor": "K.eval(loss)",
        "name of a variable": "K.eval(w)", "name of a function": "f ",
        "without a name": "K.eval(mean", "variable without a name": "no call",
        "function without a name": "no call of w_2 was recorded yet: call w_2",
    },
    "GradPanel": {
        "K.function": "d f / d variable", "model": "needs values for out_sample_weights",
        "tensor": "d y / d variable", "scalar": "d loss / d variable", "known": "d z / d variable",
        "tensors": "d y / d variable", "functions": "d f / d variable",
        "name of a tensor": "d loss / d", "name of a function": "d f / d",
        "name of a variable": "w is not a symbol", "without a name": "/ d variable; mean",
        "function without a name": "d w_2 / d variable",
    },
    "GraphView": {
        "K.function": "graph of f", "model": "graph of model", "layer": "graph of first",
        "tensor": "graph of y", "scalar": "graph of loss", "known": "graph of z",
        "placeholder": "graph of x", "variable": "graph of w", "tensors": "graph of given",
        "variables": "b: variable float32[2]", "functions": "graph of given",
        "name of a tensor": "of loss", "name of a variable": "of w", "name of a function": "of f",
        "without a name": "of mean", "variable without a name": "of given",
        "function without a name": "of w_2",
    },
    "WatchList": {
        "K.function": "function train", "model": "residual", "layer": "first", "tensor": "[4, 2]",
        "scalar": "loss", "known": "z", "placeholder": "as fed last", "variable": "w",
        "array": "data", "tensors": "loss", "variables": "b", "functions": "function train",
        "name of a tensor": "loss", "name of a variable": "w", "name of a function": "train",
        "without a name": "mean", "variable without a name": "all 1",
        "function without a name": "w_2",
    },
    "VariableTable": {
        "K.function": "names", "model": "first/kernel", "layer": "kernel", "tensor": "add",
        "scalar": "mean", "known": "sum", "placeholder": "x", "variable": "w",
        "array": "float64[4, 3]", "tensors": "mean", "variables": "[1] b",
        "name of a tensor": "loss", "name of a variable": "w", "name of a function": "f",
        "without a name": "mean", "variable without a name": "[2, 2]",
        "function without a name": "sum",
    },
    "CompareView": dict.fromkeys(
        ("K.function", "model", "tensor", "scalar", "known", "placeholder", "variable", "array",
         "tensors", "variables", "name of a tensor", "name of a variable", "name of a function",
         "without a name", "variable without a name", "function without a name"),
        "press compare",
    ),
    "explorer": {
        "K.function": "f ", "model": "graph of model", "layer": "graph of first",
        "tensor": "graph of y", "scalar": "graph of loss", "known": "graph of z",
        "placeholder": "graph of x", "variable": "float32[3, 2]", "array": "float64[4, 3]",
        "tensors": "graph of given", "variables": "graph of given", "functions": "graph of given",
        "name of a tensor": "graph of loss", "name of a variable": "float32[3, 2]",
        "name of a function": "f ", "without a name": "graph of mean",
        "variable without a name": "float32[2, 2]",
        "function without a name": "no call of w_2",
    },
    "explore": {
        "K.function": "exploring f", "model": "exploring model", "layer": "exploring",
        "name of a function": "exploring f", "function without a name": "exploring",
    },
}  # fmt: skip


def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing was logged, which a notebook would show below whatever cell runs."""
    assert [one.getMessage() for one in caplog.records] == []


QUICK = [  # the others are slow: each waits for its widget to be drawn
    ("TensorView", "model"), ("TensorView", "tensor"), ("PlanTable", "K.function"),
    ("PlanTable", "model"), ("GradPanel", "scalar"), ("GradPanel", "K.function"),
    ("GraphView", "scalar"), ("GraphView", "model"), ("WatchList", "variables"),
    ("VariableTable", "model"), ("CompareView", "K.function"), ("explorer", "K.function"),
    ("explore", "tensor"),
]  # fmt: skip
PAIRS = [
    pytest.param(kind, what, marks=() if (kind, what) in QUICK else pytest.mark.slow)
    for kind in MAKERS
    for what in OBJECTS
]


@pytest.mark.parametrize("kind,what", PAIRS)
def test_the_obvious_call_shows_it_or_says_why_not(
    kind: str, what: str, names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    value = OBJECTS[what](names)
    words = SHOWN[kind].get(what)
    if words is None:
        with pytest.raises(ArgumentError) as caught:
            MAKERS[kind](value)
        text = str(caught.value)
        assert text.startswith(f"{kind}: ") and text.count("\n") <= 2, text
        assert "test_given.py" in text and "; got " in text or "there is no" in text, text
        quiet(caplog)
        return
    with contextlib.closing(MAKERS[kind](value)) as made:
        shows(made, kind, words)
    quiet(caplog)


def shows(made: Any, kind: str, words: str) -> None:
    """A widget that is shown says the words, sooner or later."""
    made._repr_mimebundle_()
    if kind == "WatchList":
        wait_for(
            lambda: words in text_of(made.html) or "press evaluate" in text_of(made.html),
            lambda: text_of(made.html),
        )
        if words not in text_of(made.html):  # slow, on a machine with other work
            made.evaluate_button.click()
        settled(words, made)
    elif kind == "GradPanel":
        settled(words, made)
    elif kind != "CompareView":
        wait_for_words(words, lambda: text_of(made._static_html()).replace("\xa0", " "))
    else:
        made.compare_button.click()
        shown = text_of(made.html)
        assert "2 variants" in shown or "2 engines" in shown, shown
    live_parts = getattr(made, "_tabs", [made])
    for one in live_parts:
        if hasattr(one, "live"):
            one.redraws.throttle.request()
    time.sleep(2 * redraw.REDRAW_SECONDS if kind == "PlanTable" else 0)


@pytest.mark.parametrize("value", [3, 2.5, object(), {1, 2}, b"w", len, type, [None], [object()]])
@pytest.mark.parametrize("kind", [one for one in MAKERS if one != "explore"])
def test_what_cannot_be_shown_is_refused_in_one_sentence(
    kind: str, value: Any, names: Names, caplog: pytest.LogCaptureFixture
) -> None:
    if kind == "TensorView" and value in (3, 2.5):
        TensorView(value).close()
        return
    if value == [None] and kind in ("WatchList", "GradPanel"):
        MAKERS[kind](value).close()
        return
    with pytest.raises(ArgumentError) as caught:
        MAKERS[kind](value)
    assert re.match(rf"{kind}: .*; got .*\n  at test_given.py:\d+$", str(caught.value))
    quiet(caplog)


@pytest.mark.parametrize(
    "build,words",
    [
        (lambda names: K.random_normal((2,)), "it draws random numbers; K.eval"),
        (lambda names: K.update(names["w"], names["w"] * 2), "it stores to 'w'"),
        (lambda names: K.print_tensor(names["w"]), "it prints"),
        (lambda names: K.sum(K.placeholder((2,), name="other")), "needs values for other"),
    ],
)
def test_symbols_that_are_not_computed_unasked(
    build: Callable[[Names], Any], words: str, names: Names
) -> None:
    version = names["w"].version
    with pytest.raises(ArgumentError, match=words):
        TensorView(build(names))
    assert names["w"].version == version


@pytest.mark.parametrize(
    "kind,words",
    [
        ("TensorView", "no name nope"),
        ("explorer", "no name nope"),
        ("explore", "there is no function 'nope'"),
    ],
)
def test_a_name_that_nothing_has(kind: str, words: str, names: Names) -> None:
    with pytest.raises(ArgumentError, match=words):
        MAKERS[kind]("nope")
    for live_one, said in (
        (PlanTable("nope"), "there is no name nope, and no call"),
        (GraphView("nope"), "no name nope"),
        (WatchList("nope"), "NameError"),
    ):
        live_one._repr_mimebundle_()
        settled(said, live_one)
        live_one.close()


def test_of_functions_of_one_name_each_has_its_own_plan(names: Names) -> None:
    one, other = PlanTable(names["f"]), PlanTable(names["g"])
    for made in (one, other):
        made._repr_mimebundle_()
    assert "mean" in one._static_text() + text_of(one.html) or "sum" in text_of(one.html)
    assert text_of(one.html) != text_of(other.html)
    steps = text_of(one.html)
    for _ in range(40):  # more than are kept
        names["g"]([names["data"]])
    time.sleep(3 * redraw.REDRAW_SECONDS)
    assert text_of(one.html) == steps
    one.close()
    other.close()


def test_a_name_that_is_taken_later_does_not_take_what_was_given(names: Names) -> None:
    view = GraphView(K.exp(names["w"]))
    assert "graph of exp" in text_of(view.html)
    names["exp"] = names["loss"]
    view.refresh()
    assert "graph of exp_2" in text_of(view.html) and "float32[3, 2]" in text_of(view.html)
    view.close()


def test_a_symbol_is_computed_anew_when_it_may_have_changed(names: Names) -> None:
    view = TensorView(names["z"])
    view._repr_mimebundle_()
    K.set_value(names["w"], np.ones((3, 2)))
    wait_for(lambda: float(view._array) == 12.0)
    K.set_value(names["w"], np.full((3, 2), 2.0))
    wait_for(lambda: float(view._array) == 24.0)
    version = names["w"].version
    view.refresh()
    assert names["w"].version == version
    view.close()
    batch = TensorView(names["y"])
    names["g"]([np.ones((7, 3))])
    batch.refresh()
    assert batch._array.shape == (7, 2)
    batch.close()


def test_one_tensor_of_several_is_chosen(names: Names) -> None:
    view = TensorView(names["model"], mode="heat map")
    options = [text for text, _ in view.which.options]
    assert "first/kernel" in options and len(options) > 3 and view.picture
    place = options.index("first/bias")
    view.which.value = place
    wait_for(lambda: view._array.ndim == 1 and "first/bias" in view._static_text())
    view.mode.value = "numbers"
    wait_for_words("first/bias", lambda: text_of(view._body.value))
    view.close()


def test_a_widget_that_cannot_be_drawn_says_so_once(
    names: Names, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = GraphView("loss")
    made._repr_mimebundle_()
    monkeypatch.setattr(made, "_read", lambda name: 1 / 0)
    for _ in range(3):
        made.redraws.throttle._run()
    assert "not shown: ZeroDivisionError: division by zero" in text_of(made.html)
    errors = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert [one.getMessage() for one in errors] == [
        "a widget could not be drawn: ZeroDivisionError: division by zero"
    ]
    assert all(one.exc_info is None for one in errors)
    made.close()


@pytest.mark.parametrize("what", ["known", "tensor", "name of a variable", "array", "placeholder"])
def test_plots_take_symbols_and_names(what: str, names: Names) -> None:
    assert kbench.plots.heatmap(OBJECTS[what](names)).axes


@pytest.mark.parametrize("what", ["K.function", "known", "functions", "name of a function"])
def test_timelines_take_what_has_run(what: str, names: Names) -> None:
    assert kbench.plots.timeline(OBJECTS[what](names)).axes


def test_layers_are_nodes_that_tell_their_operations(names: Names) -> None:
    """A layer of a model's graph opens below it; in the graph of a tensor it opens in place."""
    part = GraphView(names["model"])
    part.node.value = next(key for label, key in part.node.options if label == "out Dense")
    told = text_of(part.html)
    assert "out/softmax:0" in told and "out/dot:0" in told and "takes" in told
    part.close()
    part = GraphView(names["model"].output)
    ops = [row.op for row in drawn(part._folds)]
    assert {"out", "drop", "norm", "second", "first"} <= set(ops) and "dot" not in ops
    part.node.value = next(key for label, key in part.node.options if label.endswith(" out"))
    assert "dot" in [row.op for row in drawn(part._folds)] and "float32[?, 3]" in text_of(part.html)
    part.close()
