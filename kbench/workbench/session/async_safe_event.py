"""An event that can be set by code which may be interrupted at any moment."""

from __future__ import annotations

import contextlib
import queue


class AsyncSafeEvent:
    """What one thread waits for and others set.

    An interrupt (Ctrl+C) in the middle of `threading.Event.set` can leave its lock held for ever,
    and so hang the next call of it. This one has no lock that Python code holds.
    """

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[None] = queue.SimpleQueue()

    def set(self) -> None:
        """Let the thread that waits go on, now or when it next waits."""
        if self._calls.empty():
            self._calls.put(None)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until it is set, or so long; what was set so far then counts as seen."""
        with contextlib.suppress(queue.Empty):
            self._calls.get(timeout=seconds)
        while not self._calls.empty():
            self._calls.get()
