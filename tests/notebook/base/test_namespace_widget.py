"""Watches, gradients, graphs, plans, A/B: the facts of the terminal's panes, and quiet unseen."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from seen import settled, text_of
from waiting import wait_for

from kbench import backend as K
from kbench.engine.graph import variables
from kbench.engine.runtime import config, profile
from kbench.notebook import CompareView, GradPanel, GraphView, PlanTable, WatchList, explorer
from kbench.notebook.base import inspector_hub, redraw

HOSTILE = '<script>alert("1")</script>&'
Names = dict[str, Any]


@pytest.fixture
def names() -> Iterator[Names]:
    """A small model whose loss was evaluated nowhere yet."""
    rng = np.random.default_rng(0)
    x = K.placeholder((None, 3), name="x")
    w = K.variable(rng.normal(size=(3, 2)), name="w")
    dead = K.variable(np.ones((2,)), name="dead")
    y = K.dot(x, w)
    loss = K.mean(K.square(y)) + K.sum(dead * 0.0)
    yield {
        "K": K, "x": x, "w": w, "dead": dead, "y": y, "loss": loss, "data": np.ones((4, 3)),
        "train": K.function([x], [loss], name="train"),
    }  # fmt: skip


MAKERS: dict[str, Callable[[Names], Any]] = {
    "watch": lambda names: WatchList(["K.sum(w)", "data.mean()"], names),
    "gradient": lambda names: GradPanel(namespace=names),
    "graph": lambda names: GraphView("loss", names),
    "plan": lambda names: PlanTable(namespace=names),
    "versus": lambda names: CompareView("K.sum(w)", namespace=names),
    "explorer": explorer,
}


# ------------------------------------------------------------------ all of them


@pytest.mark.parametrize("kind", MAKERS)
def test_hidden_widgets_send_and_evaluate_nothing(kind: str, names: Names) -> None:
    sent: list[Any] = []
    part = MAKERS[kind](names)
    everything = [part]
    for one in everything:  # grows while it is read
        everything += getattr(one, "children", ())
        one._send = lambda message, buffers=None: sent.append(message)
    for value in range(5):
        K.set_value(names["w"], np.full((3, 2), float(value)))
        K.set_epsilon(10.0**-value)
        names["train"]([names["data"]])
    time.sleep(3 * redraw.REDRAW_SECONDS)
    assert sent == []
    part.close()
    assert (
        not variables.changed
        and not config.changed
        and not profile.run_finished
        and not profile.inputs_fed
    )
    assert not inspector_hub._hubs and not profile.fed_value_sources


@pytest.mark.parametrize("kind", MAKERS)
def test_bundle_has_words_and_a_small_picture(kind: str, names: Names) -> None:
    names[f"bad{HOSTILE}"] = K.variable(1.0, name="bad")
    part = MAKERS[kind](names)
    bundle = part._repr_mimebundle_()
    assert set(bundle) >= {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert bundle["text/plain"].strip() and len(bundle["text/html"].encode()) <= 13_000
    text_of(bundle["text/html"])
    assert repr(part).startswith(f"{type(part).__name__}: ") and "children" not in repr(part)
    part.close()


@pytest.mark.parametrize("kind", MAKERS)
def test_every_control_is_named_and_explained(kind: str, names: Names) -> None:
    part = MAKERS[kind](names)
    everything, controls = [part], []
    for one in everything:
        everything += getattr(one, "children", ())
        if hasattr(one, "description") and not hasattr(one, "children"):
            controls.append(one)
    controls = [one for one in controls if type(one).__name__ != "HTML"]
    assert len(controls) >= 3
    for one in controls:
        assert one.description or type(one).__name__ == "ToggleButtons", one
        assert getattr(one, "tooltip", None) or getattr(one, "tooltips", None), one
    part.close()


# ------------------------------------------------------------------ watches


def test_watches_follow_changes_with_old_and_new_value(names: Names) -> None:
    K.set_value(names["w"], np.ones((3, 2)))
    part = WatchList(["K.sum(w)"], names)
    part._repr_mimebundle_()
    settled("K.sum(w)6", part)
    K.set_value(names["w"], np.full((3, 2), 2.0))
    settled("K.sum(w)6changed: 12", part)
    assert part._static_text().endswith("K.sum(w)  6 -> 12")
    part.expression.value = "data.shape"
    assert part.expressions == ["K.sum(w)", "data.shape"] and part.expression.value == ""
    settled("(4, 3)", part)
    part.chosen.value = "K.sum(w)"
    part.remove_button.click()
    assert part.expressions == ["data.shape"]
    wait_for(lambda: "K.sum" not in part.html)
    part.close()


@pytest.mark.parametrize(
    "expression, words",
    [
        ("w.set_value(3)", "refused"),
        ("nope", "NameError"),
        ("y", "needs x"),
        ("1 +", "not Python"),
        (HOSTILE, "not Python"),
        ("1 / 0", "ZeroDivisionError"),
        ("K.set_value(w, data[:3, :2])", "must not change"),
        ("K.eval(K.update(w, w))", "must not change"),
    ],
)
def test_watches_say_what_is_wrong(expression: str, words: str, names: Names) -> None:
    before = K.get_value(names["w"])
    part = WatchList([expression], names)
    part._repr_mimebundle_()
    settled(words, part)
    assert np.array_equal(K.get_value(names["w"]), before)
    part.close()


def test_watches_have_a_limit_and_no_doubles(names: Names) -> None:
    part = WatchList([f"{number}" for number in range(60)], names)
    assert len(part.expressions) == 50 and "the limit is 50" in part.html
    part.remove("0")
    part.add("1")
    assert "watched already" in part.html
    part.close()


# ------------------------------------------------------------------ gradients


def test_gradients_that_are_told_before_the_reply_stay(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the thread that computes may be the first."""
    part = GradPanel(namespace=names)
    ask = part.hub.ask

    def late(question: Any) -> Any:
        before = part._newest_number
        reply = ask(question)
        wait_for(lambda: part._newest_number > before)
        return reply

    monkeypatch.setattr(part.hub, "ask", late)
    part.redraws.start()
    settled("needs values for x", part)
    part.close()


