"""Forks: what a child needs so that it never waits for a thread that only its parent has.

A child has one thread, and the memory of its parent as it was at that moment: locks that other
threads hold stay locked in it for ever. So each lock of kbench's comes from here, and is free in
a child. Some things a fork waits for, so that no child has them half done: storing to variables,
products of a BLAS with threads of its own, and imports.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Lock: TypeAlias = "threading.Lock | threading.RLock"

FORK_WAIT_SECONDS = 5.0
"""Seconds for which a fork waits for those who store; a listener of theirs may wait for it."""

_turn = threading.RLock()  # one fork at a time
_locks: weakref.WeakSet[Lock] = weakref.WeakSet()
_awaited: list[Lock] = []
_taken: list[Lock] = []  # of these, what the thread that forks has got
_lost: set[Lock] = set()


def lock(*, single: bool = False, awaited: bool = False) -> Lock:
    """A lock that is free in a forked child. Its holder may take it again, unless it is `single`.

    A fork waits for whoever holds an `awaited` one, for a moment at least.
    """
    made: Lock = threading.Lock() if single else threading.RLock()
    _locks.add(made)
    if awaited:
        _awaited.append(made)
    return made


class cached_property(functools.cached_property[T]):
    """That of functools, without the lock that Python 3.11's has: one for all objects of a class,
    which a fork may leave locked. Two threads may compute a value at once, and one of them is kept.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        vars(self)["lock"] = contextlib.nullcontext()


def was_lost(held: Lock) -> bool:
    """In a forked child: whether another thread of the parent held a lock, and left behind what it
    protects as it was just then."""
    return held in _lost


def in_child(action: Callable[[], object]) -> None:
    """Call `action()` in each forked child, which has its locks by then."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


class _Unforked:
    """A context that a fork waits for; it must be left soon, and within it nobody may wait.

    OpenBLAS ends its threads before a fork. While one of them computes it waits for ever, in the
    parent, too. Threads come in and leave without a lock, as they may be in it at one time.
    """

    def __init__(self) -> None:
        self._door = threading.RLock()  # where those wait who come while it is closed
        self._inside: set[int] = set()
        self._closed_by = 0

    def __enter__(self) -> None:
        here = threading.get_ident()
        self._inside.add(here)  # first, and then a look: whoever closes does it the other way round
        while self._closed_by and self._closed_by != here:
            self._inside.discard(here)
            with self._door:
                self._inside.add(here)

    def __exit__(self, *_: object) -> None:
        self._inside.discard(threading.get_ident())

    def close(self) -> None:
        """Wait till all are out, and let nobody in."""
        self._door.acquire()
        here = threading.get_ident()
        self._closed_by = here
        while self._inside - {here}:
            time.sleep(1e-4)

    def open(self) -> None:
        """Let them in again."""
        if self._closed_by == threading.get_ident():
            self._closed_by = 0
            self._door.release()

    def renew(self) -> None:
        """Let everybody in, in a child: there is nobody else."""
        self._door = threading.RLock()
        self._closed_by = 0
        self._inside.intersection_update({threading.get_ident()})


unforked = _Unforked()


def _imported_elsewhere() -> bool:
    """Whether another thread imports something that kbench imports on first need.

    The lock of a module is the interpreter's own, but it does not renew it in a child.
    """
    known = sys.stdlib_module_names | {"kbench", "numpy", "scipy", "threadpoolctl", "platformdirs"}
    bootstrap = getattr(importlib, "_bootstrap", None)
    for name, reference in list(getattr(bootstrap, "_module_locks", {}).items()):
        owner = getattr(reference(), "owner", None)
        if owner not in (None, threading.get_ident()) and name.partition(".")[0] in known:
            return True
    return False


def _before() -> None:
    _turn.acquire()
    end = time.monotonic() + FORK_WAIT_SECONDS
    while _imported_elsewhere() and time.monotonic() < end:
        time.sleep(1e-3)
    for held in _awaited:
        _taken.append(held)
        held.acquire(timeout=max(0.0, end - time.monotonic()))
    unforked.close()  # last: who stores may be about to come in


def _give_back() -> None:
    while _taken:
        with contextlib.suppress(RuntimeError):  # it was not to be had in time
            _taken.pop().release()
    with contextlib.suppress(RuntimeError):
        _turn.release()


def _in_parent() -> None:
    unforked.open()
    _give_back()


def _in_child() -> None:
    global _turn
    unforked.renew()
    _give_back()
    _turn = threading.RLock()
    _lost.clear()
    for held in list(_locks):
        if held.acquire(blocking=False):  # nobody's, or of the thread that forks
            held.release()
        else:
            _lost.add(held)
            held._at_fork_reinit()  # type: ignore[union-attr]  # as `threading` itself does


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
