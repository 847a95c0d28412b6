"""A loop as one kernel: memory for its states and results, and the arrays that its accesses see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.control_flow.body import Body, Emit, stacked
from kbench.engine.core import cancel
from kbench.engine.core.types import Array
from kbench.engine.execute.buffer_pool import pool
from kbench.engine.execute.steps.base import ExecutableLike
from kbench.engine.fusion.scan_ir import ScanSource
from kbench.engine.fusion.scan_lower import ColumnRange, ScanPlan, lower_body
from kbench.engine.fusion.scan_match import NotCompilable, ScanBody, match_body
from kbench.engine.kernels import scan_kernel
from kbench.engine.runtime import config

MIN_ELEMENTS = 2048
"""Elements of all steps from which on a kernel is worth while."""
ROW_PAD_BYTES = 64
"""Bytes between rows, so that rows of a power of two do not share their cache lines."""


class Scan:
    """A loop's step, bound to shapes, as a program for a kernel."""

    def __init__(
        self, executable: ExecutableLike, body: Body, emits: Sequence[Emit], scan_body: ScanBody
    ) -> None:
        self.values = executable.values
        self.body, self.emits = body, emits
        self.scan_body = scan_body
        ranks = [len(value.shape) for value in scan_body.emits]
        inner = [emit.axis < rank or rank == 0 for emit, rank in zip(emits, ranks, strict=True)]
        planned = lower_body(scan_body, inner)
        if planned is None:
            raise NotCompilable("a step too large to be compiled")
        self.planned: ScanPlan = planned
        self.kernel: scan_kernel.Kernel | None = None

    @property
    def source(self) -> str | None:
        """The generated source, once it is compiled."""
        return self.kernel.source if self.kernel is not None else None

    def ready(self, length: int) -> bool:
        """Whether the kernel is there and a loop of this length is worth it; asks for it."""
        widths = sum(value.width for value in self.scan_body.after) or 1
        if length * self.scan_body.layout.rows * widths < config.min_elements(MIN_ELEMENTS):
            return False
        if self.kernel is None:
            self.kernel = scan_kernel.request(self.planned.program)
        return self.kernel is not None

    def run(
        self,
        length: int,
        entries: Sequence[Array],
        states: Sequence[Array],
        captured: Sequence[Array],
    ) -> tuple[list[Array], list[Array]]:
        """The states after the last step, and the stacks of what is emitted."""
        memory = _Memory(self, length, entries, states, captured)
        planned = self.planned
        arrays = [memory.array(place) for place in planned.places]
        matrices = [
            memory.fixed[product.matrix].T if product.transposed else memory.fixed[product.matrix]
            for product in planned.products
        ]
        assert self.kernel is not None
        self.kernel.run(length, self.scan_body.layout.rows, arrays, matrices, cancel.check)
        after = [
            memory.last(index, value.shape) for index, value in enumerate(self.scan_body.after)
        ]
        return after, memory.stacks


