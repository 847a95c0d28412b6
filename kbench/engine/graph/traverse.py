"""Walks over a graph, with an explicit stack: a chain of any length must work."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kbench.engine.graph.tensor import Tensor


def walk(roots: Sequence[Tensor], stop: Collection[int] = ()) -> list[Tensor]:
    """Every node the roots need, inputs before users and in the order of inputs.

    Nodes whose id is in `stop` are taken as given: what they need is left out.
    """
    done: set[int] = set()
    order: list[Tensor] = []
    stack: list[Tensor | None] = list(reversed(roots))
    pending: list[Tensor] = []
    while stack:
        node = stack.pop()
        if node is None:
            order.append(pending.pop())
            continue
        key, inputs = id(node), node.inputs
        if key in done:
            continue
        done.add(key)
        if not inputs or key in stop:
            order.append(node)
            continue
        pending.append(node)
        stack.append(None)
        for operand in reversed(inputs):
            if id(operand) not in done:
                stack.append(operand)
    return order
