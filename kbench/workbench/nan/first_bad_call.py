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
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from kbench.engine.core import fork_safety
from kbench.engine.graph.variables import Variable, store_lock, stores
from kbench.engine.runtime import profile, read_only
from kbench.workbench.nan.nan_values import Array

if TYPE_CHECKING:
    from kbench.engine.execute.executable import Executable
    from kbench.engine.execute.function import Function
    from kbench.engine.graph.tensor import Tensor

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


class CallHistory(Struct):
    """Calls of one function since its variables were copied."""

    function: weakref.ref[Function]
    variables: list[Variable]
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
        versions = [variable.version for variable in self.variables]
        known = [
            version + self.since * step
            for version, step in zip(self.seen, self.steps, strict=False)
        ]
        self.seen, self.since = versions, 0
        pairs = zip(versions, known or versions, strict=True)
        return [place for place, (version, expected) in enumerate(pairs) if version != expected]

    @property
    def nbytes(self) -> int:
        """Of the variables."""
        return sum(int(copy.nbytes) for copy in self.copies)


class RecordedCalls(Struct, frozen=True):
    """What is needed to run the calls again, oldest first."""

    function: Function
    variables: list[Variable]
    values: list[Array]  # of the variables before the first of the calls
    calls: list[RecordedCall]
    whole: bool  # False: some calls between the copies and these are not known
    ended: bool  # whether the last of the calls is known to be bad


