"""Gradients by one reverse sweep: each op's own rule, broadcasting undone here, once, for all.

Everything is made of ordinary nodes, so gradients can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kbench.engine.errors import ArgumentError, GradientError
from kbench.engine.operands import converted
from kbench.engine.ops.create import ones_like
from kbench.engine.ops.reduce import reduce_like
from kbench.engine.ops.shaping import stopped
from kbench.engine.spec import is_float
from kbench.engine.tensor import Tensor
from kbench.engine.walk import walk


def _reaching(order: list[Tensor], targets: set[int], stop: Collection[int]) -> set[int]:
    """The nodes whose value depends on a target."""
    reaching = set(targets)
    for node in order:
        if id(node) not in stop and any(id(one) in reaching for one in node.inputs):
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
    return sweep([(loss, ones_like(loss))], targets)


def sweep(
    seeds: Sequence[tuple[Tensor, Tensor]], targets: Sequence[Tensor], stop: Collection[int] = ()
) -> list[Tensor | None]:
    """The gradients to `targets`, given those that arrive at some tensors.

    `seeds` are pairs of a tensor and its gradient. Nodes whose id is in `stop` are taken as given.
    """
    order = walk([node for node, _ in seeds], stop)
    reaching = _reaching(order, {id(one) for one in targets}, stop)
    sums: dict[int, Tensor] = {}
    for node, gradient in seeds:
        if id(node) in reaching and is_float(node.spec.dtype):
            known = sums.get(id(node))
            sums[id(node)] = gradient if known is None else known + gradient
    found: dict[int, Tensor] = {}
    wanted = {id(one) for one in targets}
    for node in reversed(order):
        incoming = sums.pop(id(node), None)
        if incoming is None:
            continue
        if id(node) in wanted:
            found[id(node)] = incoming
        if id(node) in stop or not any(id(one) in reaching for one in node.inputs):
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
    single = single or getattr(variables, "ndim", 1) == 0
    targets = [variables] if single else list(variables)
    for target in targets:
        if not isinstance(target, Tensor):
            raise ArgumentError(f"variables must be tensors, got {target!r}", function="gradients")
    return targets


def stop_gradient(variables: Any) -> Any:
    """The same values, with no gradient passing through.

    Arguments:
        variables: a tensor, or a list or tuple of them.
    Returns:
        Tensor, or a list of them.
    Raises:
        DtypeError: no array of numbers.
    Gradient: none; that is its use.
    Source: Keras 2.3 `backend.stop_gradient`.

    >>> w = K.variable(2.0)
    >>> K.gradients(w * K.stop_gradient(w), w)[0].eval()
    array(2., dtype=float32)
    """
    if isinstance(variables, (list, tuple)):
        return [stop_gradient(one) for one in variables]
    return stopped(variables)
