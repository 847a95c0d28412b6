"""Wrong calls with masked arrays of NumPy: a tensor has no mask, so that masked entries say so.

Each way that an array takes into the engine has a row.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from scipy import sparse
from wrong import Wrong, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, FeedError

NO_MASK = "a tensor has no mask"


def m(*shape: int, dtype: str = "float32") -> Any:
    """An array of ones whose last entry is masked."""
    array = np.ma.ones(shape, dtype)
    array[(-1,) * len(shape)] = np.ma.masked
    return array


class Gives:
    """Something that becomes a masked array in NumPy."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return m(3)


def sparse_masked() -> Any:
    matrix = sparse.csr_matrix(np.eye(3, dtype="float32"))
    matrix.data = m(3)
    return matrix


ENTERING = [
    Wrong(
        "constant",
        lambda: K.constant(m(3)),
        ArgumentError,
        ("value is a masked array, 1 of whose 3 entries is masked", NO_MASK, "try value.filled(0)"),
    ),
    Wrong("constant", lambda: K.constant(np.ma.masked), ArgumentError, ("value is masked",)),
    Wrong("constant", lambda: K.constant(m(2, 2), shape=(4,)), ArgumentError, ("1 of whose 4",)),
    Wrong("constant", lambda: K.constant(Gives()), ArgumentError, ("value is a masked array",)),
    Wrong("variable", lambda: K.variable(m(3)), ArgumentError, ("float32[3]", NO_MASK)),
    Wrong("variable", lambda: K.variable(sparse_masked()), ArgumentError, ("its data is",)),
    Wrong("cast_to_floatx", lambda: K.cast_to_floatx(m(3)), ArgumentError, (NO_MASK,)),
    Wrong("eval", lambda: K.eval(m(3)), ArgumentError, (NO_MASK,)),
]

STORED = [
    Wrong("set_value", lambda: K.set_value(v(3), m(3)), ArgumentError, (NO_MASK, "value.filled")),
    Wrong("set_value", lambda: v(3).set_value(m(3)), ArgumentError, (NO_MASK,)),
    Wrong("set_value", lambda: K.set_value(v(3), [1, np.ma.masked, 3]), ArgumentError),
    Wrong("batch_set_value", lambda: K.batch_set_value([(v(3), m(3))]), ArgumentError, (NO_MASK,)),
    Wrong("update", lambda: K.update(v(3), m(3)), ArgumentError, ("new_x is a masked",)),
    Wrong("update_add", lambda: K.update_add(v(3), m(3)), ArgumentError, ("increment is",)),
]

LISTS = [
    Wrong(
        "constant",
        lambda: K.constant([[1.0, 2.0], [np.ma.masked, 3.0]]),
        ArgumentError,
        ("value[1][0] is masked", NO_MASK),
    ),
    Wrong("constant", lambda: K.constant([np.ones(3), m(3)]), ArgumentError, ("value[1] is a",)),
    Wrong("constant", lambda: K.constant((Gives(), [1, 2, 3])), ArgumentError, ("value[0] is a",)),
    Wrong("constant", lambda: K.constant(deque([1.0, np.ma.masked])), ArgumentError, ("[1] is",)),
    Wrong("stack", lambda: K.stack([v(3), m(3)]), ArgumentError, ("x[1] is a masked array",)),
    Wrong("concatenate", lambda: K.concatenate([m(3), v(3)]), ArgumentError, ("tensors[0] is a",)),
    Wrong("dot", lambda: K.dot([v(3), m(3)], v(3)), ArgumentError, (NO_MASK,)),
]

OPERANDS = [
    Wrong("sum", lambda: K.sum(m(3)), ArgumentError, ("x is a masked array", "x.filled(0)")),
    Wrong("+", lambda: v(3) + m(3), ArgumentError, ("y is a masked array", "y.filled(0)")),
    Wrong("+", lambda: m(3) + v(3), ArgumentError, ("x is a masked array", NO_MASK)),
    Wrong("@", lambda: m(3, 3) @ x(3, 3), ArgumentError, ("x is a masked array", NO_MASK)),
    Wrong("*", lambda: v(3) * np.ma.masked, ArgumentError, ("y is masked",)),
    Wrong("clip", lambda: K.clip(v(3), np.ma.masked, 3.0), ArgumentError, ("min_value is masked",)),
    Wrong("gather", lambda: K.gather(v(3), m(2, dtype="int32")), ArgumentError, ("indices is",)),
    Wrong("switch", lambda: K.switch(m(3, dtype="bool"), v(3), v(3)), ArgumentError, (NO_MASK,)),
    Wrong("map_fn", lambda: K.map_fn(K.square, m(3)), ArgumentError, ("elems is",)),
    Wrong(
        "rnn",
        lambda: K.rnn(lambda one, states: (one, states), v(1, 3, 2), [], mask=m(1, 3)),
        ArgumentError,
        ("mask is a masked array",),
    ),
    Wrong("function", lambda: K.function([], [m(3)]), ArgumentError, (NO_MASK,)),
]

NUMBERS = [
    Wrong("zeros", lambda: K.zeros(m(2, dtype="int32")), ArgumentError, ("shape is a masked",)),
    Wrong("reshape", lambda: K.reshape(v(3), m(2, dtype="int32")), ArgumentError, (NO_MASK,)),
    Wrong(
        "conv2d",
        lambda: K.conv2d(v(1, 4, 4, 1), v(2, 2, 1, 1), strides=m(2, dtype="int32")),
        ArgumentError,
        ("strides is a masked",),
    ),
    Wrong(
        "spatial_2d_padding",
        lambda: K.spatial_2d_padding(v(1, 4, 4, 1), m(2, 2, dtype="int32")),
        ArgumentError,
        ("padding is a masked",),
    ),
    Wrong(
        "random_uniform",
        lambda: K.random_uniform((2,), minval=np.ma.masked),
        ArgumentError,
        ("minval is masked",),
    ),
    Wrong("arange", lambda: K.arange(np.ma.masked), ArgumentError, ("is masked",)),
    Wrong("set_epsilon", lambda: K.set_epsilon(np.ma.masked), ArgumentError, ("masked",)),
]

FED = [
    Wrong(
        "function",
        lambda: K.function([x(3)], [])([m(3)]),
        FeedError,
        ("float32[3]", "but value is a masked array, 1 of whose 3 entries is masked", NO_MASK),
    ),
    Wrong("function", lambda: K.function([x(2)], [])([[1, np.ma.masked]]), FeedError, ("[1] is",)),
    Wrong("eval", lambda: ((a := x(3)) * 2).eval(feed_dict={a: m(3)}), FeedError, (NO_MASK,)),
    Wrong(
        "function",
        lambda: K.function([K.placeholder((3, 3), sparse=True)], [])([sparse_masked()]),
        FeedError,
        ("its data is a masked array",),
    ),
    Wrong(
        "function",
        lambda: K.function([K.placeholder((3, 3), sparse=True)], [])([m(3, 3)]),
        FeedError,
        (NO_MASK,),
    ),
]

WRONG = [*ENTERING, *STORED, *LISTS, *OPERANDS, *NUMBERS, *FED]