class FirstBadCalls:
    """Listens to the calls of functions while anybody wants it to."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._histories: dict[int, CallHistory] = {}
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
            for unsubscribe in stops:
                unsubscribe()

        return stop

    # ------------------------------------------------------------------ what calls do

    def _begins(self, call: tuple[Function, Sequence[Array]]) -> None:
        """A call that stores begins; it has the lock of all such calls."""
        function, arrays = call
        history = self._histories.get(id(function))
        if history is None or history.function() is not function:
            history = self._new(function)
        now = time.perf_counter()
        room = now < history.due and len(history.calls) < MAX_CALLS and history.fed <= MAX_FED_BYTES
        changed = NO_CHANGES
        if stores.count != history.count or not room or history.bad:
            others = history.others()
            if history.bad:
                if not others or not all(
                    is_finite(variable.held()) for variable in history.variables
                ):
                    history.called()
                    return
                history = self._new(function)  # it was mended since
            noticed = self._noticed(history, others, now)
            if noticed is None:
                history.bad = bool(history.calls)
                history.called()
                return
            changed = noticed
        history.calls.append((arrays, changed))
        for array in arrays:
            history.fed += array.nbytes if type(array) is np.ndarray else array.data.nbytes
        history.called()

    def _noticed(
        self, history: CallHistory, others: list[int], now: float
    ) -> dict[int, Array] | None:
        """Copy what has to be; gives what others have stored, None where a variable is bad."""
        full = len(history.calls) >= MAX_CALLS or history.fed > MAX_FED_BYTES
        if now >= history.due or full or (others and now >= history.urgent):
            good = self._copy(history)
            after = time.perf_counter()
            if now < history.due and not full:
                history.urgent = after + COPY_TIME_DIVISOR * (after - now)
            elif history.due < math.inf:
                history.due = after + COPY_TIME_DIVISOR * (after - now)
            return NO_CHANGES if good else None
        held = [history.variables[place]._array for place in others]
        if sum(array.nbytes for array in held) <= MAX_FOREIGN_BYTES:
            return {place: array.copy() for place, array in zip(others, held, strict=True)}
        history.whole = False
        del history.calls[:-1]
        history.fed = 0
        return NO_CHANGES

    def _ended(self, call: tuple[Function, Sequence[Array], Sequence[object]]) -> None:
        """A call has ended: look at its small results."""
        function, arrays, results = call
        finite, looked = True, False
        for result in results:
            if (
                type(result) is np.ndarray
                and result.size <= MAX_CHECKED_ELEMENTS
                and result.dtype.kind == "f"
            ):
                good = (
                    math.isfinite(result.item()) if result.size == 1 else np.isfinite(result).all()
                )
                looked, finite = True, finite and bool(good)
        history = self._histories.get(id(function))
        if finite:
            if looked and history is not None and history.bad and history.function() is function:
                if all(is_finite(variable.held()) for variable in history.variables):
                    self._histories.pop(id(function), None)  # it was mended since
            return
        if history is None or history.function() is not function:
            history = self._new(function)
            if not self._copy(history):
                return
            history.calls.append((arrays, NO_CHANGES))
        history.bad = bool(history.calls)

    def _new(self, function: Function) -> CallHistory:
        targets = {id(target) for target in function.plan.targets}
        variables = [
            node
            for node in function.plan.order
            if isinstance(node, Variable) and not node.spec.sparse
        ]
        steps = [int(id(variable) in targets) for variable in variables]
        history = CallHistory(weakref.ref(function), variables, steps)
        with self._lock:
            self._histories.pop(id(function), None)
            self._histories[id(function)] = history
            while len(self._histories) > MAX_FUNCTIONS:
                self._histories.pop(next(iter(self._histories)))
        return history

    def _copy(self, history: CallHistory) -> bool:
        """Copy the variables that have changed; False, and no copy, when one of them is bad."""
        others = sum(
            other.nbytes for other in list(self._histories.values()) if other is not history
        )
        with store_lock:
            versions = [variable.version for variable in history.variables]
            held = [variable._array for variable in history.variables]
            if not all(map(is_finite, held)):
                return False
            if sum(array.nbytes for array in held) + others > MAX_COPIED_BYTES:
                history.copies, history.copied = [], []
                history.due = math.inf
                return True
            if not history.copies:
                history.copies = [array.copy() for array in held]
            else:
                for copy, value, now, then in zip(
                    history.copies, held, versions, history.copied, strict=True
                ):
                    if now != then:
                        np.copyto(copy, value)
        function = history.function()
        history.whole = function is not None and function._before is None
        history.copied, history.fed = versions, 0
        history.calls.clear()
        return True

    # ------------------------------------------------------------------ what is asked

    def of(self, function: Function) -> RecordedCalls | None:
        """The calls up to the first bad one of a function, if it had any and they are known."""
        history = self._histories.get(id(function))
        if history is None or history.function() is not function or not history.bad:
            return None
        return _recorded_calls(history)

    def behind(self, variable: Tensor | None) -> list[RecordedCalls]:
        """The calls that have stored to a variable, then those that were bad and only read it."""
        histories = reversed(list(self._histories.values()))
        held = [(history, history.function()) for history in histories]
        known = [
            (history, function.plan.targets) for history, function in held if function is not None
        ]
        stored = [history for history, targets in known if any(v is variable for v in targets)]
        read = [
            history
            for history, _ in known
            if history.bad and any(v is variable for v in history.variables)
        ]
        wanted = stored + [history for history in read if history not in stored]
        return [
            recorded for history in wanted if (recorded := _recorded_calls(history)) is not None
        ]


def _recorded_calls(history: CallHistory) -> RecordedCalls | None:
    function = history.function()
    if function is None or not history.calls or not (history.copies or not history.variables):
        return None
    values = [copy.copy() for copy in history.copies]
    return RecordedCalls(
        function, list(history.variables), values, list(history.calls), history.whole, history.bad
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


def first_bad_call(recorded: RecordedCalls) -> tuple[Sequence[Array], list[Array], int] | None:
    """Of the calls the first bad one: what was fed, the variables before it, and its number.

    Runs the calls again, in a thread that only looks; None where none of them is bad now.
    """
    assert read_only.is_active()
    plan = recorded.function.plan
    fed = {id(feed) for feed in plan.feeds}
    held = [place for place, variable in enumerate(recorded.variables) if id(variable) not in fed]
    given = tuple(recorded.variables[place] for place in held)
    again = replace(plan, feeds=(*plan.feeds, *given), targets=(), flags=plan.flags)
    values = list(recorded.values)
    outputs = len(plan.roots) - len(plan.targets)
    places = {id(variable): place for place, variable in enumerate(recorded.variables)}
    bound: dict[tuple[object, ...], Executable] = {}
    for number, (arrays, changed) in enumerate(recorded.calls):
        for place, array in changed.items():
            values[place] = array
        full = [*arrays, *(values[place] for place in held)]
        key = again.signature(full)
        if key not in bound:
            bound[key] = again.bind(full)
        results = bound[key].run(full)
        if not all(_all_finite(result) for result in results):
            return arrays, values, number
        for target, value in zip(plan.targets, results[outputs:], strict=True):
            at = places.get(id(target))
            if at is not None:
                values[at] = value
    return None


def _all_finite(value: object) -> bool:
    held = getattr(value, "data", None) if not isinstance(value, np.ndarray) else value
    return is_finite(np.asarray(held)) if held is not None else True
