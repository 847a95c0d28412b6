"""Values of Keras 3: arrays when they are known, `Traced` while a graph is built."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import tree

from kbench import backend as K
from kbench.engine.graph.tensor import Tensor


class Traced:
    """A node of a graph with the manners of a tensor of Keras 3: `==` compares its elements."""

    __array_ufunc__ = None
    __array_priority__ = 1000.0
    __hash__ = object.__hash__

    def __init__(self, node: Tensor) -> None:
        self.node = node

    @property
    def shape(self) -> tuple[int | None, ...]:
        return tuple(self.node.spec.shape)

    @property
    def dtype(self) -> str:
        return self.node.spec.dtype

    @property
    def ndim(self) -> int:
        return len(self.node.spec.shape)

    def __repr__(self) -> str:
        return f"<Traced {self.node.spec}>"

    def __bool__(self) -> bool:
        raise TypeError(f"{self!r} has no truth value while it is traced; use keras.ops.cond")

    def __array__(self, *_options: Any) -> np.ndarray:
        raise TypeError(f"{self!r} has no value while it is traced")

    def __len__(self) -> int:
        if not self.shape or self.shape[0] is None:
            raise TypeError(f"{self!r} has no known length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Traced:
        items = key if isinstance(key, tuple) else (key,)
        return Traced(self.node[tuple(i.node if isinstance(i, Traced) else i for i in items)])


def node_of(value: Any) -> Tensor:
    """The node of anything that Keras takes for a tensor."""
    if isinstance(value, Traced):
        return value.node
    if hasattr(value, "_node") and hasattr(value, "path"):  # a Variable
        return node_of(value.value)
    return K.constant(value, dtype=np.asarray(value).dtype.name)


def is_traced(value: Any) -> bool:
    return isinstance(value, Traced)


def values_of(results: Any) -> Any:
    """Arrays of what was built on known values alone."""
    return tree.map_structure(lambda x: K.eval(x.node) if isinstance(x, Traced) else x, results)


def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function on graphs as one that computes at once where nothing that it takes is traced."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        plain = tree.map_structure(_value, (arguments, options))
        found = function(*plain[0], **plain[1])
        if any(is_traced(leaf) for leaf in tree.flatten(plain)):
            return found
        return values_of(found)

    return call


def _value(leaf: Any) -> Any:
    return leaf.value if hasattr(leaf, "_node") and hasattr(leaf, "path") else leaf
