"""Steps: small callables that take the registers of a run, one for each slot, and fill one more.

A step is chosen once, at binding; running it does no lookup and no check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from msgspec import Struct

from kbench.engine.compiler.values import Guard, Value, called, infer_at
from kbench.engine.core.csr import is_csr
from kbench.engine.core.errors import KbenchError, make_operand
from kbench.engine.graph.apply import RESULT
from kbench.engine.graph.convert import runtime_value
from kbench.engine.graph.declare import BARE
from kbench.engine.graph.expr.numpy_form import BLOCK
from kbench.engine.graph.op import operand_names
from kbench.engine.graph.traits.roles import Role

Registers = list[Any]
"""The values of a run by slot: arrays, compressed rows, or the several results of a step."""
Buffers = list[Any]
"""Arrays for these values by slot, None where a step makes its own."""
Signature = tuple[object, ...]
"""Shapes and flags, by which executables are kept."""
StepRunner = Callable[[Registers, Buffers], None]


class ExecutableLike(Protocol):
    """An executable, as a step that runs one sees it."""

    values: list[Value]
    roots: list[int]

    def run(self, arrays: Sequence[np.ndarray], quiet: bool = False) -> list[np.ndarray]: ...


class PlanLike(Protocol):
    """A plan before shapes are known, as a step that runs one sees it."""

    def signature(self, arrays: Sequence[np.ndarray]) -> Signature: ...
    def bind(self, arrays: Sequence[np.ndarray]) -> ExecutableLike: ...


MakePlan = Callable[..., PlanLike]
"""`make_plan` of `execute/plan.py`, which is built on steps."""


class PlanMakers(Struct, frozen=True):
    """What steps need that run plans of their own: handed down by those that are built on steps."""

    plan: MakePlan
    bind: Callable[[str, list[Value], list[bool], list[int], list[int | None]], ExecutableLike]


def _numpy_call(value: Value) -> Callable[..., object]:
    return partial(value.op.numpy, **value.attrs) if value.attrs else value.op.numpy


def numpy_step(value: Value) -> StepRunner:
    """A step that fills the buffer of its slot with the op's NumPy form."""
    run, slot, inputs = _numpy_call(value), value.slot, value.inputs
    if len(inputs) == 1:
        (first,) = inputs

        def one(registers: Registers, buffers: Buffers) -> None:
            registers[slot] = run(buffers[slot], registers[first])

        return one
    if len(inputs) == 2:
        left, right = inputs

        def two(registers: Registers, buffers: Buffers) -> None:
            registers[slot] = run(buffers[slot], registers[left], registers[right])

        return two

    def many(registers: Registers, buffers: Buffers) -> None:
        registers[slot] = run(buffers[slot], *[registers[i] for i in inputs])

    return many


def is_bare(value: Value, values: Sequence[Value]) -> bool:
    """Whether this is an elementwise op on arrays too short to be cut into blocks, none of them
    float16, which would be widened: its calls of NumPy are all there is to it."""
    specs = [value.spec, *(values[operand].spec for operand in value.inputs)]
    if value.op.numpy not in BARE or value.attrs or not value.static or value.size > BLOCK:
        return False
    return all(spec.dtype != "float16" for spec in specs)


def bare_step(value: Value) -> StepRunner:
    """A step for what `is_bare`, which costs little more than its calls of NumPy; the plan keeps
    warnings off."""
    run, slot, inputs = BARE[value.op.numpy], value.slot, value.inputs
    if len(inputs) == 1:
        (first,) = inputs

        def one(registers: Registers, buffers: Buffers) -> None:
            out = registers[slot] = buffers[slot]
            run(out, registers[first])

        return one
    if len(inputs) == 2:
        left, right = inputs

        def two(registers: Registers, buffers: Buffers) -> None:
            out = registers[slot] = buffers[slot]
            run(out, registers[left], registers[right])

        return two

    def many(registers: Registers, buffers: Buffers) -> None:
        out = registers[slot] = buffers[slot]
        run(out, *[registers[i] for i in inputs])

    return many


def dynamic_step(value: Value) -> StepRunner:
    """A step whose shape is known only now: the rule is checked on the computed operands."""
    # What was not computed has no shape, and any shape is right.
    if value.op is RESULT or value.op.role is Role.BRANCH:
        return numpy_step(value)
    run, slot, inputs, node = _numpy_call(value), value.slot, value.inputs, value.origin

    def step(registers: Registers, buffers: Buffers) -> None:
        arrays = [registers[i] for i in inputs]
        infer_at(node, value.op, [runtime_value(array) for array in arrays], value.attrs)
        registers[slot] = run(None, *arrays)

    return step


def guarded(step: StepRunner, guard: Guard) -> StepRunner:
    """A step that runs only when each condition of its branches is as needed."""
    conditions = tuple((slot, side == 1) for slot, side in guard)

    def maybe(registers: Registers, buffers: Buffers) -> None:
        for slot, wanted in conditions:
            if bool(registers[slot]) is not wanted:
                return
        step(registers, buffers)

    return maybe


def releasing(step: StepRunner, slots: tuple[int, ...]) -> StepRunner:
    """A step after which large values that nobody reads any more are let go."""

    def run(registers: Registers, buffers: Buffers) -> None:
        step(registers, buffers)
        for slot in slots:
            registers[slot] = None

    return run


def explained(error: KbenchError, value: Value, registers: Registers) -> KbenchError:
    """An error of a kernel, told about the node that ran; a row group tells of its own values."""
    if "group" in value.attrs and error.function:
        return error
    rows = []
    inputs = value.origin.inputs
    names = operand_names(value.origin.op, len(inputs))
    for name, node, slot in zip(names, inputs, value.inputs, strict=False):
        row = make_operand(name, node)
        array = registers[slot]
        if row is not None and (isinstance(array, np.ndarray) or is_csr(array)):
            spec = str(runtime_value(array))
            rows.append(type(row)(row.role, spec, row.kind, row.name, row.place, row.ident))
    return error.at(called(value.origin, value.origin.op), tuple(rows), value.origin.place)
