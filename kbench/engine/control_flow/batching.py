"""Batching, as vmap: what a step does to one entry, done to all at once, by a rule for each op.

A batched value has the entries along a new first axis. A rule gets the node of the step and its
inputs, some of which are batched (`mapped`), and gives the batched result; None: it knows no way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

BatchingRule = Callable[[Tensor, Sequence[Tensor], Sequence[bool]], Tensor | None]
PRODUCTS = (DOT, BATCH_DOT, MATMUL)
TOTAL: Op = reduce_sum.op


def make_node(op: Op, origin: Tensor, *inputs: Tensor, **attrs: object) -> Tensor:
    """A node that a plan makes; it answers for `origin` in every report."""
    spec = op.infer(*[operand.spec for operand in inputs], **attrs)
    return Tensor.derived(op, inputs, attrs, spec, origin)


def batched(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    """`node` for all entries; inputs that are `mapped` hold all of them. None without a rule."""
    if node.op.kind == "elementwise":
        return _elementwise(node, inputs, mapped)
    if node.op.kind == "reduction" or node.op is LOGSUMEXP:
        axis = tuple(reduced + 1 for reduced in node.attrs["axis"])
        return make_node(node.op, node, *inputs, **{**node.attrs, "axis": axis})
    rule = BATCHING_RULES.get(node.op)
    return None if rule is None else rule(node, inputs, mapped)


def move_axis(x: Tensor, source: int, target: int) -> Tensor:
    """`x` with one axis at another place, the others in their order."""
    if source == target:
        return x
    order = [axis for axis in range(x.ndim) if axis != source]
    order.insert(target, source)
    return make_node(PERMUTE, x, x, pattern=tuple(order))


def reverse_first_axis(x: Tensor) -> Tensor:
    """`x` with its first axis in reverse order."""
    return make_node(REVERSE, x, x, axes=(0,))


def batched_sum(term: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    """The sum over all entries of `term`."""
    if term.op is REDUCE_LIKE and mapped[0] and not mapped[1]:
        return make_node(REDUCE_LIKE, term, *inputs)
    whole = batched(term, inputs, mapped)
    return None if whole is None else make_node(TOTAL, term, whole, axis=(0,), keepdims=False)


# ------------------------------------------------------------------ the rules


def _with_rank(x: Tensor, rank: int) -> Tensor:
    """Batched entries with as many axes as `rank` more than the first, ones being put in front."""
    while x.ndim - 1 < rank:
        x = make_node(EXPAND, x, x, axis=1)
    return x


def _elementwise(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor:
    widened = [
        _with_rank(operand, node.ndim) if whole else operand
        for operand, whole in zip(inputs, mapped, strict=True)
    ]
    return make_node(node.op, node, *widened, **node.attrs)


def _product(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    x, y = inputs
    batch, (first, second) = node.attrs["batch"], node.attrs["axes"]
    later = tuple(tuple(axis + 1 for axis in axes) for axes in (first, second))
    if all(mapped):
        return make_node(BATCH_DOT, node, x, y, batch=batch + 1, axes=later)
    if batch:
        return None
    if mapped[0]:
        return make_node(DOT, node, x, y, batch=0, axes=(later[0], second))
    product = make_node(DOT, node, x, y, batch=0, axes=(first, later[1]))
    return move_axis(product, x.ndim - len(first), 0)


def _matmul(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor:
    widened = [
        _with_rank(operand, node.ndim) if whole else operand
        for operand, whole in zip(inputs, mapped, strict=True)
    ]
    return make_node(MATMUL, node, *widened)


def _at(key: str) -> BatchingRule:
    """A rule for ops whose attribute `key` names an axis; every operand is batched."""

    def rule(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
        if not all(mapped):
            return None
        return make_node(node.op, node, *inputs, **{**node.attrs, key: node.attrs[key] + 1})

    return rule


def _as_it_is(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    return make_node(node.op, node, *inputs, **node.attrs) if all(mapped) else None


def _permute(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor:
    pattern = (0, *(axis + 1 for axis in node.attrs["pattern"]))
    return make_node(PERMUTE, node, inputs[0], pattern=pattern)


def _reverse(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor:
    axes = tuple(axis + 1 for axis in node.attrs["axes"])
    return make_node(REVERSE, node, inputs[0], axes=axes)


def _reshape(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    shape = node.spec.shape
    if None in shape or len(inputs) > 1:
        return None
    count = inputs[0].spec.shape[0]
    if count is None and 0 in shape:
        return None
    return make_node(RESHAPE, node, inputs[0], shape=(-1 if count is None else count, *shape))


def _indexed(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    """x[items], and its gradient, which is given the shape of x."""
    own = 1 if node.op is GETITEM else 2
    if not all(mapped[:own]) or any(mapped[own:]):
        return None
    items = (("slice", None, None, None), *node.attrs["items"])
    return make_node(node.op, node, *inputs, items=items)


def _spread(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    if not mapped[1]:
        return None
    axes = tuple(axis + 1 for axis in node.attrs["axis"])
    return make_node(SPREAD, node, *inputs, axis=axes if mapped[0] else (0, *axes))


def _reduce_like(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor | None:
    g, x = inputs
    if not mapped[0]:
        return None
    if all(mapped):
        wide = make_node(REDUCE_LIKE, node, g, _with_rank(x, g.ndim - 1))
        for _ in range(g.ndim - x.ndim):
            wide = make_node(SQUEEZE, node, wide, axis=1)
        return wide
    kept = _kept_axes(node.inputs[0].spec, x.spec)
    if kept is None:
        return None
    lead = tuple(range(1, g.ndim - x.ndim))
    result = make_node(TOTAL, node, g, axis=lead, keepdims=False) if lead else g
    if kept:
        result = make_node(TOTAL, node, result, axis=tuple(i + 1 for i in kept), keepdims=True)
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


BATCHING_RULES: dict[Op, BatchingRule] = {
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
