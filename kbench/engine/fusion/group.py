"""What all fused steps have: members, what they read, and values as they stand in a program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from kbench.engine.compiler.values import Value
from kbench.engine.graph.expr.expression import Expr, name_leaf
from kbench.engine.graph.traits.roles import Role

MAX_INPUTS = 24
"""Arrays and numbers that a loop reads, each with a pointer that moves on."""
MAX_OUTPUTS = 8
"""Arrays that a loop writes, each in lines of the cache of its own."""


class GroupInput(Struct, frozen=True):
    """An input of a group: a slot or a number, and along which axes of the result it varies."""

    slot: int
    number: float | None
    dtype: str
    varies: tuple[bool, ...]

    @property
    def array(self) -> np.ndarray | None:
        """A number as an array of no axes; None for a slot."""
        return None if self.number is None else np.array(self.number, dtype=self.dtype)


class Fused(Struct):
    """Values that run as one kernel: members, in order, and what it reads."""

    members: list[Value]
    sources: list[GroupInput]

    @property
    def reads(self) -> tuple[int, ...]:
        """The slots that the step reads, in the order of the program's inputs."""
        return tuple(source.slot for source in self.sources if source.number is None)

    @property
    def folds(self) -> tuple[Value, ...]:
        """A fold that comes after all members."""
        return ()

    @property
    def label(self) -> str:
        """Its operations by name."""
        return "+".join(value.op.name.strip("_") for value in (*self.members, *self.folds))


def checks_values(value: Value) -> bool:
    """Whether an op looks for values that it must refuse, such as a divisor of zero."""
    return value.op.checks and value.spec.dtype[0] != "f"


def expression_of(value: Value, operands: Sequence[Expr]) -> Expr:
    """An elementwise value's expression, with these operands."""
    assert value.op.expr is not None
    table = dict(zip(map(name_leaf, value.op.names), operands, strict=True))
    return value.op.expr.with_attrs(value.attrs).replaced(table)


def resolve_input(value: Value, shape: tuple[int, ...], values: Sequence[Value]) -> GroupInput:
    """The input behind a broadcast view, as far as the loop can read it directly."""
    if value.role is Role.FILL and not value.inputs:
        return GroupInput(-1, float(value.attrs["value"]), value.spec.dtype, (False,) * len(shape))
    if value.role is Role.REPEAT:
        axes = value.attrs["axis"]
        kept = tuple(1 if i in axes else size for i, size in enumerate(value.shape))
        source = values[value.inputs[0]]
        if source.static:
            return GroupInput(source.slot, None, value.spec.dtype, _varies(kept, shape))
    return GroupInput(value.slot, None, value.spec.dtype, _varies(value.shape, shape))


def _varies(kept: tuple[int, ...], shape: tuple[int, ...]) -> tuple[bool, ...]:
    padded = (1,) * (len(shape) - len(kept)) + kept
    return tuple(size != 1 for size in padded)


def behaviours(sources: Sequence[GroupInput], rank: int) -> list[tuple[bool, ...]]:
    """For each axis which of the sources vary along it."""
    return [tuple(source.varies[axis] for source in sources) for axis in range(rank)]


def merge_axes(
    sizes: Sequence[int], columns: Sequence[tuple[bool, ...]]
) -> tuple[list[int], list[tuple[bool, ...]]]:
    """Neighbouring axes as one where all behaves alike along them, but for those of one element."""
    dims: list[int] = []
    kept: list[tuple[bool, ...]] = []
    for size, column in zip(sizes, columns, strict=True):
        if size == 1:
            continue
        if kept and kept[-1] == column:
            dims[-1] *= size
        else:
            dims.append(size)
            kept.append(column)
    return dims, kept
