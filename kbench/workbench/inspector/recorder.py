"""Keeps the last recorded runs of functions for the plan view; off, the engine records nothing."""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from kbench.engine.core import fork_safety
from kbench.workbench.core_types import JsonObject
from kbench.workbench.nan.first_bad_call import FirstBadCalls
from kbench.workbench.protocol import messages

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor
    from kbench.engine.runtime.profile import RunRecord

MAX_RUNS = 16
"""That are kept, of each function and of all together."""
MAX_FED_BYTES = 256 << 20
"""Of one call's values that are kept at hand; those of larger ones are not."""
MAX_SOURCE_CHARACTERS = 4_000
"""Of a source in the rows of a run; more is asked for by its step."""
MAX_KERNEL_ROWS = 12
"""Of the kernels made ready for a run, the slowest first."""
REPLY_HEAD_BYTES = 6_000
"""Of a reply besides the rows of the run."""
FedPairs = list[tuple["Tensor", np.ndarray]]
"""Inputs of one call, each with the array that was fed to it."""
Feeds = dict["Tensor", np.ndarray]
"""Placeholders, each with the value that was fed to it last."""


def shortened(run: JsonObject) -> JsonObject:
    """A run that fits one message: of too many steps the slowest, in their order; `cut` counts."""
    room = messages.MAX_PAGE_BYTES - REPLY_HEAD_BYTES
    kept = []
    for row in sorted(run["rows"], key=lambda row: -float(row["seconds"])):
        source = row["source"]
        if source is not None and len(source) > MAX_SOURCE_CHARACTERS:
            row = {**row, "source": f"{source[:MAX_SOURCE_CHARACTERS]}\n# … cut"}
        room -= messages.size(row) + 2
        if room < 0:
            break
        kept.append(row)
    cut = len(run["rows"]) - len(kept)
    return {**run, "rows": sorted(kept, key=lambda row: int(row["step"])), "cut": cut}


class Run(Struct, frozen=True):
    """One recorded call. `kernels` became ready since the call before, `pending` did not yet."""

    number: int
    record: RunRecord
    kernels: tuple[JsonObject, ...] = ()
    pending: int = 0
    at: float = field(default_factory=time.monotonic)


class Recorder:
    """Listens to the engine's trace while it is on."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._runs: OrderedDict[str, Run] = OrderedDict()  # the last of each function
        self._history: deque[Run] = deque(maxlen=MAX_RUNS)
        self._number = 0
        self._known: set[str] = set()  # kernels that were ready before the newest run
        self._fed: OrderedDict[tuple[int, ...], FedPairs] = OrderedDict()
        self._stops: list[Callable[[], None]] = []
        self._ignores_runs = False
        self.first_bad = FirstBadCalls()

    @property
    def on(self) -> bool:
        return bool(self._stops)

    def start(self) -> None:
        """Begin to listen; the engine starts to record with the next run."""
        from kbench.engine.runtime import profile

        if not self._stops:
            self._new_kernels()
            self._stops = [
                profile.run_finished.subscribe(self._on_run),
                profile.inputs_fed.subscribe(self._on_fed),
                self.first_bad.listen(),
            ]

    def keep_feeds(self) -> None:
        """Begin to keep what is fed, and no more: this costs nothing."""
        from kbench.engine.runtime import profile

        if not self._stops:
            self._stops = [profile.inputs_fed.subscribe(self._on_fed), self.first_bad.listen()]

    def stop(self) -> None:
        """Stop listening; what was recorded stays."""
        for stop in self._stops:
            stop()
        self._stops = []

    @contextlib.contextmanager
    def ignoring_runs(self) -> Iterator[None]:
        """Keep nothing of what runs meanwhile, as it is not the user's."""
        self._ignores_runs = True
        try:
            yield
        finally:
            self._ignores_runs = False

    def adopt(self, other: Recorder) -> None:
        """Take over what another one has kept, in place of what this one has."""
        with other._lock:
            number, history, runs = other._number, list(other._history), dict(other._runs)
            fed = dict(other._fed)
        self.first_bad = other.first_bad
        with self._lock:
            self._number = number
            self._history = deque(history, maxlen=MAX_RUNS)
            self._runs, self._fed = OrderedDict(runs), OrderedDict(fed)

    def _on_run(self, record: RunRecord) -> None:
        if self._ignores_runs:
            return
        name = str(record.function)
        with self._lock:
            self._number += 1
            run = Run(self._number, record, *self._new_kernels())
            self._history.append(run)
            self._runs[name] = run
            self._runs.move_to_end(name)
            while len(self._runs) > MAX_RUNS:
                self._runs.popitem(last=False)

    def _new_kernels(self) -> tuple[tuple[JsonObject, ...], int]:
        """Kernels that became ready since this was last asked, and how many are on their way."""
        from kbench.engine.jit.service import service

        ready = [job for job in service.ready() if job.name not in self._known]
        self._known.update(job.name for job in ready)
        rows = (
            {"name": job.name, "seconds": job.seconds, "loaded": job.was_cached} for job in ready
        )
        return tuple(rows), service.pending()

    def _on_fed(self, pairs: FedPairs) -> None:
        """Keep the values fed last to these inputs: the program's own arrays, not copies."""
        size = sum(int(getattr(array, "nbytes", 0)) for _, array in pairs)
        if size > MAX_FED_BYTES or self._ignores_runs:
            return
        key = tuple(id(node) for node, _ in pairs)
        with self._lock:
            self._fed[key] = pairs
            self._fed.move_to_end(key)
            while len(self._fed) > MAX_RUNS:
                self._fed.popitem(last=False)

    def feeds(self, nodes: Iterable[Tensor], needed: set[int]) -> tuple[Feeds, bool]:
        """Values fed last to some of the nodes, and whether one call fed all that are needed."""
        wanted = {id(node) for node in nodes}
        with self._lock:
            calls = list(reversed(self._fed.values()))
        for pairs in calls:
            if needed <= {id(node) for node, _ in pairs}:
                return {node: array for node, array in pairs if id(node) in wanted}, True
        found: Feeds = {}
        for pairs in calls:
            for node, array in pairs:
                if id(node) in wanted:
                    found.setdefault(node, array)
        return found, not needed

    def functions(self) -> list[str]:
        """Names with a record, the latest last."""
        with self._lock:
            return list(self._runs)

    def runs(self) -> list[Run]:
        """The last calls, of whatever function, the latest last."""
        with self._lock:
            return list(self._history)

    def number_of(self, records: Sequence[RunRecord | None]) -> int:
        """The number of the newest run that has one of these records, -1 where none is kept."""
        with self._lock:
            kept = (*self._history, *self._runs.values())
            found = [run.number for run in kept if any(run.record is known for known in records)]
        return max(found, default=-1)

    def find(self, function: str | None, number: int | None = None) -> Run | None:
        """The last call of a function, or of any; or the call of a number, while it is kept."""
        with self._lock:
            if number is not None:
                kept = (*self._history, *self._runs.values())
                return next((run for run in kept if run.number == number), None)
            if function is not None:
                return self._runs.get(function)
            return self._history[-1] if self._history else None
