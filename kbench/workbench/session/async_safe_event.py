"""An event that can be set by code which may be interrupted at any moment."""

from __future__ import annotations

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

    def wait(self) -> None:
        """Wait until it is set; what was set so far then counts as seen."""
        self._calls.get()
        while not self._calls.empty():
            self._calls.get()
