"""A plan bound to the shapes of one call: steps in order, buffers, and the loop that runs them."""

from __future__ import annotations

import collections
import time
import weakref
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from kbench.engine.compiler.liveness import ALIGN, Layout, lay_out, nbytes
from kbench.engine.compiler.values import Value
from kbench.engine.core import cancel, memory_limit
from kbench.engine.core.csr import csr_bytes, is_csr
from kbench.engine.core.errors import KbenchError
from kbench.engine.execute.buffer_pool import owned, pool
from kbench.engine.execute.in_place_update import InPlaceUpdates, put_last
from kbench.engine.execute.replay import MIN_CAPTURED_STEPS, ReplayPolicy
from kbench.engine.execute.select import choose_steps
from kbench.engine.execute.steps.base import (
    Buffers,
    Makers,
    Planner,
    SlotValues,
    StepFunction,
    explained,
    guarded,
    releasing,
)
from kbench.engine.execute.steps.group_step import Step
from kbench.engine.graph.multi_output import RESULT
from kbench.engine.graph.variables import Variable, store_all, store_lock
from kbench.engine.runtime import profile
from kbench.engine.runtime.profile import PartRecord, RunRecord, StepRecord

OWN_ARENA = 1 << 20  # bytes up to which an executable keeps its arena between calls
TRAINING_ARENA = 1 << 27  # the same for a plan with updates that was run often
OFTEN = 8  # runs
TRAINING = 2  # plans with updates that keep their arenas at one time

_training: collections.deque[weakref.ref[Executable]] = collections.deque()


