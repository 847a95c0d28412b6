"""The course of a loss: what each call of a training function gave, in bounded memory.

A call tells its results anyway (`profile.call_ended`), so nothing is evaluated for this. Curves are
those of the last cell that trained anything.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kbench.engine.core import fork_safety
from kbench.engine.runtime import profile

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

MAX_POINTS = 120
"""Points of a curve from which on two become one: as many as a small picture has room for."""
MAX_CURVES = 4
"""Functions whose losses are kept."""


class Curve:
    """Numbers in the order in which they came; each point is the mean of `stride` of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first = self.last = math.nan
        self.stride = 1
        self._means: list[float] = []
        self._sum, self._summed = 0.0, 0

    def add(self, value: float) -> None:
        """One more number."""
        if not self.count:
            self.first = value
        self.count += 1
        self.last = value
        self._sum += value
        self._summed += 1
        if self._summed < self.stride:
            return
        means = [*self._means, self._sum / self._summed]
        self._sum, self._summed = 0.0, 0
        if len(means) == 2 * MAX_POINTS:
            means = [(one + other) / 2 for one, other in zip(means[::2], means[1::2], strict=True)]
            self.stride *= 2
        self._means = means  # at once, as others read it meanwhile

    def points(self) -> list[tuple[float, float]]:
        """Pairs of a place in the order, from 1 on, and a mean; the last number is exact."""
        means, stride, count, last = self._means, self.stride, self.count, self.last
        found = [((at + 0.5) * stride + 0.5, mean) for at, mean in enumerate(means)]
        if stride == 1:
            return found
        return [*found, (float(count), last)]


class LossCurve:
    """The losses of one function, and the tensor that is its loss."""

    def __init__(self, function: Function, place: int) -> None:
        self.function = function.name
        self.tensor: weakref.ref[Tensor] = weakref.ref(function.outputs[place])
        self.place = place
        self.curve = Curve()


class LossCurves:
    """Listens to the calls of training functions while anybody wants it to."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._users = 0
        self._stop: Callable[[], None] | None = None
        self._known: weakref.WeakKeyDictionary[Function, LossCurve | None] = (
            weakref.WeakKeyDictionary()
        )
        self._shown: list[LossCurve] = []
        self._new_cell = False

    def listen(self) -> Callable[[], None]:
        """Keep losses until the returned function is called."""
        with self._lock:
            self._users += 1
            if self._stop is None:
                self._stop = profile.call_ended.subscribe(self._ended)

        def leave() -> None:
            with self._lock:
                self._users -= 1
                if not self._users and self._stop is not None:
                    self._stop()
                    self._stop = None

        return leave

    def cell_started(self) -> None:
        """A cell begins: the next call of a training function begins anew."""
        self._new_cell = True

    def shown(self) -> list[LossCurve]:
        """The curves of the last cell that trained, the first function first."""
        return list(self._shown)

    def of_this_cell(self) -> list[LossCurve]:
        """The same, none where the newest cell has trained nothing so far."""
        return [] if self._new_cell else self.shown()

    def _ended(self, call: tuple[Function, list[np.ndarray], list[object]]) -> None:
        function, _arrays, results = call
        if not function.updates:
            return
        if self._new_cell:
            self._new_cell = False
            self._known.clear()
            self._shown = []
        if function not in self._known:
            self._known[function] = self._begun(function, results)
        found = self._known[function]
        if found is not None:
            found.curve.add(float(np.asarray(results[found.place]).reshape(-1)[0]))

    def _begun(self, function: Function, results: list[object]) -> LossCurve | None:
        """The first of the results that is one float, if there is any, and room for a curve."""
        if len(self._shown) >= MAX_CURVES:
            return None
        for place, result in enumerate(results[: len(function.outputs)]):
            if isinstance(result, np.ndarray) and result.size == 1 and result.dtype.kind == "f":
                made = LossCurve(function, place)
                self._shown = [*self._shown, made]
                return made
        return None


losses = LossCurves()
"""Those of the program."""
