"""Launches: a kernel with its parameter block, for arrays that stay where they are.

`Kernel.launches`, `Product.launches` and the like check arrays as `run` does, but give the launches
in place of making them, or None where more than launches is needed. A `LaunchGraph` makes all of
its launches as one call of compiled code: between two kernels the interpreter would spend some
forty microseconds, when the caches are full of other things.

A launch holds addresses. It must not be made when one of the arrays may have been freed: whoever
captures launches says what keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.service import Job, service
from kbench.engine.jit.thread_pool_source import LAUNCH_ROW_WORDS
from kbench.engine.runtime import threads

TILE_SECONDS = 0.015
"""Longest time between two looks at the cancel flag."""

SCRATCH_BYTES = 1 << 25
"""Bytes of scratch memory."""


def drive(
    job: Job,
    params: Array,
    items: int,
    each: int,
    cancel_check: CancelCheck | None = None,
    pace: float = 2e-9,
    ease: int = 1,
) -> None:
    """Run a compiled job over items of about `each` elements that take `pace` seconds each.

    Looks at `cancel_check` between tiles of about 15 ms, and uses all threads when there is enough
    work; what is easy needs `ease` times as much.
    """
    parallel = items * each >= ease * threads.MIN_PARALLEL_ELEMENTS
    if cancel_check is None:
        service.driver.run(job.address, params, 0, items, parallel)
        return
    tile = max(1, int(TILE_SECONDS / (pace * max(1, each))))
    for start in range(0, items, tile):
        cancel_check()
        service.driver.run(job.address, params, start, min(items, start + tile), parallel)


@dataclass(frozen=True, eq=False)
class Launch:
    """A range kernel by its address, its parameters, items from 0 on, and threads at most."""

    address: int
    params: Array
    items: int
    threads: int = 1
    counters: int = 0
    """Where two integers, on cache lines of their own, have to begin at zero; 0 for none."""
    kept: tuple[object, ...] = ()
    """Memory of the launch's own."""
    is_valid: Callable[[], bool] | None = None
    """Whether its step's results are right, asked when it has run; the step itself knows better."""

    def requiring(self, is_valid: Callable[[], bool] | None) -> Launch:
        """The launch, whose step has to be right by this as well."""
        before = self.is_valid
        if before is None or is_valid is None:
            return replace(self, is_valid=is_valid or before)
        return replace(self, is_valid=lambda: before() and is_valid())


def thread_count(items: int, wanted: bool) -> int:
    """Threads for a launch of so many items, if it is worth more than one."""
    return max(1, min(threads.count(), items)) if wanted else 1


_scratch: list[Array] = []


def scratch() -> Array:
    """Bytes, from a cache line on, that only one step's launches use at a time: all graphs share
    them, and launches run one after the other."""
    if not _scratch:
        block = np.empty(SCRATCH_BYTES + 64, np.uint8)  # the system gives pages when they are used
        begin = -address_of(block) % 64
        _scratch.append(block[begin : begin + SCRATCH_BYTES])
    return _scratch[0]


class LaunchGraph:
    """Launches that are made as one."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = list(launches)
        self._most = max((launch.threads for launch in launches), default=1)
        self._rows = np.zeros((len(launches), LAUNCH_ROW_WORDS), np.int64)
        for row, launch in zip(self._rows, launches, strict=True):
            row[:] = (
                launch.address,
                address_of(launch.params),
                launch.items,
                launch.threads,
                launch.counters,
            )

    @staticmethod
    def is_supported() -> bool:
        """Whether compiled code can go through several launches here."""
        return service.driver is not None and bool(service.driver.runs_graphs)

    def run(self) -> None:
        """Make the launches, which nothing holds up."""
        service.driver.repeat(self._rows, self._most)
