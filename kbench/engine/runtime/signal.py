"""Push notification: one small subject that engine parts emit on and user interfaces listen to."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any

from kbench.engine.core import fork_safety

_log = logging.getLogger("kbench")


_signals: weakref.WeakSet[Signal] = weakref.WeakSet()


class Signal:
    """A list of listeners. Emitting calls each of them; one that raises is logged and skipped.

    Where every microsecond counts, `listeners` tells whether there are any.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = fork_safety.lock()
        self.listeners: tuple[Callable[[Any], object], ...] = ()
        _signals.add(self)

    def __bool__(self) -> bool:
        """True when anybody listens, so that emitters can skip preparing a payload."""
        return bool(self.listeners)

    def subscribe(self, listener: Callable[[Any], object]) -> Callable[[], None]:
        """Call `listener(payload)` on each emit until the returned function is called."""
        with self._lock:
            self.listeners = (*self.listeners, listener)

        def unsubscribe() -> None:
            with self._lock:
                self.listeners = tuple(other for other in self.listeners if other is not listener)

        return unsubscribe

    def emit(self, payload: object) -> None:
        """Hand `payload` to every listener, in the order in which they subscribed."""
        for listener in self.listeners:
            try:
                listener(payload)
            except Exception:
                _log.exception("a listener of %s failed", self.name)


def _after_fork() -> None:
    """Forget listeners in a child: user interfaces and their threads stay with the parent."""
    for signal in list(_signals):
        signal.listeners = ()


fork_safety.in_child(_after_fork)
