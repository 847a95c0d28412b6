"""Work beside the user's program of which only what was asked for last counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from kbench.engine.core import fork_safety
from kbench.workbench.kernel.sandbox import Outcome, Sandbox

Result = TypeVar("Result")


class LatestTask:
    """Runs one piece of work at a time on a thread; a newer one stops it and takes its place."""

    def __init__(self, name: str) -> None:
        self.sandbox = Sandbox()
        self._name = name
        self._lock = fork_safety.lock()
        self._running: threading.Thread | None = None
        self._number = 0

    def begin(
        self,
        work: Callable[[], Result],
        budget: float,
        done: Callable[[Outcome[Result], int], None],
    ) -> int:
        """Begin work and give its number; `done` gets what came of it if none has followed it."""
        with self._lock:
            self._number += 1
            number = self._number
            if self._running is not None:
                self.sandbox.halt()
            self._running = threading.Thread(
                target=self._work, args=(work, budget, done, number), name=self._name, daemon=True
            )
            self._running.start()
        return number

    def run_in_cell(
        self, work: Callable[[], Result], budget: float, wait: float = 0.0
    ) -> tuple[Outcome[Result], int]:
        """Run work on this thread, that of the running cell; what came of it, and its number.

        With `wait`, work that runs beside is stopped first, and has so many seconds for it.
        """
        with self._lock:
            self._number += 1
            number = self._number
            if wait and self._running is not None:
                self.sandbox.halt()
        return self.sandbox.run_in_cell(work, budget, wait), number

    def withdraw(self) -> None:
        """Stop the work; `done` is not called."""
        with self._lock:
            self._number += 1
        self.sandbox.halt()

    def _work(
        self,
        work: Callable[[], Result],
        budget: float,
        done: Callable[[Outcome[Result], int], None],
        number: int,
    ) -> None:
        outcome = self.sandbox.run(work, budget)
        with self._lock:
            if number != self._number:
                return  # another has been asked for, or it was withdrawn
            self._running = None
        done(outcome, number)
