"""The pace of a running cell: calls per second, how far its loops are, and what time is left.

A thread samples twice a second while a cell runs; the program itself only counts its calls.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kbench.engine.runtime import profile
from kbench.workbench.core_types import JsonObject, Publish
from kbench.workbench.progress import courses, loops
from kbench.workbench.protocol import messages
from kbench.workbench.session.async_safe_event import AsyncSafeEvent

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

SAMPLE_SECONDS = 0.5
"""Between two samples; a user reads no faster."""
_WINDOW_SAMPLES = 20
"""Over which a rate is taken: ten seconds."""
_MIN_SAMPLES = 3
"""Before the time left is estimated."""
_log = logging.getLogger("kbench")


class Estimate:
    """Rates from samples at growing counts; pure, so that it can be tested without waiting."""

    def __init__(self) -> None:
        self._calls: deque[tuple[float, int]] = deque(maxlen=_WINDOW_SAMPLES)
        self._parts: deque[tuple[float, float]] = deque(maxlen=_WINDOW_SAMPLES)
        self._shape: tuple[str, int] | None = None

    def sample(self, now: float, calls: int, name: str, found: list[loops.Loop]) -> JsonObject:
        """What is known at this moment, after `calls` calls of functions in this cell."""
        self._calls.append((now, calls))
        outer = (found[0].name, found[0].total) if found else None
        part = loops.fraction(found)
        if outer != self._shape or (self._parts and part < self._parts[-1][1]):
            self._parts.clear()  # another loop, or an inner one that began again
        self._shape = outer
        if found:
            self._parts.append((now, part))
        return {
            "calls": calls,
            "name": name,
            "rate": _slope(self._calls),
            "loops": [[loop.name, loop.done, loop.total] for loop in found],
            "left": self._left(part),
        }

    def _left(self, part: float) -> float | None:
        slope = _slope(self._parts) if len(self._parts) >= _MIN_SAMPLES else None
        return None if not slope else max(1.0 - part, 0.0) / slope


def _slope(samples: deque[tuple[float, int]] | deque[tuple[float, float]]) -> float | None:
    if len(samples) < 2 or samples[-1][0] <= samples[0][0]:
        return None
    (since, before), (now, after) = samples[0], samples[-1]
    return float((after - before) / (now - since))


class Pace:
    """Publishes the pace of the running cell while there is something to tell."""

    def __init__(
        self, publish: Publish | None, names: Callable[[], Mapping[str, object]] = dict
    ) -> None:
        self._publish = publish
        self._names = names  # the user's
        self._told: JsonObject | None = None
        self._leave_courses: Callable[[], None] = lambda: None
        self._wake = AsyncSafeEvent()
        self._busy = False
        self._closed = False
        self._runner = 0
        self._cell = 0
        self._first = 0
        self._thread: threading.Thread | None = None

    def cell_started(self) -> None:
        """A cell begins, on this thread."""
        if self._publish is None:
            return
        self._runner, self._first = threading.get_ident(), profile.calls.count
        self._cell += 1
        self._told = None
        courses.program.cell_started(self._names().values())
        self._leave_courses()  # where the cell before was told of no end
        self._leave_courses = courses.program.listen()
        self._busy = True
        self._wake.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, name="kbench-pace", daemon=True)
            self._thread.start()

    def cell_ended(self) -> None:
        """The cell has ended."""
        if self._busy:
            self._busy = False
            courses.program.cell_ended(self._names().values())
            self._tell_course(True)
            self._leave_courses()

    def close(self) -> None:
        """Stop looking."""
        self._closed = True
        self._leave_courses()
        self._wake.set()

    def _loop(self) -> None:
        while not self._closed:
            self._wake.wait()
            cell, estimate = self._cell, Estimate()
            time.sleep(SAMPLE_SECONDS)
            while self._busy and self._cell == cell and not self._closed:
                try:
                    self._sample(estimate)
                except Exception:  # the next look may do better
                    _log.exception("the pace of a loop could not be reported")
                time.sleep(SAMPLE_SECONDS)

    def _sample(self, estimate: Estimate) -> None:
        found = loops.running(self._runner)
        calls = profile.calls.count - self._first
        data = estimate.sample(time.monotonic(), calls, profile.calls.name, found)
        if self._publish is not None and (found or calls > 1):
            self._publish(messages.push("pace", data))
        if self._busy:  # else the whole course has been told
            self._tell_course(False)

    def _tell_course(self, done: bool) -> None:
        """The course of the loss, if it has gone on."""
        found = courses.program.told(self.called)
        if found is not None and self._publish is not None:
            told = {**found, "done": done}
            if told != self._told:
                self._told = told
                self._publish(messages.push("fit", told))

    def called(self, tensor: Tensor) -> str | None:
        """What the user calls a tensor, if anything."""
        return next((name for name, one in self._names().items() if one is tensor), None)
