"""A plan bound to the shapes of one call: steps in order, buffers, and the loop that runs them."""

from __future__ import annotations

import collections
import math
import time
import weakref
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from kbench.engine.compiler.liveness import ALIGN_BYTES, MemoryLayout, assign_arena, nbytes
from kbench.engine.compiler.values import Value
from kbench.engine.core import cancel, memory_limit
from kbench.engine.core.csr import Held, csr_bytes, is_csr
from kbench.engine.core.errors import KbenchError
from kbench.engine.core.quiet import quietly
from kbench.engine.execute.buffer_pool import MIN_POOLED_BYTES, owned, pool
from kbench.engine.execute.in_place_update import InPlaceUpdates, defer_updates
from kbench.engine.execute.replay import MIN_CAPTURED_STEPS, ReplayPolicy
from kbench.engine.execute.select import choose_steps
from kbench.engine.execute.steps.base import (
    Buffers,
    MakePlan,
    PlanMakers,
    Registers,
    StepRunner,
    explained,
    guarded,
    releasing,
)
from kbench.engine.execute.steps.group_step import Step
from kbench.engine.execute.steps.straight_line import StraightLine, straight_line
from kbench.engine.graph.apply import RESULT
from kbench.engine.graph.variables import Variable, store_all, store_lock
from kbench.engine.jit.service import service
from kbench.engine.runtime import profile
from kbench.engine.runtime.garbage import uncollected
from kbench.engine.runtime.profile import PartRecord, RunRecord, StepRecord

MAX_KEPT_ARENA_BYTES = 1 << 20
"""Bytes of an arena that an executable keeps between calls, however rarely it runs."""
MAX_TRAINING_ARENA_BYTES = 1 << 27
"""The same for a plan with updates that was run often: the layers of a network of some size."""
RUNS_BEFORE_KEEPING = 8
"""Runs of a plan with updates before it keeps its arena: it is the step of a training loop."""
MAX_KEPT_TRAINING_ARENAS = 2
"""Plans with updates that keep such arenas at one time: two networks trained in turns."""
RUNS_BEFORE_STRAIGHT = 8
"""Runs of a plan that `is_simple` before its steps become one function: making it takes as long as
some of them."""

_training: collections.deque[weakref.ref[Executable]] = collections.deque()


