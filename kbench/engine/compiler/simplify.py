"""Local laws that hold for every value, NaN and signed zeros included. One function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kbench.engine.compiler.decompose_softmax import decompose_softmax
from kbench.engine.compiler.rewrite import rebuild, with_inputs
from kbench.engine.core.spec import is_float, known_size
from kbench.engine.graph.convert import Constant
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits import Role
from kbench.engine.ops.conv import local
from kbench.engine.ops.elementwise.arithmetic import CAST, divide, multiply, negative, subtract
from kbench.engine.ops.elementwise.elementary import _power, square
from kbench.engine.ops.layout.reshape import PERMUTE, RESHAPE
from kbench.engine.ops.layout.shape import IDENTITY
from kbench.engine.ops.reduce.reduction import SPREAD

RewriteRule = Callable[[Tensor], Tensor | None]


def _is_number(node: Tensor, number: float) -> bool:
    return (
        isinstance(node, Constant) and node.value.size == 1 and bool(np.all(node.value == number))
    )


def _repeats_number(node: Tensor, number: float) -> bool:
    """Whether a node of known shape is a number repeated, as the gradient of a sum is."""
    known = node.op is SPREAD and known_size(node.spec.shape) is not None
    return known and _is_number(node.inputs[0], number)


def _same_spec(node: Tensor, by: Tensor) -> bool:
    return node.spec.dtype == by.spec.dtype and node.spec.shape == by.spec.shape


def drop_identity(node: Tensor) -> Tensor | None:
    """identity(x) = x"""
    return node.inputs[0] if node.op is IDENTITY else None


def drop_neutral_factor(node: Tensor) -> Tensor | None:
    """x * 1 = 1 * x = x"""
    if node.op is not multiply.op:
        return None
    for factor, other in (node.inputs, node.inputs[::-1]):
        one = _is_number(factor, 1) or _repeats_number(factor, 1)
        if one and factor.ndim <= other.ndim and _same_spec(node, other):
            return other
    return None


def drop_neutral_operand(node: Tensor) -> Tensor | None:
    """x / 1 = x - 0 = x"""
    neutral = {divide.op: 1, subtract.op: 0}.get(node.op)
    if neutral is None or not _is_number(node.inputs[1], neutral):
        return None
    if neutral == 0 and np.signbit(node.inputs[1].attrs["value"]).any():
        return None
    return node.inputs[0] if _same_spec(node, node.inputs[0]) else None


def drop_double_negation(node: Tensor) -> Tensor | None:
    """-(-x) = x"""
    op: Op = negative.op
    inner = node.inputs[0]
    return inner.inputs[0] if node.op is op and inner.op is op else None


def products_of_power(node: Tensor) -> Tensor | None:
    """x ** 1 = x, x ** 2 = square(x); floats to the powers 3 and 4 are products too"""
    base = node.inputs[0]
    if node.op is not _power.op or not _same_spec(node, base):
        return None
    if _is_number(node.inputs[1], 1):
        return base
    wide = base.spec.dtype in ("float32", "float64")
    exponent = next((n for n in (2, 3, 4) if _is_number(node.inputs[1], n)), None)
    if exponent is None or (exponent > 2 and not wide):
        return None
    squared = Tensor.derived(square.op, (base,), {}, node.spec, node)
    if exponent == 2:
        return squared
    if exponent == 4:
        return Tensor.derived(square.op, (squared,), {}, node.spec, node)
    return Tensor.derived(multiply.op, (squared, base), {}, node.spec, node)


def merge_permutations(node: Tensor) -> Tensor | None:
    """permute(permute(x, p), q) = permute(x, p[q]); the identical permutation = x"""
    if node.op is not PERMUTE:
        return None
    pattern, source = node.attrs["pattern"], node.inputs[0]
    if source.op is PERMUTE:
        pattern = tuple(source.attrs["pattern"][axis] for axis in pattern)
        source = source.inputs[0]
    elif pattern != tuple(range(node.ndim)):
        return None
    if pattern == tuple(range(node.ndim)):
        return source
    return Tensor.derived(PERMUTE, (source,), {"pattern": pattern}, node.spec, node)


def fold_before_permuting(node: Tensor) -> Tensor | None:
    """fold(permute(x, p), axes) = permute(fold(x, p[axes])), of what the fold has left"""
    if node.op.role is not Role.FOLD or node.inputs[0].op is not PERMUTE:
        return None
    source, pattern = node.inputs[0].inputs[0], node.inputs[0].attrs["pattern"]
    attrs = {**node.attrs, "axis": tuple(sorted(pattern[axis] for axis in node.attrs["axis"]))}
    spec = node.op.infer(source.spec, **attrs)
    folded = Tensor.derived(node.op, (source,), attrs, spec, node)
    kept = pattern
    if not node.attrs["keepdims"]:
        left = [axis for axis in pattern if axis not in attrs["axis"]]
        kept = tuple(sorted(left).index(axis) for axis in left)
    if kept == tuple(range(len(kept))):
        return folded
    return Tensor.derived(PERMUTE, (folded,), {"pattern": kept}, node.spec, node)


def merge_reshapes(node: Tensor) -> Tensor | None:
    """reshape(reshape(x, a), b) = reshape(x, b), when x is known to fill a"""
    source = node.inputs[0]
    if node.op is not RESHAPE or source.op is not RESHAPE or len(node.inputs) > 1:
        return None
    if known_size(source.inputs[0].spec.shape) is None or known_size(source.spec.shape) is None:
        return None
    return Tensor.derived(RESHAPE, (source.inputs[0],), node.attrs, node.spec, node)


def drop_widening_cast(node: Tensor) -> Tensor | None:
    """cast(cast(x, wider float), dtype of x) = x"""
    source = node.inputs[0]
    if node.op is not CAST or source.op is not CAST:
        return None
    first, middle = source.inputs[0].spec.dtype, source.spec.dtype
    if node.spec.dtype != first or not (is_float(first) and is_float(middle)):
        return None
    return source.inputs[0] if np.promote_types(first, middle).name == middle else None


def products_of_patches(node: Tensor) -> Tensor | None:
    """permute(patches(x) . w) = local_products(x, w), which needs no patches"""
    found = local.joins(node)
    if found is None:
        return None
    x, kernel, attrs = found
    return Tensor.derived(local.PRODUCTS, (x, kernel), attrs, node.spec, node)


RULES: tuple[RewriteRule, ...] = (
    products_of_patches,
    drop_identity,
    drop_neutral_factor,
    drop_neutral_operand,
    drop_double_negation,
    products_of_power,
    merge_permutations,
    fold_before_permuting,
    merge_reshapes,
    drop_widening_cast,
    decompose_softmax,
)


def simplify(roots: Sequence[Tensor], stop: set[int]) -> list[Tensor]:
    """Apply every rule to every node, inputs first, until none applies."""

    def visit(node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        result = with_inputs(node, inputs)
        changed = True
        while changed and result.inputs:
            changed = False
            for rule in RULES:
                replacement = rule(result)
                if replacement is not None:
                    result, changed = replacement, True
                    break
        return result

    return rebuild(roots, stop, visit)
