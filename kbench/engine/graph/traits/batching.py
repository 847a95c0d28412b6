"""Rules of batching that several operations share.

A rule gets the node of a step and its inputs, of which those that are `mapped` hold all entries
along a new first axis. It gives the same for all entries; None where it knows no way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbench.engine.graph.apply import make_node
from kbench.engine.graph.op import op_of
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Role

BatchingRule = Callable[[Tensor, Sequence[Tensor], Sequence[bool]], Tensor | None]


def axis_moved(x: Tensor, source: int, target: int) -> Tensor:
    """`x` with one axis at another place, the others in their order."""
    if source == target:
        return x
    order = [axis for axis in range(x.ndim) if axis != source]
    order.insert(target, source)
    return make_node(op_of(Role.PERMUTE), x, x, pattern=tuple(order))


def batched_along(key: str) -> BatchingRule:
    """For operations whose attribute `key` names one axis or several; every operand is batched."""

    def rule(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
        if not all(mapped):
            return None
        axes = node.attrs[key]
        later = tuple([axis + 1 for axis in axes]) if isinstance(axes, tuple) else axes + 1
        return make_node(node.op, node, *inputs, **{**node.attrs, key: later})

    return rule


def batched_alike(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    """For operations whose attributes name no axis; every operand is batched."""
    return make_node(node.op, node, *inputs, **node.attrs) if all(mapped) else None
