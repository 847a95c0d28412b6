"""What is looked at while a cell runs, for every front end: this is the only place that does it.

A thread that looked at values on its own would meet the engine in the middle of a step. So the
program itself stops behind a call that has stored something, has what is on show evaluated, and
goes on. Where no such call comes (a loop of Python, one long call), a thread looks at what is so
cheap that it disturbs nothing. Either happens at most `RATE` times a second, and takes at most
`MAX_SHARE` of the time: what takes longer is done less often.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.engine.core import fork_safety
from kbench.engine.runtime import profile
from kbench.workbench.session.async_safe_event import AsyncSafeEvent

if TYPE_CHECKING:
    from kbench.engine.execute.function import Function

RATE: float = 4
"""Samples a second at most: as often as a reader can follow numbers."""
MAX_SHARE = 0.02
"""Of the time of a cell that samples may take: a training loop does not feel it."""
QUIET_SECONDS = 0.25
"""That a sample between two calls may be late, before the thread looks by itself."""
WORDS = f"updated up to {RATE} times a second while the cell runs"
"""What a front end says meanwhile."""
Action = Callable[[], object]
_log = logging.getLogger("kbench")


class _Actions:
    """What is called between two calls, and beside the program where none comes.

    A failure is told of once: the next time may do better.
    """

    def __init__(self, between: Action, beside: Action | None) -> None:
        self._between, self._beside = between, beside
        self._failed = False

    @property
    def is_beside(self) -> bool:
        """Whether there is anything to do beside the program."""
        return self._beside is not None

    def between(self) -> None:
        """On the thread of the program, which waits."""
        self._call(self._between)

    def beside(self) -> None:
        """On a thread beside it."""
        if self._beside is not None:
            self._call(self._beside)

    def _call(self, action: Action) -> None:
        try:
            action()
        except Exception:
            if not self._failed:
                _log.exception("what is on show could not be followed")
            self._failed = True


class LiveSampling:
    """Calls actions while a cell runs: behind its calls that store something, or beside it."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._actions: tuple[_Actions, ...] = ()
        self._of_cell: dict[str, Callable[[], None]] = {}  # what removes those of this cell
        self._now = now
        self._stop: Callable[[], None] | None = None
        self._lock = fork_safety.lock()
        self._running = self._closed = False
        self._runner = 0
        self._due = 0.0
        self._wake = AsyncSafeEvent()
        self._thread: threading.Thread | None = None
        self.cell = 1
        """The number of the running cell, or of the one that has run."""

    # ------------------------------------------------------------------ who follows

    def add(self, between: Action, beside: Action | None = None) -> Callable[[], None]:
        """Have actions called, until the returned function is called."""
        mine = _Actions(between, beside)
        with self._lock:
            self._actions = (*self._actions, mine)
            self._follow()

        def remove() -> None:
            with self._lock:
                self._actions = tuple(other for other in self._actions if other is not mine)
                self._follow()

        return remove

    def follow_cell(self, key: str, between: Action, beside: Action | None = None) -> None:
        """The same until the cell ends that runs or begins next; a second time in its place."""
        before, mine = self._of_cell.get(key), self.add(between, beside)
        self._of_cell[key] = mine
        if before is not None:
            before()

    # ------------------------------------------------------------------ what the host calls

    def cell_started(self) -> None:
        """A cell begins, on this thread."""
        self._end()
        self.cell += 1
        self._runner = threading.get_ident()
        self._due = self._now() + 1 / RATE
        with self._lock:
            self._running = True
            self._follow()

    def cell_ended(self) -> None:
        """The cell has ended, and with it the sampling."""
        self._end()
        ended, self._of_cell = self._of_cell, {}
        for remove in ended.values():
            remove()

    def close(self) -> None:
        """Never again."""
        self._closed = True
        self.cell_ended()
        self._wake.set()

    def _end(self) -> None:
        with self._lock:
            self._running = False
            self._follow()

    def _follow(self) -> None:
        """Be told of calls only while it is of use: a call that is told of takes longer."""
        if not (self._actions and self._running):
            if self._stop is not None:
                self._stop()
                self._stop = None
            return
        self._stop = self._stop or profile.call_ended.subscribe(self._called)
        if any(one.is_beside for one in self._actions):
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="kbench-live", daemon=True)
                self._thread.start()
            self._wake.set()

    # ------------------------------------------------------------------ sampling

    def _called(self, call: tuple[Function, object, object]) -> None:
        began = self._now()
        if began < self._due or not call[0].updates:
            return
        if threading.get_ident() != self._runner:
            return
        self._due = float("inf")  # what is evaluated now is no reason to evaluate
        try:
            for actions in self._actions:
                actions.between()
        finally:
            self._due = self._next(began)

    def _next(self, began: float) -> float:
        """When the next sample is due, after one that ends now."""
        ended = self._now()
        return max(began + 1 / RATE, ended + (ended - began) / MAX_SHARE)

    def _loop(self) -> None:
        while not self._closed:
            self._wake.wait()
            while self._running and self._actions and not self._closed:
                time.sleep(QUIET_SECONDS)
                if self._running:
                    self.look()

    def look(self) -> None:
        """Look beside the program, if it has made no call for a while."""
        began = self._now()
        if began < self._due + QUIET_SECONDS:
            return
        for actions in self._actions:
            actions.beside()
        self._due = max(self._due, self._next(began) - QUIET_SECONDS)
