"""Running a loop: the plan of its step, bound once, fed with one entry after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kbench.engine.compiler.values import Value
from kbench.engine.control_flow.body import (
    Body,
    Emit,
    Track,
    common_length,
    infer_loop,
    stacked,
)
from kbench.engine.core.errors import ShapeError
from kbench.engine.core.spec import Spec
from kbench.engine.execute.buffer_pool import pool
from kbench.engine.execute.steps.base import (
    Buffers,
    ExecutableLike,
    MakePlan,
    PlanLike,
    Registers,
    Signature,
)
from kbench.engine.execute.steps.scan_step import Scan, find_scan
from kbench.engine.graph.convert import runtime_value
from kbench.engine.runtime import config

Arrays = list[np.ndarray]


class LoopStep:
    """One loop within an executable; keeps its step bound to the shapes it has met."""

    def __init__(self, value: Value, make_plan: MakePlan) -> None:
        self.value = value
        self.body: Body = value.attrs["body"]
        self.reads: tuple[Track, ...] = value.attrs["reads"]
        self.emits: tuple[Emit, ...] = value.attrs["emits"]
        self.plan = _plan_of(self.body, self.emits, value.origin.called or "loop", make_plan)
        self._executables: dict[Signature, ExecutableLike] = {}
        self._scans: dict[object, Scan | None] = {}
        self._scan: Scan | None = None  # what the last run used

    def form(self) -> str:
        """How the last run went: compiled as a whole, or step by step."""
        return "loop" if self._scan is None else "scan"

    def source(self) -> str | None:
        """The generated source of a compiled loop."""
        return None if self._scan is None else self._scan.source

    def run(self, registers: Registers, buffers: Buffers) -> None:
        arrays = [registers[slot] for slot in self.value.inputs]
        length = self._length(arrays)
        if length == 0:
            registers[self.value.slot] = self._empty_results(arrays)
            return
        parts = self._split(arrays)
        empty = all(array.size == 0 for array in parts[0])
        scan = self._scan = None if empty else self._ready_scan(length, *parts)
        run = self._loop if scan is None else scan.run
        states, stacks = run(length, *parts)
        registers[self.value.slot] = (*states, *stacks)

    def steps(self, arrays: Sequence[np.ndarray]) -> Iterator[tuple[Arrays, Arrays]]:
        """What each step is fed, and the states after it with what it emits, one by one."""
        return self._steps(self._length(arrays), *self._split(arrays))

    def _length(self, arrays: Sequence[np.ndarray]) -> int:
        specs = [runtime_value(array) for array in arrays[: len(self.reads)]]
        return common_length(specs, self.reads) or 0

    def _split(self, arrays: Sequence[np.ndarray]) -> tuple[Arrays, Arrays, Arrays]:
        """The entries of all steps, the states before the first, and what is captured."""
        count = len(self.reads)
        last = count + len(self.body.states)
        entries = [_entries(array, read) for array, read in zip(arrays, self.reads, strict=False)]
        return entries, list(arrays[count:last]), list(arrays[last:])

    def _steps(
        self, length: int, entries: Arrays, states: Arrays, captured: Arrays
    ) -> Iterator[tuple[Arrays, Arrays]]:
        executable: ExecutableLike | None = None
        for step in range(length):
            given = [*(array[step, ...] for array in entries), *states, *captured]
            if executable is None:
                executable = self._executable(given)
            results = executable.run(given, quiet=True)
            before, states = states, results[: len(states)]
            if any(a.shape != b.shape for a, b in zip(before, states, strict=True)):
                executable = None
            yield given, results

    def _loop(
        self, length: int, entries: Arrays, states: Arrays, captured: Arrays
    ) -> tuple[Arrays, Arrays]:
        count = len(states)
        stacks: Arrays = []
        places: Arrays = []
        steps = self._steps(length, entries, states, captured)
        empty = not any(sequence.size for sequence in entries)
        for step, (given, results) in enumerate(steps):
            states = results[:count]
            if step == 0:
                stacks = [
                    _stack(array, emit, length)
                    for array, emit in zip(results[count:], self.emits, strict=True)
                ]
                places = [
                    _entries(stack, Track(emit.axis, emit.backwards))
                    for stack, emit in zip(stacks, self.emits, strict=True)
                ]
            for place, array, emit in zip(places, results[count:], self.emits, strict=True):
                if place.shape[1:] != array.shape:
                    raise _uneven(emit, place[step], array)
                place[step] = array
            if empty and not any(stack.size for stack in stacks):
                if _are_equal(given[len(entries) : len(entries) + count], states):
                    break  # as all further steps are: there may be any number of them
        return states, stacks

    def _ready_scan(
        self, length: int, entries: Arrays, first: Arrays, captured: Arrays
    ) -> Scan | None:
        """The compiled form of the loop, if it has one that is ready."""
        if config.jit_mode() == "off":
            return None
        given = [*(array[0, ...] for array in entries), *first, *captured]
        key = self.plan.signature(given)
        if key not in self._scans:
            self._scans[key] = self._found_scan(given, first)
        scan = self._scans[key]
        return scan if scan is not None and scan.ready(length) else None

    def _found_scan(self, given: list[np.ndarray], first: Sequence[np.ndarray]) -> Scan | None:
        """The compiled form, for states that keep their shapes."""
        executable = self._executable(given)
        after = [executable.values[slot].spec.shape for slot in executable.roots[: len(first)]]
        if any(state.shape != shape for state, shape in zip(first, after, strict=True)):
            return None
        return find_scan(executable, self.body, self.emits, first)

    def _executable(self, given: Sequence[np.ndarray]) -> ExecutableLike:
        key = self.plan.signature(given)
        if key not in self._executables:
            self._executables[key] = self.plan.bind(given)
        return self._executables[key]

    def _empty_results(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The results of a loop of no steps."""
        specs = [runtime_value(array) for array in arrays]
        whole = infer_loop(*specs, body=self.body, reads=self.reads, emits=self.emits)
        count, states = len(self.reads), len(self.body.states)
        empty = [
            np.empty([n or 0 for n in spec.shape], spec.dtype) for spec in whole.parts[states:]
        ]
        return (*(array.copy() for array in arrays[count : count + states]), *empty)


def _plan_of(body: Body, emits: Sequence[Emit], name: str, make_plan: MakePlan) -> PlanLike:
    key = tuple(id(emit.tensor) for emit in emits)
    if key not in body.plans:
        roots = [*body.after, *(emit.tensor for emit in emits)]
        moving = len(body.feeds) - len(body.captured)
        body.plans[key] = make_plan(name, roots, body.feeds, moving=moving)
    return body.plans[key]  # type: ignore[return-value]


def _are_equal(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> bool:
    """Whether a step has left all states as they were, bit by bit."""
    pairs = list(zip(before, after, strict=True))
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


def _entries(array: np.ndarray, read: Track) -> np.ndarray:
    """A view whose first axis is walked step by step."""
    moved = np.moveaxis(array, read.axis, 0)
    return moved[::-1] if read.backwards else moved


def _uneven(emit: Emit, first: np.ndarray, now: np.ndarray) -> ShapeError:
    """What a step makes must have one shape at all steps to be stacked."""
    name = emit.tensor.called or emit.tensor.op.name
    before, later = (Spec(array.shape, array.dtype.name) for array in (first, now))
    return ShapeError(f"in its step, {name} is {before} at first and {later} later")


def _stack(array: np.ndarray, emit: Emit, length: int) -> np.ndarray:
    return pool.take(tuple(n or 0 for n in stacked(array.shape, emit.axis, length)), array.dtype)
