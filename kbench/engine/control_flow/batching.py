"""What a step does to one entry, done to all entries at once: a rule for each kind of operation.

A lifted value has the entries along a new first axis. A rule gets the node of the step and its
inputs, some of them lifted, and gives the lifted result, or None where it knows no way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kbench.engine.core.spec import Spec
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Tensor
from kbench.engine.ops.elementwise.activation import SOFTMAX
from kbench.engine.ops.layout.concatenate import CONCATENATE, PART
from kbench.engine.ops.layout.create import FULL_LIKE
from kbench.engine.ops.layout.indexing import GETITEM, PLACE
from kbench.engine.ops.layout.reshape import (
    EXPAND,
    PERMUTE,
    RESHAPE,
    RESHAPE_LIKE,
    REVERSE,
    SQUEEZE,
)
from kbench.engine.ops.layout.shape import IDENTITY
from kbench.engine.ops.layout.stack import STACK
from kbench.engine.ops.linear.matmul import BATCH_DOT, DOT, MATMUL
from kbench.engine.ops.reduce.moments import LOGSUMEXP
from kbench.engine.ops.reduce.reduction import REDUCE_LIKE, SPREAD
from kbench.engine.ops.reduce.reduction import sum as reduce_sum

Rule = Callable[[Tensor, Sequence[Tensor], Sequence[bool]], Tensor | None]
PRODUCTS = (DOT, BATCH_DOT, MATMUL)
TOTAL: Op = reduce_sum.op  # type: ignore[attr-defined]


def made(op: Op, origin: Tensor, *inputs: Tensor, **attrs: Any) -> Tensor:
    """A node that a plan makes; it answers for `origin` in every report."""
    spec = op.infer(*[one.spec for one in inputs], **attrs)
    return Tensor.derived(op, inputs, attrs, spec, origin)


def lifted(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor | None:
    """`node` for all entries: `which` of its `inputs` hold all of them; None without a rule."""
    if node.op.kind == "elementwise":
        return _elementwise(node, inputs, which)
    if node.op.kind == "reduction" or node.op is LOGSUMEXP:
        axis = tuple(one + 1 for one in node.attrs["axis"])
        return made(node.op, node, *inputs, **{**node.attrs, "axis": axis})
    rule = RULES.get(node.op)
    return None if rule is None else rule(node, inputs, which)


def moved(x: Tensor, source: int, target: int) -> Tensor:
    """`x` with one axis at another place, the others in their order."""
    if source == target:
        return x
    order = [axis for axis in range(x.ndim) if axis != source]
    order.insert(target, source)
    return made(PERMUTE, x, x, pattern=tuple(order))


def reversed_first(x: Tensor) -> Tensor:
    """`x` with its first axis in reverse order."""
    return made(REVERSE, x, x, axes=(0,))


def total(term: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor | None:
    """The sum over all entries of `term`."""
    if term.op is REDUCE_LIKE and which[0] and not which[1]:
        return made(REDUCE_LIKE, term, *inputs)
    whole = lifted(term, inputs, which)
    return None if whole is None else made(TOTAL, term, whole, axis=(0,), keepdims=False)


# ------------------------------------------------------------------ the rules


def _widened(x: Tensor, rank: int) -> Tensor:
    """Lifted entries with as many axes as `rank` more than the first, ones being put in front."""
    while x.ndim - 1 < rank:
        x = made(EXPAND, x, x, axis=1)
    return x


def _elementwise(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor:
    widened = [
        _widened(one, node.ndim) if whole else one for one, whole in zip(inputs, which, strict=True)
    ]
    return made(node.op, node, *widened, **node.attrs)


def _product(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor | None:
    x, y = inputs
    batch, (first, second) = node.attrs["batch"], node.attrs["axes"]
    later = tuple(tuple(axis + 1 for axis in axes) for axes in (first, second))
    if all(which):
        return made(BATCH_DOT, node, x, y, batch=batch + 1, axes=later)
    if batch:
        return None
    if which[0]:
        return made(DOT, node, x, y, batch=0, axes=(later[0], second))
    product = made(DOT, node, x, y, batch=0, axes=(first, later[1]))
    return moved(product, x.ndim - len(first), 0)


def _matmul(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor:
    widened = [
        _widened(one, node.ndim) if whole else one for one, whole in zip(inputs, which, strict=True)
    ]
    return made(MATMUL, node, *widened)


def _at(key: str) -> Rule:
    """A rule for ops whose attribute `key` names an axis; every operand is lifted."""

    def rule(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor | None:
        if not all(which):
            return None
        return made(node.op, node, *inputs, **{**node.attrs, key: node.attrs[key] + 1})

    return rule


def _as_it_is(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor | None:
    return made(node.op, node, *inputs, **node.attrs) if all(which) else None


def _permute(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor:
    pattern = (0, *(axis + 1 for axis in node.attrs["pattern"]))
    return made(PERMUTE, node, inputs[0], pattern=pattern)


def _reverse(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor:
    axes = tuple(axis + 1 for axis in node.attrs["axes"])
    return made(REVERSE, node, inputs[0], axes=axes)


def _reshape(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor | None:
    shape = node.spec.shape
    if None in shape or len(inputs) > 1:
        return None
    count = inputs[0].spec.shape[0]
    if count is None and 0 in shape:
        return None
    return made(RESHAPE, node, inputs[0], shape=(-1 if count is None else count, *shape))


def _indexed(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor | None:
    """x[items], and its gradient, which is given the shape of x."""
    own = 1 if node.op is GETITEM else 2
    if not all(which[:own]) or any(which[own:]):
        return None
    items = (("slice", None, None, None), *node.attrs["items"])
    return made(node.op, node, *inputs, items=items)


def _spread(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor | None:
    if not which[1]:
        return None
    axes = tuple(axis + 1 for axis in node.attrs["axis"])
    return made(SPREAD, node, *inputs, axis=axes if which[0] else (0, *axes))


def _reduce_like(node: Tensor, inputs: Sequence[Tensor], which: Sequence[bool]) -> Tensor | None:
    g, x = inputs
    if not which[0]:
        return None
    if all(which):
        wide = made(REDUCE_LIKE, node, g, _widened(x, g.ndim - 1))
        for _ in range(g.ndim - x.ndim):
            wide = made(SQUEEZE, node, wide, axis=1)
        return wide
    kept = _kept_axes(node.inputs[0].spec, x.spec)
    if kept is None:
        return None
    lead = tuple(range(1, g.ndim - x.ndim))
    result = made(TOTAL, node, g, axis=lead, keepdims=False) if lead else g
    if kept:
        result = made(TOTAL, node, result, axis=tuple(i + 1 for i in kept), keepdims=True)
    return result


def _kept_axes(g: Spec, x: Spec) -> tuple[int, ...] | None:
    """The axes of x over which broadcasting repeated it; None where that shows only later."""
    found = []
    for axis, (own, wide) in enumerate(zip(x.shape, g.shape[g.ndim - x.ndim :], strict=True)):
        if own is None or (own == 1 and wide is None):
            return None
        if own == 1 and wide != 1:
            found.append(axis)
    return tuple(found)


RULES: dict[Op, Rule] = {
    DOT: _product,
    BATCH_DOT: _product,
    MATMUL: _matmul,
    SOFTMAX: _at("axis"),
    CONCATENATE: _at("axis"),
    PART: _at("axis"),
    STACK: _at("axis"),
    EXPAND: _at("axis"),
    SQUEEZE: _at("axis"),
    IDENTITY: _as_it_is,
    FULL_LIKE: _as_it_is,
    RESHAPE_LIKE: _as_it_is,
    PERMUTE: _permute,
    REVERSE: _reverse,
    RESHAPE: _reshape,
    GETITEM: _indexed,
    PLACE: _indexed,
    SPREAD: _spread,
    REDUCE_LIKE: _reduce_like,
}
