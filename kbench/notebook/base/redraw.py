"""When a widget redraws: on an engine event or after a cell, at most every 100 ms, only while live.

Nothing is polled. A widget that was never shown, was closed or is switched off does no work. What
happens here may happen on any thread: a front end's messages come on a thread beside the program.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kbench.engine.core import fork_safety
from kbench.engine.runtime.signal import Signal
from kbench.workbench.errors import explanation
from kbench.workbench.inspector.namespace import View
from kbench.workbench.kernel import pane_channel
from kbench.workbench.protocol.names import VariableRow

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

    from kbench.workbench.ipython_types import Shell

REDRAW_SECONDS = 0.1
"""Seconds between two redraws: often enough to follow a loop, and not felt by it."""
MAX_ROWS = 500
"""Names whose statistics are read for a table."""
_ROUTE = "_reply_subshell_for"  # of a comm of ipykernel 7.4 and later
_log = logging.getLogger("kbench")
Undo = Callable[[], None]


class Throttle:
    """Runs `action` in a thread of its own soon after it was asked for, once per interval at most.

    Whoever asks (often a training loop) goes on at once. Two runs of `action` never overlap.
    """

    def __init__(self, action: Callable[[], None], interval: float = REDRAW_SECONDS) -> None:
        self._action = action
        self._interval = interval
        self._lock = fork_safety.lock()
        self._running = fork_safety.lock(single=True)
        self._due: threading.Timer | None = None
        self._last = -interval
        self._told = ""

    def request(self) -> None:
        """Have the action run; asking again before it does changes nothing."""
        with self._lock:
            if self._due is None:
                wait = max(self._last + self._interval - time.monotonic(), 0.0)
                self._due = threading.Timer(wait, self._run)
                self._due.daemon = True
                self._due.start()

    def request_now(self) -> None:
        """Run the action here and at once; soon, if it runs or has just run: for a user's moves.

        So a quick row of moves is not drawn one by one, however long a drawing takes.
        """
        with self._lock:
            rested = time.monotonic() >= self._last + self._interval
            at_once = self._due is None and rested and self._running.acquire(blocking=False)
        if not at_once:
            self.request()
            return
        try:
            self._act()
        finally:
            self._running.release()

    def stop(self) -> None:
        """Forget a run that is due."""
        with self._lock:
            if self._due is not None:
                self._due.cancel()
                self._due = None

    def _run(self) -> None:
        with self._running:
            with self._lock:
                self._due = None
            self._act()

    def _act(self) -> None:
        try:
            self._action()
        except Exception as error:  # the next change must be shown all the same
            words = f"{type(error).__name__}: {explanation.safe_text(error)}"
            if words != self._told:  # once, not below every cell from now on
                self._told = words
                _log.error("a widget could not be drawn: %s", words)
                _log.debug("where that was", exc_info=True)
        finally:
            self._last = time.monotonic()


class Redraws:
    """The subscriptions of one widget: made when it is shown, dropped when it is hidden.

    `also` are further things to begin with; each gives what ends it.
    """

    def __init__(
        self,
        refresh: Callable[[], None],
        sources: Sequence[Signal],
        also: Sequence[Callable[[], Undo]] = (),
    ) -> None:
        self.throttle = Throttle(refresh)
        self._lock = fork_safety.lock()
        self._sources = tuple(sources)
        self._also = tuple(also)
        self._ends: list[Undo] = []
        self.wanted: Callable[[Any], bool] = lambda payload: True

    def add(self, begin: Callable[[], Undo]) -> None:
        """Have one more thing begun with the next start."""
        self._also = (*self._also, begin)

    @property
    def running(self) -> bool:
        """Whether events lead to redraws."""
        return bool(self._ends)

    def start(self) -> None:
        """Follow the sources and the end of every cell, beginning with one redraw."""
        with self._lock:
            if self.running:
                return
            self._ends = [source.subscribe(self._event) for source in self._sources]
            self._ends.append(after_cells(self.throttle.request))
            self._ends += [begin() for begin in self._also]
        self.throttle.request_now()

    def stop(self) -> None:
        """Follow nothing any more."""
        with self._lock:
            ends, self._ends = self._ends, []
        for end in ends:
            end()
        self.throttle.stop()

    def _event(self, payload: object) -> None:
        if self.wanted(payload):
            self.throttle.request()


class OwnChanges:
    """Whether this thread is bringing controls in line, so that it does not hear of it itself."""

    def __init__(self) -> None:
        self._here = threading.local()

    def __bool__(self) -> bool:
        return bool(getattr(self._here, "depth", 0))

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Within the block, what controls tell this thread is no user's doing."""
        self._here.depth = getattr(self._here, "depth", 0) + 1
        try:
            yield
        finally:
            self._here.depth -= 1