class Executable:
    """Runs one plan for one signature of shapes."""

    def __init__(
        self,
        name: str,
        values: list[Value],
        needed: list[bool],
        roots: list[int],
        feed_slots: list[int | None],
        make_plan: MakePlan,
        targets: Sequence[Variable] = (),
    ) -> None:
        """`targets` are the variables that the last of the roots are the new values of."""
        makers = PlanMakers(make_plan, partial(Executable, make_plan=make_plan))
        self.name = name
        self.values = values
        self.roots = roots
        self.targets = list(targets)
        stored = dict(zip(roots[len(roots) - len(targets) :], targets, strict=True))
        self.steps, late = defer_updates(
            choose_steps(values, needed, roots, stored, makers), values, roots, stored
        )
        self._in_place = InPlaceUpdates(self.steps[-late:], values, stored) if late else None
        accesses = [(step.writes, step.reads) for step in self.steps]
        self.layout: MemoryLayout = assign_arena(values, accesses, roots)
        self.escaping = [
            (slot, values[slot].shape, np.dtype(values[slot].spec.dtype))
            for slot in self.layout.escaping
        ]
        self._fresh = [(slot, _allocator(shape, dtype)) for slot, shape, dtype in self.escaping]
        self._feeds = [(i, slot) for i, slot in enumerate(feed_slots) if slot is not None]
        self._template: Registers = [value.constant for value in values]
        self._variables = [
            (value.slot, value.origin)
            for value in values
            if isinstance(value.origin, Variable)
            and value.source == "variable"
            and needed[value.slot]
        ]
        self.inputs = [slot for _, slot in self._feeds] + [slot for slot, _ in self._variables]
        self.runners = [self._runner(step) for step in self.steps]
        self._early_runners = self.runners[: len(self.runners) - late]
        self._replay_policy = self._policy(self.steps[: len(self._early_runners)])
        # What prints, or runs plans of its own, may ask for variables of the user's context.
        self._is_pure = all(value.op.pure and value.op.kind != "several" for value in values)
        self._is_new = self._is_pure  # as loops may run for minutes, in the user's functions, too
        self._views = self._copied_roots()
        plain = self._replay_policy is None and self._in_place is None
        self.is_simple = plain and self._is_pure
        self.direct = self._direct(len(feed_slots)) if self.is_simple else None
        self._kept: Buffers | None = None
        self._straight: StraightLine | None = None
        self._runs = 0
        self._check_memory()
        if self.layout.arena_bytes <= MAX_KEPT_ARENA_BYTES:
            self._kept = self._arena_buffers()

    def _policy(self, steps: Sequence[Step]) -> ReplayPolicy | None:
        """When these are replayed; None where too few of them have a kernel, now or ever."""
        capturable = [
            step for step in steps if step.prepare or self.values[step.slot].op.kernel is not None
        ]
        return ReplayPolicy() if len(capturable) >= MIN_CAPTURED_STEPS else None

    def _runner(self, step: Step) -> StepRunner:
        run = step.run
        ending = self.layout.ending.get(step.slot)
        if ending:
            run = releasing(run, ending)
        guard = self.values[step.slot].guard
        return guarded(run, guard) if guard else run

    def _copied_roots(self) -> frozenset[int]:
        """Positions of results that lie in memory of something else and must be copied."""
        copied = set()
        seen: set[int] = set()
        for position, root in enumerate(self.roots):
            value = self.values[root]
            elsewhere = value.op.kind in ("view", "update") and value.op is not RESULT
            if value.source or elsewhere or root in seen:
                copied.add(position)
            seen.add(root)
        return frozenset(copied)

    def _direct(
        self, given: int
    ) -> Callable[[Sequence[np.ndarray]], list[np.ndarray] | None] | None:
        """The call of a plan of one step that reads all that is `given`, and constants; see
        `Step.repeat`."""
        if len(self.steps) != 1 or len(self._fresh) != 1 or self._variables:
            return None
        (step,), ((slot, allocate),) = self.steps, self._fresh
        repeat = step.repeat
        fed = {slot: place for place, slot in self._feeds}
        if repeat is None or self.roots != [slot] or len(fed) < given:
            return None  # at what is not read, nobody would look
        constants = [None if read in fed else self._template[read] for read in step.reads]
        places = [(at, fed[read]) for at, read in enumerate(step.reads) if read in fed]
        if len(places) < len(fed) or sum(one is None for one in constants) != len(places):
            return None
        in_order = [place for _, place in places] == list(range(len(step.reads)))

        def call(arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
            out = allocate()
            if in_order:
                return [out] if repeat(out, *arrays) else None
            read = constants.copy()
            for at, place in places:
                read[at] = arrays[place]
            return [out] if repeat(out, *read) else None

        return call

    # -------------------------------------------------------------- memory

    def _check_memory(self) -> None:
        """Compare the peak of a run with what the machine has, before anything is allocated."""
        copies = sum(nbytes(self.values[self.roots[position]]) for position in self._views)
        needed = self.layout.peak_bytes + copies
        impossible = [one for step in self.steps if (one := self.values[step.slot]).is_impossible]
        needed += sum(map(nbytes, impossible))  # a view, which would take no memory
        if needed >= memory_limit.MIN_CHECKED_BYTES and self.steps:
            largest = max((self.values[step.slot] for step in self.steps), key=nbytes)
            what = f"evaluating (largest result: {largest.op.name} {largest.spec})"
            memory_limit.require(needed, what, self.name)

    def _arena_buffers(self) -> Buffers:
        buffers: Buffers = [None] * len(self.values)
        arena = pool.take((self.layout.arena_bytes + ALIGN_BYTES,), np.uint8)
        shift = -arena.ctypes.data % ALIGN_BYTES if self.layout.offsets else 0
        for slot, offset in self.layout.offsets.items():
            value = self.values[slot]
            buffers[slot] = np.ndarray(
                value.shape, value.spec.dtype, buffer=arena, offset=offset + shift
            )
        return buffers

    def _buffers(self, late: Collection[int] = ()) -> Buffers:
        if (
            self._kept is None
            and self.targets
            and self.layout.arena_bytes <= MAX_TRAINING_ARENA_BYTES
        ):
            self._keep_arena()
        buffers = self._kept.copy() if self._kept is not None else self._arena_buffers()
        for slot, allocate in self._fresh:
            if slot not in late:
                buffers[slot] = allocate()
        return buffers

    def _keep_arena(self) -> None:
        """A training step is run again and again: keep its arena, and let an older one go."""
        self._runs += 1
        if self._runs < RUNS_BEFORE_KEEPING:
            return
        self._kept = self._arena_buffers()
        _training.append(weakref.ref(self))
        while len(_training) > MAX_KEPT_TRAINING_ARENAS:
            older = _training.popleft()()
            if older is not None:
                older._kept, older._runs = None, 0
                older._replay_policy = older._replay_policy and ReplayPolicy()

    # -------------------------------------------------------------- running

    is_simple: bool
    """Whether its runs are its steps and nothing else."""
    record: RunRecord | None = None  # the last recorded run
    _unfinished: RunRecord | None = None  # until its last steps have stored
    _read: list[np.ndarray | None] | None = None  # what the last steps are to read when they store

    def run(self, arrays: Sequence[np.ndarray], quiet: bool = False) -> list[np.ndarray]:
        """The values of the roots; none of them shares memory with anything that stays.

        A `quiet` run is a step of a loop, within the run of the whole: that one is recorded, and
        keeps warnings off. New values of variables may be None until `store` computes them. What
        a replay computes in memory of the plan itself is copied.
        """
        if self._is_new:  # the run asks for kernels, which is a part of planning
            self._is_new = False
            with uncollected():
                return self.run(arrays, quiet)
        self._read = self._unfinished = None
        in_place = self._in_place if self._in_place is not None and self._in_place.ready() else None
        runners = self.runners if in_place is None else self._early_runners
        late = () if in_place is None else in_place.targets
        registers = self._filled(arrays)
        own: Collection[int] = ()
        recorded = not quiet and profile.is_recording()
        policy = None if quiet or recorded or self._kept is None else self._replay_policy
        if policy is not None and policy.is_over:
            policy = None
        if quiet:
            held = service.queue.hold() if service.queue.jobs else None
            self._run_plain(runners, registers, self._buffers(late))
            if held:
                service.queue.restore(held)
        elif policy is None and not recorded and self._is_pure:
            quietly(self._run_plain, runners, registers, self._buffers(late))
        else:
            with np.errstate(all="ignore"):  # NaN and infinity are values, no warnings
                replay = None if policy is None else policy.run(self, registers, len(runners))
                if replay is not None:
                    own = replay.own
                else:
                    run = self._run_recorded if recorded else self._run_plain
                    run(runners, registers, self._buffers(late))
        if in_place is not None:
            self._read = in_place.read(registers)
        return self._results(registers, own)

    def _results(self, registers: Registers, own: Collection[int] = ()) -> list[np.ndarray]:
        """The values of the roots, copied where they lie in memory that stays: `own` is of a
        replay."""
        if not self._views and not own:
            return [registers[root] for root in self.roots]
        return [
            owned(registers[root]) if index in self._views or root in own else registers[root]
            for index, root in enumerate(self.roots)
        ]

    def _filled(self, arrays: Sequence[np.ndarray]) -> Registers:
        """The registers of a run before its first step."""
        registers = self._template.copy()
        for index, slot in self._feeds:
            registers[slot] = arrays[index]
        if self._variables:
            with store_lock:
                for slot, variable in self._variables:
                    registers[slot] = variable._array
        return registers

    def run_simple(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """`run` of a plan that `is_simple`, while nothing is recorded."""
        if self._straight is not None:
            return quietly(self._straight, arrays)
        self._runs += 1
        if self._runs == RUNS_BEFORE_STRAIGHT:
            self._straight = self._straightened()
        registers = self._filled(arrays)
        quietly(self._run_plain, self.runners, registers, self._buffers())
        return self._results(registers)

    def _straightened(self) -> StraightLine | None:
        """The steps as one function, where all of them are small."""
        if self._kept is None or self.layout.ending or self._views:
            return None
        held = [
            constant if buffer is None else buffer
            for constant, buffer in zip(self._template, self._kept, strict=True)
        ]
        read, fed, fresh = dict(self._variables), dict(self._feeds), dict(self._fresh)
        return straight_line(self.values, self.steps, held, read, fed, fresh, self.roots)

    def lasting_buffers(self) -> Buffers:
        """Where intermediate results go in every run, once the plan has memory of its own."""
        assert self._kept is not None
        return self._kept.copy()

    def store(self, results: Sequence[Held]) -> None:
        """Make the last of a run's results the values of the plan's targets, all or none."""
        first = len(self.roots) - len(self.targets)
        in_place, read, self._read = self._in_place, self._read, None
        if in_place is None or read is None:
            store_all(zip(self.targets, results[first:], strict=True))
            return
        begun = time.perf_counter()
        in_place.store(
            read, list(zip(self.roots[first:], self.targets, results[first:], strict=True))
        )
        if self._unfinished is not None:
            self._finish_record(self._unfinished, time.perf_counter() - begun)

    def _run_plain(
        self, runners: Sequence[StepRunner], registers: Registers, buffers: Buffers
    ) -> None:
        queue, begun = service.queue, time.perf_counter()
        behind = queue.jobs  # while kernels are still to be compiled, steps are timed
        done = 0
        try:
            for runner in runners:
                runner(registers, buffers)
                done += 1
                if behind:
                    begun = queue.charge(begun)
                if cancel.any_request:
                    cancel.check()
        except KbenchError as error:
            raise explained(error, self.values[self.steps[done].slot], registers) from None

    def _run_recorded(
        self, runners: Sequence[StepRunner], registers: Registers, buffers: Buffers
    ) -> None:
        record = RunRecord(self.name, peak_bytes=self.layout.peak_bytes)
        clock = time.perf_counter
        start = clock()
        for step, runner in zip(self.steps, runners, strict=False):
            before = clock()
            try:
                runner(registers, buffers)
            except KbenchError as error:
                raise explained(error, self.values[step.slot], registers) from None
            record.steps.append(self._step_record(step, registers, clock() - before))
            cancel.check()
        record.seconds = clock() - start
        if len(runners) < len(self.runners):
            self._unfinished = record
        else:
            self.record = record
            profile.publish(record)

    def _finish_record(self, record: RunRecord, seconds: float) -> None:
        """Add the steps that stored; they ran as one, so each has a share of the time by bytes."""
        late = self.steps[len(self._early_runners) :]
        moved = [
            sum(nbytes(self.values[slot]) for slot in step.reads + step.writes) for step in late
        ]
        for step, count in zip(late, moved, strict=True):
            value = self.values[step.slot]
            flops = step.work * step.elements
            share = seconds * count / max(1, sum(moved))
            place, source = value.origin.place, step.source()
            record.steps.append(
                StepRecord(
                    step.label,
                    step.form(),
                    share,
                    count,
                    flops,
                    value.shape,
                    value.spec.dtype,
                    place,
                    source,
                    _parts(step),
                    value.origin.name,
                )
            )
        record.seconds += seconds
        self._unfinished, self.record = None, record
        profile.publish(record)

    def _step_record(self, step: Step, registers: Registers, seconds: float) -> StepRecord:
        value = self.values[step.slot]
        result = registers[step.slot]
        moved = sum(_size_in_bytes(registers[i]) for i in step.reads)
        ran = result is not None
        return StepRecord(
            step.label,
            step.form() if ran else "not taken",
            seconds,
            moved + (sum(_size_in_bytes(registers[i]) for i in step.writes) if ran else 0),
            step.flops(registers) if ran else 0,
            getattr(result, "shape", ()),
            value.spec.dtype,
            value.origin.place,
            step.source() if ran else None,
            _parts(step),
            value.origin.name,
        )


def _allocator(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], np.ndarray]:
    """What gives the memory of a result: small ones are not the pool's."""
    is_small = math.prod(shape) * dtype.itemsize < MIN_POOLED_BYTES
    return partial(np.empty, shape, dtype) if is_small else partial(pool.take, shape, dtype)


def _parts(step: Step) -> tuple[PartRecord, ...]:
    """The operations of a step that runs several as one."""
    if step.group_step is None:
        names = step.label.split("+")
        return tuple(map(PartRecord, names)) if len(names) > 1 else ()
    group = step.group_step.group
    values = group.members if group.fold is None else [*group.members, group.fold]
    if len(values) < 2:
        return ()
    return tuple(
        PartRecord(value.op.name.strip("_"), value.spec, value.origin.place, value.origin.name)
        for value in values
    )


def _size_in_bytes(value: object) -> int:
    """Bytes of an array, or of the several results of one step."""
    if isinstance(value, tuple):
        return sum(_size_in_bytes(part) for part in value)
    return csr_bytes(value) if is_csr(value) else int(getattr(value, "nbytes", 0))
