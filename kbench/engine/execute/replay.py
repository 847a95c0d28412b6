"""A plan that is run again and again, on memory that stays: neighbouring kernels as one call.

In the middle of a training step the caches are full of weights, and whatever the interpreter does
between two kernels takes several times as long as it does by itself. So after a few runs the calls
of a plan's kernels are written down, each with its parameter block, and neighbouring ones are made
as one call of compiled code from then on (`jit/launch.py`). Other steps run in between, as ever.

Such a call stands for addresses. Those of intermediate results are the plan's own, and stay. Those
of inputs and variables are looked at before each run; where one has moved, all is written down
anew. An input that moves is copied to one place when it is small, and what reads a large one is no
longer written down. Nothing here holds a variable's memory, which its update may reuse.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kbench.engine.compiler.liveness import Layout, nbytes, owners
from kbench.engine.compiler.values import Item
from kbench.engine.core import cancel
from kbench.engine.core.errors import KbenchError
from kbench.engine.execute.buffer_pool import pool
from kbench.engine.execute.steps.base import Buffers, Step, Values, explained
from kbench.engine.execute.steps.group_step import Chosen
from kbench.engine.execute.steps.library_step import native_step
from kbench.engine.graph.multi_output import RESULT
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import TILE_SECONDS, Call, Tape
from kbench.engine.runtime import config, threads

AFTER = 8  # runs
FEWEST = 3  # steps that are worth it
SHARE = 16  # of which one at least is to be called so: keeping account of others takes time, too
LITTLE = 1 << 22  # floating-point operations of a step that takes a kernel only because of this
SMALL = 1 << 16  # bytes of a result that is computed where the plan has it, and copied
COPIED = 1 << 20  # bytes of an input that is copied to where the plan has it
PATIENCE = 8  # times that a variable may be found elsewhere
LONGEST = 64  # runs before calls that were given up are written down again; 2, 4 ... at first


class Repeated(Protocol):
    """The bound plan, as its repetition sees it."""

    items: list[Item]
    roots: list[int]
    inputs: list[int]
    chosen: list[Chosen]
    steps: list[Step]
    layout: Layout
    escaping: list[tuple[int, tuple[int, ...], np.dtype[Any]]]

    def lasting_buffers(self) -> Buffers: ...


class Taping:
    """What a bound plan knows of its own repetition."""

    def __init__(self) -> None:
        self._left = AFTER
        self._given_up = 1  # runs to wait after the next time
        self._moves: Counter[int] = Counter()
        self._taped: Taped | None = None

    def run(self, plan: Repeated, values: Values, count: int) -> Taped | None:
        """Run the first `count` steps as calls written down, for these values of inputs and
        variables; None, and nothing has run, where they are not or cannot be.
        """
        if self._left < 0 or config.jit_mode() == "off":
            return None
        taped = self._taped
        state = config.epoch(), threads.count(), count
        if taped is not None:
            moved = taped.moved(values)
            if taped.state == state and not moved:
                taped.run(plan, values)
                return taped
            self._taped = None
            self._moves.update(moved)
            self._left = self._given_up = min(LONGEST, 2 * self._given_up)
        if self._left > 0 or threads.compiling() or not Tape.possible():
            self._left -= self._left > 0
            return None
        steady = {
            slot
            for slot in plan.inputs
            if self._moves[slot] < (PATIENCE if plan.items[slot].source == "variable" else 1)
        }
        taped = Taped(plan, values, state, steady)
        if taped.written < max(FEWEST, count // SHARE):
            self._left = -1
        else:
            self._taped = taped
        return taped


@dataclass(frozen=True)
class _Part:
    """Calls, or a step of the plan with the results that others read where they were; or calls and
    the step that is to run as well where these are not sound."""

    number: int = -1
    filled: Sequence[tuple[int, np.ndarray]] = ()
    tape: Tape | None = None
    sound: Callable[[], bool] | None = None


class Taped:
    """The first steps of a plan: calls written down, and other steps between them."""

    def __init__(
        self, plan: Repeated, values: Values, state: tuple[int, ...], steady: set[int]
    ) -> None:
        """Write down and run. `steady` are inputs and variables that are likely to stay."""
        self.state = state
        self.written = 0
        self.own: set[int] = set()  # results in memory that stays
        self._copies: list[tuple[int, np.ndarray]] = []
        self._fresh: dict[int, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        self._memory = owners(plan.items)
        self._kept = self._settled(plan, values, steady)
        self._read: set[int] = set()  # by calls
        self._known: list[tuple[int, np.ndarray]] = []  # what calls fill
        self._program: list[_Part] = []
        self._write(plan, values, state[-1])
        self._watched = self._places(plan, values)
        self._forget(plan)

    # -------------------------------------------------------------- writing down

    def _settled(self, plan: Repeated, values: Values, steady: set[int]) -> Buffers:
        """Where results go; notes what of the inputs and results stays, and what does not."""
        self._steady = {item.slot for item in plan.items if item.source == "value"}
        for slot in plan.inputs:
            array = values[slot]
            if type(array) is not np.ndarray or array.shape != plan.items[slot].shape:
                continue
            if slot in steady and array.flags.c_contiguous and array.flags.aligned:
                self._steady.add(slot)
            elif plan.items[slot].source == "feed" and array.nbytes <= COPIED:
                own = pool.take(array.shape, array.dtype)
                np.copyto(own, array)
                values[slot] = own
                self._copies.append((slot, own))
                self._steady.add(slot)
        buffers = plan.lasting_buffers()
        late = {slot for one in plan.chosen[self.state[-1] :] for slot in one.writes}
        for slot, shape, dtype in plan.escaping:
            if slot in late:
                continue
            if nbytes(plan.items[slot]) <= SMALL:
                buffers[slot] = np.empty(shape, dtype)
                self.own.add(slot)
            else:
                self._fresh[slot] = shape, dtype
        return buffers

    def _write(self, plan: Repeated, values: Values, count: int) -> None:
        """Go through the steps once, and keep neighbouring calls together."""
        buffers = self._buffers()
        together: list[Call] = []
        seconds = 0.0
        for number, one in enumerate(plan.chosen[:count]):
            cancel.check()
            calls = self._calls(plan, one, values, buffers)
            if calls is None:
                self._end(together)
                _step(plan, number, values, buffers)
                self._program.append(_Part(number, self._filled(plan, one, values, buffers)))
                continue
            begun = time.perf_counter()
            Tape(calls).run()
            took = time.perf_counter() - begun
            sound = calls[-1].sound if calls else None
            if sound is not None and not sound():
                _step(plan, number, values, buffers)
            filled = [(slot, buffers[slot]) for slot in one.writes]
            for slot, array in filled:
                values[slot] = array
            self._steady.update(one.writes)
            if took > TILE_SECONDS:  # a step looks at the cancel flag
                self._end(together)
                self._program.append(_Part(number, filled))
                continue
            seconds = took + seconds * bool(together)
            if seconds > TILE_SECONDS:
                self._end(together)
            together += calls
            self.written += 1
            self._read.update(one.reads)
            self._known += filled
            if sound is not None:
                self._program.append(_Part(number, filled, Tape(together), sound))
                together.clear()
        self._end(together)

    def _end(self, together: list[Call]) -> None:
        if together:
            self._program.append(_Part(tape=Tape(together)))
            together.clear()

    def _calls(
        self, plan: Repeated, one: Chosen, values: Values, buffers: Buffers
    ) -> list[Call] | None:
        """The calls of a step, where they are the same in the next run."""
        item = plan.items[one.slot]
        reads = [slot for slot in one.reads if slot >= 0]
        if item.guard or one.slot in plan.layout.ending or not self._steady.issuperset(reads):
            return None
        if any(buffers[slot] is None for slot in one.writes) or item.op is RESULT:
            return None
        if not self._fresh.keys().isdisjoint(one.writes):
            return None
        write = one.calls
        if write is None and item.op.native is not None and one.work * item.size <= LITTLE:
            before = config.every_size_here(True)
            try:
                native = native_step(item, plan.items)
            finally:
                config.every_size_here(before)
            write = None if native is None else native.calls
        return None if write is None else write(values, buffers)

    def _filled(
        self, plan: Repeated, one: Chosen, values: Values, buffers: Buffers
    ) -> list[tuple[int, np.ndarray]]:
        """Results of a step that has run that will be at the same place in the next run."""
        item = plan.items[one.slot]
        if item.guard or not all(type(values[slot]) is np.ndarray for slot in one.writes):
            return []
        if all(values[slot] is buffers[slot] for slot in one.writes):
            found = [(slot, buffers[slot]) for slot in one.writes if slot not in self._fresh]
            self._steady.update(slot for slot, _ in found)
            return found
        if item.op.kind == "view" and item.inputs and self._steady.issuperset(item.inputs):
            if np.may_share_memory(values[one.slot], values[item.inputs[0]]):
                self._steady.add(one.slot)
        return []

    def _places(self, plan: Repeated, values: Values) -> list[tuple[int, int]]:
        """The inputs and variables that calls read, and where they are."""
        read = set().union(*(self._memory[slot] for slot in self._read))
        copied = {slot for slot, _ in self._copies}
        return [
            (slot, address_of(values[slot]))
            for slot in plan.inputs
            if slot in read and slot not in copied
        ]

    def _forget(self, plan: Repeated) -> None:
        """Leave out the views that only calls read: these know where they point to."""
        needed = set(plan.roots)
        for one in plan.chosen[self.state[-1] :]:
            needed.update(one.reads)
        kept = []
        for part in reversed(self._program):
            if part.number >= 0:
                one = plan.chosen[part.number]
                item = plan.items[one.slot]
                view = item.op.kind == "view" and one.slot in self._steady
                if view and needed.isdisjoint(one.writes):
                    continue
                needed.update(one.reads)
                needed.update(slot for slot, _ in item.guard)
            kept.append(part)
        self._program = kept[::-1]

    # -------------------------------------------------------------- running

    def moved(self, values: Values) -> list[int]:
        """The inputs and variables that are not where they were."""
        return [slot for slot, place in self._watched if not _is_at(values[slot], place)]

    def _buffers(self) -> Buffers:
        buffers = self._kept.copy()
        for slot, (shape, dtype) in self._fresh.items():
            buffers[slot] = pool.take(shape, dtype)
        return buffers

    def run(self, plan: Repeated, values: Values) -> None:
        """Fill in the values that results and later steps are made of."""
        for slot, own in self._copies:
            np.copyto(own, values[slot])
            values[slot] = own
        buffers = self._buffers()
        for slot, array in self._known:
            values[slot] = array
        for part in self._program:
            cancel.check()
            if part.tape is not None:
                part.tape.run()
                if part.sound is None or part.sound():
                    continue
            _step(plan, part.number, values, buffers)
            for slot, array in part.filled:
                if values[slot] is not array:
                    np.copyto(array, values[slot])  # calls read it there


def _is_at(array: np.ndarray, place: int) -> bool:
    flags = array.flags
    return address_of(array) == place and flags.c_contiguous and flags.aligned


def _step(plan: Repeated, number: int, values: Values, buffers: Buffers) -> None:
    try:
        plan.steps[number](values, buffers)
    except KbenchError as error:
        raise explained(error, plan.items[plan.chosen[number].slot], values) from None
