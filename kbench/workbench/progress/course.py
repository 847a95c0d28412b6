"""The course of a loss and of what is measured with it: rows of numbers in bounded memory."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

MAX_POINTS = 120
"""Points of a curve from which on two become one: as many as a small picture has room for."""
LOSS = "loss"
"""The name of the series of what is trained; that of its validation begins with `val_`."""
_FIRST = (LOSS, f"val_{LOSS}")


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
        means = self._means
        means.append(self._sum / self._summed)
        self._sum, self._summed = 0.0, 0
        if len(means) == 2 * MAX_POINTS:
            pairs = zip(means[::2], means[1::2], strict=True)
            self._means = [(one + other) / 2 for one, other in pairs]  # others read the old list
            self.stride *= 2

    def points(self) -> list[tuple[float, float]]:
        """Pairs of a place in the order, from 1 on, and a mean; first and last number are exact."""
        means, stride, count = list(self._means), self.stride, self.count
        found = [((at + 0.5) * stride + 0.5, mean) for at, mean in enumerate(means)]
        if stride == 1:
            return found
        return [(1.0, self.first), *found, (float(count), self.last)]


class Course:
    """What a training function gives call by call, or a fit epoch by epoch.

    `source` is the function's name, or "fit"; `unit` is "call", "batch" or "epoch"; `tensor` is the
    loss, where that is known.
    """

    def __init__(self, source: str, unit: str, tensor: weakref.ref[Tensor] | None = None) -> None:
        self.source = source
        self.unit = unit
        self.tensor = tensor
        self.by_name: dict[str, Curve] = {}

    @classmethod
    def of_function(cls, function: Function, place: int) -> Course:
        """That of a function whose loss is the output at `place`."""
        made = cls(function.name, "call", weakref.ref(function.outputs[place]))
        made.by_name[LOSS] = Curve()
        return made

    @property
    def curve(self) -> Curve:
        """Of the loss."""
        return next(self.series())[1]

    def series(self) -> Iterator[tuple[str, Curve]]:
        """Names and curves: the loss, its validation, then metrics in the order of the fit."""
        known = dict(self.by_name)  # another thread may add to it
        first = [name for name in _FIRST if name in known]
        yield from ((name, known[name]) for name in dict.fromkeys([*first, *known]))
