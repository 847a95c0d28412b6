"""How much one output may read: as many elements as one array's exact statistics take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.engine.inspect.statistics import MAX_EXACT_ELEMENTS

if TYPE_CHECKING:
    import numpy as np


_SAMPLED_ELEMENTS = 262_144
"""Elements that are read of an array above the limit."""


class ReadBudget:
    """What is left to read of one output's elements, so that many arrays cost as one does."""

    def __init__(self, elements: int = MAX_EXACT_ELEMENTS) -> None:
        self._left = elements

    def take(self, array: np.ndarray) -> bool:
        """Whether the statistics of `array` may be taken as well."""
        cost = int(array.size) if array.size <= MAX_EXACT_ELEMENTS else _SAMPLED_ELEMENTS
        if cost > self._left:
            return False
        self._left -= cost
        return True
