"""Running a loop: the plan of its step, bound once, fed with one entry after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.engine.errors import ShapeError
from kbench.engine.iteration.body import Body, Emit, Track, infer_step
from kbench.engine.plan.buffers import pool
from kbench.engine.plan.items import Item
from kbench.engine.plan.steps import Buffers, Values
from kbench.engine.spec import Spec, show

if TYPE_CHECKING:
    from kbench.engine.plan.bound import BoundPlan
    from kbench.engine.plan.plan import Plan


class LoopStep:
    """One loop within a bound plan; keeps its step bound to the shapes it has met."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.body: Body = item.attrs["body"]
        self.reads: tuple[Track, ...] = item.attrs["reads"]
        self.emits: tuple[Emit, ...] = item.attrs["emits"]
        self.plan = _plan_of(self.body, self.emits, item.origin.called or "loop")
        self._bound: dict[Any, BoundPlan] = {}

    def run(self, v: Values, b: Buffers) -> None:
        arrays = [v[one] for one in self.item.inputs]
        count = len(self.reads)
        length = self._length(arrays[:count])
        last = count + len(self.body.states)
        if length == 0:
            v[self.item.slot] = self._nothing(arrays)
            return
        entries = [_entries(array, read) for array, read in zip(arrays, self.reads, strict=False)]
        states, stacks = self._loop(length, entries, arrays[count:last], arrays[last:])
        v[self.item.slot] = (*states, *stacks)

    def _length(self, sequences: Sequence[np.ndarray]) -> int:
        lengths = {a.shape[read.axis] for a, read in zip(sequences, self.reads, strict=True)}
        if len(lengths) != 1:
            shapes = ", ".join(show(one.shape) for one in sequences)
            raise ShapeError(f"the sequences have shapes {shapes}, which differ in length")
        return int(lengths.pop())

    def _loop(
        self,
        length: int,
        entries: Sequence[np.ndarray],
        states: list[np.ndarray],
        captured: Sequence[np.ndarray],
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        count = len(states)
        stacks: list[np.ndarray] = []
        places: list[np.ndarray] = []
        bound: BoundPlan | None = None
        for step in range(length):
            given = [*(one[step, ...] for one in entries), *states, *captured]
            if bound is None:
                bound = self._bound_to(given)
            results = bound.run(given, quiet=True)
            before, states = states, results[:count]
            if any(a.shape != b.shape for a, b in zip(before, states, strict=True)):
                bound = None
            if step == 0:
                stacks = [
                    _stack(value, emit, length)
                    for value, emit in zip(results[count:], self.emits, strict=True)
                ]
                places = [
                    _entries(stack, Track(emit.axis, emit.backwards))
                    for stack, emit in zip(stacks, self.emits, strict=True)
                ]
            for place, value in zip(places, results[count:], strict=True):
                place[step] = value
        return states, stacks

    def _bound_to(self, given: Sequence[np.ndarray]) -> BoundPlan:
        key = tuple([one.shape for one in given])
        if key not in self._bound:
            self._bound[key] = self.plan.bind(given)
        return self._bound[key]

    def _nothing(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The results of a loop of no steps."""
        count = len(self.reads)
        last = count + len(self.body.states)
        specs = []
        for array, read in zip(arrays, self.reads, strict=False):
            shape = (*array.shape[: read.axis], *array.shape[read.axis + 1 :])
            specs.append(Spec(shape, array.dtype.name))
        specs += [Spec(one.shape, one.dtype.name) for one in arrays[count:]]
        found = infer_step(self.body, [one.tensor for one in self.emits], specs)
        stacks = []
        for spec, emit in zip(found, self.emits, strict=True):
            sizes = (*spec.shape[: emit.axis], 0, *spec.shape[emit.axis :])
            stacks.append(np.empty([size or 0 for size in sizes], spec.dtype))
        return (*(one.copy() for one in arrays[count:last]), *stacks)


def _plan_of(body: Body, emits: Sequence[Emit], name: str) -> Plan:
    from kbench.engine.plan.plan import make_plan

    key = tuple(id(one.tensor) for one in emits)
    if key not in body.plans:
        roots = [*body.after, *(one.tensor for one in emits)]
        body.plans[key] = make_plan(name, roots, body.feeds)
    return body.plans[key]  # type: ignore[no-any-return]


def _entries(array: np.ndarray, read: Track) -> np.ndarray:
    """A view whose first axis is walked step by step."""
    moved = np.moveaxis(array, read.axis, 0)
    return moved[::-1] if read.backwards else moved


def _stack(value: np.ndarray, emit: Emit, length: int) -> np.ndarray:
    shape = (*value.shape[: emit.axis], length, *value.shape[emit.axis :])
    return pool.take(shape, value.dtype)
