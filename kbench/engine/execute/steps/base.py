"""Steps: small callables that take the values of a run, by slot, and add one more.

A step is chosen once, at binding; running it does no lookup and no check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from kbench.engine.compiler.values import Guard, Value, called, infer_at
from kbench.engine.core.csr import is_csr
from kbench.engine.core.errors import KbenchError, make_operand
from kbench.engine.graph.declare import BARE
from kbench.engine.graph.expr import BLOCK
from kbench.engine.graph.multi_output import RESULT
from kbench.engine.graph.op import operand_names
from kbench.engine.ops.control.switch import BRANCH
from kbench.engine.ops.layout.shape import runtime_value

SlotValues = list[Any]
Buffers = list[Any]
StepFunction = Callable[[SlotValues, Buffers], None]


class Bound(Protocol):
    """A plan bound to shapes, as a step that runs one sees it."""

    items: list[Value]
    roots: list[int]

    def run(self, arrays: Sequence[np.ndarray], quiet: bool = False) -> list[np.ndarray]: ...


class Unbound(Protocol):
    """A plan before shapes are known, as a step that runs one sees it."""

    def signature(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]: ...
    def bind(self, arrays: Sequence[np.ndarray]) -> Bound: ...


Planner = Callable[..., Unbound]
"""`make_plan` of `execute/plan.py`, which is built on steps."""


@dataclass(frozen=True)
class Makers:
    """What steps need that run plans of their own: handed down by those that are built on steps."""

    plan: Planner
    bind: Callable[[str, list[Value], list[bool], list[int], list[int | None]], Bound]


def _bound(item: Value) -> Callable[..., Any]:
    return partial(item.op.numpy, **item.attrs) if item.attrs else item.op.numpy


def numpy_step(item: Value) -> StepFunction:
    """A step that fills the buffer of its slot with the op's NumPy form."""
    run, slot, inputs = _bound(item), item.slot, item.inputs
    if len(inputs) == 1:
        (first,) = inputs

        def one(v: SlotValues, b: Buffers) -> None:
            v[slot] = run(b[slot], v[first])

        return one
    if len(inputs) == 2:
        left, right = inputs

        def two(v: SlotValues, b: Buffers) -> None:
            v[slot] = run(b[slot], v[left], v[right])

        return two

    def many(v: SlotValues, b: Buffers) -> None:
        v[slot] = run(b[slot], *[v[i] for i in inputs])

    return many


def bare_step(item: Value, items: Sequence[Value]) -> StepFunction | None:
    """A step for a small elementwise op, which costs little more than its calls of NumPy.

    The plan keeps warnings off, the arrays are too short to be cut into blocks, and none of them
    is float16, which would be widened.
    """
    run = BARE.get(item.op.numpy)
    specs = [item.spec, *(items[one].spec for one in item.inputs)]
    if run is None or item.attrs or not item.static or item.size > BLOCK:
        return None
    if any(one.dtype == "float16" for one in specs):
        return None
    slot, inputs = item.slot, item.inputs
    if len(inputs) == 2:
        left, right = inputs

        def two(v: SlotValues, b: Buffers) -> None:
            out = v[slot] = b[slot]
            run(out, v[left], v[right])

        return two

    def many(v: SlotValues, b: Buffers) -> None:
        out = v[slot] = b[slot]
        run(out, *[v[i] for i in inputs])

    return many


def dynamic_step(item: Value) -> StepFunction:
    """A step whose shape is known only now: the rule is checked on the computed operands."""
    if item.op in (BRANCH, RESULT):  # what was not computed has no shape, and any shape is right
        return numpy_step(item)
    run, slot, inputs, node = _bound(item), item.slot, item.inputs, item.origin

    def step(v: SlotValues, b: Buffers) -> None:
        arrays = [v[i] for i in inputs]
        infer_at(node, item.op, [runtime_value(one) for one in arrays], item.attrs)
        v[slot] = run(None, *arrays)

    return step


def guarded(step: StepFunction, guard: Guard) -> StepFunction:
    """A step that runs only when each condition of its branches is as needed."""
    conditions = tuple((slot, side == 1) for slot, side in guard)

    def maybe(v: SlotValues, b: Buffers) -> None:
        for slot, wanted in conditions:
            if bool(v[slot]) is not wanted:
                return
        step(v, b)

    return maybe


def releasing(step: StepFunction, slots: tuple[int, ...]) -> StepFunction:
    """A step after which large values that nobody reads any more are let go."""

    def run(v: SlotValues, b: Buffers) -> None:
        step(v, b)
        for slot in slots:
            v[slot] = None

    return run


def explained(error: KbenchError, item: Value, values: SlotValues) -> KbenchError:
    """An error of a kernel, told about the node that ran; a row group tells of its own items."""
    if "group" in item.attrs and error.function:
        return error
    rows = []
    inputs = item.origin.inputs
    names = operand_names(item.origin.op, len(inputs))
    for name, node, slot in zip(names, inputs, item.inputs, strict=False):
        row = make_operand(name, node)
        array = values[slot]
        if row is not None and (isinstance(array, np.ndarray) or is_csr(array)):
            spec = str(runtime_value(array))
            rows.append(type(row)(row.role, spec, row.kind, row.name, row.place, row.ident))
    return error.at(called(item.origin, item.origin.op), tuple(rows), item.origin.place)
