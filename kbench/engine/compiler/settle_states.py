"""State that shrinks from step to step becomes 0 once it is below the smallest normal number.

The moments of an optimizer are multiplied by 0.9 or 0.999 in each step. Where no gradient comes any
more, as for the words of an embedding that are not met, they shrink to some 1e-45 and stay there,
since that times 0.9 rounds to itself. Arithmetic on such numbers takes processors ten to twenty
times as long. TensorFlow flushes all of them to 0; here only what is stored is, and what a kernel
makes on the way to new values of variables and to nothing else (`flushes` of a `LoopProgram`): a
moment of 1e-36 times a rate of 0.001 is such a number. There a state that is stored as
`m + (g - m) * 0.1` stops shrinking where a tenth of it is such a number, at 1e-37.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.graph.apply import make_node
from kbench.engine.graph.convert import constant_node
from kbench.engine.graph.op import op_of
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.variables import Variable

MAX_NODES = 64
"""Nodes of a new value that are looked through: those of an optimizer's state are ten."""
SCALINGS = ("multiply", "divide")


def settle_states(
    roots: Sequence[Tensor], stop: set[int], targets: Sequence[Variable]
) -> list[Tensor]:
    """The roots with settled states; the last of them are the new values of the variables."""
    stored = zip(roots[len(roots) - len(targets) :], targets, strict=True)
    states = {id(value) for value, target in stored if _can_shrink(value, target, stop)}
    if not states:
        return list(roots)

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        made = with_inputs(node, inputs)
        return _settled(made) if id(node) in states else made

    return rebuild(roots, stop, visit)


def _settled(value: Tensor) -> Tensor:
    tiny = np.finfo(value.spec.dtype).tiny
    least = constant_node(np.array(tiny, value.spec.dtype), "least", value.place)
    return make_node(op_of(Role.SETTLED), value, value, least)


def _can_shrink(value: Tensor, target: Variable, stop: set[int]) -> bool:
    """Whether a new value is the old one, element by element, times something and whatever else."""
    if value.spec.dtype not in ("float32", "float64") or value.spec.sparse or id(value) in stop:
        return False
    todo, seen = [(value, False)], {(id(value), False)}
    while todo and len(seen) < MAX_NODES:
        node, is_scaled = todo.pop()
        if node is target and is_scaled:
            return True
        if node.op.expr is None:
            continue
        calls = [part.scalar.name for part in node.op.expr.walk() if part.kind == "call"]
        is_scaled = is_scaled or any(name in SCALINGS for name in calls)
        for operand in node.inputs:
            if (id(operand), is_scaled) not in seen:
                seen.add((id(operand), is_scaled))
                todo.append((operand, is_scaled))
    return False
