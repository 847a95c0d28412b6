"""The courses of losses in a cell: what each call of a training function gave, and each epoch.

A call tells its results anyway (`profile.call_ended`), and Keras keeps a history of its fit, so
nothing is evaluated for this. Courses are those of the last cell that trained anything. Calls take
half a microsecond longer while they are listened to: whoever draws courses listens, and only then.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.engine.core import fork_safety
from kbench.engine.runtime import profile
from kbench.workbench.core_types import JsonObject
from kbench.workbench.progress.course import LOSS, Course, Curve
from kbench.workbench.progress.fit_history import FIT, FitHistory

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

MAX_COURSES = 4
"""Functions whose losses are kept."""
MIN_EPOCHS = 2
"""Of a curve by epochs; until then it is one by batches."""
MIN_CALLS = 10
"""Of one by calls or batches: fewer are numbers, and no curve."""
_DIGITS = 6
"""Of a number that is told."""
Call = tuple["Function", list[np.ndarray], list[Any]]
Called = Callable[["Tensor"], "str | None"]


class Courses:
    """Listens to the calls of training functions while anybody wants it to."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._users = 0
        self._stop: Callable[[], None] | None = None
        self._known: weakref.WeakKeyDictionary[Function, tuple[Course, int] | None] = (
            weakref.WeakKeyDictionary()
        )
        self._called: list[Course] = []
        self._fit = FitHistory()
        self._runner = 0
        self._running = self._new_cell = False
        # The function of the last call, its curve, and which of its results is the loss.
        self._last: tuple[Function | None, Curve | None, int] = (None, None, 0)

    # ------------------------------------------------------------------ what happens

    def listen(self) -> Callable[[], None]:
        """Keep losses until the returned function is called."""
        left = [False]
        with self._lock:
            self._users += 1
            if self._stop is None:
                self._stop = profile.call_ended.subscribe(self._ended)

        def leave() -> None:
            with self._lock:
                self._users -= not left[0]
                left[0] = True
                if not self._users and self._stop is not None:
                    self._stop()
                    self._stop = None

        return leave

    def cell_started(self, values: Iterable[object] = ()) -> None:
        """A cell begins, on this thread: what it trains begins anew.

        `values` are those that the user has names for.
        """
        with self._lock:
            self._runner, self._running = threading.get_ident(), True
            self._last = (None, None, 0)
            self._fit.cell_started(values)
            self._new_cell = True

    def cell_ended(self, values: Iterable[object] = ()) -> None:
        """The cell has ended, maybe with a fit too short to be seen before."""
        with self._lock:
            if self._running:
                self._running = False
                self._last = (None, None, 0)
                self._fit.cell_ended(values)

    def _ended(self, call: Call) -> None:
        function, curve, place = self._last
        if call[0] is not function:
            function, curve, place = self._find(call)
        if curve is not None and call[2][place].size == 1:
            curve.add(call[2][place].item())

    def _find(self, call: Call) -> tuple[Function | None, Curve | None, int]:
        function, _arrays, results = call
        if not function.updates:
            return None, None, 0  # the next call is likely that of the training function again
        if self._new_cell:
            self._new_cell = False
            self._known.clear()
            self._called = []
        if function not in self._known:
            self._known[function] = self._begun(function, results)
        found = self._known[function]
        self._last = (function, None, 0) if found is None else (function, found[0].curve, found[1])
        return self._last

    def _begun(self, function: Function, results: list[Any]) -> tuple[Course, int] | None:
        """The first of the results that is one float, if there is any, and room for a curve."""
        if len(self._called) >= MAX_COURSES:
            return None
        for place, result in enumerate(results[: len(function.outputs)]):
            if isinstance(result, np.ndarray) and result.size == 1 and result.dtype.kind == "f":
                made = Course.of_function(function, place)
                self._called = [*self._called, made]
                return made, place
        return None

    # ------------------------------------------------------------------ what is known

    def shown(self) -> list[Course]:
        """Those of the last cell that trained: epochs of a fit, then functions in their order."""
        with self._lock:
            if self._running:
                self._fit.look(self._runner)
            epochs, own = self._fit.course, self._fit.functions
            called = [] if self._new_cell and epochs is not None else self._called
            known = [found for one, found in self._known.items() if one in own and found]
        batches = [course for course, _ in known]  # by the first of the model's functions
        for course in batches[:1]:
            course.unit, course.source = "batch", FIT
        if epochs is None or epochs.by_name == {} or epochs.curve.count < MIN_EPOCHS:
            return [one for one in called if one not in batches[1:]]
        return [epochs, *(one for one in called if one not in batches)]

    def of_this_cell(self) -> list[Course]:
        """The same, none where the newest cell has trained nothing so far."""
        found = self.shown()
        return found if not self._new_cell or self._fit.course is not None else []

    def told(self, called: Called) -> JsonObject | None:
        """What a front end elsewhere gets to draw; None while there is no curve.

        `unit` and `count` are those of the first series; numbers that are not finite are None.
        """
        found = [one for one in self.of_this_cell() if one.curve.count >= _least(one)]
        if not found:
            return None
        head = found[0]
        return {
            "unit": head.unit,
            "source": head.source,
            "count": head.curve.count,
            "series": [
                [name, [_rounded(value) for _, value in curve.points()]]
                for name, curve in _named(found, called)
            ],
        }


def _least(course: Course) -> int:
    return MIN_EPOCHS if course.unit == "epoch" else MIN_CALLS


def _named(courses: Sequence[Course], called: Called) -> list[tuple[str, Curve]]:
    """All series; a loss has its user's name, and its function's where there are several."""
    found = []
    for course in courses:
        tensor = None if course.tensor is None else course.tensor()
        own = None if tensor is None else called(tensor)
        for name, curve in course.series():
            word = own if own and name == LOSS else name
            found.append((f"{word} of {course.source}" if len(courses) > 1 else word, curve))
    return found


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


program = Courses()
"""Those of the program."""
