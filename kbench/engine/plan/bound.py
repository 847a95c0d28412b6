"""A plan bound to the shapes of one call: steps in order, buffers, and the loop that runs them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.engine import cancel, memory, trace
from kbench.engine.errors import KbenchError
from kbench.engine.ops.several import RESULT
from kbench.engine.plan.buffers import pool
from kbench.engine.plan.fuse import Chosen, choose_steps
from kbench.engine.plan.items import Item
from kbench.engine.plan.schedule import ALIGN, Layout, lay_out, nbytes
from kbench.engine.plan.steps import Buffers, Step, Values, explained, guarded, releasing
from kbench.engine.sparse import copied, csr_bytes, is_csr
from kbench.engine.trace import RunRecord, StepRecord
from kbench.engine.variables import Variable, store_lock

OWN_ARENA = 1 << 20  # bytes up to which a bound plan keeps its arena between calls


class BoundPlan:
    """Runs one plan for one signature of shapes."""

    def __init__(
        self,
        name: str,
        items: list[Item],
        needed: list[bool],
        roots: list[int],
        feed_slots: list[int | None],
    ) -> None:
        self.name = name
        self.items = items
        self.roots = roots
        self.chosen = choose_steps(items, needed, roots)
        self.layout: Layout = lay_out(items, [(one.slot, one.reads) for one in self.chosen], roots)
        self._feeds = [(i, slot) for i, slot in enumerate(feed_slots) if slot is not None]
        self._template: Values = [item.value for item in items]
        self._variables = [
            (item.slot, item.origin)
            for item in items
            if isinstance(item.origin, Variable) and item.source == "variable" and needed[item.slot]
        ]
        self._steps: list[Step] = [self._step(one) for one in self.chosen]
        self._views = self._copied_roots()
        self._kept: Buffers | None = None
        self._check_memory()
        if self.layout.arena_bytes <= OWN_ARENA:
            self._kept = self._arena_buffers()

    def _step(self, one: Chosen) -> Step:
        step = one.step
        ending = self.layout.ending.get(one.slot)
        if ending:
            step = releasing(step, ending)
        guard = self.items[one.slot].guard
        return guarded(step, guard) if guard else step

    def _copied_roots(self) -> frozenset[int]:
        """Positions of results that lie in memory of something else and must be copied."""
        copied = set()
        seen: set[int] = set()
        for position, root in enumerate(self.roots):
            item = self.items[root]
            elsewhere = item.op.kind in ("view", "update") and item.op is not RESULT
            if item.source or elsewhere or root in seen:
                copied.add(position)
            seen.add(root)
        return frozenset(copied)

    # -------------------------------------------------------------- memory

    def _check_memory(self) -> None:
        """Compare the peak of a run with what the machine has, before anything is allocated."""
        copies = sum(nbytes(self.items[self.roots[position]]) for position in self._views)
        needed = self.layout.peak_bytes + copies
        if needed >= memory.ASK_FROM and self.chosen:
            largest = max((self.items[one.slot] for one in self.chosen), key=nbytes)
            what = f"evaluating (largest result: {largest.op.name} {largest.spec})"
            memory.require(needed, what, self.name)

    def _arena_buffers(self) -> Buffers:
        buffers: Buffers = [None] * len(self.items)
        arena = pool.take((self.layout.arena_bytes + ALIGN,), np.uint8)
        shift = -arena.ctypes.data % ALIGN if self.layout.offsets else 0
        for slot, offset in self.layout.offsets.items():
            item = self.items[slot]
            buffers[slot] = np.ndarray(
                item.shape, item.spec.dtype, buffer=arena, offset=offset + shift
            )
        return buffers

    def _buffers(self) -> Buffers:
        buffers = self._kept.copy() if self._kept is not None else self._arena_buffers()
        for slot in self.layout.escaping:
            item = self.items[slot]
            buffers[slot] = pool.take(item.shape, item.spec.dtype)
        return buffers

    # -------------------------------------------------------------- running

    record: RunRecord | None = None  # the last recorded run

    def run(self, arrays: Sequence[np.ndarray], quiet: bool = False) -> list[np.ndarray]:
        """The values of the roots; none of them shares memory with anything that stays.

        A `quiet` run is a step of a loop: only the loop as a whole is recorded.
        """
        values = self._template.copy()
        for index, slot in self._feeds:
            values[slot] = arrays[index]
        if self._variables:
            with store_lock:
                for slot, variable in self._variables:
                    values[slot] = variable._array
        buffers = self._buffers()
        with np.errstate(all="ignore"):  # NaN and infinity are values, no warnings
            if not quiet and trace.wanted():
                self._run_recorded(values, buffers)
            else:
                self._run_plain(values, buffers)
        return [
            copied(values[root]) if index in self._views else values[root]
            for index, root in enumerate(self.roots)
        ]

    def _run_plain(self, values: Values, buffers: Buffers) -> None:
        requested = cancel.requested
        done = 0
        try:
            for step in self._steps:
                step(values, buffers)
                done += 1
                if requested():
                    cancel.check()
        except KbenchError as error:
            raise explained(error, self.items[self.chosen[done].slot], values) from None

    def _run_recorded(self, values: Values, buffers: Buffers) -> None:
        record = RunRecord(self.name, peak_bytes=self.layout.peak_bytes)
        clock = time.perf_counter
        start = clock()
        for one, step in zip(self.chosen, self._steps, strict=True):
            before = clock()
            try:
                step(values, buffers)
            except KbenchError as error:
                raise explained(error, self.items[one.slot], values) from None
            record.steps.append(self._step_record(one, values, clock() - before))
            cancel.check()
        record.seconds = clock() - start
        self.record = record
        trace.publish(record)

    def _step_record(self, one: Chosen, values: Values, seconds: float) -> StepRecord:
        item = self.items[one.slot]
        value = values[one.slot]
        moved = sum(_size_in_bytes(values[i]) for i in one.reads)
        ran = value is not None
        return StepRecord(
            one.label,
            one.form() if ran else "not taken",
            seconds,
            moved + (_size_in_bytes(value) if ran else 0),
            one.flops(values) if ran else 0,
            getattr(value, "shape", ()),
            item.spec.dtype,
            item.origin.place,
            one.source() if ran else None,
        )


def _size_in_bytes(value: Any) -> int:
    """Bytes of an array, or of the several results of one step."""
    if isinstance(value, tuple):
        return sum(_size_in_bytes(one) for one in value)
    return csr_bytes(value) if is_csr(value) else int(getattr(value, "nbytes", 0))
