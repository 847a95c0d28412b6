"""Read-only evaluation: a thread that looks at values beside the program and changes nothing.

While a thread is within `evaluation`, it cannot store to variables or change settings, what it
evaluates is not recorded, random nodes tell what they would draw next without drawing it, and a
request to stop reaches it alone (`core/cancel.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from kbench.engine.core import cancel
from kbench.engine.core.errors import ArgumentError


class RepeatedDraws(Struct):
    """Of a run that repeats an earlier one: whether it drew, and whether any were other numbers."""

    new: bool = False
    streams: set[int] = field(default_factory=set)  # that drew


class _ThreadState(threading.local):
    is_active = False
    draws: RepeatedDraws | None = None


_thread = _ThreadState()


def is_active() -> bool:
    """Whether this thread evaluates read-only."""
    return _thread.is_active


@contextmanager
def evaluation() -> Iterator[None]:
    """Let this thread evaluate read-only; blocks may not be nested."""
    cancel.begin_read_only()
    _thread.is_active = True
    try:
        yield
    finally:
        _thread.is_active = False
        cancel.end_read_only()


@contextmanager
def repeated_draws() -> Iterator[RepeatedDraws]:
    """Let random nodes draw what they drew last, in a thread that evaluates read-only."""
    _thread.draws = draws = RepeatedDraws()
    try:
        yield draws
    finally:
        _thread.draws = None


def draw_position(stream: int, last: tuple[int, int], following: int, count: int) -> int:
    """Where a read-only thread draws `count`: what comes next, or `last` (first, count) again."""
    draws = _thread.draws
    if draws is None:
        return following
    again = stream in draws.streams  # a step of a loop: only the last of its draws is known
    draws.streams.add(stream)
    if again or last[1] != count:
        draws.new = True
        return following
    return last[0]


def refuse_change(what: str) -> None:
    """Raise ArgumentError when this thread is read-only; `what` is the change that it asks for."""
    if _thread.is_active:
        raise ArgumentError(f"this would {what}, and what is only looked at must not change")
