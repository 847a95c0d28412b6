"""The elements in reverse order along axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.core.spec import Spec, check_axes
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.declare import view
from kbench.engine.graph.op import Op
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.batching import batched_along

REVERSE: Op = view(
    "reverse",
    lambda x, *, axes: Spec(x.shape, x.dtype),
    lambda x, *, axes: np.flip(x, axes),
    lambda g, y, x, *, axes: (apply(REVERSE, g, axes=axes),),
    batched=batched_along("axes"),
)


def reverse(x: Operand, axes: int | Sequence[int]) -> Tensor:
    """The elements in reverse order along one or several axes.

    Arguments:
        x: any dtype, at least one axis.
        axes: integer or list of integers; negative counts from the end.
    Returns:
        Tensor of the shape and dtype of `x`.
    Raises:
        ShapeError: no such axis. ArgumentError: no integers, or an axis named twice.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.reverse`.

    >>> K.eval(K.reverse(K.constant([1.0, 2.0, 3.0]), 0))
    array([3., 2., 1.], dtype=float32)
    """
    tensor = as_tensor(x)
    items = tuple(axes) if isinstance(axes, (list, tuple)) else (axes,)
    return apply(REVERSE, tensor, axes=check_axes(items, tensor.ndim))
