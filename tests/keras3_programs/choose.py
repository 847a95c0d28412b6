"""Choices by a seed that are the same on each backend."""

from __future__ import annotations

from typing import Any

import numpy as np


class Chooser:
    """Random choices: a stream of its own for each part of a model, so that a part that a backend
    refuses changes no other part."""

    def __init__(self, *seeds: int) -> None:
        self.draw = np.random.RandomState(np.array(seeds, "uint32"))

    def one(self, *options: Any) -> Any:
        return options[self.draw.randint(len(options))]

    def chance(self, share: float) -> bool:
        return bool(self.draw.uniform() < share)

    def whole(self, low: int, high: int) -> int:
        """A number from `low` to `high`, both of which may come."""
        return int(self.draw.randint(low, high + 1))

    def number(self, low: float, high: float) -> float:
        return round(float(self.draw.uniform(low, high)), 3)

    def wholes(self, count: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.whole(low, high) for _ in range(count))

    def some(self, options: dict[str, Any], share: float) -> dict[str, Any]:
        """A part of the options, each with that chance; a callable is asked for its value."""
        drawn = [(name, value() if callable(value) else value) for name, value in options.items()]
        return {name: value for name, value in drawn if self.chance(share)}
