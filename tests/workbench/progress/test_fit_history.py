"""The course of a fit: from Keras' own history, while it runs and after it, short or long."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.workbench.progress import fit_history
from kbench.workbench.progress.course import MAX_POINTS
from kbench.workbench.progress.courses import MIN_CALLS, Courses
from kbench.workbench.progress.fit_history import MAX_SERIES

NAN = float("nan")


class History:
    """As that of Keras, and of a module that seems to be its."""

    def __init__(self, series: dict[Any, Any]) -> None:
        self.history = series


History.__module__ = "keras.callbacks"


class Model:
    def __init__(self, history: Any = None, train_function: Any = None) -> None:
        self.history = history
        self.train_function = train_function


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_history.keras_models, "is_model", lambda one: type(one) is Model)


@pytest.fixture
def courses() -> Iterator[Courses]:
    made = Courses()
    leave = made.listen()
    yield made
    leave()
    K.clear_session()


def told(courses: Courses) -> Any:
    return courses.told(lambda tensor: None)


def fit(model: Model, batches: int, look: Any) -> None:
    """A loop of Keras' name: it calls the model's function, then `look`."""
    code = (
        "def fit_loop(model, batches, look):\n"
        "    for batch in range(batches):\n"
        "        model.train_function([])\n"
        "        look(batch)\n"
    )
    names: dict[str, Any] = {}
    exec(compile(code, "/keras/engine/training_arrays.py", "exec"), names)
    names["fit_loop"](model, batches, look)


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


@pytest.mark.parametrize(("series", "wanted"), HISTORIES)
def test_a_fit_that_was_too_short_to_be_seen_is_told_at_the_end(
    courses: Courses, series: dict[Any, Any], wanted: Any
) -> None:
    old, model = Model(History({"loss": [9.0, 8.0]})), Model()
    courses.cell_started([old, model, 3])
    model.history = History(series)
    courses.cell_ended([old, model, 3])
    found = told(courses)
    assert (None if found is None else found["series"]) == wanted
    assert found is None or (found["unit"], found["source"]) == ("epoch", "fit")


def test_without_a_new_fit_nothing_is_told(courses: Courses) -> None:
    model = Model(History({"loss": [2.0, 1.0]}))
    courses.cell_started([model])
    assert told(courses) is None
    courses.cell_ended([model])
    assert told(courses) is None


def test_before_two_epochs_the_batches_are_told_then_the_epochs(courses: Courses) -> None:
    w = K.variable(1.0)
    train = K.function([], [w * 1.0], [(w, w * 0.5)], name="train_function")
    model, found = Model(History({"loss": []}), train), []  # type: ignore[var-annotated]

    def look(batch: int) -> None:
        other = threading.Thread(target=lambda: found.append(told(courses)))
        other.start()
        other.join()
        if batch == MIN_CALLS:
            model.history.history["loss"] += [3.5, 2.5]

    courses.cell_started([])
    fit(model, MIN_CALLS + 2, look)
    few, batches, same, epochs = found[MIN_CALLS - 2 :]
    assert few is None and (batches["unit"], batches["source"]) == ("batch", "fit")
    assert batches["series"][0][1][:2] == [1.0, 0.5] and same["count"] == MIN_CALLS + 1
    assert epochs["unit"] == "epoch" and epochs["series"] == [["loss", [3.5, 2.5]]]
    courses.cell_ended([])
    assert told(courses) == epochs
    assert [one.unit for one in courses.shown()] == ["epoch"]  # its batches are the same fit
    courses.cell_started([])
    assert told(courses) is None and courses.of_this_cell() == []


def test_a_long_fit_is_thinned_and_keeps_its_ends(courses: Courses) -> None:
    model = Model()
    courses.cell_started([model])
    series: dict[str, list[float]] = {f"metric{n}": [1.0, 2.0] for n in range(2 * MAX_SERIES)}
    model.history = History({"loss": [float(n) for n in range(100_001)], **series})
    courses.cell_ended([model])
    found = told(courses)
    assert found["count"] == 100_001 and len(found["series"]) == MAX_SERIES
    values = found["series"][0][1]
    assert len(values) <= 2 * MAX_POINTS + 1 and (values[0], values[-1]) == (0.0, 100_000.0)
    assert all(math.isfinite(value) for value in values)
