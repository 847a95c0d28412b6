"""What waits for the updates of its own call: it is computed from their new values.

A metric of Keras is such a thing: its result is made under `control_dependencies` of the updates
of its state, and one call has both the updates and the result. Nothing needs to be stored in
between: a node that waits reads, in place of a variable, what the call is about to store in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.updates import Update


def seeing_updates(
    outputs: Sequence[Tensor], stores: Sequence[Update], nodes: Sequence[Tensor], stop: set[int]
) -> list[Tensor]:
    """The roots of a call: its outputs and its new values, each after what it waits for.

    `nodes` are all that the roots need; those in `stop` are fed. A node waits only for what was
    made before it, so that the new values follow each other in the order of their making.
    """
    values = {id(store): store.inputs[1] for store in stores}
    roots = [*outputs, *values.values()]
    if not any(node.controls for node in (*nodes, *stores)):
        return roots
    targets = {id(store.target): store for store in stores}

    def fresh(waiting: Tensor, read: Tensor) -> Tensor:
        update = targets.get(id(read))
        if update is None or not _waits_for(waiting, update):
            return read
        return values[id(update)]

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        if not node.controls:
            return with_inputs(node, inputs)
        kept = 1 if isinstance(node, Update) else 0  # the variable that it stores into
        return with_inputs(
            node, (*inputs[:kept], *(fresh(node, control) for control in inputs[kept:]))
        )

    for store in sorted(stores, key=lambda update: update.serial):
        values[id(store)] = fresh(store, rebuild([store.inputs[1]], stop, visit)[0])
    return [*rebuild(outputs, stop, visit), *(values[id(store)] for store in stores)]


def _waits_for(node: Tensor, update: Update) -> bool:
    """Whether `update`, or its like for the same variable, comes before `node`."""
    pending, seen = list(node.controls), set()
    while pending:
        control = pending.pop()
        if id(control) in seen:
            continue
        seen.add(id(control))
        if isinstance(control, Update):
            if control.target is update.target and control.inputs[1] is update.inputs[1]:
                return True
            pending.extend(control.inputs[1].controls)
        pending.extend(control.controls)
    return False
