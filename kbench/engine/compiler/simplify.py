"""Local laws that hold for every value, NaN and signed zeros included.

An operation has its own laws where it is declared (`laws` of `Op`), and one that only plans make
the law by which it takes the place of others (`stands_for`). Here are those of whole kinds.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbench.engine.compiler.decompose_softmax import decompose_softmax
from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.graph.op import STAND_INS, Op
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.laws import Law
from kbench.engine.graph.traits.roles import Role


def fold_before_permuting(node: Tensor) -> Tensor | None:
    """fold(permute(x, p), axes) = permute(fold(x, p[axes])), of what the fold has left"""
    permuted = node.inputs[0]
    if node.op.role is not Role.FOLD or permuted.op.role is not Role.PERMUTE:
        return None
    source, pattern = permuted.inputs[0], permuted.attrs["pattern"]
    attrs = {**node.attrs, "axis": tuple(sorted(pattern[axis] for axis in node.attrs["axis"]))}
    spec = node.op.infer(source.spec, **attrs)
    folded = Tensor.derived(node.op, (source,), attrs, spec, node)
    kept = pattern
    if not node.attrs["keepdims"]:
        left = [axis for axis in pattern if axis not in attrs["axis"]]
        kept = tuple(sorted(left).index(axis) for axis in left)
    if kept == tuple(range(len(kept))):
        return folded
    return Tensor.derived(permuted.op, (folded,), {"pattern": kept}, node.spec, node)


def sum_before_permuting(node: Tensor) -> Tensor | None:
    """reduce_like(permute(g, p), x) = fold_before_permuting(sum(permute(g, p), axes))"""
    if node.op.role is not Role.REDUCE_LIKE or node.inputs[0].op.role is not Role.PERMUTE:
        return None
    specs = [operand.spec for operand in node.inputs]
    if node.op.lower is None or any(None in spec.shape for spec in specs):
        return None
    lowered = node.op.lower(specs, node.attrs)
    if lowered is None or lowered[0].role is not Role.FOLD:
        return None
    op, attrs, (place,) = lowered
    summed = Tensor.derived(op, (node.inputs[place],), attrs, node.spec, node)
    return fold_before_permuting(summed)


def laws_of(op: Op) -> tuple[Law, ...]:
    """The laws to try on nodes of an operation, in this order."""
    stand_ins = [other.stands_for for other in STAND_INS if other.stands_for is not None]
    return (*stand_ins, *op.laws, fold_before_permuting, sum_before_permuting, decompose_softmax)


def simplify(roots: Sequence[Tensor], stop: set[int]) -> list[Tensor]:
    """Apply every law to every node, inputs first, until none applies."""
    known: dict[Op, tuple[Law, ...]] = {}

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        result = with_inputs(node, inputs)
        changed = True
        while changed and result.inputs:
            changed = False
            laws = known.get(result.op)
            if laws is None:
                laws = known[result.op] = laws_of(result.op)
            for law in laws:
                replacement = law(result)
                if replacement is not None:
                    result, changed = replacement, True
                    break
        return result

    return rebuild(roots, stop, visit)