# ------------------------------------------------------------------ the shell and its names


def shell() -> Shell | None:
    """The running IPython shell, None outside IPython; never loads IPython."""
    module = sys.modules.get("IPython")
    found: Shell | None = module.get_ipython() if module is not None else None
    return found


def in_terminal() -> bool:
    """Whether the front end is a prompt, IPython's or the workbench's: text, and no widgets."""
    running = shell()
    if running is None or getattr(running, "kernel", None) is None:
        return True
    return pane_channel.of(running) is not None


def named(
    namespace: dict[str, object] | None = None,
) -> tuple[dict[str, object], dict[str, object] | None]:
    """A namespace, by default the user's (of the running shell, else the main module's), and which
    of its names the shell has put there itself."""
    running = shell()
    if namespace is not None:
        return namespace, None
    if running is not None:
        return running.user_ns, running.user_ns_hidden
    return vars(sys.modules["__main__"]), None


def names(namespace: dict[str, object] | None = None) -> View:
    """A view of a namespace, by default the user's."""
    return View(*named(namespace))


class NameRows(list[VariableRow]):
    """Rows of names; `total` names there are, of which these begin at the place `start`."""

    total = 0
    start = 0


def rows(
    view: View,
    pattern: str | None = None,
    order: Callable[[VariableRow], SupportsRichComparison] | None = None,
    falling: bool = False,
    page: tuple[int, int] = (0, MAX_ROWS),
    holding: str | None = None,
) -> NameRows:
    """The rows of a view's names with their statistics: a page of them in an order.

    All names take part in the order; statistics, which cost more, are read of the page alone.
    Arrays may have been written into since the last time. `page` is where it begins and how many
    rows it has; it is the one with the name `holding`, where there is that name.
    """
    view.code_runs += 1
    found = _pages(view, None, False, pattern)
    if order is not None:
        found.sort(key=order, reverse=falling)
    start, most = page
    at = next((at for at, row in enumerate(found) if row.key == holding), None)
    start = min(start if at is None else at, max(len(found) - 1, 0)) // most * most
    chosen = [row.key for row in found[start : start + most]]
    kept = {row.key: row for row in _pages(view, chosen, True) if row.kind != "gone"}
    shown = NameRows(kept[key] for key in chosen if key in kept)
    shown.total = len(found) - len(chosen) + len(shown)
    shown.start = start
    return shown


def _pages(
    view: View, chosen: list[str] | None, statistics: bool, pattern: str | None = None
) -> list[VariableRow]:
    found: list[VariableRow] = []
    start: int | None = 0
    while start is not None:
        page, start = view.rows(chosen, statistics, pattern, start)
        found += page
    return found


def after_cells(action: Callable[[], None]) -> Undo:
    """Call `action` after every cell until the returned function is called."""
    return on_cells("post_run_cell", action)


def on_cells(event: str, action: Callable[[], None]) -> Undo:
    """Call `action` on an event of the shell until the returned function is called."""
    running = shell()
    if running is None:
        return lambda: None

    def act(*_arguments: object) -> None:
        action()

    running.events.register(event, act)
    return lambda: running.events.unregister(event, act)


def in_cell() -> bool:
    """Whether the caller runs within a cell of the kernel, as far as the kernel tells."""
    kernel = getattr(shell(), "kernel", None)
    if kernel is None or threading.current_thread() is not threading.main_thread():
        return False
    return bool(kernel.get_parent().get("header", {}).get("msg_type") == "execute_request")


def between_cells(action: Callable[[], None]) -> None:
    """Run `action` on the program's own thread when no cell runs; without a kernel at once.

    Nobody waits for it.
    """
    loop = getattr(getattr(shell(), "kernel", None), "io_loop", None)
    if loop is None:
        action()
    else:
        loop.add_callback(action)


# ------------------------------------------------------------------ messages of a front end


def use_requested_subshell(widget: object) -> None:
    """Have what a front end says to a widget and its parts heard where the front end asks for.

    JupyterLab asks for a thread beside the program, so that widgets answer while a cell runs.
    ipykernel from 7.4 on sends it to the thread that spoke to the front end last, which is the
    program's as soon as a cell has made the widget, and so would let it wait for the cell's end.
    """
    comm = getattr(widget, "comm", None)
    if comm is not None and callable(getattr(comm, _ROUTE, None)):
        setattr(comm, _ROUTE, _as_asked)
    for part in getattr(widget, "children", ()):
        use_requested_subshell(part)


def _as_asked(_data: object, subshell: object) -> object:
    return subshell
