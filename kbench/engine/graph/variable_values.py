"""Reading and storing the values of variables, one or several at one moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kbench.engine.core import csr
from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.graph.tensor import Tensor
from kbench.engine.graph.variables import (
    Variable,
    evaluated,
    needs_variable,
    storable,
    store_all,
    store_lock,
)


def get_value(x: object) -> Any:
    """A copy of a variable's value; other tensors are evaluated, other things returned.

    Arguments:
        x: variable or tensor.
    Returns:
        NumPy array; of a sparse tensor a SciPy matrix in CSR form, which `eval` gives as an array.
    Raises:
        FeedError: the value depends on a placeholder, which needs a value.
    Source: Keras 2.3 `backend.get_value`.

    >>> K.get_value(K.variable([1.0, 2.0]))
    array([1., 2.], dtype=float32)
    """
    if isinstance(x, Variable):
        return x.get_value()
    return evaluated(x) if isinstance(x, Tensor) else x


def set_value(x: Variable, value: object) -> None:
    """Store a value in a variable, cast to its dtype, at once.

    Arguments:
        x: variable.
        value: number or array of its shape. A sparse variable takes matrices of SciPy in any
            format, and arrays, whose zeros it leaves out.
    Raises:
        ShapeError: the shape differs from the variable's. DtypeError: no numbers, or a sparse
        matrix for a variable that is dense. ArgumentError: `x` is no variable.
    Source: Keras 2.3 `backend.set_value`.

    >>> w = K.variable([1.0, 2.0])
    >>> K.set_value(w, [3.0, 4.0])
    >>> K.get_value(w)
    array([3., 4.], dtype=float32)
    """
    needs_variable(x).set_value(value)


def batch_get_value(ops: Iterable[object]) -> list[Any]:
    """The values of several variables at one moment, as a list; other tensors are evaluated.

    Arguments:
        ops: list of variables or tensors.
    Returns:
        A list of NumPy arrays.
    Raises:
        ArgumentError: no list. FeedError: a tensor that needs a value.
    Source: Keras 2.3 `backend.batch_get_value`.

    >>> K.batch_get_value([K.variable(1.0), K.variable(2.0)])
    [array(1., dtype=float32), array(2., dtype=float32)]
    """
    if isinstance(ops, (Tensor, np.ndarray)) or not isinstance(ops, Iterable):
        raise ArgumentError(f"needs a list of variables, got {type(ops).__name__}")
    items = list(ops)
    with store_lock:  # what is stored replaces a value, so that these stay as they are
        held = [item._array if isinstance(item, Variable) else None for item in items]
    return [
        get_value(item) if array is None else csr.copied(array)
        for item, array in zip(items, held, strict=True)
    ]


def batch_set_value(tuples: Iterable[tuple[Variable, object]]) -> None:
    """Store several values at one moment: all of them or, on an error, none.

    Arguments:
        tuples: list of pairs (variable, value), as `set_value` takes them.
    Raises:
        ArgumentError: no pairs, or no variable. ShapeError, DtypeError: as `set_value`.
    Source: Keras 2.3 `backend.batch_set_value`.

    >>> a, b = K.variable(1.0), K.variable(2.0)
    >>> K.batch_set_value([(a, 3.0), (b, 4.0)])
    >>> K.batch_get_value([a, b])
    [array(3., dtype=float32), array(4., dtype=float32)]
    """
    listed = isinstance(tuples, Iterable) and not isinstance(tuples, (Tensor, np.ndarray))
    pairs: list[Any] = list(tuples) if listed else [tuples]
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ArgumentError(f"needs pairs (variable, value), got {shown(pair)}")
    store_all([(target, storable(needs_variable(target), value)) for target, value in pairs])