def test_gradients_of_what_was_fed_last(names: Names) -> None:
    part = GradPanel(namespace=names)
    part._repr_mimebundle_()
    settled("needs values for x", part)
    names["train"]([names["data"]])
    part.compute()
    settled("float32[3, 2]", part)
    shown = text_of(part.html)
    assert "dead !" in shown and "100%" in shown and "d loss / d variable; loss is " in shown
    assert [name for name, _ in part.look.options] == ["-", "w", "dead"]
    part.look.value = "gradient/w"
    expected = K.function([names["x"]], K.gradients(names["loss"], [names["w"]]))([names["data"]])
    assert np.allclose(part.view._array, expected[0])
    part.view.mode.value = "heat map"
    view = part.view
    K.set_value(names["w"], np.zeros((3, 2)))
    wait_for(lambda: not part.view._array.any())
    assert part.view is view and view.mode.value == "heat map"
    part.close()


def test_gradients_without_a_loss_say_so() -> None:
    part = GradPanel(namespace={"a": np.ones(3)})
    part._repr_mimebundle_()
    assert "no loss yet" in text_of(part.html)
    part.close()


# ------------------------------------------------------------------ A/B


@pytest.mark.parametrize(
    "expression, variants, words",
    [
        ("K.ones((2,)) * K.epsilon()", "epsilon=1,2", ["2 variants", "epsilon=2", "1"]),
        ("K.sum(w)", "engine=kbench,numpy", ["2 engines", "numpy"]),
        ("K.sum(", "epsilon=1,2", ["one expression is needed"]),
        ("K.sum(w)", "speed=1", ["unknown setting; choose from"]),
        ("K.sum(w)", "", ["variants are needed"]),
        ("", "epsilon=1,2", ["type an expression"]),
        ("nope", "epsilon=1,2", ["NameError"]),
        ("K.set_value(w, w)", "epsilon=1,2", ["must not change"]),
        ("w / '" + HOSTILE + "'", "epsilon=1,2", ["<script>"]),
    ],
)
def test_comparisons(expression: str, variants: str, words: list[str], names: Names) -> None:
    before = config.snapshot()
    part = CompareView(expression, variants, names)
    part.compare_button.click()
    shown = text_of(part.html)
    assert [word for word in words if word not in shown] == [], shown
    assert config.snapshot() == before and not part._runs
    part.close()


def test_what_would_be_compared_is_shown_before(names: Names) -> None:
    part = CompareView("", "epsilon=1,2", names)
    assert "type an expression" in text_of(part.html) and "type an" in part._static_text()
    part.expression.value = "K.sum(w)"
    part.variants.value = "epsilon=3"
    shown = text_of(part.html)
    assert "K.sum(w)" in shown and "not compared yet under epsilon=3" in shown
    part.close()


def test_presets_fill_the_field(names: Names) -> None:
    part = CompareView("w", namespace=names)
    part.preset.value = part.preset.options[2][1]
    assert part.variants.value == "floatx=float32,float64"
    part.variants.value = "epsilon=3"
    assert part.preset.value == ""
    part.choose("y")
    assert part.expression.value == "y"
    part.expression.value = "y + 1"
    part.choose("w")
    assert part.expression.value == "y + 1"
    part.close()


# ------------------------------------------------------------------ a name carries over


@pytest.mark.parametrize(("tab", "control", "name"), [
    ("graph", "chosen", "w"), ("gradients", "loss", "loss"), ("names", "chosen", "w"),
    ("value", "chosen", "w"),
])  # fmt: skip
def test_a_tab_that_is_not_open_shows_the_choice_at_once(
    names: Names, tab: str, control: str, name: str
) -> None:
    """Its controls are what a user finds there, and may use, before it is drawn anew."""
    whole = explorer(names)
    part = whole.tabs[tab]
    part.refresh()
    assert getattr(part, control).value != name
    whole.choose(name)
    assert getattr(part, control).value == name
    whole.close()


def test_a_name_chosen_in_one_tab_is_on_view_in_the_others(names: Names) -> None:
    whole = explorer(names)
    whole._repr_mimebundle_()
    wait_for(lambda: len(whole.tabs["names"].chosen.options) > 5)
    whole.tabs["names"].chosen.value = "w"
    assert (
        whole.tabs["compare"].expression.value == "w"
        and whole.tabs["watches"].expression.value == "w"
    )
    whole.selected_index = 1
    wait_for(lambda: whole.view is not None and "w[" in whole.view._body.value)
    whole.selected_index = 4
    wait_for(lambda: whole.tabs["graph"].chosen.value == "w")
    whole.tabs["graph"].chosen.value = "y"
    whole.selected_index = 1
    settled("K.eval gives its value", whole.tabs["value"])
    whole.tabs["graph"].chosen.value = "loss"
    whole.selected_index = 3
    wait_for(lambda: whole.tabs["gradients"].loss.value == "loss")
    whole.tabs["names"].picked.emit("train")
    whole.selected_index = 5
    names["train"]([names["data"]])
    settled("train", whole.tabs["plan"])
    whole.close()
