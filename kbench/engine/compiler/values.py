"""A plan with concrete shapes: values in order, each with its inputs as slot numbers.

`lower_graph` re-runs every op's own rule on the fed shapes, replaces ops by cheaper ones where
the shapes allow it, and drops what nothing needs any more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from kbench.engine.core import memory_limit
from kbench.engine.core.errors import FeedError, KbenchError, make_operand, op_symbol
from kbench.engine.core.spec import Spec, known_size
from kbench.engine.core.types import Attrs
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.op import Op, operand_names
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.variables import Placeholder, Variable

Guard = frozenset[tuple[int, int]]
NO_GUARD: Guard = frozenset()
MAX_CONSTANT_ELEMENTS = 1 << 16
"""Elements of a value that is computed while binding: it stays in memory as long as the plan."""


class Value(Struct, eq=False):
    """One value of an executable. `source` is 'feed', 'variable', 'constant' or '' for a step."""

    slot: int
    op: Op
    attrs: Attrs
    inputs: tuple[int, ...]
    spec: Spec
    origin: Tensor
    source: str = ""
    constant: np.ndarray | None = None
    users: list[int] = field(default_factory=list)
    guard: Guard = NO_GUARD

    @property
    def static(self) -> bool:
        return None not in self.spec.shape

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape  # type: ignore[return-value]

    @property
    def size(self) -> int:
        total = 1
        for size in self.spec.shape:
            total *= size or 0
        return total

    @property
    def role(self) -> Role | None:
        """What the op is that computes it; None if its shapes were not known, and it is not lowered
        to one that has the role."""
        return None if self.source or self.op.lower is not None else self.op.role

    @property
    def is_impossible(self) -> bool:
        """Whether no array can have as many elements, not even a view that repeats them."""
        return self.static and self.size > sys.maxsize


def _lower_source(
    node: Tensor, slot: int, feeds: dict[int, Spec], constants: dict[int, np.ndarray]
) -> Value | None:
    fed, constant = feeds.get(id(node)), constants.get(id(node))
    if fed is not None:
        return Value(
            slot, node.op, {}, (), fed, node, "feed" if constant is None else "constant", constant
        )
    if isinstance(node, Variable):
        return Value(slot, node.op, {}, (), node.spec, node, "variable")
    if isinstance(node, Constant):
        return Value(slot, node.op, {}, (), node.spec, node, "constant", node.value)
    if isinstance(node, Placeholder):
        if node.default is None:
            raise missing_feed(node)
        return Value(slot, node.op, {}, (), node.spec, node, "constant", node.default)
    return None


def missing_feed(node: Placeholder) -> FeedError:
    where = f", made at {node.place}," if node.place is not None else ""
    return FeedError(
        f"placeholder {node.name.split(':')[0]!r} {node.spec}{where} needs a value, "
        "but none is fed",
        operands=(),
    )


def infer_at(node: Tensor, op: Op, specs: Sequence[Spec], attrs: Attrs) -> Spec:
    """The op's rule on concrete Specs; an error tells of the line where the node was made."""
    try:
        spec = op.infer(*specs, **attrs)
        if 0 in spec.shape:
            memory_limit.require_possible(spec.shape, 8, f"the result {spec}")
        return spec
    except KbenchError as error:
        raise error.at(called(node, op), concrete_operands(node, specs), node.place) from None


def called(node: Tensor, op: Op) -> str:
    """What a user knows a node by: the function of arrays that it calls, the K function that made
    it, or the operator."""
    own: str = getattr(node.attrs.get("function"), "__name__", "")
    return own or node.called or op_symbol(op.name)


def concrete_operands(node: Tensor, specs: Sequence[Spec]) -> Any:
    rows = []
    names = operand_names(node.op, len(node.inputs))
    for name, operand, spec in zip(names, node.inputs, specs, strict=False):
        row = make_operand(name, operand)
        if row is not None:
            rows.append(type(row)(row.role, str(spec), row.kind, row.name, row.place, row.ident))
    return tuple(rows)


def _lower_node(node: Tensor, slot: int, inputs: tuple[int, ...], values: list[Value]) -> Value:
    op, attrs = node.op, node.attrs
    specs = [values[operand].spec for operand in inputs]
    spec = infer_at(node, op, specs, attrs)
    if spec.known and op.pure and spec.value is not None and op.kind != "update":
        constant = np.array(spec.value, dtype=spec.dtype).reshape(spec.shape)  # type: ignore[arg-type]
        return Value(slot, op, attrs, (), spec, node, "constant", constant)
    if _is_known(op, inputs, spec, values):
        known = _computed(node, slot, inputs, spec, values)
        if known is not None:
            return known
    if op.lower is not None and all(None not in operand.shape for operand in specs):
        cheaper = op.lower(specs, attrs)
        if cheaper is not None:
            op, attrs, positions = cheaper
            inputs = tuple(inputs[position] for position in positions)
    return Value(slot, op, attrs, inputs, spec, node)


