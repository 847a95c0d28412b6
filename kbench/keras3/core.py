"""Variables, conversion, shapes by tracing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common import KerasVariable, standardize_dtype
from keras.src.backend.common.dtypes import result_type
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.stateless_scope import StatelessScope
from keras.src.backend.common.symbolic_scope import SymbolicScope

from kbench import backend as K
from kbench.keras3.tensor import Traced, operation

SUPPORTS_SPARSE_TENSORS = False
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_COMPLEX_DTYPES = False
IS_THREAD_SAFE = True
SIZES_FOR_NONE = (83, 89)
"""Two sizes for each unknown axis: where results differ, the axis is unknown there, too."""


class _Tracing(threading.local):
    active = False


tracing = _Tracing()


class Variable(KerasVariable):  # type: ignore[misc]
    """A variable of Keras, whose value a variable of kbench holds."""

    _node: Any = None

    @property
    def _value(self) -> Any:
        if self._node is None:
            return None
        return Traced(self._node) if tracing.active else self._node.get_value()

    @_value.setter
    def _value(self, value: Any) -> None:
        self._node = None if value is None else self._made(value)

    def _made(self, value: Any) -> Any:
        return K.variable(np.array(value), dtype=standardize_dtype(self._dtype), name=self.name)

    def _initialize(self, value: Any) -> None:
        self._value = value

    def _direct_assign(self, value: Any) -> None:
        if self._node is None:
            self._value = value
        else:
            self._node.set_value(np.asarray(value))

    def _convert_to_tensor(self, value: Any, dtype: Any = None) -> Any:
        return convert_to_tensor(value, dtype=dtype)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value, dtype=dtype)


def convert_to_tensor(x: Any, dtype: Any = None, sparse: Any = None, ragged: Any = None) -> Any:
    """An array, or a symbol of the trace, in a dtype; ValueError for sparse and ragged ones."""
    if sparse or ragged:
        raise ValueError("sparse and ragged tensors are not available on the kbench backend")
    wanted = None if dtype is None else standardize_dtype(dtype)
    if isinstance(x, Variable):
        x = x.value
    leaves = tree.flatten(x)
    if isinstance(x, Traced) or any(isinstance(leaf, (Traced, Variable)) for leaf in leaves):
        node = x if isinstance(x, Traced) else _stacked(x)
        return node if wanted in (None, node.dtype) else Traced(K.cast(node.node, wanted))
    if wanted is None:
        wanted = result_type(*[getattr(leaf, "dtype", type(leaf)) for leaf in leaves])
    if isinstance(x, np.ndarray) and x.dtype.name == wanted:
        return x
    return np.asarray(x).astype(wanted)


@operation
def _stacked(parts: Any) -> Any:
    from kbench.keras3.tensor import node_of

    if isinstance(parts, (list, tuple)):
        return Traced(K.stack([_stacked_node(part) for part in parts], 0))
    return Traced(node_of(parts))


def _stacked_node(part: Any) -> Any:
    from kbench.keras3.tensor import node_of

    return _stacked(part).node if isinstance(part, (list, tuple)) else node_of(part)


def convert_to_numpy(x: Any) -> np.ndarray:
    return np.array(x.value if isinstance(x, Variable) else x)


def is_tensor(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic, Traced))


def shape(x: Any) -> Any:
    return x.shape


def cast(x: Any, dtype: Any) -> Any:
    return convert_to_tensor(x, dtype=dtype)


def random_seed_dtype() -> str:
    return "uint32"


@contextlib.contextmanager
def device_scope(_name: str) -> Iterator[None]:
    """There is one device, the processor."""
    yield


@contextlib.contextmanager
def traced() -> Iterator[None]:
    """Variables are symbols inside the block."""
    before, tracing.active = tracing.active, True
    try:
        yield
    finally:
        tracing.active = before


def compute_output_spec(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of what a function of symbols gives."""
    given = tree.flatten((args, kwargs))
    unknown = any(isinstance(x, KerasTensor) and None in x.shape for x in given)
    with StatelessScope(), SymbolicScope(), traced():
        runs = []
        for size in SIZES_FOR_NONE if unknown else SIZES_FOR_NONE[:1]:
            called = tree.map_structure(lambda x, n=size: _symbol(x, n), (args, kwargs))
            runs.append(fn(*called[0], **called[1]))
    return tree.map_structure(_spec, runs[0], runs[-1])


def _symbol(x: Any, size: int) -> Any:
    if not isinstance(x, KerasTensor):
        return x
    return Traced(K.placeholder(tuple(size if n is None else n for n in x.shape), dtype=x.dtype))


def _spec(x: Any, y: Any) -> Any:
    if not is_tensor(x):
        return x
    sizes = tuple(a if a == b else None for a, b in zip(x.shape, y.shape, strict=True))
    return KerasTensor(sizes, standardize_dtype(x.dtype))


@operation
def stop_gradient(variable: Any) -> Any:
    return Traced(K.stop_gradient(_stacked(variable).node))


def cond(pred: Any, true_fn: Any, false_fn: Any) -> Any:
    """The side that a known condition takes."""
    if isinstance(pred, Traced):
        raise NotImplementedError("keras.ops.cond is not available in a traced step on kbench yet")
    return true_fn() if pred else false_fn()


def __getattr__(name: str) -> Any:
    from kbench.keras3.numpy import absent

    return absent("keras.ops", name)
