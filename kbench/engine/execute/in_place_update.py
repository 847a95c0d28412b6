"""New values of variables, computed in place once everything else of a call is there.

A step whose results are nothing but new values of variables need not run before the call is sure to
succeed. Such steps run last and together, as one call of compiled code that no signal can split:
each variable gets its new value in the memory of the old one, or none does. Half the memory of an
optimizer's step, and more than half of its time, is saved by not writing to other memory.

Who still looks at the old value keeps it: a variable whose array somebody else holds, too, gets
new memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kbench.engine.codegen.arguments import Binding
from kbench.engine.codegen.batched_kernel import Table
from kbench.engine.compiler.liveness import memory_owners
from kbench.engine.compiler.values import Value
from kbench.engine.core.csr import Held
from kbench.engine.execute.buffer_pool import pool
from kbench.engine.execute.steps.base import Registers
from kbench.engine.execute.steps.group_step import GroupStep, Step
from kbench.engine.graph.variables import Variable, store_all, store_lock
from kbench.engine.jit import fast_call
from kbench.engine.jit.array_memory import are_same
from kbench.engine.runtime import config

MAX_DEFERRED_ELEMENTS = 1 << 25
"""Elements that are computed without a look at the cancel flag: of float32 some 0.4 GB to read
and write, which take tens of milliseconds."""
Targets = Mapping[int, Variable]  # the variable that each root is the new value of, by slot


def defer_updates(
    steps: Sequence[Step], values: Sequence[Value], roots: Sequence[int], targets: Targets
) -> tuple[list[Step], int]:
    """The steps with those last that only give new values of variables, and how many these are."""
    once = {slot for slot in targets if roots.count(slot) == 1}
    room = MAX_DEFERRED_ELEMENTS
    late = []
    for step in steps:
        group_step = step.group_step
        if group_step is None or group_step.group.fold is not None or group_step.program is None:
            continue
        inside = {member.slot for member in group_step.group.members}
        ends = all(slot in once and inside.issuperset(values[slot].users) for slot in step.writes)
        work = values[step.slot].size * len(step.writes)
        if ends and not values[step.slot].guard and work <= room:
            room -= work
            late.append(step)
    if not late:
        return list(steps), 0
    moved = {id(step) for step in late}
    return [step for step in steps if id(step) not in moved] + late, len(late)


Store = tuple[int, Variable, Held]  # the root that gives a variable's value, and that value


class InPlaceUpdates:
    """The last steps of a plan, which store what they compute."""

    def __init__(self, steps: Sequence[Step], values: Sequence[Value], targets: Targets) -> None:
        self.groups: list[GroupStep] = [
            step.group_step for step in steps if step.group_step is not None
        ]
        self.targets = {slot: targets[slot] for step in steps for slot in step.writes}
        old = {id(value.origin): value.slot for value in values if value.source == "variable"}
        self._read = {slot: values[slot].origin for slot in old.values()}
        memory = memory_owners(values)
        self._in_place = {
            slot
            for group in self.groups
            for slot in group.group.writes
            if self._may_stay(group, old.get(id(targets[slot])), memory)
        }
        self._bindings = [
            Binding(group.program, group.dims) for group in self.groups if group.program
        ]
        self._slots = [slot for group in self.groups for slot in group.reads]
        self._table: Table | None = None
        self._addresses: list[int] = []  # of all that the parameters are for
        self._blocks: list[np.ndarray] = []
        self._params = np.empty(0, np.int64)

    def _may_stay(
        self, writer: GroupStep, old: int | None, memory: Sequence[frozenset[int]]
    ) -> bool:
        """Whether of these steps only the writer reads the old value, element by element."""
        if old is None:
            return True
        shape = writer.group.shape
        whole = tuple(size != 1 for size in shape)
        for group in self.groups:
            for source in group.group.sources:
                if source.number is not None or old not in memory[source.slot]:
                    continue
                if group is not writer or source.slot != old or source.varies != whole:
                    return False
        return True

    def ready(self) -> bool:
        """Whether every step has its kernel."""
        if self._table is None:
            kernels = [group.ready_kernel() for group in self.groups]
            found = [kernel for kernel in kernels if kernel is not None]
            if len(found) == len(kernels):
                self._table = Table(list(zip(found, self._bindings, strict=True)))
        return self._table is not None and config.jit_mode() != "off" and self._table.ready()

    def read(self, registers: Registers) -> list[np.ndarray | None]:
        """What the steps read, from the values of a run, but None for what a variable holds."""
        held = registers.copy()
        for slot in self._read:
            held[slot] = None
        return [source for group in self.groups for source in group.sources(held)]

    def store(self, read: Sequence[np.ndarray | None], others: Sequence[Store]) -> None:
        """Compute the new values and store them, and with them `others`: all or none."""
        assert self._table is not None
        with store_lock:
            fresh = {slot: self._place(slot, variable) for slot, variable in self.targets.items()}
            pairs = [
                (target, fresh[slot] if slot in fresh else array) for slot, target, array in others
            ]
            params, _alive = self._parameters(fresh, read)
            try:
                self._table.run(params)
                store_all(pairs)
            except BaseException:
                if self._table.has_run(params):
                    store_all(pairs)
                raise

    def _parameters(
        self, fresh: Mapping[int, np.ndarray], read: Sequence[np.ndarray | None]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """The table for these new values, and what must stay alive; it is made anew only when
        something lies elsewhere than in the call before."""
        assert self._table is not None
        given = [
            self._read[slot]._array if array is None else array  # type: ignore[attr-defined]
            for slot, array in zip(self._slots, read, strict=True)
        ]
        addresses = [fast_call.address(array) for array in (*fresh.values(), *given)]
        straight = all(array.flags.c_contiguous and array.flags.aligned for array in given)
        if not straight or addresses != self._addresses:
            self._blocks, alive = self._bound(fresh, given)
            self._params = self._table.parameters(self._blocks)
            self._addresses = addresses if straight and are_same(alive, given) else []
            given = alive
        return self._params.copy(), given

    def _bound(
        self, fresh: Mapping[int, np.ndarray], given: Sequence[np.ndarray]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The parameter block of each kernel, and what must stay alive."""
        blocks, alive = [], []
        left = iter(given)
        for group, binding in zip(self.groups, self._bindings, strict=True):
            outs = [fresh[slot] for slot in group.group.writes]
            binding.check_outs(outs)
            block, kept = binding.parameters(outs, [next(left) for _ in group.reads])
            blocks.append(block)
            alive += kept
        return blocks, alive

    def _place(self, slot: int, variable: Variable) -> np.ndarray:
        """Where the new value goes: over the old one, where nobody else looks at that."""
        if slot in self._in_place and pool.held_alone(variable):
            old: np.ndarray = variable._array
            if old.flags.c_contiguous and old.flags.aligned:
                return old.view()  # an array of its own: who knows the old one sees it is not it
        return pool.take(variable._array.shape, variable._array.dtype)
