"""The cancel flag: set from any thread, looked at between the steps of a plan and between tiles."""

from __future__ import annotations

import threading

_flag = threading.Event()


def request() -> None:
    """Ask the running evaluation to stop; it raises KeyboardInterrupt within about 50 ms."""
    _flag.set()


def clear() -> None:
    """Forget an earlier request; every new evaluation starts with this."""
    _flag.clear()


def requested() -> bool:
    """True while a request waits to be honoured."""
    return _flag.is_set()


def check() -> None:
    """Raise KeyboardInterrupt when a stop was requested, and forget the request."""
    if _flag.is_set():
        _flag.clear()
        raise KeyboardInterrupt("evaluation cancelled")