def _is_known(op: Op, inputs: tuple[int, ...], spec: Spec, values: list[Value]) -> bool:
    if not op.pure or not inputs or op.kind in ("update", "several") or spec.sparse:
        return False
    size = known_size(spec.shape)
    small = size is not None and size <= MAX_CONSTANT_ELEMENTS
    return small and all(values[slot].source == "constant" for slot in inputs)


def _same_as(value: Value, values: list[Value]) -> int | None:
    """The slot of what a value only repeats: of a copy, or of the side a branch takes."""
    if value.source or value.op.role not in (Role.IDENTITY, Role.BRANCH):
        return None
    if value.op.role is Role.IDENTITY:
        return value.inputs[0]
    condition = values[value.inputs[0]]
    return value.inputs[1 if condition.constant else 2] if condition.source == "constant" else None


def _computed(
    node: Tensor, slot: int, inputs: tuple[int, ...], spec: Spec, values: list[Value]
) -> Value | None:
    """A value that the shapes alone decide; None when it fails, which matters only if it runs."""
    arrays = [values[operand].constant for operand in inputs]
    try:
        with np.errstate(all="ignore"):
            constant = np.asarray(node.op.numpy(None, *arrays, **node.attrs), order="C")
    except (KbenchError, ValueError, OverflowError, MemoryError):
        return None
    known = Spec(constant.shape, spec.dtype, spec.value)
    return Value(slot, node.op, node.attrs, (), known, node, "constant", constant)


def lower_graph(
    order: Sequence[Tensor],
    feeds: dict[int, Spec],
    constants: dict[int, np.ndarray] | None = None,
) -> tuple[list[Value], dict[int, int]]:
    """The values of every node, and the slot of each node by its id.

    What is fed is known by its shape, or where `constants` has it, for good.
    """
    values: list[Value] = []
    slots: dict[int, int] = {}
    constants = constants or {}
    for node in order:
        value = _lower_source(node, len(values), feeds, constants)
        if value is None:
            inputs = _without_values(node, [slots[id(operand)] for operand in node.inputs], values)
            value = _lower_node(node, len(values), inputs, values)
            same = _same_as(value, values)
            if same is not None:
                slots[id(node)] = same
                continue
        slots[id(node)] = value.slot
        values.append(value)
    return values, slots


def _without_values(node: Tensor, inputs: list[int], values: list[Value]) -> tuple[int, ...]:
    """The inputs; where only the shape of one is read, zeros of that shape stand for it.

    So what nobody needs the elements of is not computed.
    """
    for position in node.op.shapes:
        value = values[inputs[position]]
        if value.source or not value.static or value.spec.sparse or value.is_impossible:
            continue
        zeros = np.broadcast_to(np.zeros((), value.spec.dtype), value.shape)
        inputs[position] = len(values)
        values.append(
            Value(len(values), value.op, {}, (), value.spec, value.origin, "constant", zeros)
        )
    return tuple(inputs)


def mark_needed(values: list[Value], roots: Sequence[int]) -> list[bool]:
    """Which values the roots need; fills `users` of those."""
    needed = [False] * len(values)
    for root in roots:
        needed[root] = True
    for value in reversed(values):
        if needed[value.slot]:
            for slot in value.inputs:
                needed[slot] = True
                values[slot].users.append(value.slot)
    return needed


def mark_guards(values: list[Value], needed: list[bool], roots: Sequence[int]) -> None:
    """Give each value that only one side of a branch needs the condition under which it runs."""
    if not any(value.op.role is Role.BRANCH for value in values):
        return
    fixed = set(roots)
    for value in reversed(values):
        if not needed[value.slot] or value.slot in fixed:
            continue
        guards = [
            _guard_of_use(values[user], position)
            for user in set(value.users)
            for position, slot in enumerate(values[user].inputs)
            if slot == value.slot
        ]
        value.guard = frozenset.intersection(*guards) if guards else NO_GUARD


def _guard_of_use(user: Value, position: int) -> Guard:
    if user.op.role is Role.BRANCH and position in (1, 2):
        return user.guard | {(user.inputs[0], position)}
    return user.guard
