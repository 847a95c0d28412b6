"""Where the extremes along an axis are: argmax and argmin."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import ShapeError
from kbench.engine.core.spec import Spec, check_axis, reduced_shape
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.declare import structured
from kbench.engine.graph.tensor import Operand, Tensor


def _arg_infer(x: Spec, *, axis: int) -> Spec:
    if x.shape[axis] == 0:
        raise ShapeError(f"x is {x}, and axis {axis} has no elements to choose from")
    return Spec(reduced_shape(x.shape, (axis,), False), "int64")


ARGMAX = structured(
    "argmax",
    _arg_infer,
    lambda out, x, *, axis: np.asarray(np.argmax(x, axis, out=out)),
    lambda g, y, x, *, axis: (None,),
)
ARGMIN = structured(
    "argmin",
    _arg_infer,
    lambda out, x, *, axis: np.asarray(np.argmin(x, axis, out=out)),
    lambda g, y, x, *, axis: (None,),
)


def argmax(x: Operand, axis: int = -1) -> Tensor:
    """Index of the largest element along `axis`, the first at a tie; NaN counts as the largest.

    Arguments:
        x: any dtype, at least one axis.
        axis: integer; negative counts from the end.
    Returns:
        Tensor int64 without that axis.
    Raises:
        ShapeError: no such axis, or one without elements.
    Gradient: none.
    Source: Keras 2.3 `backend.argmax`.

    >>> K.eval(K.argmax(K.constant([[1.0, 3.0, 2.0]])))
    array([1])
    """
    tensor = as_tensor(x)
    return apply(ARGMAX, tensor, axis=check_axis(axis, tensor.ndim))


def argmin(x: Operand, axis: int = -1) -> Tensor:
    """Index of the smallest element along `axis`, the first at a tie; NaN counts as the smallest.

    Arguments:
        x: any dtype, at least one axis.
        axis: integer; negative counts from the end.
    Returns:
        Tensor int64 without that axis.
    Raises:
        ShapeError: no such axis, or one without elements.
    Gradient: none.
    Source: Keras 2.3 `backend.argmin`.

    >>> K.eval(K.argmin(K.constant([[1.0, 3.0, 0.5]])))
    array([2])
    """
    tensor = as_tensor(x)
    return apply(ARGMIN, tensor, axis=check_axis(axis, tensor.ndim))
