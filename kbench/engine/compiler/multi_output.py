"""Multi-output fusion: two operations that share inputs and most of their work run as one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.graph.apply import RESULT
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.ops.ctc import cost

FUSED_OPS: dict[Op, tuple[Op, int]] = {cost.COST: (cost.BOTH, 0), cost.SLOPE: (cost.BOTH, 1)}
"""What runs as which result of which operation, when all of its results are asked for."""


def _key(node: Tensor) -> Hashable:
    return (FUSED_OPS[node.op][0], tuple(id(operand) for operand in node.inputs))


def fuse_outputs(roots: Sequence[Tensor], stop: set[int]) -> list[Tensor]:
    """A value and its gradient on the same inputs are found in one sweep."""
    asked: dict[Hashable, set[Op]] = {}
    for node in walk(roots, stop):
        if node.op in FUSED_OPS and id(node) not in stop:
            asked.setdefault(_key(node), set()).add(node.op)
    if all(len(ops) < 2 for ops in asked.values()):
        return list(roots)
    made: dict[Hashable, Tensor] = {}

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        if node.op not in FUSED_OPS or len(asked[_key(node)]) < 2:
            return with_inputs(node, inputs)
        op, index = FUSED_OPS[node.op]
        whole = made.get(_key(node))
        if whole is None:
            spec = op.infer(*[operand.spec for operand in inputs])
            whole = made[_key(node)] = Tensor.derived(op, inputs, {}, spec, node)
        return Tensor.derived(RESULT, (whole,), {"index": index}, node.spec, node)

    return rebuild(roots, stop, visit)
