"""A kernel's call as data: prepared for arrays, then made once, or kept and made again and again.

`prepare` of a kernel checks its arrays and fills the parameter blocks, all in one place. It gives a
`Prepared`: launches, and between them what Python has to do. `run` makes these, and looks at the
cancel flag between tiles. A replay takes the launches of steps that are nothing else, and makes
those of neighbours as one `LaunchGraph`: between two kernels the interpreter would spend some forty
microseconds, when the caches are full of other things.

A launch holds addresses. It must not be made when one of the arrays may have been freed: whoever
keeps launches says what keeps the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.service import service
from kbench.engine.jit.thread_pool_source import LAUNCH_ROW_WORDS
from kbench.engine.runtime import threads
from kbench.engine.runtime.pacer import Pacer
from kbench.engine.runtime.workspace import Workspace


class Part(Protocol):
    """One thing that a prepared call does."""

    def run(self, cancel_check: CancelCheck | None) -> None:
        """Do it now."""

    def launch(self) -> Launch | None:
        """The same as a launch, None where it is more than a kernel, or that is not ready."""


class Launch(NamedTuple):
    """A range kernel by its address, its parameters, and items from 0 on."""

    address: int
    params: Array
    items: int
    work: float
    """Elements of work of an item."""
    parallel: bool
    """Whether it is worth more than one thread, and long."""
    pacer: Pacer
    counters: int = 0
    """Where two integers, on cache lines of their own, have to begin at zero; 0 for none."""
    kept: tuple[object, ...] = ()
    """Memory of the launch's own."""
    most: int = 0
    """Threads at most that it is worth, 0 for all."""

    def run(self, cancel_check: CancelCheck | None) -> None:
        """Run every item; without a check nothing comes between."""
        for start, stop in self.pacer.tiles(self.items, self.work, cancel_check):
            service.driver.run(self.address, self.params, start, stop, self.parallel, self.most)

    def launch(self) -> Launch:
        """Itself."""
        return self

    @property
    def threads(self) -> int:
        """Threads that it is worth."""
        if not self.parallel:
            return 1
        count = max(1, min(threads.count(), self.items))
        return min(count, self.most) if self.most else count


class HostStep(NamedTuple):
    """What only Python does; it is given the cancel check."""

    do: Callable[[CancelCheck | None], object]

    def run(self, cancel_check: CancelCheck | None) -> None:
        """Do it."""
        self.do(cancel_check)

    def launch(self) -> None:
        """There is none."""


class Prepared(NamedTuple):
    """A call that is ready to be made, for arrays at their addresses.

    When `check_after` says that the result is not right, `otherwise` gives another way to it.
    """

    parts: Sequence[Part]
    variant: str = "library"
    """The form that was chosen, as the plan shows it."""
    check_after: Callable[[], bool] | None = None
    otherwise: Callable[[], Prepared] | None = None
    kept: object = None
    """What must stay alive until it has run: operands, or their copies."""
    is_lasting: bool = True
    """Whether it holds for other values in the same arrays: nothing was copied or looked at."""

    def run(self, cancel_check: CancelCheck | None) -> str:
        """Make the call; gives the variant whose result it is."""
        for part in self.parts:
            part.run(cancel_check)
        if self.otherwise is None or self.check_after is None or self.check_after():
            return self.variant
        return self.otherwise().run(cancel_check)

    @property
    def launches(self) -> list[Launch] | None:
        """The call as launches alone, to be made again and again; None where it is more."""
        if not self.is_lasting:
            return None
        found = [part.launch() for part in self.parts]
        launches = [launch for launch in found if launch is not None]
        return launches if len(launches) == len(found) else None

    def then(self, *steps: Part) -> Prepared:
        """The call with more behind it, which another way has behind it, too."""
        other = self.otherwise
        otherwise = None if other is None else lambda: other().then(*steps)
        return self._replace(parts=[*self.parts, *steps], otherwise=otherwise)

    def requiring(self, is_valid: Callable[[], bool], form: Part) -> Prepared:
        """The call whose result has to be right by this as well; `form` gives it where not."""
        before, other = self.check_after, self.otherwise

        def otherwise() -> Prepared:
            if other is None or not is_valid():
                return Prepared([form])
            return other().requiring(is_valid, form)

        check = is_valid if before is None else lambda: before() and is_valid()
        return self._replace(check_after=check, otherwise=otherwise)


def _never(*_arrays: Array) -> bool:
    return False


class Preparable:
    """A kernel that makes its calls as data."""

    prepare: Callable[..., Prepared]
    """`prepare(out, *arrays, workspace=..., **more)`: checks all of them, and gives the call."""

    repeat: Callable[..., bool] = staticmethod(_never)
    """`repeat(out, *arrays)`: makes the call at once, where an earlier one tells how; False where
    none does. `out` is memory of a plan's own, apart from what is read."""
    keep: Callable[..., object] = staticmethod(_never)
    """`keep(out, *arrays)`: notes of a call that was made what `repeat` has to know."""


def run(prepare: Callable[..., Prepared], cancel_check: CancelCheck | None) -> str:
    """Prepare a call and make it; gives the variant."""
    workspace = Workspace()
    variant = prepare(workspace=workspace).run(cancel_check)
    workspace.release()
    return variant


def first_right(ways: Iterator[Prepared]) -> Prepared:
    """The first of several ways, and the next where its result is not right."""
    way = next(ways)
    return way if way.check_after is None else way._replace(otherwise=partial(first_right, ways))


STEADY_PACER = Pacer(2e-9, math.inf)
"""For kernels of all kinds: it learns of none what would be wrong for others."""


def drive(
    job: Job,
    params: Array,
    items: int,
    work: int,
    cancel_check: CancelCheck | None = None,
    seconds: float = 2e-9,
    ease: int = 1,
) -> None:
    """Run a compiled job over items of about `work` elements, on all threads if it is enough.

    `seconds` of an element are a guess, until the job has run. `ease` times as many elements as
    others are worth the waking of threads.
    """
    parallel = items * work >= ease * threads.MIN_PARALLEL_ELEMENTS
    Launch(job.address, params, items, work, parallel, job.paced(seconds)).run(cancel_check)


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
