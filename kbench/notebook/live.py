"""When a widget redraws: on an engine event or after a cell, at most every 100 ms, only while live.

Nothing is polled. A widget that was never shown, was closed or is switched off does no work.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kbench.engine.signal import Signal
from kbench.workbench.namespace import View

INTERVAL = 0.1
ROW_LIMIT = 500


class Throttle:
    """Runs `action` in a thread of its own soon after it was asked for, once per interval at most.

    Whoever asks (often a training loop) goes on at once. Two runs of `action` never overlap.
    """

    def __init__(self, action: Callable[[], None], interval: float = INTERVAL) -> None:
        self._action = action
        self._interval = interval
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._due: threading.Timer | None = None
        self._last = -interval

    def ask(self) -> None:
        """Have the action run; asking again before it does changes nothing."""
        with self._lock:
            if self._due is None:
                wait = max(self._last + self._interval - time.monotonic(), 0.0)
                self._due = threading.Timer(wait, self._run)
                self._due.daemon = True
                self._due.start()

    def stop(self) -> None:
        """Forget a run that is due."""
        with self._lock:
            if self._due is not None:
                self._due.cancel()
                self._due = None

    def _run(self) -> None:
        with self._lock:
            self._due = None
            self._last = time.monotonic()
        with self._running:
            self._action()


class Live:
    """The subscriptions of one widget: made when it is shown, dropped when it is hidden."""

    def __init__(self, refresh: Callable[[], None], sources: Sequence[Signal]) -> None:
        self._refresh = refresh
        self._throttle = Throttle(refresh)
        self._sources = tuple(sources)
        self._subscriptions: list[Callable[[], None]] = []
        self.wanted: Callable[[Any], bool] = lambda payload: True

    @property
    def running(self) -> bool:
        """Whether events lead to redraws."""
        return bool(self._subscriptions)

    def start(self) -> None:
        """Follow the sources and the end of every cell, beginning with one redraw."""
        if not self.running:
            self._subscriptions = [one.subscribe(self._event) for one in self._sources]
            self._subscriptions.append(after_cells(self._throttle.ask))
            self._refresh()

    def stop(self) -> None:
        """Follow nothing any more."""
        subscriptions, self._subscriptions = self._subscriptions, []
        for unsubscribe in subscriptions:
            unsubscribe()
        self._throttle.stop()

    def _event(self, payload: Any) -> None:
        if self.wanted(payload):
            self._throttle.ask()


def shell() -> Any:
    """The running IPython shell, None outside IPython; never loads IPython."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def names(namespace: dict[str, Any] | None = None) -> View:
    """A view of a namespace, by default the user's: of the running shell, else the main module."""
    running = shell()
    if namespace is not None:
        return View(namespace)
    if running is not None:
        return View(running.user_ns, running.user_ns_hidden)
    return View(vars(sys.modules["__main__"]))


def rows(view: View, pattern: str | None = None) -> list[dict[str, Any]]:
    """The rows of a view's names with their statistics, page after page, `ROW_LIMIT` at most."""
    found: list[dict[str, Any]] = []
    start: int | None = 0
    while start is not None and len(found) < ROW_LIMIT:
        page, start = view.rows(None, True, pattern, start)
        found += page
    return found[:ROW_LIMIT]


def after_cells(action: Callable[[], None]) -> Callable[[], None]:
    """Call `action` after every cell until the returned function is called."""
    running = shell()
    if running is None:
        return lambda: None

    def after(*_arguments: Any) -> None:
        action()

    running.events.register("post_run_cell", after)
    return lambda: running.events.unregister("post_run_cell", after)
