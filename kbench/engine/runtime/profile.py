"""Run records: what a call ran, in which form, how long. Costs nothing while nobody listens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, field

from kbench.engine.core import fork_safety
from kbench.engine.core.errors import Place
from kbench.engine.runtime import read_only
from kbench.engine.runtime.signal import Signal

run_finished = Signal("profile.run_finished")
"""A run is over: its `RunRecord`."""
inputs_fed = Signal("profile.inputs_fed")
"""The values of one call's inputs: a list of pairs (tensor, array)."""
update_started = Signal("profile.update_started")
"""A call that will store to variables begins: (function, arrays)."""
call_ended = Signal("profile.call_ended")
"""A call has ended: (function, arrays, results)."""
job_changed = Signal("profile.job_changed")
"""A job of several processes begins or ends (`kbench.dask.activity`): its number."""
fed_value_sources: list[Callable[[list[Any]], Mapping[Any, Any]]] = []
"""Functions that give what was fed last to the placeholders behind some nodes."""


fork_safety.in_child(fed_value_sources.clear)


class _Local(threading.local):
    sinks: list[list[RunRecord]] | None = None  # the recordings of this thread


_local = _Local()


class CallCounter:
    """How many calls of functions have ended, and which was the last: the pace of a loop."""

    __slots__ = ("count", "name")

    def __init__(self) -> None:
        self.count = 0
        self.name = ""


calls = CallCounter()


class PartRecord(Struct, frozen=True):
    """One operation of those that a step runs as one; `spec` is that of its result."""

    op: str
    spec: object = ""
    place: Place | None = None
    node: str = ""  # the name of the tensor


class StepRecord(Struct, frozen=True):
    """One step of a run. `form` is numpy, library, fused, blas or view; `bytes` read + written."""

    label: str
    form: str
    seconds: float
    bytes: int
    flops: int
    shape: tuple[int, ...]
    dtype: str
    place: Place | None = None
    source: str | None = None
    parts: tuple[PartRecord, ...] = ()  # the operations, where there are several
    node: str = ""  # the name of the tensor that the step computes

    @property
    def rate(self) -> float:
        """GFLOP/s."""
        return self.flops / self.seconds / 1e9 if self.seconds > 0 else 0.0


class RunRecord(Struct):
    """One call of a function."""

    function: str
    seconds: float = 0.0
    peak_bytes: int = 0
    steps: list[StepRecord] = field(default_factory=list)


def is_recording() -> bool:
    """True when a run should be recorded."""
    return _local.sinks is not None or (bool(run_finished.listeners) and not read_only.is_active())


def is_watched() -> bool:
    """Whether anybody is to be told of a call, its inputs or its results."""
    return bool(
        inputs_fed.listeners
        or call_ended.listeners
        or run_finished.listeners
        or _local.sinks is not None
    )


def publish(record: RunRecord) -> None:
    """Hand a finished record to the recordings of this thread and to every listener."""
    for sink in _local.sinks or ():
        sink.append(record)
    run_finished.emit(record)


@contextmanager
def record() -> Iterator[list[RunRecord]]:
    """Collect the records of the calls made inside the block, by this thread.

    Returns:
        A context manager that gives a list, to which each call adds one record.
    Source: kbench's own.

    >>> with K.record() as runs:
    ...     _ = K.eval(K.constant(1.0) + K.variable(2.0))
    >>> len(runs)
    1
    """
    before = _local.sinks
    runs: list[RunRecord] = []
    _local.sinks = [*(before or []), runs]
    try:
        yield runs
    finally:
        _local.sinks = before
