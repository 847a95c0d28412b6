"""The curve of a fit: from Keras' own history, while it runs and after it, short or long."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from kbench.workbench.progress import fit_curve
from kbench.workbench.progress.fit_curve import FitCurves

NAN = float("nan")


class History:
    """As that of Keras, and of a module that seems to be its."""

    def __init__(self, series: dict[Any, Any]) -> None:
        self.history = series


History.__module__ = "keras.callbacks"


class Model:
    def __init__(self, history: Any = None) -> None:
        self.history = history


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_curve.keras_models, "is_model", lambda one: type(one) is Model)


def trained(curves: FitCurves, history: History, batches: list[Any]) -> list[Any]:
    """What is told while a loop of Keras' name trains on batches of these losses."""
    code = (
        "def fit_loop(model, batches, look):\n"
        "    for loss in batches:\n"
        "        outs = [loss]\n"
        "        look()\n"
    )
    names: dict[str, Any] = {}
    exec(compile(code, "/keras/engine/training_arrays.py", "exec"), names)
    found: list[Any] = []
    look = lambda: found.append(curves.sample(threading.get_ident()))  # noqa: E731
    names["fit_loop"](Model(history), batches, look)
    return found


# (history, what is told of it)
HISTORIES: list[tuple[dict[Any, Any], Any]] = [
    ({"loss": [2.0, 1.0]}, [["loss", [2.0, 1.0]]]),
    (
        {"val_loss": [3, 2], "acc": [0.1, 0.2], "loss": [np.float32(2), np.float64(1)]},
        [["loss", [2.0, 1.0]], ["val_loss", [3.0, 2.0]], ["acc", [0.1, 0.2]]],
    ),
    ({"loss": [1.0, NAN, "x", float("inf")]}, [["loss", [1.0, None, None, None]]]),
    ({"loss": [1.0]}, None),
    ({}, None),
    ({"loss": "text", 3: [1, 2]}, None),
]


@pytest.mark.parametrize(("series", "told"), HISTORIES)
def test_a_fit_that_was_too_short_to_be_seen_is_told_at_the_end(
    series: dict[Any, Any], told: Any
) -> None:
    curves = FitCurves()
    old, model = Model(History({"loss": [9.0, 8.0]})), Model()
    curves.cell_started([old, model, 3])
    model.history = History(series)
    found = curves.cell_ended([old, model, 3])
    assert (None if found is None else found["series"]) == told
    assert found is None or (found["unit"] == "epoch" and found["done"])


def test_without_a_new_fit_nothing_is_told() -> None:
    curves, model = FitCurves(), Model(History({"loss": [2.0, 1.0]}))
    curves.cell_started([model])
    assert curves.sample(threading.get_ident()) is None and curves.cell_ended([model]) is None


def test_before_two_epochs_the_batches_are_told_then_the_epochs() -> None:
    curves, history = FitCurves(), History({"loss": []})
    curves.cell_started([])
    first = trained(curves, history, [4.0, 3.0, 3.0])
    assert first[0] is None and first[1]["unit"] == "batch"
    assert first[2]["series"] == [["loss", [4.0, 3.0, 3.0]]]
    history.history["loss"] += [3.5, 2.5]
    (second, same) = trained(curves, history, [2.0, 2.0])
    assert second["unit"] == "epoch" and second["count"] == 2 and same is None
    last = curves.cell_ended([])
    assert last is not None and last["done"] and last["series"] == [["loss", [3.5, 2.5]]]
    assert curves.cell_ended([]) is None


def test_a_long_fit_is_thinned_and_keeps_its_end() -> None:
    curves, model = FitCurves(), Model()
    curves.cell_started([model])
    model.history = History({"loss": [float(n) for n in range(100_001)]})
    found = curves.cell_ended([model])
    assert found is not None and found["count"] == 100_001
    ((_, values),) = found["series"]
    assert len(values) <= fit_curve.MAX_POINTS and values[-1] == 100_000.0
