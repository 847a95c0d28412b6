"""The cancel flag: set from any thread, looked at between the steps of a plan and between tiles."""

from __future__ import annotations

_waiting = False


def request() -> None:
    """Ask the running evaluation to stop; it raises KeyboardInterrupt within about 50 ms."""
    global _waiting
    _waiting = True


def clear() -> None:
    """Forget an earlier request; every new evaluation starts with this."""
    global _waiting
    _waiting = False


def requested() -> bool:
    """True while a request waits to be honoured."""
    return _waiting


def check() -> None:
    """Raise KeyboardInterrupt when a stop was requested, and forget the request."""
    if _waiting:
        clear()
        raise KeyboardInterrupt("evaluation cancelled")
