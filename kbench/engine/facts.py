"""What is known of a tensor without evaluating it: its kind, shape, dtype and size."""

from __future__ import annotations

from typing import Any

import numpy as np

from kbench.engine.errors import ArgumentError
from kbench.engine.operands import to_array
from kbench.engine.spec import Shape, dtype_name
from kbench.engine.tensor import Tensor
from kbench.engine.variables import Placeholder, Variable


def is_variable(x: Any) -> bool:
    """True for what `variable`, `zeros`, `ones` and the like made."""
    return isinstance(x, Variable)


def is_placeholder(x: Any) -> bool:
    """True for what `placeholder` made; never raises."""
    return isinstance(x, Placeholder)


def is_tensor(x: Any) -> bool:
    """True for every tensor, variables and placeholders included; never raises."""
    return isinstance(x, Tensor)


def is_symbolic(x: Any) -> bool:
    """True for every tensor of a graph."""
    return isinstance(x, Tensor)


def is_keras_tensor(x: Any) -> bool:
    """True for the output of a Keras layer: a tensor that carries `_keras_history`.

    Raises:
        ArgumentError: `x` is no tensor.
    """
    if not isinstance(x, Tensor):
        raise ArgumentError(f"needs a tensor, got {type(x).__name__}")
    return hasattr(x, "_keras_history")


def is_sparse(tensor: Any) -> bool:
    """True for sparse tensors: of a SciPy matrix, of a sparse placeholder, or joined of them.

    Never raises; a SciPy matrix itself is no tensor.
    """
    return isinstance(tensor, Tensor) and tensor.is_sparse


def _shape_of(x: Any) -> tuple[int, ...]:
    """The shape of what is no tensor: an array, number, list or matrix of SciPy."""
    return tuple(x.shape) if hasattr(x, "shape") else to_array(x).shape


def int_shape(x: Any) -> Shape | None:
    """The static shape as a tuple, None for sizes that are not known before evaluation.

    Where a size is unknown, an attribute `_keras_shape` that a layer has set may supply it.

    >>> K.int_shape(K.placeholder((None, 4, 5)))
    (None, 4, 5)
    """
    if not isinstance(x, Tensor):
        return _shape_of(x)
    shape = tuple(x.spec.shape)
    given = getattr(x, "_keras_shape", None)
    if None in shape and isinstance(given, tuple) and len(given) == len(shape):
        return tuple(b if a is None else a for a, b in zip(shape, given, strict=True))
    return shape


def get_variable_shape(x: Any) -> Shape | None:
    """The static shape, as `int_shape`."""
    return int_shape(x)


def ndim(x: Any) -> int:
    """The number of axes, a Python int.

    >>> K.ndim(K.zeros((2, 3)))
    2
    """
    return x.ndim if isinstance(x, Tensor) else len(_shape_of(x))


def dtype(x: Any) -> str:
    """The name of the dtype.

    >>> K.dtype(K.zeros((2, 3)))
    'float32'
    """
    if isinstance(x, Tensor):
        return str(x.spec.dtype)
    return dtype_name(x.dtype if hasattr(x, "dtype") else to_array(x).dtype)


def count_params(x: Any) -> int:
    """The number of elements, from the static shape.

    Raises:
        TypeError: a size is unknown.
    """
    shape = int_shape(x) or ()
    if None in shape:
        raise TypeError(f"count_params: {x!r} has a size that is known only when fed")
    return int(np.prod([size or 0 for size in shape], dtype=np.int64)) if shape else 1
