"""The cancel flag: set from any thread, looked at between the steps of a plan and between tiles.

The program has one flag. A thread that evaluates beside it (`runtime/read_only.py`) has one of its
own, so that neither stops the other's work.
"""

from __future__ import annotations

import threading

from kbench.engine.core import fork_safety

any_request = False
"""Whether anybody is asked to stop. Between two small steps this is looked at, and no more."""
_program_request = False
_read_only_threads: set[int] = set()  # threads that evaluate beside the program
_read_only_requests: set[int] = set()  # those of them that are asked to stop


def request(thread: int | None = None) -> None:
    """Ask the running evaluation to stop; it raises KeyboardInterrupt within about 50 ms.

    `thread` is the ident of one that evaluates beside the program, None for the program.
    """
    global any_request, _program_request
    if thread is None:
        _program_request = True
    elif thread in _read_only_threads:
        _read_only_requests.add(thread)
    else:
        return
    any_request = True


def clear() -> None:
    """Forget an earlier request to the program; every new evaluation starts with this."""
    global any_request, _program_request
    if any_request and threading.get_ident() not in _read_only_threads:
        _program_request = False
        any_request = bool(_read_only_requests)


def requested() -> bool:
    """True while a request to this thread waits to be honoured."""
    if not any_request:
        return False
    here = threading.get_ident()
    return here in _read_only_requests if here in _read_only_threads else _program_request


def check() -> None:
    """Raise KeyboardInterrupt when a stop was requested, and forget the request."""
    if any_request and requested():
        clear()
        raise KeyboardInterrupt("evaluation cancelled")


def begin_read_only() -> None:
    """Let this thread evaluate beside the program; what it is asked, it is asked by its ident."""
    _read_only_threads.add(threading.get_ident())


def end_read_only() -> None:
    """Undo `begin_read_only`, and forget what the thread was asked."""
    global any_request
    here = threading.get_ident()
    _read_only_threads.discard(here)
    _read_only_requests.discard(here)
    any_request = _program_request or bool(_read_only_requests)


def _after_fork() -> None:
    """Forget other threads in a child, where one of its own may get the ident of one of them."""
    global any_request
    _read_only_threads.intersection_update({threading.get_ident()})
    _read_only_requests.intersection_update(_read_only_threads)
    any_request = _program_request or bool(_read_only_requests)


fork_safety.in_child(_after_fork)
