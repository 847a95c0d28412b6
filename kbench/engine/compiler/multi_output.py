"""Multi-output fusion: two operations that share inputs and most of their work run as one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.graph.apply import RESULT, make_node
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk


def _key(joint: tuple[Op, int], node: Tensor) -> Hashable:
    attrs = tuple(sorted(node.attrs.items(), key=lambda entry: entry[0]))
    return (joint[0], attrs, tuple(id(operand) for operand in node.inputs))


def fuse_outputs(roots: Sequence[Tensor], stop: set[int]) -> list[Tensor]:
    """A value and its gradient on the same inputs are found in one sweep."""
    asked: dict[Hashable, set[Op]] = {}
    for node in walk(roots, stop):
        if node.op.joint is not None and id(node) not in stop:
            asked.setdefault(_key(node.op.joint, node), set()).add(node.op)
    if all(len(ops) < 2 for ops in asked.values()):
        return list(roots)
    made: dict[Hashable, Tensor] = {}

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        if node.op.joint is None or len(asked[_key(node.op.joint, node)]) < 2:
            return with_inputs(node, inputs)
        op, index = node.op.joint
        key = _key(node.op.joint, node)
        whole = made.get(key)
        if whole is None:
            whole = made[key] = make_node(op, node, *inputs, **node.attrs)
        return Tensor.derived(RESULT, (whole,), {"index": index}, node.spec, node)

    return rebuild(roots, stop, visit)