class Executable:
    """Runs one plan for one signature of shapes."""

    def __init__(
        self,
        name: str,
        items: list[Value],
        needed: list[bool],
        roots: list[int],
        feed_slots: list[int | None],
        make_plan: Planner,
        targets: Sequence[Variable] = (),
    ) -> None:
        """`targets` are the variables that the last of the roots are the new values of."""
        makers = Makers(make_plan, partial(Executable, make_plan=make_plan))
        self.name = name
        self.items = items
        self.roots = roots
        self.targets = list(targets)
        stored = dict(zip(roots[len(roots) - len(targets) :], targets, strict=True))
        self.chosen, late = put_last(
            choose_steps(items, needed, roots, stored, makers), items, roots, stored
        )
        self._commit = InPlaceUpdates(self.chosen[-late:], items, stored) if late else None
        steps = [(one.writes, one.reads) for one in self.chosen]
        self.layout: Layout = lay_out(items, steps, roots)
        self.escaping = [
            (slot, items[slot].shape, np.dtype(items[slot].spec.dtype))
            for slot in self.layout.escaping
        ]
        self._feeds = [(i, slot) for i, slot in enumerate(feed_slots) if slot is not None]
        self._template: SlotValues = [item.value for item in items]
        self._variables = [
            (item.slot, item.origin)
            for item in items
            if isinstance(item.origin, Variable) and item.source == "variable" and needed[item.slot]
        ]
        self.inputs = [slot for _, slot in self._feeds] + [slot for slot, _ in self._variables]
        self.steps: list[StepFunction] = [self._step(one) for one in self.chosen]
        self._early = self.steps[: len(self.steps) - late]
        self._replay_policy = ReplayPolicy() if len(self._early) >= MIN_CAPTURED_STEPS else None
        self._views = self._copied_roots()
        self._kept: Buffers | None = None
        self._runs = 0
        self._check_memory()
        if self.layout.arena_bytes <= OWN_ARENA:
            self._kept = self._arena_buffers()

    def _step(self, one: Step) -> StepFunction:
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
        if needed >= memory_limit.MIN_CHECKED_BYTES and self.chosen:
            largest = max((self.items[one.slot] for one in self.chosen), key=nbytes)
            what = f"evaluating (largest result: {largest.op.name} {largest.spec})"
            memory_limit.require(needed, what, self.name)

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

    def _buffers(self, late: Collection[int] = ()) -> Buffers:
        if self._kept is None and self.targets and self.layout.arena_bytes <= TRAINING_ARENA:
            self._keep_arena()
        buffers = self._kept.copy() if self._kept is not None else self._arena_buffers()
        for slot, shape, dtype in self.escaping:
            if slot not in late:
                buffers[slot] = pool.take(shape, dtype)
        return buffers

    def _keep_arena(self) -> None:
        """A training step is run again and again: keep its arena, and let an older one go."""
        self._runs += 1
        if self._runs < OFTEN:
            return
        self._kept = self._arena_buffers()
        _training.append(weakref.ref(self))
        while len(_training) > TRAINING:
            older = _training.popleft()()
            if older is not None:
                older._kept, older._runs = None, 0
                older._replay_policy = older._replay_policy and ReplayPolicy()

    # -------------------------------------------------------------- running

    record: RunRecord | None = None  # the last recorded run
    _unfinished: RunRecord | None = None  # until its last steps have stored
    _read: list[Any] | None = None  # what the last steps are to read when they store

    def run(self, arrays: Sequence[np.ndarray], quiet: bool = False) -> list[np.ndarray]:
        """The values of the roots; none of them shares memory with anything that stays.

        A `quiet` run is a step of a loop, within the run of the whole: that one is recorded, and
        keeps warnings off. New values of variables may be None until `store` computes them.
        """
        self._read = self._unfinished = None
        commit = self._commit if self._commit is not None and self._commit.ready() else None
        steps = self.steps if commit is None else self._early
        values = self._template.copy()
        for index, slot in self._feeds:
            values[slot] = arrays[index]
        if self._variables:
            with store_lock:
                for slot, variable in self._variables:
                    values[slot] = variable._array
        late = () if commit is None else commit.targets
        own: Collection[int] = ()
        if quiet:
            self._run_plain(steps, values, self._buffers(late))
        else:
            with np.errstate(all="ignore"):  # NaN and infinity are values, no warnings
                own = self._run(steps, values, late)
        if commit is not None:
            self._read = commit.read(values)
        return [
            owned(values[root]) if index in self._views or root in own else values[root]
            for index, root in enumerate(self.roots)
        ]

    def _run(
        self, steps: Sequence[StepFunction], values: SlotValues, late: Collection[int]
    ) -> Collection[int]:
        """Run the steps; gives the slots of results in memory of the plan itself."""
        recorded = profile.is_recording()
        if self._replay_policy is not None and self._kept is not None and not recorded:
            replay = self._replay_policy.run(self, values, len(steps))
            if replay is not None:
                return replay.own
        run = self._run_recorded if recorded else self._run_plain
        run(steps, values, self._buffers(late))
        return ()

    def lasting_buffers(self) -> Buffers:
        """Where intermediate results go in every run, once the plan has memory of its own."""
        assert self._kept is not None
        return self._kept.copy()

    def store(self, results: Sequence[Any]) -> None:
        """Make the last of a run's results the values of the plan's targets, all or none."""
        first = len(self.roots) - len(self.targets)
        commit, read, self._read = self._commit, self._read, None
        if commit is None or read is None:
            store_all(zip(self.targets, results[first:], strict=True))
            return
        begun = time.perf_counter()
        commit.store(
            read, list(zip(self.roots[first:], self.targets, results[first:], strict=True))
        )
        if self._unfinished is not None:
            self._finish_record(self._unfinished, time.perf_counter() - begun)

    def _run_plain(
        self, steps: Sequence[StepFunction], values: SlotValues, buffers: Buffers
    ) -> None:
        requested = cancel.requested
        done = 0
        try:
            for step in steps:
                step(values, buffers)
                done += 1
                if requested():
                    cancel.check()
        except KbenchError as error:
            raise explained(error, self.items[self.chosen[done].slot], values) from None

    def _run_recorded(
        self, steps: Sequence[StepFunction], values: SlotValues, buffers: Buffers
    ) -> None:
        record = RunRecord(self.name, peak_bytes=self.layout.peak_bytes)
        clock = time.perf_counter
        start = clock()
        for one, step in zip(self.chosen, steps, strict=False):
            before = clock()
            try:
                step(values, buffers)
            except KbenchError as error:
                raise explained(error, self.items[one.slot], values) from None
            record.steps.append(self._step_record(one, values, clock() - before))
            cancel.check()
        record.seconds = clock() - start
        if len(steps) < len(self.steps):
            self._unfinished = record
        else:
            self.record = record
            profile.publish(record)

    def _finish_record(self, record: RunRecord, seconds: float) -> None:
        """Add the steps that stored; they ran as one, so each has a share of the time by bytes."""
        late = self.chosen[len(self._early) :]
        moved = [sum(nbytes(self.items[slot]) for slot in one.reads + one.writes) for one in late]
        for one, count in zip(late, moved, strict=True):
            item = self.items[one.slot]
            flops = one.work * one.elements
            share = seconds * count / max(1, sum(moved))
            place, source = item.origin.place, one.source()
            record.steps.append(
                StepRecord(
                    one.label,
                    one.form(),
                    share,
                    count,
                    flops,
                    item.shape,
                    item.spec.dtype,
                    place,
                    source,
                    _parts(one),
                    item.origin.name,
                )
            )
        record.seconds += seconds
        self._unfinished, self.record = None, record
        profile.publish(record)

    def _step_record(self, one: Step, values: SlotValues, seconds: float) -> StepRecord:
        item = self.items[one.slot]
        value = values[one.slot]
        moved = sum(_size_in_bytes(values[i]) for i in one.reads)
        ran = value is not None
        return StepRecord(
            one.label,
            one.form() if ran else "not taken",
            seconds,
            moved + (sum(_size_in_bytes(values[i]) for i in one.writes) if ran else 0),
            one.flops(values) if ran else 0,
            getattr(value, "shape", ()),
            item.spec.dtype,
            item.origin.place,
            one.source() if ran else None,
            _parts(one),
            item.origin.name,
        )


def _parts(one: Step) -> tuple[PartRecord, ...]:
    """The operations of a step that runs several as one."""
    if one.group is None:
        names = one.label.split("+")
        return tuple(map(PartRecord, names)) if len(names) > 1 else ()
    group = one.group.group
    items = group.members if group.fold is None else [*group.members, group.fold]
    if len(items) < 2:
        return ()
    return tuple(
        PartRecord(item.op.name.strip("_"), item.spec, item.origin.place, item.origin.name)
        for item in items
    )


def _size_in_bytes(value: Any) -> int:
    """Bytes of an array, or of the several results of one step."""
    if isinstance(value, tuple):
        return sum(_size_in_bytes(one) for one in value)
    return csr_bytes(value) if is_csr(value) else int(getattr(value, "nbytes", 0))
