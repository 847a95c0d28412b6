"""A plan of small elementwise steps as one function of Python, for those that are called often.

A step by itself looks up its arrays among the registers and puts its result back, which takes as
long as half of the work on ten numbers. In one function they are its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from kbench.engine.compiler.values import Value
from kbench.engine.execute.steps.base import Registers
from kbench.engine.execute.steps.group_step import Step
from kbench.engine.graph.expr.expression import Expr, name_leaf
from kbench.engine.graph.expr.numpy_form import bare_lines
from kbench.engine.graph.variables import Variable, store_lock

MAX_STEPS = 64
"""Steps that are made without a look at the cancel flag between them: a millisecond or two."""

Allocate = Callable[[], np.ndarray]
StraightLine = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
"""The results of a run, from what is fed; NumPy may warn in it."""


def straight_line(
    values: Sequence[Value],
    steps: Sequence[Step],
    held: Registers,
    read: Mapping[int, Variable],
    fed: Mapping[int, int],
    fresh: Mapping[int, Allocate],
    roots: Sequence[int],
) -> StraightLine | None:
    """The steps as one function; None where some are more than calls of NumPy on a few elements.

    Arguments:
        held: constants and arrays for intermediate results, by slot.
        read: variables, by slot.
        fed: the slot of each array that a run is given, by its place; not all need have one.
        fresh: what allocates a result, by slot.
        roots: the slots of the results, each of them `fresh`.
    """
    if len(steps) > MAX_STEPS or any(not step.is_bare or values[step.slot].guard for step in steps):
        return None
    if any(root not in fresh for root in roots) or len(fresh) != len(roots):
        return None
    used = {slot for step in steps for slot in (step.slot, *step.reads)}
    own = sorted(used - set(fresh) - set(read) - set(fed.values()))
    if any(held[slot] is None for slot in own):
        return None
    given = [_name(fed[place]) if place in fed else f"_{place}" for place in range(_count(fed))]
    names = [*map(_name, (*own, *read, *roots)), *given, "*_"]
    lines = [_line(values[step.slot]) for step in steps]
    fill = partial(bare_lines(names, lines), *[held[slot] for slot in own])
    allocators = [fresh[root] for root in roots]
    variables = list(read.values())

    def run(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        results = [allocate() for allocate in allocators]
        if variables:
            with store_lock:
                present = [variable._array for variable in variables]
            fill(*present, *results, *arrays)
        else:
            fill(*results, *arrays)
        return results

    return run


def _count(fed: Mapping[int, int]) -> int:
    return max(fed, default=-1) + 1


def _name(slot: int) -> str:
    return f"r{slot}"


def _line(value: Value) -> tuple[str, Expr, Mapping[Expr, str]]:
    """What a step computes, and where its operands are."""
    expr = value.op.expr
    assert expr is not None
    leaves = map(name_leaf, value.op.names)
    return _name(value.slot), expr, dict(zip(leaves, map(_name, value.inputs), strict=True))
