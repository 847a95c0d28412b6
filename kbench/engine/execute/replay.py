"""Replay: the kernels of a plan that runs again and again, launched as one call of compiled code.

In the middle of a training step the caches are full of weights, and whatever the interpreter does
between two kernels takes several times as long as it does by itself. So after a few runs a plan's
launches are captured, each with its parameter block, and neighbouring ones become a `LaunchGraph`
(`jit/launch.py`), as CUDA graphs are. Other steps run in between, as ever.

A captured launch holds addresses. Those of intermediate results are the plan's own, and stay. Those
of inputs and variables are looked at before each run; where one has moved, all is captured anew.
What moves is copied to one place when it is small; what reads a large one is captured no longer.
Nothing here holds a variable's memory, which its update may reuse.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from kbench.engine.compiler.liveness import MemoryLayout, memory_owners, nbytes
from kbench.engine.compiler.values import Value
from kbench.engine.core import cancel
from kbench.engine.core.errors import KbenchError
from kbench.engine.execute.buffer_pool import pool
from kbench.engine.execute.steps.base import Buffers, Registers, StepRunner, explained
from kbench.engine.execute.steps.group_step import Step
from kbench.engine.execute.steps.library_step import kernel_step
from kbench.engine.graph.apply import RESULT
from kbench.engine.jit import fast_call
from kbench.engine.jit.launch import Launch, LaunchGraph, Prepared
from kbench.engine.jit.service import service
from kbench.engine.runtime import config, threads
from kbench.engine.runtime.pacer import TILE_SECONDS
from kbench.engine.runtime.workspace import LastingWorkspace, NoRoomError

RUNS_BEFORE_CAPTURE = 8
"""Runs of the steps one by one before they are captured: a loop has begun, kernels are compiled."""
MIN_CAPTURED_STEPS = 3
"""Steps below which looking at addresses costs what a launch saves (some 2 us each)."""
MIN_CAPTURED_SHARE = 16
"""One step in so many has to be captured: what is kept of the others takes time, too."""
MAX_SMALL_FLOPS = 1 << 22
"""FLOP up to which a step takes a kernel only because it can be captured."""
MAX_RESULT_COPY_BYTES = 1 << 16
"""Bytes of a result that is computed in the plan's own memory, and copied for the caller."""
MAX_INPUT_COPY_BYTES = 1 << 20
"""Bytes of an input that is copied to a place of its own when it moves; measured at 0.1 ms."""
MAX_VARIABLE_COPY_BYTES = 1 << 12
"""The same of a variable: a counter of steps has a new place in each of them."""
MAX_VARIABLE_MOVES = 8
"""Times that a larger one may be found elsewhere before what reads it is captured no longer."""
MAX_RUNS_BETWEEN_CAPTURES = 64
"""Runs before a replay that was given up is captured again: 2, 4 ... at first."""


class Replayable(Protocol):
    """The executable, as its replay sees it."""

    values: list[Value]
    roots: list[int]
    inputs: list[int]
    steps: list[Step]
    runners: list[StepRunner]
    layout: MemoryLayout
    escaping: list[tuple[int, tuple[int, ...], np.dtype[np.generic]]]

    def lasting_buffers(self) -> Buffers: ...


