"""What is evaluated while a cell runs: between two calls of the program, which waits for it.

A thread that looked at values on its own would meet the engine in the middle of a step. So the
program itself stops behind a call that has stored something, has what is on show evaluated, and
goes on. That is done at most `RATE` times a second, and takes at most `MAX_SHARE` of the time: what
takes longer is done less often.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.engine.core import fork_safety
from kbench.engine.runtime import profile

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function

RATE = 5
"""Samples a second at most: as often as a reader can follow numbers."""
MAX_SHARE = 0.03
"""Of the time of a cell that samples may take: a training loop does not feel it."""
WORDS = f"updated up to {RATE} times a second while the cell runs"
"""What a front end says meanwhile."""


_log = logging.getLogger("kbench")


class _Action:
    """One action, which is told of once when it fails: the next one may do better."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._failed = False

    def __call__(self) -> None:
        try:
            self._action()
        except Exception:
            if not self._failed:
                _log.exception("what is on show could not be followed")
            self._failed = True


class LiveSampling:
    """Calls actions behind calls of the running cell that store something."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._actions: tuple[Callable[[], None], ...] = ()
        self._now = now
        self._stop: Callable[[], None] | None = None
        self._lock = fork_safety.lock()
        self._running = False
        self._runner = 0
        self._due = 0.0
        self.cell = 1
        """The number of the running cell, or of the one that has run."""

    def add(self, action: Callable[[], None]) -> Callable[[], None]:
        """Have an action called, until the returned function is called."""
        mine = _Action(action)
        with self._lock:
            self._actions = (*self._actions, mine)
            self._follow()

        def remove() -> None:
            with self._lock:
                self._actions = tuple(other for other in self._actions if other is not mine)
                self._follow()

        return remove

    def cell_started(self) -> None:
        """A cell begins, on this thread."""
        self.cell_ended()
        self.cell += 1
        self._runner = threading.get_ident()
        self._due = self._now() + 1 / RATE
        with self._lock:
            self._running = True
            self._follow()

    def cell_ended(self) -> None:
        """The cell has ended, and with it the sampling."""
        with self._lock:
            self._running = False
            self._follow()

    def _follow(self) -> None:
        """Be told of calls only while it is of use: a call that is told of takes longer."""
        if self._actions and self._running:
            self._stop = self._stop or profile.call_ended.subscribe(self._called)
        elif self._stop is not None:
            self._stop()
            self._stop = None

    def _called(self, call: tuple[Function, object, object]) -> None:
        began = self._now()
        if began < self._due or not call[0].updates:
            return
        if threading.get_ident() != self._runner:
            return
        self._due = float("inf")  # what is evaluated now is no reason to evaluate
        try:
            for action in self._actions:
                action()
        finally:
            ended = self._now()
            self._due = max(began + 1 / RATE, ended + (ended - began) / MAX_SHARE)
