"""The first call of a function that made a NaN, with the variables as they were before it.

A training step that has made a NaN stores it, and each later call finds only its own variables bad.
So of each function that stores, the variables are copied now and then, and the values fed since are
kept: with both, the calls can be run again up to the first bad one. Whether a call was bad is seen
from its small results, such as a loss, and from the variables when they are copied.

Copies take a hundredth of the time, or one is made in `CALLS` calls, and no more memory than
`COPIED`.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbench.engine.core import fork_safety
from kbench.engine.graph.variables import Variable, store_lock, stores
from kbench.engine.runtime import profile, read_only

Array = NDArray[Any]
SHARE = 100  # the copies take one part in so many of the time
COPIED = 1 << 28  # bytes of variables that are copied, of all functions together
CALLS = 64  # whose fed values are kept since the variables were copied
FED = 1 << 26  # bytes of these values
FEW = 1 << 16  # bytes of variables, stored by others, that are copied at any time
SMALL = 64  # elements of a result that is looked at
FUNCTIONS = 16


# What was fed to a call, and which variables somebody else had stored to before it.
Call = tuple[Sequence[Array], dict[int, Array]]
NOTHING: dict[int, Array] = {}


@dataclass
class Chain:
    """Calls of one function since its variables were copied."""

    function: weakref.ref[Any]
    variables: list[Any]
    steps: list[int]  # by how much a call raises the version of each
    copies: list[Array] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)  # the version of each copy
    calls: list[Call] = field(default_factory=list)
    whole: bool = False  # whether all changes of the variables since are known
    seen: list[int] = field(default_factory=list)  # versions when they were looked at last
    since: int = 0  # calls since then
    count: int = -1  # of all stores behind the last call, if nobody else stores meanwhile
    fed: int = 0  # bytes
    due: float = 0.0  # when they may be copied again
    urgent: float = 0.0  # the same where somebody else has stored, so that a copy is needed
    bad: bool = False  # the last of the calls is the first with a bad result

    def called(self) -> None:
        """One more call is about to store."""
        self.since += 1
        self.count = stores.count + 1

    def others(self) -> list[int]:
        """Which of the variables anybody else has stored to since this was asked last."""
        versions = [one.version for one in self.variables]
        known = [one + self.since * step for one, step in zip(self.seen, self.steps, strict=False)]
        self.seen, self.since = versions, 0
        pairs = zip(versions, known or versions, strict=True)
        return [place for place, (one, expected) in enumerate(pairs) if one != expected]

    @property
    def nbytes(self) -> int:
        """Of the variables."""
        return sum(int(one.nbytes) for one in self.copies)


@dataclass(frozen=True)
class Story:
    """What is needed to run the calls again, oldest first."""

    function: Any
    variables: list[Any]
    values: list[Array]  # of the variables before the first of the calls
    calls: list[Call]
    whole: bool  # False: some calls between the copies and these are not known
    ended: bool  # whether the last of the calls is known to be bad


class FirstBad:
    """Listens to the calls of functions while anybody wants it to."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._chains: dict[int, Chain] = {}
        self._users = 0
        self._stops: list[Callable[[], None]] = []

    def listen(self) -> Callable[[], None]:
        """Remember calls until the returned function is called."""
        with self._lock:
            self._users += 1
            if not self._stops:
                self._stops = [
                    profile.storing.subscribe(self._begins),
                    profile.ended.subscribe(self._ended),
                ]
        left = [False]

        def stop() -> None:
            with self._lock:
                if left[0]:
                    return
                left[0] = True
                self._users -= 1
                stops, self._stops = ([], self._stops) if self._users else (self._stops, [])
            for one in stops:
                one()

        return stop

    # ------------------------------------------------------------------ what calls do

    def _begins(self, call: tuple[Any, Sequence[Array]]) -> None:
        """A call that stores begins; it has the lock of all such calls."""
        function, arrays = call
        chain = self._chains.get(id(function))
        if chain is None or chain.function() is not function:
            chain = self._new(function)
        now = time.perf_counter()
        room = now < chain.due and len(chain.calls) < CALLS and chain.fed <= FED
        changed = NOTHING
        if stores.count != chain.count or not room or chain.bad:
            others = chain.others()
            if chain.bad:
                if not others or not all(is_finite(one.held()) for one in chain.variables):
                    chain.called()
                    return
                chain = self._new(function)  # it was mended since
            noticed = self._noticed(chain, others, now)
            if noticed is None:
                chain.bad = bool(chain.calls)
                chain.called()
                return
            changed = noticed
        chain.calls.append((arrays, changed))
        for one in arrays:
            chain.fed += one.nbytes if type(one) is np.ndarray else one.data.nbytes
        chain.called()

    def _noticed(self, chain: Chain, others: list[int], now: float) -> dict[int, Array] | None:
        """Copy what has to be; gives what others have stored, None where a variable is bad."""
        full = len(chain.calls) >= CALLS or chain.fed > FED
        if now >= chain.due or full or (others and now >= chain.urgent):
            good = self._copy(chain)
            after = time.perf_counter()
            if now < chain.due and not full:
                chain.urgent = after + SHARE * (after - now)
            elif chain.due < math.inf:
                chain.due = after + SHARE * (after - now)
            return NOTHING if good else None
        held = [chain.variables[place]._array for place in others]
        if sum(one.nbytes for one in held) <= FEW:
            return {place: one.copy() for place, one in zip(others, held, strict=True)}
        chain.whole = False
        del chain.calls[:-1]
        chain.fed = 0
        return NOTHING

    def _ended(self, call: tuple[Any, Sequence[Array], Sequence[Any]]) -> None:
        """A call has ended: look at its small results."""
        function, arrays, results = call
        finite, looked = True, False
        for one in results:
            if type(one) is np.ndarray and one.size <= SMALL and one.dtype.kind == "f":
                good = math.isfinite(one.item()) if one.size == 1 else np.isfinite(one).all()
                looked, finite = True, finite and bool(good)
        chain = self._chains.get(id(function))
        if finite:
            if looked and chain is not None and chain.bad and chain.function() is function:
                if all(is_finite(one.held()) for one in chain.variables):
                    self._chains.pop(id(function), None)  # it was mended since
            return
        if chain is None or chain.function() is not function:
            chain = self._new(function)
            if not self._copy(chain):
                return
            chain.calls.append((arrays, NOTHING))
        chain.bad = bool(chain.calls)

    def _new(self, function: Any) -> Chain:
        targets = {id(one) for one in function.plan.targets}
        variables = [
            one for one in function.plan.order if isinstance(one, Variable) and not one.spec.sparse
        ]
        steps = [int(id(one) in targets) for one in variables]
        chain = Chain(weakref.ref(function), variables, steps)
        with self._lock:
            self._chains.pop(id(function), None)
            self._chains[id(function)] = chain
            while len(self._chains) > FUNCTIONS:
                self._chains.pop(next(iter(self._chains)))
        return chain

    def _copy(self, chain: Chain) -> bool:
        """Copy the variables that have changed; False, and no copy, when one of them is bad."""
        others = sum(one.nbytes for one in list(self._chains.values()) if one is not chain)
        with store_lock:
            versions = [one.version for one in chain.variables]
            held = [one._array for one in chain.variables]
            if not all(map(is_finite, held)):
                return False
            if sum(one.nbytes for one in held) + others > COPIED:
                chain.copies, chain.copied = [], []
                chain.due = math.inf
                return True
            if not chain.copies:
                chain.copies = [one.copy() for one in held]
            else:
                for copy, one, now, then in zip(
                    chain.copies, held, versions, chain.copied, strict=True
                ):
                    if now != then:
                        np.copyto(copy, one)
        function = chain.function()
        chain.whole = function is not None and function._before is None
        chain.copied, chain.fed = versions, 0
        chain.calls.clear()
        return True

    # ------------------------------------------------------------------ what is asked

    def of(self, function: Any) -> Story | None:
        """The calls up to the first bad one of a function, if it had any and they are known."""
        chain = self._chains.get(id(function))
        if chain is None or chain.function() is not function or not chain.bad:
            return None
        return _told(chain)

    def behind(self, variable: Any) -> list[Story]:
        """The calls that have stored to a variable, then those that were bad and only read it."""
        chains = reversed(list(self._chains.values()))
        held = [(one, one.function()) for one in chains]
        known = [(one, function.plan.targets) for one, function in held if function is not None]
        stored = [one for one, targets in known if any(v is variable for v in targets)]
        read = [one for one, _ in known if one.bad and any(v is variable for v in one.variables)]
        wanted = stored + [one for one in read if one not in stored]
        return [story for one in wanted if (story := _told(one)) is not None]


