"""A plan with concrete shapes: items in order, each with its inputs as slot numbers.

`trace_items` re-runs every op's own rule on the fed shapes, replaces ops by cheaper ones where
the shapes allow it, and drops what nothing needs any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kbench.engine.core import memory_limit
from kbench.engine.core.errors import FeedError, KbenchError, make_operand, op_symbol
from kbench.engine.core.spec import Spec, known_size
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.op import Op, operand_names
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.variables import Placeholder, Variable
from kbench.engine.ops.control.switch import BRANCH
from kbench.engine.ops.layout.shape import IDENTITY

Guard = frozenset[tuple[int, int]]
NO_GUARD: Guard = frozenset()
DECIDED = 1 << 16  # elements of a value that is computed while binding


@dataclass(eq=False)
class Value:
    """One value of an executable. `source` is 'feed', 'variable', 'value' or '' for a step."""

    slot: int
    op: Op
    attrs: dict[str, Any]
    inputs: tuple[int, ...]
    spec: Spec
    origin: Tensor
    source: str = ""
    value: np.ndarray | None = None
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
        for one in self.spec.shape:
            total *= one or 0
        return total


def _source(
    node: Tensor, slot: int, feeds: dict[int, Spec], values: dict[int, np.ndarray]
) -> Value | None:
    fed, value = feeds.get(id(node)), values.get(id(node))
    if fed is not None:
        return Value(slot, node.op, {}, (), fed, node, "feed" if value is None else "value", value)
    if isinstance(node, Variable):
        return Value(slot, node.op, {}, (), node.spec, node, "variable")
    if isinstance(node, Constant):
        return Value(slot, node.op, {}, (), node.spec, node, "value", node.value)
    if isinstance(node, Placeholder):
        if node.default is None:
            raise missing_feed(node)
        return Value(slot, node.op, {}, (), node.spec, node, "value", node.default)
    return None


def missing_feed(node: Placeholder) -> FeedError:
    where = f", made at {node.place}," if node.place is not None else ""
    return FeedError(
        f"placeholder {node.name.split(':')[0]!r} {node.spec}{where} needs a value, "
        "but none is fed",
        operands=(),
    )


def infer_at(node: Tensor, op: Op, specs: Sequence[Spec], attrs: dict[str, Any]) -> Spec:
    """The op's rule on concrete Specs; an error tells of the line where the node was made."""
    try:
        spec = op.infer(*specs, **attrs)
        if 0 in spec.shape:
            memory_limit.require_possible(spec.shape, 8, f"the result {spec}")
        return spec
    except KbenchError as error:
        raise error.at(called(node, op), concrete_operands(node, specs), node.place) from None


def called(node: Tensor, op: Op) -> str:
    """What a user knows a node by: the K function that made it, or the operator."""
    return node.called or op_symbol(op.name)


def concrete_operands(node: Tensor, specs: Sequence[Spec]) -> Any:
    rows = []
    names = operand_names(node.op, len(node.inputs))
    for name, one, spec in zip(names, node.inputs, specs, strict=False):
        row = make_operand(name, one)
        if row is not None:
            rows.append(type(row)(row.role, str(spec), row.kind, row.name, row.place, row.ident))
    return tuple(rows)


def _step(node: Tensor, slot: int, inputs: tuple[int, ...], items: list[Value]) -> Value:
    op, attrs = node.op, node.attrs
    specs = [items[one].spec for one in inputs]
    spec = infer_at(node, op, specs, attrs)
    if spec.known and op.pure and spec.value is not None and op.kind != "update":
        value = np.array(spec.value, dtype=spec.dtype).reshape(spec.shape)  # type: ignore[arg-type]
        return Value(slot, op, attrs, (), spec, node, "value", value)
    if _is_decided(op, inputs, spec, items):
        decided = _computed(node, slot, inputs, spec, items)
        if decided is not None:
            return decided
    if op.lower is not None and all(None not in one.shape for one in specs):
        cheaper = op.lower(specs, attrs)
        if cheaper is not None:
            op, attrs, positions = cheaper
            inputs = tuple(inputs[position] for position in positions)
    return Value(slot, op, attrs, inputs, spec, node)


