"""Evaluation beside the program: a thread that looks at values and changes nothing.

While a thread is within `looking`, it cannot store to variables or change settings, its evaluations
are not recorded, random nodes tell what they would draw next without drawing it, and a request to
stop reaches it alone (`core/cancel.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kbench.engine.core import cancel
from kbench.engine.core.errors import ArgumentError


@dataclass
class Draws:
    """Of a run that repeats an earlier one: whether it drew, and whether any were other numbers."""

    new: bool = False
    streams: set[int] = field(default_factory=set)  # that drew


class _Here(threading.local):
    looks = False
    repeats: Draws | None = None


_here = _Here()


def looks() -> bool:
    """Whether this thread only looks."""
    return _here.looks


@contextmanager
def looking() -> Iterator[None]:
    """Let this thread only look; blocks may not be nested."""
    cancel.begin_beside()
    _here.looks = True
    try:
        yield
    finally:
        _here.looks = False
        cancel.end_beside()


@contextmanager
def repeating() -> Iterator[Draws]:
    """Let random nodes draw what they drew last, in a thread that only looks."""
    _here.repeats = draws = Draws()
    try:
        yield draws
    finally:
        _here.repeats = None


def place_of(stream: int, last: tuple[int, int], following: int, count: int) -> int:
    """Where a thread that looks draws `count`: what comes next, or `last` (first, count) again."""
    draws = _here.repeats
    if draws is None:
        return following
    again = stream in draws.streams  # a step of a loop: only the last of its draws is known
    draws.streams.add(stream)
    if again or last[1] != count:
        draws.new = True
        return following
    return last[0]


def refuse(what: str) -> None:
    """Raise ArgumentError when this thread only looks; `what` is the change that it asks for."""
    if _here.looks:
        raise ArgumentError(f"this would {what}, and what is only looked at must not change")
