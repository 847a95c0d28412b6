"""Graph-wide state: unique names, name scopes, uids, the generation of the graph, the session.

Imports no Tensor; what needs one (`run`) is given in by `execute/function.py`.
"""

from __future__ import annotations

import operator
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

from kbench.engine.core import fork_safety
from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.core.spec import checked_flag, checked_function
from kbench.engine.runtime import read_only

Numbered = tuple[str, int]
_MAX_NUMBER = 1 << 62

_ENDS_IN_NUMBER = re.compile(r"(.*)_([1-9][0-9]*)", re.DOTALL)
_lock = fork_safety.lock()
_uids: dict[str, int] = defaultdict(int)
_given: set[Numbered] = set()  # names that were asked for with their number

F = TypeVar("F", bound=Callable[..., object])


class _Local(threading.local):
    """What each thread has of its own, with what it begins with."""

    scope = ""
    controls: tuple[Any, ...] = ()  # tensors that new nodes wait for


_local = _Local()
_generation = 0
_manual_initialization = False
_on_clear: list[Callable[[], None]] = []


# ------------------------------------------------------------------ names


def scope() -> str:
    """The current name scope, '' or 'outer/inner/'."""
    return _local.scope


def name_scope(name: str) -> AbstractContextManager[str]:
    """Prefix the names of tensors made inside the block; scopes nest.

    Arguments:
        name: string.
    Returns:
        A context manager that gives the whole prefix.
    Raises:
        ArgumentError: `name` is no string.
    Source: Keras 2.3 `backend.name_scope`.

    >>> with K.name_scope("block"):
    ...     K.placeholder((2,), name="x").name
    'block/x:0'
    """
    if not isinstance(name, str):
        raise ArgumentError(f"name must be a string, got {shown(name)}")
    return _named(name)


@contextmanager
def _named(name: str) -> Iterator[str]:
    before = scope()
    _local.scope = f"{before}{name}/" if name else before
    try:
        yield _local.scope
    finally:
        _local.scope = before


def numbered_name(base: str) -> Numbered:
    """A unique name as the base with its scope and a number; few are ever spelled out."""
    if not isinstance(base, str):
        raise ArgumentError(f"name must be a string, got {shown(base)}")
    full = _local.scope + base
    number = next(_numbers[full])  # without a lock, in one step of the interpreter
    while _given and (full, number) in _given:
        number = next(_numbers[full])
    return full, number


def spelled(name: Numbered) -> str:
    """The text of a numbered name."""
    full, number = name
    return f"{full}_{number}:0" if number else f"{full}:0"


class _Numbers(dict[str, Iterator[int]]):
    """By the base of names the numbers that are left for it."""

    def __missing__(self, full: str) -> Iterator[int]:
        with _lock:
            if full not in self:
                self[full] = iter(range(1 if self._is_given(full) else 0, _MAX_NUMBER))
            return self[full]

    def _is_given(self, full: str) -> bool:
        """Whether a new base, such as x_1, is a name that was already made of another, here of x.

        If not, it counts as the other's name of that number from now on.
        """
        parts = _ENDS_IN_NUMBER.fullmatch(full)
        if parts is None:
            return False
        stem, number = parts[1], int(parts[2])
        _given.add((stem, number))  # first: whoever is given the number meanwhile then sees it
        if self._last(stem) < number:
            return False
        _given.discard((stem, number))
        return True

    def _last(self, full: str) -> int:
        """The last number that was given to a base."""
        left = self.get(full)
        return -1 if left is None else _MAX_NUMBER - operator.length_hint(left) - 1


_numbers = _Numbers()


def get_uid(prefix: str = "") -> int:
    """A counter for each prefix: 1 at the first call, then 2, 3 ...

    Arguments:
        prefix: string.
    Returns:
        A Python int.
    Raises:
        ArgumentError: no string.
    Source: Keras 2.3 `backend.get_uid`.

    >>> K.reset_uids(); K.get_uid("dense"), K.get_uid("dense")
    (1, 2)
    """
    if not isinstance(prefix, str):
        raise ArgumentError(f"prefix must be a string, got {shown(prefix)}")
    read_only.refuse_change("count a uid")
    with _lock:
        _uids[prefix] += 1
        return _uids[prefix]


def reset_uids() -> None:
    """Start every counter of `get_uid` at 1 again.

    Source: Keras 2.3 `backend.reset_uids`.

    >>> K.reset_uids()
    >>> K.get_uid("conv")
    1
    """
    read_only.refuse_change("start the uids again")
    with _lock:
        _uids.clear()


# ------------------------------------------------------------------ the graph's generation


class Graph(int):
    """The graph of one generation, for code that asks which graph a tensor is of."""

    def as_default(self) -> AbstractContextManager[Graph]:
        """A block without effect: tensors are always made in the present graph."""
        return nullcontext(self)


def generation() -> int:
    """How often the session was cleared; tensors of an earlier generation are not evaluated."""
    return _generation


def on_clear(action: Callable[[], None]) -> None:
    """Call `action()` at each `clear_session`; for the engine's own modules."""
    _on_clear.append(action)


def clear_session() -> None:
    """Forget names, uids, the learning phase and the session; graphs built before are void.

    Variables keep their values, and functions made before keep working.
    Source: Keras 2.3 `backend.clear_session`.

    >>> x = K.placeholder((2,), name="x")
    >>> K.clear_session()
    >>> K.placeholder((2,), name="x").name
    'x:0'
    """
    global _generation
    read_only.refuse_change("clear the session")
    with _lock:
        _generation += 1
        _numbers.clear()
        _given.clear()
        _uids.clear()
    for action in _on_clear:
        action()


# ------------------------------------------------------------------ flags and decorators of Keras


def manual_variable_initialization(value: bool) -> None:
    """Store Keras' flag; variables always hold their initial value here.

    Arguments:
        value: True or False.
    Raises:
        ArgumentError: anything else.
    Source: Keras 2.3 `backend.manual_variable_initialization`.

    >>> K.manual_variable_initialization(True)
    >>> K.eval(K.variable(2.0))
    array(2., dtype=float32)
    >>> K.manual_variable_initialization(False)
    """
    global _manual_initialization
    wanted = checked_flag(value, "value")
    read_only.refuse_change("set a flag of Keras")
    _manual_initialization = wanted


def v1_variable_initialization() -> None:
    """Nothing to do: variables are initialised when they are made.

    Source: Keras 2.3 `backend.v1_variable_initialization`.

    >>> K.v1_variable_initialization()
    """


def symbolic(func: F) -> F:
    """`func` unchanged: everything is symbolic here.

    Arguments:
        func: function to be decorated.
    Returns:
        `func`.
    Raises:
        ArgumentError: no function.
    Source: Keras 2.3 `backend.symbolic`.

    >>> K.is_symbolic(K.symbolic(lambda x: K.square(x))(3.0))
    True
    """
    checked_function(func, "func")
    return func


def eager(func: F) -> F:
    """`func` unchanged: what it builds is a graph, which `eval` evaluates.

    Arguments:
        func: function to be decorated.
    Returns:
        `func`.
    Raises:
        ArgumentError: no function.
    Source: Keras 2.3 `backend.eager`.

    >>> K.eval(K.eager(lambda x: K.square(x))(3.0))
    array(9., dtype=float32)
    """
    checked_function(func, "func")
    return func