def _is_decided(op: Op, inputs: tuple[int, ...], spec: Spec, items: list[Value]) -> bool:
    if not op.pure or not inputs or op.kind in ("update", "several") or spec.sparse:
        return False
    size = known_size(spec.shape)
    small = size is not None and size <= DECIDED
    return small and all(items[one].source == "value" for one in inputs)


def _same_as(item: Value, items: list[Value]) -> int | None:
    """The slot whose value an item only repeats: of a copy, or of the side a branch takes."""
    if item.source or item.op not in (IDENTITY, BRANCH):
        return None
    if item.op is IDENTITY:
        return item.inputs[0]
    condition = items[item.inputs[0]]
    return item.inputs[1 if condition.value else 2] if condition.source == "value" else None


def _computed(
    node: Tensor, slot: int, inputs: tuple[int, ...], spec: Spec, items: list[Value]
) -> Value | None:
    """A value that the shapes alone decide; None when it fails, which matters only if it runs."""
    arrays = [items[one].value for one in inputs]
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(node.op.numpy(None, *arrays, **node.attrs), order="C")
    except (KbenchError, ValueError, OverflowError, MemoryError):
        return None
    known = Spec(value.shape, spec.dtype, spec.value)
    return Value(slot, node.op, node.attrs, (), known, node, "value", value)


def trace_items(
    order: Sequence[Tensor],
    feeds: dict[int, Spec],
    values: dict[int, np.ndarray] | None = None,
) -> tuple[list[Value], dict[int, int]]:
    """Items for every node, and the slot of each node by its id.

    What is fed is known by its shape, or where `values` has it, for good.
    """
    items: list[Value] = []
    slots: dict[int, int] = {}
    values = values or {}
    for node in order:
        item = _source(node, len(items), feeds, values)
        if item is None:
            inputs = _without_values(node, [slots[id(one)] for one in node.inputs], items)
            item = _step(node, len(items), inputs, items)
            same = _same_as(item, items)
            if same is not None:
                slots[id(node)] = same
                continue
        slots[id(node)] = item.slot
        items.append(item)
    return items, slots


def _without_values(node: Tensor, inputs: list[int], items: list[Value]) -> tuple[int, ...]:
    """The inputs, in place of which only the shape is read a hollow value of that shape.

    So what nobody needs the values of is not computed.
    """
    for position in node.op.shapes:
        item = items[inputs[position]]
        if item.source or not item.static or item.spec.sparse:
            continue
        hollow = np.broadcast_to(np.zeros((), item.spec.dtype), item.shape)
        inputs[position] = len(items)
        items.append(Value(len(items), item.op, {}, (), item.spec, item.origin, "value", hollow))
    return tuple(inputs)


def mark_needed(items: list[Value], roots: Sequence[int]) -> list[bool]:
    """Which items the roots need; fills `users` of those."""
    needed = [False] * len(items)
    for root in roots:
        needed[root] = True
    for item in reversed(items):
        if needed[item.slot]:
            for one in item.inputs:
                needed[one] = True
                items[one].users.append(item.slot)
    return needed


def mark_guards(items: list[Value], needed: list[bool], roots: Sequence[int]) -> None:
    """Give each item that only one side of a branch needs the condition under which it runs."""
    if not any(item.op is BRANCH for item in items):
        return
    fixed = set(roots)
    for item in reversed(items):
        if not needed[item.slot] or item.slot in fixed:
            continue
        guards = [
            _guard_of_use(items[user], position)
            for user in set(item.users)
            for position, one in enumerate(items[user].inputs)
            if one == item.slot
        ]
        item.guard = frozenset.intersection(*guards) if guards else NO_GUARD


def _guard_of_use(user: Value, position: int) -> Guard:
    if user.op is BRANCH and position in (1, 2):
        return user.guard | {(user.inputs[0], position)}
    return user.guard
