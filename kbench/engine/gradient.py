"""Gradients by one reverse sweep: each op's own rule, broadcasting undone here, once, for all.

Everything is made of ordinary nodes, so gradients can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kbench.engine.errors import ArgumentError, GradientError
from kbench.engine.operands import converted
from kbench.engine.ops.create import ones_like
from kbench.engine.ops.reduce import reduce_like
from kbench.engine.ops.shaping import identity
from kbench.engine.spec import is_float
from kbench.engine.tensor import Tensor


def _order(root: Tensor) -> list[Tensor]:
    """Every node that `root` needs, inputs before users."""
    done: set[int] = set()
    order: list[Tensor] = []
    stack: list[tuple[Tensor, bool]] = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in done:
            done.add(id(node))
            stack.append((node, True))
            stack.extend((one, False) for one in node.inputs if id(one) not in done)
    return order


def _reaching(order: list[Tensor], targets: set[int]) -> set[int]:
    """The nodes whose value depends on a target."""
    reaching = set(targets)
    for node in order:
        if any(id(one) in reaching for one in node.inputs):
            reaching.add(id(node))
    return reaching


def _pass_back(node: Tensor, incoming: Tensor, reaching: set[int]) -> list[Any]:
    if node.op.gradient is None:
        raise GradientError(
            f"{node.op.name} {node.name!r} {node.spec} is not differentiable",
            function="gradients",
        )
    entries = list(node.op.gradient(incoming, node, *node.inputs, **node.attrs))
    for position, source in enumerate(node.inputs):
        entry = entries[position]
        if entry is None or id(source) not in reaching or not is_float(source.spec.dtype):
            entries[position] = None
        elif node.op.kind == "elementwise":
            entries[position] = converted(reduce_like(entry, source), source.spec.dtype)
    return entries


def gradients(loss: Tensor, variables: Any) -> list[Tensor | None]:
    """Derivatives of `loss` with respect to each of `variables`.

    Arguments:
        loss: float tensor; when it is no scalar, the derivative is that of the sum.
        variables: a tensor or a list of them: variables, placeholders or intermediate results.
    Returns:
        A list with one tensor for each entry, of its shape and dtype; None where `loss` does not
        depend on the entry. The tensors can be differentiated again.
    Raises:
        ArgumentError: not tensors. GradientError: an op on the way has no derivative.
    Source: Keras 2.3 `backend.gradients`.

    >>> w = K.variable([2.0, 3.0])
    >>> K.eval(K.gradients(K.sum(w * w), w)[0])
    array([4., 6.], dtype=float32)
    """
    targets = _checked(loss, variables)
    order = _order(loss)
    reaching = _reaching(order, {id(one) for one in targets})
    sums: dict[int, Tensor] = {}
    if id(loss) in reaching and is_float(loss.spec.dtype):
        sums[id(loss)] = ones_like(loss)
    found: dict[int, Tensor] = {}
    wanted = {id(one) for one in targets}
    for node in reversed(order):
        incoming = sums.pop(id(node), None)
        if incoming is None:
            continue
        if id(node) in wanted:
            found[id(node)] = incoming
        if not node.inputs or not any(id(one) in reaching for one in node.inputs):
            continue
        for source, entry in zip(node.inputs, _pass_back(node, incoming, reaching), strict=True):
            if entry is not None:
                known = sums.get(id(source))
                sums[id(source)] = entry if known is None else known + entry
    return [found.get(id(one)) for one in targets]


def _checked(loss: Any, variables: Any) -> list[Tensor]:
    if not isinstance(loss, Tensor):
        raise ArgumentError(f"loss must be a tensor, got {loss!r}", function="gradients")
    single = isinstance(variables, Tensor) or not isinstance(variables, Iterable)
    targets = [variables] if single else list(variables)
    for target in targets:
        if not isinstance(target, Tensor):
            raise ArgumentError(f"variables must be tensors, got {target!r}", function="gradients")
    return targets


def stop_gradient(variables: Any) -> Any:
    """The same values, with no gradient passing through; a list or tuple gives a list.

    >>> w = K.variable(2.0)
    >>> K.gradients(w * K.stop_gradient(w), w)[0].eval()
    array(2., dtype=float32)
    """
    if isinstance(variables, (list, tuple)):
        return [stop_gradient(one) for one in variables]
    return identity(variables, stop=True)
