"""The passes over a graph before shapes are known: fold constants, share equal nodes.

Every pass takes the roots and returns new ones; nodes are never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from kbench.engine.core.errors import KbenchError
from kbench.engine.graph.convert import Constant, constant_node
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.traverse import walk

Visit = Callable[[Tensor, tuple[Tensor, ...]], Tensor]
MAX_FOLDED_ELEMENTS = 1 << 20
"""Elements of a constant that is computed while planning: its memory stays as long as the plan."""


def rebuild(roots: Sequence[Tensor], stop: set[int], visit: Visit) -> list[Tensor]:
    """Replace nodes bottom-up: `visit(node, new_inputs)` returns what stands for a node."""
    new: dict[int, Tensor] = {}
    for node in walk(roots, stop):
        key, inputs = id(node), node.inputs
        if not inputs or key in stop:
            new[key] = node
        else:
            new[key] = visit(node, tuple([new[id(operand)] for operand in inputs]))
    return [new[id(root)] for root in roots]


def with_inputs(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
    """`node` on other inputs; itself when nothing changed."""
    if inputs == node.inputs:
        return node
    return Tensor.derived(node.op, inputs, node.attrs, node.spec, node)


def is_filled(node: Tensor) -> bool:
    """Whether a node is one number everywhere, in the shape of another."""
    return node.op.role is Role.FILL and bool(node.op.shapes)


def _constant(value: np.ndarray, origin: Tensor) -> Tensor:
    node = constant_node(np.array(value), origin.name.split(":")[0], origin.place)
    node.name = origin.name
    return node


def fold_constants(roots: Sequence[Tensor], stop: set[int]) -> list[Tensor]:
    """What depends on constants alone is a constant."""

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        if not node.op.pure or node.op.kind in ("update", "several"):
            return with_inputs(node, inputs)
        if node.spec.known and node.spec.value is not None:
            value = np.array(node.spec.value, dtype=node.spec.dtype).reshape(
                tuple(size or 0 for size in node.spec.shape)
            )
            return _constant(value, node)
        if is_filled(node) and node.shape.num_elements() == 1:
            shape = tuple(size or 0 for size in node.spec.shape)
            return _constant(np.full(shape, node.attrs["value"], node.attrs["dtype"]), node)
        if all(isinstance(operand, Constant) for operand in inputs) and _foldable(node):
            return _computed(node, inputs)
        return with_inputs(node, inputs)

    return rebuild(roots, stop, visit)


def _computed(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
    arrays = [operand.attrs["value"] for operand in inputs]
    try:
        with np.errstate(all="ignore"):
            return _constant(np.asarray(node.op.numpy(None, *arrays, **node.attrs)), node)
    except (KbenchError, ValueError, OverflowError, MemoryError):  # told when the node runs
        return with_inputs(node, inputs)


def _foldable(node: Tensor) -> bool:
    size = node.shape.num_elements()
    return size is not None and size <= MAX_FOLDED_ELEMENTS and not node.spec.sparse


def _key(node: Tensor, inputs: tuple[Tensor, ...]) -> Hashable:
    entries = tuple(sorted(node.attrs.items(), key=lambda entry: entry[0]))
    key = (node.op, tuple(id(operand) for operand in inputs), entries)
    try:
        hash(key)
    except TypeError:
        return None
    return (key, repr(entries))


def share_equal(roots: Sequence[Tensor], stop: set[int]) -> list[Tensor]:
    """Equal operations on the same inputs are computed once."""
    seen: dict[Hashable, Tensor] = {}

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        inputs = tuple(_shared_constant(operand, seen) for operand in inputs)
        key = _key(node, inputs) if node.op.pure else None
        if key is not None and key in seen:
            return seen[key]
        result = with_inputs(node, inputs)
        if key is not None:
            seen[key] = result
        return result

    return rebuild(roots, stop, visit)


def _shared_constant(node: Tensor, seen: dict[Hashable, Tensor]) -> Tensor:
    if not isinstance(node, Constant) or node.value.size > 16:
        return node
    key = (node.value.dtype.str, node.value.shape, node.value.tobytes())
    return seen.setdefault(key, node)
