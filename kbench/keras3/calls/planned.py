"""Eager calls of what is built as a graph: the plan of a call is kept for the next like it.

A graph takes longer to build and to plan than small arrays take to compute. Two calls are alike if
function, settings, shapes, dtypes and everything that is not an array are the same. Arrays are fed,
so that no value of theirs is part of a plan.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype

from kbench import backend as K
from kbench.api.operations import lock, settings_in_force
from kbench.keras3.tensor import (
    PARTS,
    WIDE,
    Traced,
    from_held,
    is_traced,
    is_variable,
    operation,
    symbol_of,
    to_held,
    tracing,
)

MAX_PLANS = 256
"""Plans of a generation; two are kept. A training loop of one's own has some dozens of calls."""
MAX_PLAN_BYTES = 1 << 25
"""Bytes that the plans of a generation may hold, by their own account."""
GRAPH_BYTES = 1 << 14
"""Bytes of a plan without its arrays, about, as tracemalloc shows for a softmax."""
ARENA_BYTES = 1 << 20
"""Bytes of intermediate results that a plan keeps between calls, at the most."""

_HELD_OTHERWISE = {*WIDE, *PARTS}
"""Dtypes whose values the engine holds in another form."""
_AS_THEY_ARE = (int, bool, str, type(None), bytes, np.dtype)
"""Types of arguments that a plan is made for: their values are part of the key."""


class Plan:
    """A call as a function of its arrays, which are fed in the order of its arguments."""

    def __init__(
        self, function: Any, structure: Any, leaves: list[Traced], arrays: list[np.ndarray]
    ) -> None:
        self.function, self.structure = function, structure
        self.dtypes = [leaf.dtype for leaf in leaves]
        self.bytes = GRAPH_BYTES + min(sum(array.nbytes for array in arrays), ARENA_BYTES)
        self.converts = any(array.dtype.name in _HELD_OTHERWISE for array in arrays)
        self.is_single = structure is leaves[0] and leaves[0].dtype not in _HELD_OTHERWISE

    def run(self, arrays: list[np.ndarray]) -> Any:
        """The results for other arrays of these shapes and dtypes, in memory of their own."""
        if self.converts:
            arrays = [to_held(array) for array in arrays]
        found = self.function(arrays)
        if self.is_single:
            return found[0]
        left: Iterator[np.ndarray] = map(from_held, found, self.dtypes)
        return tree.map_structure(lambda leaf: next(left), self.structure)


class Plans:
    """What is known of calls by their keys, the latest used: a plan, or that there is none.

    When a generation is full, it becomes the older one, and what that held and nobody has used
    since is forgotten. So looking up needs no lock.
    """

    def __init__(self, most: int = MAX_PLANS, most_bytes: int = MAX_PLAN_BYTES) -> None:
        self.most, self.most_bytes = most, most_bytes
        self.recent: dict[Any, Plan | bool] = {}
        self.older: dict[Any, Plan | bool] = {}
        self.bytes = 0
        self._lock = lock()

    def get(self, key: Any) -> Plan | bool | None:
        """The plan; True where a call was seen once, False where it has none, None if unknown."""
        found = self.recent.get(key)
        if found is None:
            found = self.older.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: Any, entry: Plan | bool) -> None:
        """Remember what is known of a call."""
        size = getattr(entry, "bytes", 0)
        with self._lock:
            if len(self.recent) >= self.most or self.bytes + size > self.most_bytes:
                self.older, self.recent, self.bytes = self.recent, {}, 0
            self.recent[key] = entry
            self.bytes += size

    def of_second(self, key: Any, make: Callable[..., Any], *arguments: Any) -> Any:
        """What `make` gives, which the second call alike makes; None where there is nothing."""
        found: Any = self.get(key)
        if found is True:
            found = make(*arguments) or False
            self.put(key, found)
        elif found is None:
            self.put(key, True)
        return None if found is True or found is False else found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self.recent, self.older, self.bytes = {}, {}, 0


plans = Plans()


class NotAlike(Exception):
    """An argument whose value cannot be compared with that of another call."""


def add_to_key(x: Any, key: list[Any], arrays: list[np.ndarray]) -> None:
    """Add an argument to the key of a call, and its arrays to those that are fed."""
    kind = type(x)
    if kind in _AS_THEY_ARE:
        key += (kind, x)
    elif kind is float:
        key += (kind, repr(x))  # 0.0 == -0.0, and NaN is not equal to itself
    elif kind is tuple or kind is list:
        key += (kind, len(x))
        for one in x:
            add_to_key(one, key, arrays)
    elif isinstance(x, np.integer):
        key += (kind, int(x))
    elif isinstance(x, (np.ndarray, np.floating)):
        array = np.asarray(x)
        arrays.append(array)
        key += (array.dtype, array.shape)
    elif is_variable(x):
        add_to_key(x.value, key, arrays)
    else:
        raise NotAlike


def _signed(function: Any, arguments: Any, options: Any) -> tuple[Any, list[np.ndarray]]:
    """The key of a call, and its arrays. NotAlike where it has none."""
    arrays: list[np.ndarray] = []
    key = [
        function,
        settings_in_force(),
        config.floatx(),
        config.epsilon(),
        config.image_data_format(),
    ]
    for x in arguments:
        if type(x) is np.ndarray:
            arrays.append(x)
            key += (x.dtype, x.shape)
        else:
            add_to_key(x, key, arrays)
    for name, x in options.items():
        key.append(name)
        add_to_key(x, key, arrays)
    return tuple(key), arrays


def _symbols(x: Any, inputs: list[Any]) -> Any:
    """The argument with a symbol in place of each array; its placeholders are added to `inputs`."""
    if isinstance(x, (tuple, list)):
        return type(x)([_symbols(one, inputs) for one in x])
    if is_variable(x):
        return _symbols(x.value, inputs)
    if not isinstance(x, (np.ndarray, np.floating)):
        return x
    found = symbol_of(x.shape, standardize_dtype(x.dtype))
    inputs.append(found.held)
    return found


def _plan_of(
    function: Callable[..., Any], arguments: Any, options: Any, arrays: list[np.ndarray]
) -> Plan | None:
    """The plan of a call; None where it needs values, or has results that are no arrays."""
    inputs: list[Any] = []
    given = _symbols(arguments, inputs)
    named = {name: _symbols(x, inputs) for name, x in options.items()}
    before = tracing.active, tracing.known, tracing.builds_on_values
    tracing.active, tracing.known, tracing.builds_on_values = True, False, False
    try:
        found = function(*given, **named)
        leaves = tree.flatten(found)
        if not leaves or not all(map(is_traced, leaves)):
            return None
        name = function.__name__.strip("_")
        made = K.function(inputs, [leaf.held for leaf in leaves], name=name)
    except Exception:  # what is wrong with the call itself, the call without a plan says
        return None
    finally:
        tracing.active, tracing.known, tracing.builds_on_values = before
    return Plan(made, found, leaves, arrays)


def planned(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function on graphs or arrays whose eager calls keep their plan, from the second alike on.

    It must not depend on anything but its arguments and settings; random numbers follow from a seed
    that is among the arguments.
    """
    unplanned = operation(function)

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            key, arrays = _signed(function, arguments, options)
        except NotAlike:
            return unplanned(*arguments, **options)
        if arrays:
            plan = plans.of_second(key, _plan_of, function, arguments, options, arrays)
            if plan is not None:
                return plan.run(arrays)
        return unplanned(*arguments, **options)

    return call
