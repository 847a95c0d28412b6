"""When calls are recorded: each while a plan is on show, else some, so that a plan has a past.

From `%load_ext kbench` on, and while any widget is there, the first calls of each cell are
recorded, and in a long cell some more every second. A training loop does not feel that; recording
every call of one that is quick would slow it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kbench.engine.core import fork_safety
from kbench.engine.runtime import profile
from kbench.notebook.base import redraw
from kbench.workbench.inspector.recorder import MAX_RUNS, Recorder
from kbench.workbench.kernel import pane_channel

REST_SECONDS = 1.0
"""Seconds between some calls that are recorded and the next ones, so that loops do not feel it."""


class Recording:
    """Turns a recorder on and off; what is fed to calls is kept all the time."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._lock = fork_safety.lock()
        self._viewers = 0
        self._left = 0
        self._pause: Callable[[], None] | None = None  # what ends the recording, while there is one
        self._pause_timer: threading.Timer | None = None
        self._ended = False
        self._leave_cells = redraw.on_cells("pre_run_cell", self.refill)
        recorder.keep_feeds()
        self.refill()

    def refill(self) -> None:
        """Have the next calls recorded."""
        with self._lock:
            if self._ended:
                return
            self._left = MAX_RUNS
            self._cancel_timer()
            self._begin()

    def record_all(self) -> redraw.Undo:
        """Have every call recorded until the returned function is called."""
        with self._lock:
            self._viewers += 1
        self.refill()

        def leave() -> None:
            with self._lock:
                self._viewers -= 1

        return leave

    def end(self) -> None:
        """Record nothing any more; what was recorded stays."""
        with self._lock:
            self._ended = True
            self._cancel_timer()
            self._stop()
            self.recorder.stop()
        self._leave_cells()

    def _begin(self) -> None:
        if self._pause is None:
            self.recorder.stop()
            self.recorder.start()
            self._pause = profile.run_finished.subscribe(self._ran)

    def _stop(self) -> None:
        if self._pause is not None:
            self._pause()
            self._pause = None
            self.recorder.stop()
            self.recorder.keep_feeds()

    def _cancel_timer(self) -> None:
        rest, self._pause_timer = self._pause_timer, None
        if rest is not None:
            rest.cancel()

    def _ran(self, _record: object) -> None:
        """A call was recorded; after some of them, which nobody looks at, there is a rest."""
        with self._lock:
            if self._viewers or self._ended or self._pause is None:
                return
            self._left -= 1
            if self._left > 0:
                return
            self._stop()
            self._pause_timer = threading.Timer(REST_SECONDS, self.refill)
            self._pause_timer.daemon = True
            self._pause_timer.start()


# ------------------------------------------------------------------ of a whole session

_session: Recording | None = None


def begin() -> None:
    """Record from here on, before there is any widget; the workbench's kernel does so itself."""
    global _session
    if _session is None and _workbench() is None:
        _session = Recording(Recorder())


def finish() -> None:
    """Record no more than widgets ask for."""
    global _session
    ended, _session = _session, None
    if ended is not None:
        ended.end()


def earlier() -> Recorder | None:
    """What has recorded the session so far: the workbench's, else what `begin` has begun."""
    return _workbench() or (None if _session is None else _session.recorder)


def _workbench() -> Recorder | None:
    channel = pane_channel.of(redraw.shell())
    return None if channel is None else channel.inspector.recorder
