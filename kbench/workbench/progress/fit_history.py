"""Loss and metrics of a Keras `fit` over its epochs, read beside the thread that trains.

Nothing is added to the program: the values are those of Keras' own `History`. No method is called.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np

from kbench.workbench.models import keras_models
from kbench.workbench.models.fields import field
from kbench.workbench.progress.course import Course, Curve

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function

FIT = "fit"
"""The source of a course by epochs, and of one by batches."""
MAX_SERIES = 8
"""Loss, metrics, and the same of the validation."""
_MAX_FRAMES = 200
"""Frames of a thread that are looked at, from the innermost."""
_LOOPS = {  # function and file of a fit, and what it calls its model
    ("fit_loop", "training_arrays.py"): "model",
    ("fit_generator", "training_generator.py"): "model",
    ("fit", "trainer.py"): "self",
}


class FitHistory:
    """The newest fit of the running cell. `course` has its epochs, None while there is no fit."""

    def __init__(self) -> None:
        self._before: list[Callable[[], object]] = []  # weak: what was there when the cell began
        self._history: object = None
        self.course: Course | None = None
        self._step: object = None  # what the model calls for each batch

    def cell_started(self, values: Iterable[object]) -> None:
        """A cell begins; `values` are those that its user has names for."""
        self._before = [weakref.ref(history) for _, history in _histories(values)]
        self._history = self.course = self._step = None

    @property
    def functions(self) -> list[Function]:
        """The engine's functions that train the model."""
        return keras_models.functions_in(self._step)

    def look(self, thread: int) -> None:
        """Take over what is known of the fit in which a thread is, if it is in any."""
        model = _in_fit(sys._current_frames().get(thread))
        if model is not None:
            self._take(model, field(model, "history"))
        self._read()

    def cell_ended(self, values: Iterable[object]) -> None:
        """The whole course of the cell's last fit, also of one that was too short to be seen."""
        if self._history is None:
            before = [one() for one in self._before]
            found = _histories(values)
            new = [pair for pair in found if all(pair[1] is not old for old in before)]
            if new:
                self._take(*new[-1])
        self._read()
        self._history, self._before = None, []

    def _take(self, model: object, history: object) -> None:
        if history is not self._history:
            self._history, self.course = history, Course(FIT, "epoch")
            self._step = field(model, "train_function")

    def _read(self) -> None:
        """Add the epochs that are over since."""
        held = field(self._history, "history")
        if self.course is None or type(held) is not dict:
            return
        curves = self.course.by_name
        for name, values in list(held.items()):
            if type(name) is not str or type(values) is not list:
                continue
            if name not in curves and (not values or len(curves) >= MAX_SERIES):
                continue
            curve = curves.setdefault(name, Curve())
            for value in values[curve.count :]:
                curve.add(_number(value))


def _in_fit(frame: FrameType | None) -> object:
    """The model of the innermost `fit` or `fit_generator` that a frame was called from."""
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        file = frame.f_code.co_filename.replace("\\", "/")
        name = _LOOPS.get((frame.f_code.co_name, file.rsplit("/", 1)[-1]))
        if "keras" in file and name is not None:
            return frame.f_locals.get(name)
        frame = frame.f_back
    return None


def _histories(values: Iterable[object]) -> list[tuple[object, object]]:
    """The models among these values, and what they remember of their last fit."""
    found = []
    for value in values:
        if keras_models.is_model(value):
            history = field(value, "history")
            if type(history).__module__.startswith("keras."):  # which can be referred to weakly
                found.append((value, history))
    return found


def _number(value: object) -> float:
    """A number; NaN for anything else."""
    if not isinstance(value, (int, float, np.floating, np.integer)) or isinstance(value, bool):
        return math.nan
    return float(value)