class ReplayPolicy:
    """When the launches of an executable are captured, and when a replay is given up."""

    is_over = False
    """Whether too little can be captured, now and ever."""

    def __init__(self) -> None:
        self._left = RUNS_BEFORE_CAPTURE
        self._given_up = 1  # runs to wait after the next time
        self._moves: Counter[int] = Counter()
        self._replay: Replay | None = None

    def run(self, plan: Replayable, registers: Registers, count: int) -> Replay | None:
        """Run the first `count` steps as captured launches, for these values of inputs and
        variables; None, and nothing has run, where they are not or cannot be.
        """
        if config.jit_mode() == "off":
            return None
        replay = self._replay
        state = config.epoch(), threads.count(), count
        if replay is not None:
            moved = replay.moved(registers)
            if replay.state == state and not moved:
                replay.run(plan, registers)
                return replay
            self._replay = None
            self._moves.update(moved)
            self._left = self._given_up = min(MAX_RUNS_BETWEEN_CAPTURES, 2 * self._given_up)
        if self._left > 0 or service.is_compiling() or not LaunchGraph.is_supported():
            self._left -= self._left > 0
            return None
        steady = {
            slot for slot in plan.inputs if self._moves[slot] < _most_moves(plan.values[slot])
        }
        replay = Replay(plan, registers, state, steady)
        if replay.captured < max(MIN_CAPTURED_STEPS, count // MIN_CAPTURED_SHARE):
            self.is_over = True
        else:
            self._replay = replay
        return replay


class _Part(Struct, frozen=True):
    """Launches, or a step with the results that others read where they were; or launches and
    the step that is to run as well where these are not valid."""

    number: int = -1
    filled: Sequence[tuple[int, np.ndarray]] = ()
    launches: LaunchGraph | None = None
    is_valid: Callable[[], bool] | None = None


class Replay:
    """The first steps of a plan: captured launches, and other steps between them."""

    def __init__(
        self, plan: Replayable, registers: Registers, state: tuple[int, ...], steady: set[int]
    ) -> None:
        """Capture and run. `steady` are inputs and variables that are likely to stay."""
        self.state = state
        self.captured = 0
        self.own: set[int] = set()  # results in memory that stays
        self._copies: list[tuple[int, np.ndarray]] = []
        self._fresh: dict[int, tuple[tuple[int, ...], np.dtype[np.generic]]] = {}
        self._memory = memory_owners(plan.values)
        self._kept = self._assign_buffers(plan, registers, steady)
        self._read: set[int] = set()  # by launches
        self._known: list[tuple[int, np.ndarray]] = []  # what launches fill
        self._program: list[_Part] = []
        self._capture(plan, registers, state[-1])
        self._watched = self._places(plan, registers)
        self._forget(plan)

    # ------------------------------------------------------------- capture

    def _assign_buffers(self, plan: Replayable, registers: Registers, steady: set[int]) -> Buffers:
        """Where results go; notes what of the inputs and results stays, and what does not."""
        self._steady = {value.slot for value in plan.values if value.source == "constant"}
        for slot in plan.inputs:
            array = registers[slot]
            if type(array) is not np.ndarray or array.shape != plan.values[slot].shape:
                continue
            if slot in steady and array.flags.c_contiguous and array.flags.aligned:
                self._steady.add(slot)
            elif array.nbytes <= _most_copied(plan.values[slot]):
                own = pool.take(array.shape, array.dtype)
                np.copyto(own, array)
                registers[slot] = own
                self._copies.append((slot, own))
                self._steady.add(slot)
        buffers = plan.lasting_buffers()
        late = {slot for step in plan.steps[self.state[-1] :] for slot in step.writes}
        for slot, shape, dtype in plan.escaping:
            if slot in late:
                continue
            if nbytes(plan.values[slot]) <= MAX_RESULT_COPY_BYTES:
                buffers[slot] = np.empty(shape, dtype)
                self.own.add(slot)
            else:
                self._fresh[slot] = shape, dtype
        return buffers

    def _capture(self, plan: Replayable, registers: Registers, count: int) -> None:
        """Go through the steps once, and keep neighbouring launches together."""
        buffers = self._buffers()
        together: list[Launch] = []
        seconds = 0.0
        for number, step in enumerate(plan.steps[:count]):
            cancel.check()
            prepared = self._prepared(plan, step, registers, buffers)
            launches = None if prepared is None else prepared.launches
            if prepared is None or launches is None:
                self._end(together)
                _run_step(plan, number, registers, buffers)
                self._program.append(_Part(number, self._filled(plan, step, registers, buffers)))
                continue
            begun = time.perf_counter()
            LaunchGraph(launches).run()
            took = time.perf_counter() - begun
            is_valid = prepared.check_after
            if is_valid is not None and not is_valid():
                _run_step(plan, number, registers, buffers)
            filled = [(slot, buffers[slot]) for slot in step.writes]
            for slot, array in filled:
                registers[slot] = array
            self._steady.update(step.writes)
            if took > TILE_SECONDS:  # a step looks at the cancel flag
                self._end(together)
                self._program.append(_Part(number, filled))
                continue
            seconds = took + seconds * bool(together)
            if seconds > TILE_SECONDS:
                self._end(together)
            together += launches
            self.captured += 1
            self._read.update(step.reads)
            self._known += filled
            if is_valid is not None:
                self._program.append(_Part(number, filled, LaunchGraph(together), is_valid))
                together.clear()
        self._end(together)

    def _end(self, together: list[Launch]) -> None:
        if together:
            self._program.append(_Part(launches=LaunchGraph(together)))
            together.clear()

    def _prepared(
        self, plan: Replayable, step: Step, registers: Registers, buffers: Buffers
    ) -> Prepared | None:
        """The call that a step makes, where it is the same in the next run."""
        value = plan.values[step.slot]
        reads = [slot for slot in step.reads if slot >= 0]
        if value.guard or step.slot in plan.layout.ending or not self._steady.issuperset(reads):
            return None
        if any(buffers[slot] is None for slot in step.writes) or value.op is RESULT:
            return None
        if not self._fresh.keys().isdisjoint(step.writes):
            return None
        prepare = step.prepare
        if (
            prepare is None
            and value.op.kernel is not None
            and step.work * value.size <= MAX_SMALL_FLOPS
        ):
            before = config.allow_any_size(True)
            try:
                compiled = kernel_step(value, plan.values)
            finally:
                config.allow_any_size(before)
            prepare = None if compiled is None else compiled.prepare
        try:
            return None if prepare is None else prepare(registers, buffers, LastingWorkspace())
        except NoRoomError:
            return None

    def _filled(
        self, plan: Replayable, step: Step, registers: Registers, buffers: Buffers
    ) -> list[tuple[int, np.ndarray]]:
        """Results of a step that has run that will be at the same place in the next run."""
        value = plan.values[step.slot]
        if value.guard or not all(type(registers[slot]) is np.ndarray for slot in step.writes):
            return []
        if all(registers[slot] is buffers[slot] for slot in step.writes):
            found = [(slot, buffers[slot]) for slot in step.writes if slot not in self._fresh]
            self._steady.update(slot for slot, _ in found)
            return found
        if value.op.kind == "view" and value.inputs and self._steady.issuperset(value.inputs):
            if np.may_share_memory(registers[step.slot], registers[value.inputs[0]]):
                self._steady.add(step.slot)
        return []

    def _places(self, plan: Replayable, registers: Registers) -> list[tuple[int, int]]:
        """The inputs and variables that launches read, and where they are."""
        read = set().union(*(self._memory[slot] for slot in self._read))
        copied = {slot for slot, _ in self._copies}
        return [
            (slot, fast_call.address(registers[slot]))
            for slot in plan.inputs
            if slot in read and slot not in copied
        ]

    def _forget(self, plan: Replayable) -> None:
        """Leave out the views that only launches read: these know where they point to."""
        needed = set(plan.roots)
        for step in plan.steps[self.state[-1] :]:
            needed.update(step.reads)
        kept = []
        for part in reversed(self._program):
            if part.number >= 0:
                step = plan.steps[part.number]
                value = plan.values[step.slot]
                view = value.op.kind == "view" and step.slot in self._steady
                if view and needed.isdisjoint(step.writes):
                    continue
                needed.update(step.reads)
                needed.update(slot for slot, _ in value.guard)
            kept.append(part)
        self._program = kept[::-1]

    # -------------------------------------------------------------- running

    def moved(self, registers: Registers) -> list[int]:
        """The inputs and variables that are not where they were."""
        return [slot for slot, place in self._watched if not _is_at(registers[slot], place)]

    def _buffers(self) -> Buffers:
        buffers = self._kept.copy()
        for slot, (shape, dtype) in self._fresh.items():
            buffers[slot] = pool.take(shape, dtype)
        return buffers

    def run(self, plan: Replayable, registers: Registers) -> None:
        """Fill in the values that results and later steps are made of."""
        for slot, own in self._copies:
            np.copyto(own, registers[slot])
            registers[slot] = own
        buffers = self._buffers()
        for slot, array in self._known:
            registers[slot] = array
        for part in self._program:
            cancel.check()
            if part.launches is not None:
                part.launches.run()
                if part.is_valid is None or part.is_valid():
                    continue
            _run_step(plan, part.number, registers, buffers)
            for slot, array in part.filled:
                if registers[slot] is not array:
                    np.copyto(array, registers[slot])  # launches read it there


def _most_copied(value: Value) -> int:
    """Bytes up to which an input or a variable that moves is copied."""
    return MAX_INPUT_COPY_BYTES if value.source == "feed" else MAX_VARIABLE_COPY_BYTES


def _most_moves(value: Value) -> int:
    """Times that it is found elsewhere before it is one that moves."""
    if value.source == "feed" or nbytes(value) <= MAX_VARIABLE_COPY_BYTES:
        return 1
    return MAX_VARIABLE_MOVES


def _is_at(array: np.ndarray, place: int) -> bool:
    flags = array.flags
    return fast_call.address(array) == place and flags.c_contiguous and flags.aligned


def _run_step(plan: Replayable, number: int, registers: Registers, buffers: Buffers) -> None:
    try:
        plan.runners[number](registers, buffers)
    except KbenchError as error:
        raise explained(error, plan.values[plan.steps[number].slot], registers) from None
