"""A function on one chunk of rows, where the chunk is: what tasks of a map run."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from distributed import Reschedule
from msgspec import Struct

from kbench.dask import figures
from kbench.dask.payload import Payload
from kbench.dask.worker import Stopped, current_task, evaluation
from kbench.engine.core import fork_safety
from kbench.engine.core.errors import ArgumentError, KbenchError, ShapeError, describe_value
from kbench.engine.core.spec import show
from kbench.engine.execute.function import Function


class Place(Struct, frozen=True):
    """Which chunk it is, and its rows; None where sizes of chunks are unknown."""

    index: int
    first: int | None
    rows: int | None

    def told(self, rows: int) -> str:
        """As an error names it; `rows` are those that it turned out to have."""
        if self.first is None or not rows:
            return f"chunk {self.index} ({rows or 'no'} rows)"
        return f"chunk {self.index} (rows {self.first} to {self.first + rows - 1})"


class Mapped:
    """A function with everything that is the same for all chunks; it travels as a `Payload`.

    Tasks of one worker compute at the same time, each by a function of its own: those share the
    variables, but neither locks nor memory. Safe from any thread.
    """

    def __init__(
        self,
        function: Function,
        constants: dict[int, np.ndarray],
        per: Sequence[int],
        batch: int | None = None,
    ) -> None:
        """
        Arguments:
            function: its inputs are the blocks of a chunk in order, and between them `constants`,
                by their place.
            per: for each output, how many of its rows one row of the chunk gives.
            batch: rows that the function is called with at once; None for the whole chunk.
        """
        self.function = function
        self.constants = constants
        self.per = tuple(per)
        self.batch = batch
        self._start()

    def _start(self) -> None:
        self._free = [self.function]
        self._lock = fork_safety.lock()

    def __getstate__(self) -> dict[str, object]:
        kept = ("function", "constants", "per", "batch")
        return {name: self.__dict__[name] for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()

    def __call__(self, blocks: Sequence[Any]) -> list[np.ndarray]:
        """The outputs for one chunk."""
        rows = _check_blocks(self.function.name, blocks)
        step = rows if self.batch is None else self.batch
        with self._function() as function:
            if rows <= step:
                return self._checked(function(self._values(blocks, 0, rows)), rows)
            parts = [
                self._checked(
                    function(self._values(blocks, first, first + step)),
                    min(step, rows - first),
                )
                for first in range(0, rows, step)
            ]
        return [np.concatenate(some) for some in zip(*parts, strict=True)]

    def _values(self, blocks: Sequence[Any], first: int, last: int) -> list[Any]:
        """What the function is called with: rows of the blocks, and constants."""
        given = iter(blocks)
        values: list[Any] = []
        for place in range(len(self.function.inputs)):
            if place in self.constants:
                values.append(self.constants[place])
                continue
            block = next(given)
            whole = not block.ndim or (not first and last >= len(block))
            values.append(block if whole else block[first:last])
        return values

    def _checked(self, results: list[Any], rows: int) -> list[np.ndarray]:
        for place, (value, per) in enumerate(zip(results, self.per, strict=True)):
            if value.shape[0] != rows * per:
                raise ShapeError(
                    f"outputs[{place}] has shape {show(value.shape)} for {rows} rows, and needs "
                    f"{rows * per} along axis 0: it cannot be computed by chunks",
                    function=self.function.name,
                    operands=(),
                )
        return results

    @contextlib.contextmanager
    def _function(self) -> Iterator[Function]:
        """One that nobody else calls, if it can be had."""
        with self._lock:
            function = self._free.pop() if self._free else None
        if function is None:
            function = self._another()
        try:
            yield function
        finally:
            with self._lock:
                if all(function is not other for other in self._free):
                    self._free.append(function)

    def _another(self) -> Function:
        first = self.function
        try:
            return Function(first.inputs, first.outputs, (), first.name)
        except ArgumentError:  # K.clear_session() has been called since: then all share one
            return first


def rows_of(blocks: Sequence[Any]) -> int:
    """The rows of a chunk."""
    return next(len(block) for block in blocks if block.ndim)


def _check_blocks(name: str, blocks: Sequence[Any]) -> int:
    """The rows of a chunk, which all blocks must have: sizes that were unknown are known now."""
    rows = rows_of(blocks)
    if any(block.ndim and len(block) != rows for block in blocks):
        counts = ", ".join(str(len(block)) for block in blocks if block.ndim)
        raise ShapeError(f"the arrays have {counts} rows", function=name, operands=())
    return rows


class Chunk(Struct, frozen=True):
    """The task of each chunk: called with the payload, the chunk's place and its blocks."""

    job: str
    single: bool  # give the one output, not a tuple of all

    def __call__(self, payload: Payload, place: Any, *given: Any) -> Any:
        blocks = [_unwrapped(block) for block in given]
        at = Place(*place)
        begin = time.perf_counter()
        task = current_task()
        try:
            mapped: Mapped = payload.load()
            with evaluation(self.job, task):
                results = mapped(blocks)
        except (Reschedule, Stopped):
            figures.failed(self.job, task)
            raise
        except Exception as error:
            figures.failed(self.job, task)
            _tell_place(error, at, blocks, sys._getframe(1).f_code.co_filename)
            raise
        figures.done(self.job, task, at.index, blocks, results, time.perf_counter() - begin)
        return results[0] if self.single else tuple(results)


def _unwrapped(block: Any) -> Any:
    """A block out of the lists that Dask puts around it, one for each axis that is gone."""
    while isinstance(block, list):
        (block,) = block
    return block if hasattr(block, "ndim") else np.asarray(block)


def _tell_place(error: Exception, place: Place, blocks: Sequence[Any], caller: str) -> None:
    """Add the chunk to an error: to the text of one of kbench, as a note to others.

    The line of `caller`, a file of Dask's, is nobody's own.
    """
    where = place.told(rows_of(blocks))
    if isinstance(error, KbenchError):
        if error.place is not None and error.place.file == caller:
            error.place = None
        error.reason = f"in {where}, {error.reason}"
        error.args = (error.reason,)
    else:
        given = ", ".join(describe_value(block) or type(block).__name__ for block in blocks)
        error.add_note(f"in {where} of {given}")
