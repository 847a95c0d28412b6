"""What pickle, copy and copy.deepcopy make of tensors: their graph, with the values in it.

A node in bytes is its class, its operation by name, its attributes and its inputs; where several
need one there is one copy, as of any object. Variables bring their values, and random numbers the
place in their sequence, so that the copy computes what the original would. Nothing compiled is
in the bytes, and no code.

Pickle goes down the inputs of a node by recursion, which Python ends at a thousand. So each node
whose depth is a multiple of `STRIDE` brings all of its ancestors whose depth is one too, the least
deep first: from one to the next the way is short.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbench.engine.core.errors import ArgumentError, Place
from kbench.engine.graph import scope
from kbench.engine.graph.op import REGISTRY, Op
from kbench.engine.graph.tensor import Tensor, serials

FORMAT = 1
"""Counts changes of what follows, for bytes of other versions."""
STRIDE = 48
"""Nodes, each the input of the next, that pickle goes down by recursion."""
_UNKNOWN_SITE = (None, 0, None)


def reduced(node: Tensor) -> tuple[Any, ...]:
    """How pickle and copy make a node anew; see `object.__reduce_ex__`."""
    place = node.place
    told = (node.name, None if place is None else tuple(place), node.called)
    rules = (node._told_shape, node._uses_learning_phase)
    parts = (node.op.name, node.inputs, node.attrs, node.spec, node.controls)
    return restored, (FORMAT, _stations(node), type(node), told, rules, parts, node._held_state())


def restored(
    version: int,
    _stations: tuple[Tensor, ...],
    kind: type[Tensor],
    told: tuple[str, tuple[str, int] | None, str | None],
    rules: tuple[tuple[int | None, ...] | None, bool],
    parts: tuple[Any, ...],
    held: dict[str, object],
) -> Tensor:
    """The node that `reduced` has told of, in the graph of this process.

    Raises:
        ArgumentError: another version of kbench has made the bytes.
    """
    if version != FORMAT:
        raise ArgumentError(
            f"the bytes of a tensor are in form {version}, and this kbench reads form {FORMAT}; "
            "make them with the same version",
            function="pickle.loads",
        )
    node = object.__new__(kind)
    name, node.inputs, node.attrs, node.spec, node.controls = parts
    node.op = _operation(name)
    node._name, place, called = told
    node._site = _UNKNOWN_SITE
    node._call = (None if place is None else Place(*place), called)
    node._told_shape, node._phase_flag = rules
    node.generation = scope.generation()
    node.serial = next(serials)
    node._take_state(held)
    return node


def _operation(name: str) -> Op:
    found = REGISTRY.get(name)
    if found is None:
        raise ArgumentError(
            f"the bytes of a tensor have an operation {name!r}, which this kbench does not have; "
            "make them with the same version",
            function="pickle.loads",
        )
    return found


# ------------------------------------------------------------------ the way down


def _stations(node: Tensor) -> tuple[Tensor, ...]:
    """Ancestors that a node brings along, the least deep first."""
    if _depth(node) % STRIDE:
        return ()
    found: list[Tensor] = []
    todo, seen = [node], {id(node)}
    while todo:
        for operand in _operands(todo.pop()):
            if id(operand) not in seen:
                seen.add(id(operand))
                todo.append(operand)
                if _depth(operand) and _depth(operand) % STRIDE == 0:
                    found.append(operand)
    return tuple(sorted(found, key=_depth))


def _depth(root: Tensor) -> int:
    """How many nodes are below one another below a node; what is found stays with each."""
    stack = [root] if root._depth is None else []
    while stack:
        node = stack[-1]
        depth = 0
        for operand in _operands(node):
            if operand._depth is None:
                stack.append(operand)
            else:
                depth = max(depth, operand._depth + 1)
        if stack[-1] is node:
            node._depth = depth
            stack.pop()
    assert root._depth is not None
    return root._depth


def _operands(node: Tensor) -> Iterator[Tensor]:
    """All tensors that the bytes of a node hold."""
    yield from node.inputs
    yield from node.controls
    for value in node.attrs.values():
        yield from _tensors_in(value)
    first: Tensor | None = getattr(node, "_first", None)  # of a variable
    if first is not None:
        yield first


def _tensors_in(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for entry in value:
            yield from _tensors_in(entry)
    else:
        yield from getattr(value, "step_tensors", ())  # of a loop
