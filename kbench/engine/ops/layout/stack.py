"""Tensors of one shape along a new axis: stack. The lowest file here: shapes are stacked, too."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.engine.core.errors import ArgumentError, ShapeError
from kbench.engine.core.spec import Spec, check_axis, promote, show
from kbench.engine.core.type_errors import describe_operand
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import converted, shared, tensors_of
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.batching import batched_along
from kbench.engine.ops.layout.copy_kernels import Copy, copy_kernel


def operands_of(tensors: Operand) -> list[Tensor]:
    """The tensors of a list, converted to their common dtype."""
    if isinstance(tensors, (Tensor, np.ndarray)) or not isinstance(tensors, (list, tuple)):
        raise ArgumentError(
            f"needs a list of tensors, got {describe_operand(tensors)}",
            suggestion="a list, as in [x, y]",
        )
    if not tensors:
        raise ArgumentError("needs at least one tensor")
    items = tensors_of(*tensors)
    common = functools.reduce(promote, [item.spec.dtype for item in items])
    return [converted(item, common) for item in items]


def _stacked_spec(specs: Sequence[Spec], axis: int) -> Spec:
    """The Spec of equal-shaped tensors stacked along a new axis."""
    first = specs[0]
    for spec in specs[1:]:
        if spec.ndim != first.ndim or any(
            a is not None and b is not None and a != b
            for a, b in zip(first.shape, spec.shape, strict=True)
        ):
            shapes = f"{show(first.shape)} and {show(spec.shape)}"
            raise ShapeError(f"all tensors need the same shape, got {shapes}")
    merged = tuple(
        next((size for size in sizes if size is not None), None)
        for sizes in zip(*[spec.shape for spec in specs], strict=True)
    )
    value = None
    if not merged and any(spec.value is not None for spec in specs):
        value = tuple((spec.value or (None,))[0] for spec in specs)
    return Spec((*merged[:axis], len(specs), *merged[axis:]), first.dtype, value)


def _stack_infer(*x: Spec, axis: int) -> Spec:
    return _stacked_spec(x, axis)


def _stack_numpy(out: np.ndarray | None, *xs: np.ndarray, axis: int) -> np.ndarray:
    return np.stack(xs, axis=axis, out=out)


def _stack_by_copies(copy: Copy, out: np.ndarray, *xs: np.ndarray, axis: int) -> None:
    before: tuple[Any, ...] = (slice(None),) * axis
    for index, x in enumerate(xs):
        copy(out[(*before, index, Ellipsis)], x)


def _stack_gradient(g: Tensor, y: Tensor, *xs: Tensor, axis: int) -> tuple[Tensor | None, ...]:
    return tuple(apply(TAKE, g, axis=axis, index=index) for index in range(len(xs)))


def _take_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, axis: int, index: int
) -> tuple[Tensor | None, ...]:
    parts = [apply(TAKE, x, axis=axis, index=i) for i in range(x.spec.shape[axis] or 0)]
    return (apply(STACK, *[g if i == index else p * 0 for i, p in enumerate(parts)], axis=axis),)


STACK = structured(
    "stack",
    _stack_infer,
    _stack_numpy,
    _stack_gradient,
    kernel=copy_kernel(_stack_infer, _stack_by_copies),
    batched=batched_along("axis"),
)
TAKE = register(
    Op(
        "take_one",
        "view",
        lambda x, *, axis, index: Spec((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype),
        lambda out, x, *, axis, index: x[(slice(None),) * axis + (index, Ellipsis)],
        _take_gradient,
        allocates=True,
    )
)


@shared
def stack(x: Sequence[Operand], axis: int = 0) -> Tensor:
    """Tensors of equal shape along a new axis.

    Arguments:
        x: list of at least one tensor.
        axis: index of the new axis in the result; negative counts from the end.
    Returns:
        Tensor of the common dtype with one axis more.
    Raises:
        ShapeError: shapes differ, or no such axis. ArgumentError: no list, or an empty one.
    Gradient: to each tensor its part.
    Source: Keras 2.3 `backend.stack`.

    >>> K.int_shape(K.stack([K.zeros((2, 3)), K.zeros((2, 3))]))
    (2, 2, 3)
    """
    items = operands_of(x)
    return apply(STACK, *items, axis=check_axis(axis, items[0].ndim + 1))
