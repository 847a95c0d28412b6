"""What is known of a tensor without evaluating it: its kind, shape, dtype and size."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.core.spec import dtype_name
from kbench.engine.core.types import Shape
from kbench.engine.graph.convert import to_array
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.variables import Placeholder, Variable


def is_variable(x: object) -> bool:
    """Whether it is a variable: what `variable`, `zeros`, `ones` and the like made.

    Arguments:
        x: anything.
    Returns:
        bool; never raises.
    Source: Keras 2.3 `backend.is_variable`.

    >>> K.is_variable(K.zeros((2,))), K.is_variable(K.zeros((2,)) + 1)
    (True, False)
    """
    return isinstance(x, Variable)


def is_placeholder(x: object) -> bool:
    """Whether `placeholder` made it.

    Arguments:
        x: anything.
    Returns:
        bool; never raises.
    Source: Keras 2.3 `backend.is_placeholder`.

    >>> K.is_placeholder(K.placeholder((2,))), K.is_placeholder(K.zeros((2,)))
    (True, False)
    """
    return isinstance(x, Placeholder)


def is_tensor(x: object) -> bool:
    """Whether it is a tensor; variables, placeholders and constants are.

    Arguments:
        x: anything.
    Returns:
        bool; never raises.
    Source: Keras 2.3 `backend.is_tensor`.

    >>> K.is_tensor(K.zeros((2,)) + 1), K.is_tensor(1)
    (True, False)
    """
    return isinstance(x, Tensor)


def is_symbolic(x: object) -> bool:
    """Whether it is a tensor of a graph: every tensor is.

    Arguments:
        x: anything.
    Returns:
        bool; never raises.
    Source: Keras 2.3 `backend.is_symbolic`.

    >>> K.is_symbolic(K.zeros((2,))), K.is_symbolic([0, 0])
    (True, False)
    """
    return isinstance(x, Tensor)


def is_keras_tensor(x: object) -> bool:
    """Whether a tensor is the output of a Keras layer: whether it carries `_keras_history`.

    Arguments:
        x: tensor.
    Returns:
        bool.
    Raises:
        ArgumentError: `x` is not a tensor.
    Source: Keras 2.3 `backend.is_keras_tensor`.

    >>> K.is_keras_tensor(K.placeholder((2,)))
    False
    """
    if not isinstance(x, Tensor):
        raise ArgumentError(f"needs a tensor, got {type(x).__name__}")
    return hasattr(x, "_keras_history")


def is_sparse(tensor: object) -> bool:
    """Whether it is a sparse tensor: of a SciPy matrix, of a sparse placeholder, or joined of them.

    Arguments:
        tensor: anything; a SciPy matrix itself is not a tensor.
    Returns:
        bool; never raises.
    Source: Keras 2.3 `backend.is_sparse`.

    >>> K.is_sparse(K.placeholder((2, 3), sparse=True)), K.is_sparse(K.zeros((2, 3)))
    (True, False)
    """
    return isinstance(tensor, Tensor) and tensor.is_sparse


def _shape_of(x: object) -> tuple[int, ...]:
    """The shape of what is not a tensor: an array, number, list or matrix of SciPy."""
    shape = getattr(x, "shape", None)  # a class has one, too, which is no tuple
    return tuple(shape) if isinstance(shape, tuple) else to_array(x).shape


def int_shape(x: object) -> Shape | None:
    """The static shape.

    Where a size is unknown, an attribute `_keras_shape` that a layer has set may supply it.

    Arguments:
        x: tensor, array, list or number.
    Returns:
        A tuple, with None for sizes that are not known before evaluation.
    Raises:
        DtypeError: no array of numbers.
    Source: Keras 2.3 `backend.int_shape`.

    >>> K.int_shape(K.placeholder((None, 4, 5)))
    (None, 4, 5)
    """
    if not isinstance(x, Tensor):
        return _shape_of(x)
    return tuple(x._keras_shape)


def get_variable_shape(x: object) -> Shape | None:
    """The static shape, as `int_shape`.

    Arguments:
        x: variable, or any tensor or array.
    Returns:
        A tuple.
    Raises:
        DtypeError: no array of numbers.
    Source: Keras 2.3 `backend.get_variable_shape`.

    >>> K.get_variable_shape(K.variable([1.0, 2.0]))
    (2,)
    """
    return int_shape(x)


def ndim(x: object) -> int:
    """The number of axes.

    Arguments:
        x: tensor, array, list or number.
    Returns:
        A Python int.
    Raises:
        DtypeError: no array of numbers.
    Source: Keras 2.3 `backend.ndim`.

    >>> K.ndim(K.zeros((2, 3)))
    2
    """
    return x.ndim if isinstance(x, Tensor) else len(_shape_of(x))


def dtype(x: object) -> str:
    """The name of the dtype.

    Arguments:
        x: tensor, array, list or number.
    Returns:
        A string.
    Raises:
        DtypeError: no array of numbers.
    Source: Keras 2.3 `backend.dtype`.

    >>> K.dtype(K.zeros((2, 3)))
    'float32'
    """
    if isinstance(x, Tensor):
        return str(x.spec.dtype)
    return dtype_name(x.dtype if hasattr(x, "dtype") else to_array(x).dtype)


def count_params(x: object) -> int:
    """The number of elements, from the static shape.

    Arguments:
        x: tensor, array, list or number.
    Returns:
        A Python int.
    Raises:
        TypeError: a size is unknown. DtypeError: no array of numbers.
    Source: Keras 2.3 `backend.count_params`.

    >>> K.count_params(K.zeros((2, 3)))
    6
    """
    shape = int_shape(x) or ()
    if None in shape:
        raise TypeError(f"count_params: {shown(x)} has a size that is known only when fed")
    return int(np.prod([size or 0 for size in shape], dtype=np.int64)) if shape else 1
