"""Looks at watches while a cell runs: seldom enough that the cell takes a hundredth longer at most.

What is looked at, and how, is the business of `watches.py`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kbench.workbench.kernel.sandbox import Sandbox
from kbench.workbench.session.async_safe_event import AsyncSafeEvent

LIVE_SECONDS = 0.002
"""That a watch may have taken the last time: a scalar, an element, the mean of a small array."""
LIVE_BUDGET_SECONDS = 0.02
"""After which it is stopped: the cell's thread has the interpreter most of the time."""
SAMPLE_SECONDS = 0.5
"""Between two looks, at least: a reader sees no more."""
MAX_SHARE = 0.01
"""Of the time of the cell: after a look of 20 ms the next one is 2 s later."""
_log = logging.getLogger("kbench")


class LiveSampler:
    """A thread that calls `look` now and then, from `start` until `stop`, or until it is False."""

    def __init__(self, look: Callable[[], bool]) -> None:
        self.sandbox = Sandbox(restores_random=False)  # the numbers drawn meanwhile are the cell's
        self._look = look
        self._on = self._closed = False
        self._wake = AsyncSafeEvent()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """A cell runs, or is about to."""
        self._on = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="kbench-live", daemon=True)
            self._thread.start()
        self._wake.set()

    def stop(self) -> None:
        """The cell has ended; what is under way is stopped."""
        self._on = False
        self.sandbox.halt()

    def close(self) -> None:
        """Never again."""
        self._on, self._closed = False, True
        self._wake.set()
        self.sandbox.halt()

    def _loop(self) -> None:
        while not self._closed:
            self._wake.wait()
            pause = SAMPLE_SECONDS
            while self._on:
                time.sleep(pause)
                began = time.perf_counter()
                try:
                    self._on = self._on and self._look()
                except Exception:  # the next look may do better
                    _log.exception("a watch could not be looked at")
                pause = pause_after(time.perf_counter() - began)


def pause_after(seconds: float) -> float:
    """How long nothing is looked at after a look that took so long."""
    return max(SAMPLE_SECONDS, seconds / MAX_SHARE)
