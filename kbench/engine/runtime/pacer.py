"""How fast kernels run on this machine, by which their work is cut into tiles."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from kbench.engine.core.types import CancelCheck
from kbench.engine.runtime import threads

TILE_SECONDS = 0.015
"""Longest time between two looks at the cancel flag."""
MAX_GROWTH = 4
"""Times as slow as before a run may seem at most, as it may have waited for other work."""
MIN_SECONDS = 1e-13
"""Seconds of an element at least: a clock may stand still."""


class Pacer:
    """Seconds of an element of work: a guess at first, then what the last large run took."""

    def __init__(
        self, seconds: float, min_work: float = threads.MIN_PARALLEL_ELEMENTS, margin: float = 2.0
    ) -> None:
        """From `min_work` elements on a run tells how fast the machine is; the next tiles are
        expected to take `margin` times as long."""
        self.seconds = seconds
        self._min_work, self._margin = min_work, margin

    def tiles(
        self, items: int, work: float, cancel_check: CancelCheck | None, least: int = 1
    ) -> Iterable[tuple[int, int]]:
        """Ranges of items of `work` elements each, to be run as they come: each takes about 15 ms.

        `cancel_check` is called before each; without one there is a single range. A range has
        `least` items or more, unless it is the last.
        """
        if cancel_check is None:
            return ((0, items),)
        total = items * work
        if total < self._min_work and total * self.seconds < TILE_SECONDS:
            cancel_check()
            return ((0, items),)
        return self._timed(items, work, cancel_check, least)

    def _timed(
        self, items: int, work: float, cancel_check: CancelCheck, least: int
    ) -> Iterator[tuple[int, int]]:
        stop, spent = 0, 0.0
        while stop < items:
            cancel_check()
            fitting = int(TILE_SECONDS / (self.seconds * max(1, work)))
            start, stop = stop, min(items, stop + max(least, fitting))
            begun = time.perf_counter()
            yield start, stop
            took = time.perf_counter() - begun
            spent += took
            self._note((stop - start) * work, took, MAX_GROWTH)
            self._note(stop * work, spent, 1)

    def _note(self, work: float, seconds: float, growth: float) -> None:
        """Learn from a tile, or from all so far, which may only say that the machine is faster: a
        guess that is too high makes tiles too small to tell. Small ones that wait are not believed.

        What several threads note at once is of one of them.
        """
        if work >= self._min_work:
            measured = max(MIN_SECONDS, self._margin * seconds / work)
            self.seconds = min(measured, growth * self.seconds)
