"""The cancel flag: set from any thread, looked at between the steps of a plan and between tiles.

The program has one flag. A thread that evaluates beside it (`runtime/read_only.py`) has one of its
own, so that neither stops the other's work.
"""

from __future__ import annotations

import threading

from kbench.engine.core import fork_safety

_waiting = False  # whether anybody is asked to stop, so that looking costs one test
_program = False
_beside: set[int] = set()  # threads that evaluate beside the program
_stops: set[int] = set()  # those of them that are asked to stop


def request(thread: int | None = None) -> None:
    """Ask the running evaluation to stop; it raises KeyboardInterrupt within about 50 ms.

    `thread` is the ident of one that evaluates beside the program, None for the program.
    """
    global _waiting, _program
    if thread is None:
        _program = True
    elif thread in _beside:
        _stops.add(thread)
    else:
        return
    _waiting = True


def clear() -> None:
    """Forget an earlier request to the program; every new evaluation starts with this."""
    global _waiting, _program
    if _waiting and threading.get_ident() not in _beside:
        _program = False
        _waiting = bool(_stops)


def requested() -> bool:
    """True while a request to this thread waits to be honoured."""
    if not _waiting:
        return False
    here = threading.get_ident()
    return here in _stops if here in _beside else _program


def check() -> None:
    """Raise KeyboardInterrupt when a stop was requested, and forget the request."""
    if _waiting and requested():
        clear()
        raise KeyboardInterrupt("evaluation cancelled")


def begin_beside() -> None:
    """Let this thread evaluate beside the program; what it is asked, it is asked by its ident."""
    _beside.add(threading.get_ident())


def end_beside() -> None:
    """Undo `begin_beside`, and forget what the thread was asked."""
    global _waiting
    here = threading.get_ident()
    _beside.discard(here)
    _stops.discard(here)
    _waiting = _program or bool(_stops)


def _after_fork() -> None:
    """Forget other threads in a child, where one of its own may get the ident of one of them."""
    global _waiting
    _beside.intersection_update({threading.get_ident()})
    _stops.intersection_update(_beside)
    _waiting = _program or bool(_stops)


fork_safety.in_child(_after_fork)
