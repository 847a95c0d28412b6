"""The first call of a function that made a NaN, with the variables as they were before it.

A training step that has made a NaN stores it, and each later call finds only its own variables bad.
So of each function that stores, the variables are copied now and then, and the values fed since are
kept: with both, the calls can be run again up to the first bad one. Whether a call was bad is seen
from its small results, such as a loss, and from the variables when they are copied.

Copies take a hundredth of the time, or one is made in `MAX_CALLS` calls, and no more memory than
`MAX_COPIED_BYTES`.
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
COPY_TIME_DIVISOR = 100
"""The copies take one part in so many of the time."""
MAX_COPIED_BYTES = 1 << 28
"""Of variables that are copied, of all functions together."""
MAX_CALLS = 64
"""Whose fed values are kept since the variables were copied."""
MAX_FED_BYTES = 1 << 26
"""Of the values fed to these calls."""
MAX_FOREIGN_BYTES = 1 << 16
"""Of variables, stored by others, that are copied at any time."""
MAX_CHECKED_ELEMENTS = 64
"""Of a result that is looked at, such as a loss."""
MAX_FUNCTIONS = 16
"""Whose calls are remembered."""


# What was fed to a call, and which variables somebody else had stored to before it.
RecordedCall = tuple[Sequence[Array], dict[int, Array]]
NO_CHANGES: dict[int, Array] = {}


@dataclass
class CallHistory:
    """Calls of one function since its variables were copied."""

    function: weakref.ref[Any]
    variables: list[Any]
    steps: list[int]  # by how much a call raises the version of each
    copies: list[Array] = field(default_factory=list)
    copied: list[int] = field(default_factory=list)  # the version of each copy
    calls: list[RecordedCall] = field(default_factory=list)
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
class RecordedCalls:
    """What is needed to run the calls again, oldest first."""

    function: Any
    variables: list[Any]
    values: list[Array]  # of the variables before the first of the calls
    calls: list[RecordedCall]
    whole: bool  # False: some calls between the copies and these are not known
    ended: bool  # whether the last of the calls is known to be bad


class FirstBadCalls:
    """Listens to the calls of functions while anybody wants it to."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._chains: dict[int, CallHistory] = {}
        self._users = 0
        self._stops: list[Callable[[], None]] = []

    def listen(self) -> Callable[[], None]:
        """Remember calls until the returned function is called."""
        with self._lock:
            self._users += 1
            if not self._stops:
                self._stops = [
                    profile.update_started.subscribe(self._begins),
                    profile.call_ended.subscribe(self._ended),
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
        room = now < chain.due and len(chain.calls) < MAX_CALLS and chain.fed <= MAX_FED_BYTES
        changed = NO_CHANGES
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

    def _noticed(
        self, chain: CallHistory, others: list[int], now: float
    ) -> dict[int, Array] | None:
        """Copy what has to be; gives what others have stored, None where a variable is bad."""
        full = len(chain.calls) >= MAX_CALLS or chain.fed > MAX_FED_BYTES
        if now >= chain.due or full or (others and now >= chain.urgent):
            good = self._copy(chain)
            after = time.perf_counter()
            if now < chain.due and not full:
                chain.urgent = after + COPY_TIME_DIVISOR * (after - now)
            elif chain.due < math.inf:
                chain.due = after + COPY_TIME_DIVISOR * (after - now)
            return NO_CHANGES if good else None
        held = [chain.variables[place]._array for place in others]
        if sum(one.nbytes for one in held) <= MAX_FOREIGN_BYTES:
            return {place: one.copy() for place, one in zip(others, held, strict=True)}
        chain.whole = False
        del chain.calls[:-1]
        chain.fed = 0
        return NO_CHANGES

    def _ended(self, call: tuple[Any, Sequence[Array], Sequence[Any]]) -> None:
        """A call has ended: look at its small results."""
        function, arrays, results = call
        finite, looked = True, False
        for one in results:
            if (
                type(one) is np.ndarray
                and one.size <= MAX_CHECKED_ELEMENTS
                and one.dtype.kind == "f"
            ):
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
            chain.calls.append((arrays, NO_CHANGES))
        chain.bad = bool(chain.calls)

    def _new(self, function: Any) -> CallHistory:
        targets = {id(one) for one in function.plan.targets}
        variables = [
            one for one in function.plan.order if isinstance(one, Variable) and not one.spec.sparse
        ]
        steps = [int(id(one) in targets) for one in variables]
        chain = CallHistory(weakref.ref(function), variables, steps)
        with self._lock:
            self._chains.pop(id(function), None)
            self._chains[id(function)] = chain
            while len(self._chains) > MAX_FUNCTIONS:
                self._chains.pop(next(iter(self._chains)))
        return chain

    def _copy(self, chain: CallHistory) -> bool:
        """Copy the variables that have changed; False, and no copy, when one of them is bad."""
        others = sum(one.nbytes for one in list(self._chains.values()) if one is not chain)
        with store_lock:
            versions = [one.version for one in chain.variables]
            held = [one._array for one in chain.variables]
            if not all(map(is_finite, held)):
                return False
            if sum(one.nbytes for one in held) + others > MAX_COPIED_BYTES:
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

    def of(self, function: Any) -> RecordedCalls | None:
        """The calls up to the first bad one of a function, if it had any and they are known."""
        chain = self._chains.get(id(function))
        if chain is None or chain.function() is not function or not chain.bad:
            return None
        return _recorded_calls(chain)

    def behind(self, variable: Any) -> list[RecordedCalls]:
        """The calls that have stored to a variable, then those that were bad and only read it."""
        chains = reversed(list(self._chains.values()))
        held = [(one, one.function()) for one in chains]
        known = [(one, function.plan.targets) for one, function in held if function is not None]
        stored = [one for one, targets in known if any(v is variable for v in targets)]
        read = [one for one, _ in known if one.bad and any(v is variable for v in one.variables)]
        wanted = stored + [one for one in read if one not in stored]
        return [story for one in wanted if (story := _recorded_calls(one)) is not None]


def _recorded_calls(chain: CallHistory) -> RecordedCalls | None:
    function = chain.function()
    if function is None or not chain.calls or not (chain.copies or not chain.variables):
        return None
    values = [one.copy() for one in chain.copies]
    return RecordedCalls(
        function, list(chain.variables), values, list(chain.calls), chain.whole, chain.bad
    )


def is_finite(array: Array) -> bool:
    """Whether an array has no NaN and no infinity, by one pass without memory where possible.

    >>> is_finite(np.array([1.0, np.inf])), is_finite(np.array([3e38, 3e38], np.float32))
    (False, True)
    """
    if array.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        return math.isfinite(np.add.reduce(array, axis=None)) or bool(np.isfinite(array).all())


def first_bad_call(story: RecordedCalls) -> tuple[Sequence[Array], list[Array], int] | None:
    """Of the calls the first bad one: what was fed, the variables before it, and its number.

    Runs the calls again, in a thread that only looks; None where none of them is bad now.
    """
    assert read_only.is_active()
    plan = story.function.plan
    fed = {id(one) for one in plan.feeds}
    held = [place for place, one in enumerate(story.variables) if id(one) not in fed]
    given = tuple(story.variables[place] for place in held)
    again = replace(plan, feeds=(*plan.feeds, *given), targets=(), choosers=plan.choosers)
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
