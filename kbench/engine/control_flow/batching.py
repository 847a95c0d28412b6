"""Batching, as vmap: what a step does to one entry, done to all at once, by the rule of each op.

A batched value has the entries along a new first axis. `graph/traits/batching.py` says what a rule
gets.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbench.engine.graph.apply import make_node
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Role
from kbench.engine.ops.layout.reshape import batched_rank
from kbench.engine.ops.layout.reverse import REVERSE
from kbench.engine.ops.reduce.reduction import sum as reduce_sum


def batched(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    """`node` for all entries; inputs that are `mapped` hold all of them. None without a rule."""
    if node.op.kind == "elementwise":
        widened = [
            batched_rank(operand, node.ndim) if whole else operand
            for operand, whole in zip(inputs, mapped, strict=True)
        ]
        return make_node(node.op, node, *widened, **node.attrs)
    return None if node.op.batched is None else node.op.batched(node, inputs, mapped)


def reverse_first_axis(x: Tensor) -> Tensor:
    """`x` with its first axis in reverse order."""
    return make_node(REVERSE, x, x, axes=(0,))


def batched_sum(term: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    """The sum over all entries of `term`."""
    if term.op.role is Role.REDUCE_LIKE and mapped[0] and not mapped[1]:
        return make_node(term.op, term, *inputs)
    whole = batched(term, inputs, mapped)
    return (
        None if whole is None else make_node(reduce_sum.op, term, whole, axis=(0,), keepdims=False)
    )
