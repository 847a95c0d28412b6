"""Which nodes of a graph belong together: those of one call of K, of a Keras layer, of a scope.

A call that computes in several operations, such as `K.batch_normalization`, is one thing to whoever
wrote it. Nodes that pass results to each other and stand in the same name scope (which is how Keras
names what a layer makes), or were made by the same function on the same line, are one call.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from kbench.engine.inspect import describe

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

Neighbours = dict[int, set[int]]
MAX_NODES = 2_000
"""Of a larger graph no calls are told: it is not drawn whole, and each page would look anew."""


def calls(nodes: Sequence[Tensor]) -> dict[int, tuple[int, str]]:
    """The number of its call and what that is called, of each node (by `id`) that has company."""
    if len(nodes) > MAX_NODES:
        return {}
    keys = {id(node): _key(node) for node in nodes}
    inputs = {id(node): [id(source) for source in node.inputs] for node in nodes}
    heads = _joined(keys, inputs)
    sizes: dict[int, int] = {}
    for head in heads.values():
        sizes[head] = sizes.get(head, 0) + 1
    heads = {node: head for node, head in heads.items() if sizes[head] > 1}
    bad = _in_circles(heads, inputs)
    numbers: dict[int, int] = {}
    found = {}
    for node, head in heads.items():
        key = keys[node]
        if head not in bad and key is not None:
            found[node] = (numbers.setdefault(head, len(numbers)), key[0])
    return found


def _key(node: Tensor) -> tuple[str, Hashable] | None:
    """What the call is called, and what tells it from others; None for what stands alone."""
    if node.kind != "tensor":
        return None
    scope, slash, _ = node.name.partition("/")
    if slash:
        return describe.printable(scope), None
    called = node.called
    return None if called is None else (describe.printable(called), node.place)


def _joined(keys: Mapping[int, object], inputs: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """The head of each node that has a key: one node of those that it is connected with."""
    above = {node: node for node, key in keys.items() if key is not None}

    def head(node: int) -> int:
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    for node in above:
        for source in inputs[node]:
            if source in above and keys[source] == keys[node]:
                above[head(source)] = head(node)
    return {node: head(node) for node in above}


def _in_circles(heads: Mapping[int, int], inputs: Mapping[int, Sequence[int]]) -> set[int]:
    """The heads of calls that would stand in a circle, or between two, if each were one node."""
    before: Neighbours = {heads.get(node, node): set() for node in inputs}
    after: Neighbours = {key: set() for key in before}
    for node, taken in inputs.items():
        here = heads.get(node, node)
        for source in taken:
            there = heads.get(source, source)
            if there != here:
                after[there].add(here)
                before[here].add(there)
    before, after = _trimmed(before, after)
    after, before = _trimmed(after, before)
    return before.keys() & set(heads.values())


def _trimmed(before: Neighbours, after: Neighbours) -> tuple[Neighbours, Neighbours]:
    """What is left when all that has nothing before it is taken away, again and again."""
    waits = {key: len(found) for key, found in before.items()}
    free = [key for key, count in waits.items() if not count]
    for key in free:  # grows while it is read
        for other in after[key]:
            waits[other] -= 1
            if not waits[other]:
                free.append(other)
    left = before.keys() - set(free)
    return {key: before[key] & left for key in left}, {key: after[key] & left for key in left}
