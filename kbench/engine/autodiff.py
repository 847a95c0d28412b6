"""Gradients by one reverse sweep: each op's own rule, broadcasting undone here, once, for all.

Everything is made of ordinary nodes, so gradients can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from kbench.engine.core.errors import ArgumentError, GradientError, shown
from kbench.engine.core.spec import is_float
from kbench.engine.graph.apply import Partial, apply, result
from kbench.engine.graph.convert import converted
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traverse import walk
from kbench.engine.ops.control.switch import BRANCH
from kbench.engine.ops.layout.create import ones_like, zeros_like
from kbench.engine.ops.layout.shape import stopped
from kbench.engine.ops.reduce.reduction import reduce_like

Guard = tuple[tuple[Tensor, int], ...]  # conditions and the sides to be taken, from the outermost
GuardedGradient = tuple[Guard, Any]  # a gradient that counts where its guard holds


def _reaching(order: list[Tensor], targets: set[int], stop: Collection[int]) -> set[int]:
    """The nodes whose value depends on a target."""
    reaching = set(targets)
    for node in order:
        if id(node) not in stop and any(id(operand) in reaching for operand in node.inputs):
            reaching.add(id(node))
    return reaching


def _pass_back(node: Tensor, incoming: Tensor, reaching: set[int]) -> list[Any]:
    if node.op.gradient is None:
        raise GradientError(
            f"{node.op.name} {node.name!r} {node.spec} is not differentiable",
            function="gradients",
        )
    entries: list[Any] = list(node.op.gradient(incoming, node, *node.inputs, **node.attrs))
    for position, source in enumerate(node.inputs):
        entry = entries[position]
        if entry is None or id(source) not in reaching or not is_float(source.spec.dtype):
            entries[position] = None
        elif node.op.kind == "elementwise":
            entries[position] = converted(reduce_like(entry, source), source.spec.dtype)
    return entries


def gradients(loss: Tensor, variables: object) -> list[Tensor | None]:
    """Derivatives of `loss` with respect to each of `variables`.

    Arguments:
        loss: float tensor; when it is no scalar, the derivative is that of the sum.
        variables: a tensor or a list of them: variables, placeholders or intermediate results.
    Returns:
        A list with one tensor for each entry, of its shape and dtype; None where `loss` does not
        depend on the entry. The tensors can be differentiated again.
    Raises:
        ArgumentError: not tensors. GradientError: an op on the way has no derivative.
    Through `switch` the gradient is that of the side which was taken; the other is not evaluated.
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
    reaching = _reaching(order, {id(target) for target in targets}, stop)
    arrived: dict[int, list[GuardedGradient]] = {}
    for node, gradient in seeds:
        if id(node) in reaching and is_float(node.spec.dtype):
            arrived.setdefault(id(node), []).append(((), gradient))
    found: dict[int, Tensor] = {}
    wanted = {id(target) for target in targets}
    for node in reversed(order):
        entries = arrived.pop(id(node), None)
        if entries is None:
            continue
        guard, incoming = _summed(node, entries)
        if id(node) in wanted:
            found[id(node)] = _total(node, [(guard, incoming)])
        if id(node) in stop or not any(id(operand) in reaching for operand in node.inputs):
            continue
        passed = _pass_back(node, incoming, reaching)
        for position, (source, entry) in enumerate(zip(node.inputs, passed, strict=True)):
            if entry is not None:
                under = guard
                if node.op is BRANCH:
                    under = (*guard, (node.inputs[0], position))
                arrived.setdefault(id(source), []).append((under, entry))
    return [found.get(id(target)) for target in targets]


def _summed(node: Tensor, entries: list[GuardedGradient]) -> GuardedGradient:
    """The sum of what arrived at a node, and the guard that all of it is under.

    What only one side of a branch needs is left under its guard: the zeros that flow where the
    other side was taken would become NaN beside an infinite derivative.
    """
    first = entries[0][0]
    if not any(guard for guard, _ in entries):
        return (), _total(node, entries)
    others = [{(id(condition), side) for condition, side in guard} for guard, _ in entries[1:]]
    common = tuple(
        (condition, side)
        for condition, side in first
        if all((id(condition), side) in other for other in others)
    )
    shared = {(id(condition), side) for condition, side in common}
    rest = [
        (
            tuple(
                (condition, side)
                for condition, side in guard
                if (id(condition), side) not in shared
            ),
            entry,
        )
        for guard, entry in entries
    ]
    return common, _total(node, rest)


def _total(node: Tensor, entries: list[GuardedGradient]) -> Any:
    """The sum of gradients to one node, each zero where its guard does not hold."""
    if isinstance(entries[0][1], Partial):
        return _partial_total(node, entries)
    total: Tensor | None = None
    guarded: dict[int, tuple[Tensor, dict[int, list[GuardedGradient]]]] = {}
    for guard, entry in entries:
        if not guard:
            total = entry if total is None else total + entry
            continue
        condition, side = guard[0]
        _, sides = guarded.setdefault(id(condition), (condition, {1: [], 2: []}))
        sides[side].append((guard[1:], entry))
    for condition, sides in guarded.values():
        taken = [_total(node, parts) if parts else zeros_like(node) for parts in sides.values()]
        part = apply(BRANCH, condition, *taken)
        total = part if total is None else total + part
    return total


def _partial_total(node: Tensor, entries: list[GuardedGradient]) -> Partial:
    """The sum for each result of a node that has several."""
    by_result: dict[int, list[GuardedGradient]] = {}
    for guard, entry in entries:
        for index, gradient in entry.items():
            by_result.setdefault(index, []).append((guard, gradient))
    return Partial(
        {
            index: some[0][1]
            if len(some) == 1 and not some[0][0]
            else _total(result(node, index), some)
            for index, some in by_result.items()
        }
    )


def _checked(loss: object, variables: object) -> list[Tensor]:
    if not isinstance(loss, Tensor):
        raise ArgumentError(f"loss must be a tensor, got {shown(loss)}", function="gradients")
    single = isinstance(variables, Tensor) or not isinstance(variables, Iterable)
    single = single or getattr(variables, "ndim", 1) == 0
    try:
        targets: list[Any] = [variables] if single else list(variables)  # type: ignore[call-overload]
    except TypeError:  # a matrix of SciPy has entries, but no order of them
        targets = [variables]
    for target in targets:
        if not isinstance(target, Tensor):
            reason = f"variables must be tensors, got {shown(target)}"
            raise ArgumentError(reason, function="gradients")
    return targets


def stop_gradient(variables: Operand) -> Any:
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
        return [stop_gradient(variable) for variable in variables]
    return stopped(variables)
