"""Loss and metrics of a Keras `fit` over its epochs, read beside the thread that trains.

Nothing is added to the program: the values are those of Keras' own `History`, and within the first
epochs, while it has none, the loss of the batch that was trained last. No method is called.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from types import FrameType

import numpy as np

from kbench.workbench.analysis import keras_models
from kbench.workbench.core_types import JsonObject

MAX_POINTS = 200
"""Of a series that are told: a terminal has about as many columns."""
MIN_POINTS = 2
"""Of a curve."""
MAX_SERIES = 8
"""Loss, metrics, and the same of the validation."""
_MAX_FRAMES = 200
"""Frames of a thread that are looked at, from the innermost."""
_LOOPS = {("fit_loop", "training_arrays.py"), ("fit_generator", "training_generator.py")}


class FitCurves:
    """The newest fit of the running cell."""

    def __init__(self) -> None:
        self._before: list[Callable[[], object]] = []  # weak: what was there when the cell began
        self._history: object = None
        self._batches: deque[float] = deque(maxlen=MAX_POINTS)
        self._told: JsonObject | None = None

    def cell_started(self, values: Iterable[object]) -> None:
        """A cell begins; `values` are those that its user has names for."""
        self._before = [weakref.ref(history) for history in _histories(values)]
        self._history, self._told = None, None
        self._batches.clear()

    def sample(self, thread: int) -> JsonObject | None:
        """What is known of the fit in which a thread is; None without one, or without news."""
        frame = _fit_frame(sys._current_frames().get(thread))
        if frame is None:
            return None
        names = frame.f_locals
        history = keras_models.fields(names.get("model")).get("history")
        if history is not self._history:
            self._history = history
            self._batches.clear()
        results = names.get("outs")  # of the batch before: a new one has none while it is trained
        loss = _number(results[0]) if type(results) is list and results else None
        if loss is not None:
            self._batches.append(loss)
        return self._news(False)

    def cell_ended(self, values: Iterable[object]) -> JsonObject | None:
        """The whole curve of the cell's last fit, also of one that was too short to be sampled."""
        if self._history is None:
            before = [one() for one in self._before]
            new = [one for one in _histories(values) if all(one is not old for old in before)]
            self._history = new[-1] if new else None
        found = self._news(True)
        self._history = None
        self._batches.clear()
        return found

    def _news(self, done: bool) -> JsonObject | None:
        series = _series(self._history)
        epochs = max((len(values) for values in series.values()), default=0)
        if epochs >= MIN_POINTS:
            told = {"unit": "epoch", "count": epochs, "series": _thinned(series)}
        elif len(self._batches) >= MIN_POINTS:
            batches = list(self._batches)
            told = {"unit": "batch", "count": len(batches), "series": [["loss", batches]]}
        else:
            return None
        told["done"] = done
        if told == self._told:
            return None
        self._told = told
        return told


def _fit_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost loop of `fit` or `fit_generator` that a frame was called from."""
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        file = frame.f_code.co_filename.replace("\\", "/")
        if "keras" in file and (frame.f_code.co_name, file.rsplit("/", 1)[-1]) in _LOOPS:
            return frame
        frame = frame.f_back
    return None


def _histories(values: Iterable[object]) -> list[object]:
    """What the models among these values remember of their last fit."""
    found = []
    for value in values:
        if keras_models.is_model(value):
            history = keras_models.fields(value).get("history")
            if type(history).__module__.startswith("keras."):  # which can be referred to weakly
                found.append(history)
    return found


def _series(history: object) -> dict[str, list[float | None]]:
    """Values by epoch of the loss, its validation, and each metric; loss first."""
    held = keras_models.fields(history).get("history")
    if type(held) is not dict:
        return {}
    found = {
        name: [_number(value) for value in list(values)]
        for name, values in list(held.items())
        if type(name) is str and type(values) is list
    }
    metrics = [name for name in found if name not in ("loss", "val_loss")]
    order = [name for name in ("loss", "val_loss") if name in found] + metrics
    return {name: found[name] for name in order[:MAX_SERIES]}


def _thinned(series: Mapping[str, list[float | None]]) -> list[list[object]]:
    found: list[list[object]] = []
    for name, values in series.items():
        step = -(-len(values) // MAX_POINTS)
        found.append([name, values[::-step][::-1]])  # the last one is always there
    return found


def _number(value: object) -> float | None:
    """A finite number, in six digits; None for anything else."""
    if not isinstance(value, (int, float, np.floating, np.integer)) or isinstance(value, bool):
        return None
    number = float(value)
    return float(f"{number:.6g}") if np.isfinite(number) else None