class _Memory:
    """What one run reads and writes."""

    def __init__(
        self,
        scan: Scan,
        length: int,
        entries: Sequence[Array],
        states: Sequence[Array],
        captured: Sequence[Array],
    ) -> None:
        self.scan, self.length = scan, length
        self.entries, self.first = entries, states
        self.layout = scan.scan_body.layout
        self.fixed = self._fixed(captured)
        self.made: dict[ScanSource, Array] = {}
        self.stacks = [
            pool.take(tuple(n or 0 for n in stacked(value.shape, emit.axis, length)), value.dtype)
            for value, emit in zip(scan.scan_body.emits, scan.emits, strict=True)
        ]

    def _fixed(self, captured: Sequence[Array]) -> dict[int, Array]:
        """By slot, everything that no step changes."""
        scan = self.scan
        given = {id(node): array for node, array in zip(scan.body.captured, captured, strict=True)}
        fixed: dict[int, Array] = {}
        for value in scan.values:
            if value.source == "constant":
                assert value.constant is not None
                fixed[value.slot] = value.constant
            elif value.source == "feed" and id(value.origin) in given:
                fixed[value.slot] = given[id(value.origin)]
        for value in scan.scan_body.prelude:
            inputs = [fixed[slot] for slot in value.inputs]
            fixed[value.slot] = np.asarray(value.op.numpy(None, *inputs, **value.attrs))
        return fixed

    def array(self, place: ColumnRange) -> Array:
        """What an access sees: places, rows, columns."""
        if place.source not in self.made:
            self.made[place.source] = self._whole(place.source)
        return self.made[place.source][:, :, place.offset : place.offset + place.width]

    def _whole(self, source: ScanSource) -> Array:
        planned, layout = self.scan.planned, self.layout
        if source.kind in ("dot", "temp"):
            return self._room(1, planned.widths[source], planned.dtypes[source])
        if source.kind == "next":
            return self._state(source.index)
        if source.kind == "emit":
            return self._emitted(source.index)
        raw = self.scan.scan_body.sources[source.index]
        if raw.kind == "state":
            return self._state(raw.index)
        if raw.kind == "fixed":
            return _contiguous(layout.spread(self.fixed[raw.index][None]))
        stack = self.entries[raw.index]
        for rearrange in raw.views:
            stack = rearrange(stack)
        return _contiguous(layout.spread(stack))

    def _emitted(self, index: int) -> Array:
        emit = self.scan.emits[index]
        moved = np.moveaxis(self.stacks[index], emit.axis, 0)
        moved = moved[::-1] if emit.backwards else moved
        if moved.ndim == 3 and self.layout.flat is None:
            return moved
        return moved.reshape(self.length, 1, -1)  # a view: steps lie behind each other

    def _state(self, index: int) -> Array:
        """Both halves of a state, which starts in the first."""
        source = ScanSource("next", index)
        if source not in self.made:
            value = self.scan.scan_body.after[index]
            room = self._room(2, value.width, value.dtype)
            first = np.broadcast_to(self.first[index], value.shape)
            room[0] = self.layout.spread(first[None])[0]
            self.made[source] = room
        return self.made[source]

    def _room(self, places: int, width: int, dtype: str) -> Array:
        size = np.dtype(dtype).itemsize
        wide = -(-width * size // ROW_PAD_BYTES) * ROW_PAD_BYTES + ROW_PAD_BYTES
        shape = (places, self.layout.rows, wide // size)
        return pool.take(shape, dtype)[:, :, :width]

    def last(self, index: int, shape: tuple[int, ...]) -> Array:
        """A state after the last step."""
        source = self.scan.planned.last.get(index, ScanSource("next", index))
        if source.kind == "emit":
            whole = self._emitted(source.index)[self.length - 1]
        else:
            whole = self._state(source.index)[self.length & 1]
        result = pool.take(shape, whole.dtype)
        result[...] = whole[: result.size // whole.shape[1]].reshape(shape)  # or all rows are equal
        return result


def _contiguous(array: Array) -> Array:
    """An array whose columns lie side by side."""
    if array.shape[2] == 1 or array.strides[2] == array.itemsize:
        return array
    return np.ascontiguousarray(array)


def find_scan(
    executable: ExecutableLike, body: Body, emits: Sequence[Emit], first: Sequence[Array]
) -> Scan | None:
    """The loop as one kernel, where its step is of the kind that can be."""
    counts = (len(body.sequences), len(body.states))
    try:
        scan_body = match_body(executable.values, executable.roots, body.feeds, counts)
        for value, array in zip(scan_body.after, first, strict=True):
            if value.shape != array.shape or value.dtype != array.dtype:
                raise NotCompilable("a state that changes its shape")
        for value, emit in zip(scan_body.emits, emits, strict=True):
            layout = scan_body.layout
            rows = layout.flat is not None or layout.rows == 1 or value.shape[:1] == (layout.rows,)
            behind = 0 if layout.flat is not None else max(0, len(value.shape) - 1)
            if not rows or emit.axis > behind:
                raise NotCompilable("what is emitted does not lie in rows")
        return Scan(executable, body, emits, scan_body)
    except NotCompilable:
        return None
