"""Keeps the last recorded runs of functions for the plan view; off, the engine records nothing."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from kbench.workbench import protocol

KEPT = 16
SOURCE_LIMIT = 4_000


def shortened(run: dict[str, Any]) -> dict[str, Any]:
    """A run that fits one message: of too many steps the slowest, in their order; `cut` counts."""
    room = protocol.PAGE
    kept = []
    for row in sorted(run["rows"], key=lambda one: -float(one["seconds"])):
        source = row["source"]
        if source is not None and len(source) > SOURCE_LIMIT:
            row = {**row, "source": f"{source[:SOURCE_LIMIT]}\n# … cut"}
        room -= protocol.size(row) + 2
        if room < 0:
            break
        kept.append(row)
    cut = len(run["rows"]) - len(kept)
    return {**run, "rows": sorted(kept, key=lambda one: int(one["step"])), "cut": cut}


class Recorder:
    """Listens to the engine's trace while it is on."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, Any] = OrderedDict()
        self._stops: list[Callable[[], None]] = []

    @property
    def on(self) -> bool:
        return bool(self._stops)

    def start(self) -> None:
        """Begin to listen; the engine starts to record with the next run."""
        from kbench.engine import trace

        if not self._stops:
            self._stops = [trace.ran.subscribe(self._on_run)]

    def stop(self) -> None:
        """Stop listening; what was recorded stays."""
        for stop in self._stops:
            stop()
        self._stops = []

    def _on_run(self, record: Any) -> None:
        name = str(record.function)
        with self._lock:
            self._runs[name] = record
            self._runs.move_to_end(name)
            while len(self._runs) > KEPT:
                self._runs.popitem(last=False)

    def functions(self) -> list[str]:
        """Names with a record, the latest last."""
        with self._lock:
            return list(self._runs)

    def find(self, function: str | None) -> Any | None:
        """The last run of a function, or of any."""
        with self._lock:
            if function is not None:
                return self._runs.get(function)
            return next(reversed(self._runs.values()), None)