def _told(chain: Chain) -> Story | None:
    function = chain.function()
    if function is None or not chain.calls or not (chain.copies or not chain.variables):
        return None
    values = [one.copy() for one in chain.copies]
    return Story(function, list(chain.variables), values, list(chain.calls), chain.whole, chain.bad)


def is_finite(array: Array) -> bool:
    """Whether an array has no NaN and no infinity, by one pass without memory where possible.

    >>> is_finite(np.array([1.0, np.inf])), is_finite(np.array([3e38, 3e38], np.float32))
    (False, True)
    """
    if array.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        return math.isfinite(np.add.reduce(array, axis=None)) or bool(np.isfinite(array).all())


def first_of(story: Story) -> tuple[Sequence[Array], list[Array], int] | None:
    """Of the calls the first bad one: what was fed, the variables before it, and its number.

    Runs the calls again, in a thread that only looks; None where none of them is bad now.
    """
    assert read_only.looks()
    plan = story.function.plan
    fed = {id(one) for one in plan.feeds}
    held = [place for place, one in enumerate(story.variables) if id(one) not in fed]
    given = tuple(story.variables[place] for place in held)
    again = replace(plan, feeds=(*plan.feeds, *given), targets=(), flags=plan.flags)
    values = list(story.values)
    outputs = len(plan.roots) - len(plan.targets)
    places = {id(one): place for place, one in enumerate(story.variables)}
    bound: dict[Any, Any] = {}
    for number, (arrays, changed) in enumerate(story.calls):
        for place, array in changed.items():
            values[place] = array
        full = [*arrays, *(values[place] for place in held)]
        key = again.signature(full)
        if key not in bound:
            bound[key] = again.bind(full)
        results = bound[key].run(full)
        if not all(_all_finite(one) for one in results):
            return arrays, values, number
        for target, value in zip(plan.targets, results[outputs:], strict=True):
            at = places.get(id(target))
            if at is not None:
                values[at] = value
    return None


def _all_finite(value: Any) -> bool:
    held = getattr(value, "data", None) if not isinstance(value, np.ndarray) else value
    return is_finite(np.asarray(held)) if held is not None else True
