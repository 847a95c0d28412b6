"""The order of axes in which a network is computed: that in which its convolutions compute.

Convolutions have channels last in memory, whatever the user's layout is: with channels first each
stands between two permutations. Here permutations of what they give are moved behind the work
that follows (elementwise work, poolings, sums), until they meet the next one and both vanish, or
until a fold leaves nothing to permute. So a layout is chosen once, and no array is turned around
on its way. Only permutations of such results move: a user's own `K.transpose` stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbench.engine.compiler.rewrite import is_filled, rebuild, with_inputs
from kbench.engine.compiler.simplify import fold_before_permuting
from kbench.engine.core.types import Attrs
from kbench.engine.graph.op import op_of
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.traits.roles import Pattern, Role


def propagate_layouts(roots: Sequence[Tensor], stop: set[int]) -> list[Tensor]:
    """Move permutations of what convolutions give behind what follows them."""
    return rebuild(roots, stop, _LayoutPass().visit)


class _LayoutPass:
    """One pass; it knows which nodes are computed in the order of a convolution."""

    def __init__(self) -> None:
        self.channels_last: dict[int, Tensor] = {}

    def visit(self, node: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        result = with_inputs(node, inputs)
        if result.op.role is Role.PERMUTE:
            return permute(result.inputs[0], result.attrs["pattern"], result)
        patterns = {operand.attrs["pattern"] for operand in inputs if self._can_move(operand)}
        if len(patterns) != 1:
            return result
        (pattern,) = patterns
        if result.op.role is Role.FOLD:
            folded = fold_before_permuting(result)
            return result if folded is None else folded
        if result.op.kind == "elementwise":
            return self._move_behind(result, pattern, result.attrs, strict=True)
        if result.op.permuted is not None:
            attrs = result.op.permuted(result.attrs, pattern)
            return (
                result if attrs is None else self._move_behind(result, pattern, attrs, strict=False)
            )
        if result.op.role is Role.REPEAT:
            return self._move_repeated(result, pattern)
        if result.op.role is Role.REDUCE_LIKE:
            return self._move_reduced(result, pattern)
        return result

    def _can_move(self, node: Tensor) -> bool:
        return node.op.role is Role.PERMUTE and self._is_channels_last(node.inputs[0])

    def _is_channels_last(self, node: Tensor) -> bool:
        while node.op.role is Role.FOLD:
            node = node.inputs[0]
        return node.op.role is Role.CHANNELS_LAST or id(node) in self.channels_last

    def _permute_result(
        self, node: Tensor, inputs: Sequence[Tensor], attrs: Attrs, pattern: Pattern
    ) -> Tensor:
        spec = node.op.infer(*[operand.spec for operand in inputs], **attrs)
        inner = Tensor.derived(node.op, tuple(inputs), attrs, spec, node)
        self.channels_last[id(inner)] = inner
        return permute(inner, pattern, node)

    def _move_behind(self, node: Tensor, pattern: Pattern, attrs: Attrs, strict: bool) -> Tensor:
        """op(permute(x, p), permute(y, p)) = permute(op(x, y), p)

        `strict`: not if another array would have to be turned around for it; else, not if most of
        them would.
        """
        inputs: list[Tensor] = []
        turned = 0
        for operand in node.inputs:
            if operand.ndim == 0:
                inputs.append(operand)
                continue
            if operand.ndim != len(pattern):
                return node
            moves = operand.op.role is Role.PERMUTE and operand.attrs["pattern"] == pattern
            turned += not moves and not _is_thin(operand)
            inputs.append(permute(operand, inverse(pattern), operand))
        if turned and (strict or 2 * turned > len(inputs)):
            return node
        return self._permute_result(node, inputs, attrs, pattern)

    def _move_repeated(self, node: Tensor, pattern: Pattern) -> Tensor:
        """spread(g, permute(x, p), axes) = permute(spread(g, x, p[axes]), p)"""
        g, x = node.inputs
        axis = tuple(sorted(pattern[reduced] for reduced in node.attrs["axis"]))
        if not (x.op.role is Role.PERMUTE and x.attrs["pattern"] == pattern):
            return node
        if g.ndim == len(pattern):
            g = permute(g, inverse(pattern), g)
        elif g.ndim > 1:
            return node
        return self._permute_result(node, (g, x.inputs[0]), {**node.attrs, "axis": axis}, pattern)

    def _move_reduced(self, node: Tensor, pattern: Pattern) -> Tensor:
        """reduce_like(permute(g, p), x) = permute(reduce_like(g, permute(x, 1/p)), p)"""
        g, x = node.inputs
        if not self._can_move(g):
            return node
        if x.ndim == len(pattern):
            x = permute(x, inverse(pattern), x)
            return self._permute_result(node, (g.inputs[0], x), node.attrs, pattern)
        if x.ndim == 0:
            return with_inputs(node, (g.inputs[0], x))
        return node


def inverse(pattern: Pattern) -> Pattern:
    """The pattern that undoes another."""
    return tuple(pattern.index(axis) for axis in range(len(pattern)))


def permute(node: Tensor, pattern: Pattern, origin: Tensor) -> Tensor:
    """A permutation of a node, without one on top of another."""
    if node.op.role is Role.PERMUTE:
        pattern = tuple(node.attrs["pattern"][axis] for axis in pattern)
        node = node.inputs[0]
    if pattern == tuple(range(len(pattern))):
        return node
    op = op_of(Role.PERMUTE)
    spec = op.infer(node.spec, pattern=pattern)
    return Tensor.derived(op, (node,), {"pattern": pattern}, spec, origin)


def _is_thin(node: Tensor) -> bool:
    """Whether an array has one axis at most, or is one value repeated: turning it costs nothing."""
    if is_filled(node) or (node.op.role is Role.REPEAT and node.inputs[0].ndim == 0):
        return True
    return sum(size != 1 for size in node.spec.shape) <= 1
