"""Variables, conversion, shapes by tracing."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.src import tree
from keras.src.backend.common import KerasVariable, standardize_dtype
from keras.src.backend.common.dtypes import ALLOWED_DTYPES, result_type
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.name_scope import name_scope as KerasNameScope
from keras.src.backend.common.stateless_scope import StatelessScope
from keras.src.backend.common.symbolic_scope import SymbolicScope

from kbench import backend as K
from kbench.api.operations import DTYPES as ENGINE_DTYPES
from kbench.keras3.control.api import (
    associative_scan,
    cond,
    custom_gradient,
    fori_loop,
    map,
    remat,
    scan,
    switch,
    vectorized_map,
    while_loop,
)
from kbench.keras3.distribution import check_variables
from kbench.keras3.matrices import array_of, is_matrix
from kbench.keras3.numpy import elementwise
from kbench.keras3.scatter import scatter, scatter_update, slice, slice_update, unstack
from kbench.keras3.tensor import (
    HiddenArray,
    Traced,
    array_as,
    converted,
    from_held,
    held,
    held_spec,
    name_of,
    own,
    plain,
    symbol_of,
    to_held,
    tracing,
    without_matrices,
)

__all__ = [
    "IS_THREAD_SAFE", "SUPPORTS_COMPLEX_DTYPES", "SUPPORTS_RAGGED_TENSORS",
    "SUPPORTS_SPARSE_TENSORS", "Variable", "associative_scan", "cast", "compute_output_spec",
    "cond", "convert_to_numpy", "convert_to_tensor", "custom_gradient", "device_scope",
    "fori_loop", "is_tensor", "map", "name_scope", "random_seed_dtype", "remat", "scan", "scatter",
    "scatter_update", "shape", "slice", "slice_update", "stop_gradient", "switch", "traced",
    "unstack", "vectorized_map", "while_loop",
]  # fmt: skip

SUPPORTS_SPARSE_TENSORS = False
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_COMPLEX_DTYPES = True
IS_THREAD_SAFE = True
SIZES_FOR_NONE = (83, 89)
"""Two sizes for each unknown axis: where results differ, the axis is unknown there, too."""


class name_scope(KerasNameScope):  # type: ignore[misc]
    """A scope of Keras, as which layers and optimizers are called. In a trace it names nodes, too.

    A model has no part in these names, as every node would begin with it: what stands first is the
    outermost layer, by which the graph is folded.
    """

    _nodes: Any = None

    def __enter__(self) -> name_scope:
        entered: name_scope = super().__enter__()
        if tracing.active and self._pop_on_exit and not hasattr(type(self.caller), "layers"):
            self._nodes = K.name_scope(self.name)
            self._nodes.__enter__()
        return entered

    def __exit__(self, *error: Any) -> None:
        if self._nodes is not None:
            self._nodes.__exit__(*error)
        super().__exit__(*error)


class Held:
    """The value of a variable whose dtype the engine does not hold: texts."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def get_value(self) -> np.ndarray:
        return np.array(self.value)

    def set_value(self, value: np.ndarray) -> None:
        self.value = np.array(value)


_owners: weakref.WeakValueDictionary[int, Variable] = weakref.WeakValueDictionary()


class Variable(KerasVariable):  # type: ignore[misc]
    """A variable of Keras, whose value a variable of kbench holds."""

    _node: Any = None

    @property
    def _value(self) -> Any:
        if self._node is None:
            return None
        if tracing.active and not isinstance(self._node, Held):
            return Traced(self._node, self._dtype)
        return from_held(self._node.get_value(), self._dtype)

    @_value.setter
    def _value(self, value: Any) -> None:
        self._node = None if value is None else self._made(value)

    def _made(self, value: Any) -> Any:
        dtype = standardize_dtype(self._dtype)
        array = converted(np.array(plain(value)), dtype)
        _owners[id(self)] = self
        spec = held_spec(array.shape, dtype)
        if spec.dtype not in ENGINE_DTYPES:
            return Held(array)
        return K.variable(to_held(array), dtype=spec.dtype, name=self.path)

    def _initialize(self, value: Any) -> None:
        check_variables()
        self._value = value

    def _initialize_with_initializer(self, initializer: Any) -> None:
        self._initialize(initializer(self._shape, dtype=self._dtype))

    def _direct_assign(self, value: Any) -> None:
        if self._node is None:
            self._value = value
        else:
            self._node.set_value(to_held(converted(np.asarray(value), self._dtype)))

    def _convert_to_tensor(self, value: Any, dtype: Any = None) -> Any:
        return convert_to_tensor(value, dtype=dtype)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value, dtype=dtype)


def owner_of(key: int) -> Variable:
    """The variable to which a step stores; scopes know it by its id."""
    return _owners[key]


def updates_of(state: dict[int, Any], before: dict[int, Any]) -> list[Any]:
    """Updates of the variables to which a trace has assigned, by what it knew of them before."""
    return [
        K.update(owner_of(key)._node, held(value, owner_of(key)._dtype))
        for key, value in state.items()
        if value is not before.get(key)
    ]


def convert_to_tensor(x: Any, dtype: Any = None, sparse: Any = None, ragged: Any = None) -> Any:
    """An array of its own, or a symbol of the trace, in a dtype.

    Keras' layers add to tensors in place (`x += y`), which must not reach the array of a caller.
    A matrix of SciPy becomes an array, and in a trace a symbol that is one wherever it is no factor
    of a product. ValueError for `sparse` and `ragged`.
    """
    if sparse:
        raise ValueError("`sparse=True` is not supported with the kbench backend")
    if ragged:
        raise ValueError("`ragged=True` is not supported with the kbench backend")
    wanted = dtype if dtype is None or dtype in _NAMES else standardize_dtype(dtype)
    if isinstance(x, KerasTensor):
        return x
    given, x = x, plain(x)
    if isinstance(x, Traced):
        return x if wanted in (None, x.dtype) else elementwise.cast(x, str(wanted))
    if isinstance(x, (np.ndarray, np.generic)) or hasattr(x, "__array__"):
        found = _as_array(np.asarray(x), wanted)
        return found.copy() if found is given else own(found)
    leaves = [plain(leaf) for leaf in tree.flatten(x)]
    if any(isinstance(leaf, Traced) for leaf in leaves):
        found = _stacked(x)
        return found if wanted in (None, found.dtype) else elementwise.cast(found, str(wanted))
    if wanted is None and not any(isinstance(leaf, str) for leaf in leaves):
        wanted = result_type(*[getattr(leaf, "dtype", type(leaf)) for leaf in leaves])
    return _as_array(np.asarray(tree.map_structure(plain, x)), wanted)


_NAMES = frozenset(ALLOWED_DTYPES)
"""Dtypes as Keras calls them, which it need not be asked about."""


def _as_array(array: np.ndarray, dtype: str | None) -> np.ndarray:
    if dtype in (None, name_of(array.dtype), "string"):
        return array
    return array_as(array, str(dtype))


def _stacked(parts: Any) -> Any:
    """Nested lists that have symbols among them, as one symbol."""
    from kbench.keras3.numpy.layout import stack

    if isinstance(parts, (list, tuple)):
        return stack([_stacked(part) for part in parts], 0)
    part = plain(parts)
    return part if isinstance(part, Traced) else convert_to_tensor(part)


def convert_to_numpy(x: Any) -> np.ndarray:
    """An array of its own with the value of a tensor."""
    if is_matrix(x):
        return array_of(x)
    if isinstance(x, (list, tuple)) and any(is_matrix(one) for one in x):
        return np.array([convert_to_numpy(one) for one in x])
    return np.array(plain(x))


def is_tensor(x: Any) -> bool:
    """Whether it is an array of numbers, or a symbol of the trace; texts are no tensors.

    Keras asks for the dtype of a tensor, and the dtypes of texts are none that it knows. Matrices
    of SciPy are none either, because their operators are not those of tensors.
    """
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.kind not in "USO" and not isinstance(x, HiddenArray)
    return isinstance(x, Traced)


def shape(x: Any) -> Any:
    """The sizes, all of which are known."""
    return tuple(x.shape)


def cast(x: Any, dtype: Any) -> Any:
    """The elements in another dtype."""
    return convert_to_tensor(x, dtype=dtype)


def random_seed_dtype() -> str:
    """The dtype of the two numbers that a seed has."""
    return "uint32"


@contextlib.contextmanager
def device_scope(device_name: str) -> Iterator[None]:
    """There is one device, the processor."""
    yield


@contextlib.contextmanager
def traced(known: bool = False) -> Iterator[None]:
    """Variables are symbols inside the block, whose values Python may look at where `known`."""
    before = tracing.active, tracing.known
    tracing.active, tracing.known = True, known
    try:
        yield
    finally:
        tracing.active, tracing.known = before


def compute_output_spec(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of what a function of symbols gives."""
    given = tree.flatten((args, kwargs))
    unknown = any(isinstance(x, KerasTensor) and None in x.shape for x in given)
    with StatelessScope(), SymbolicScope(), traced(tracing.builds_on_values):
        runs = []
        for size in SIZES_FOR_NONE if unknown else SIZES_FOR_NONE[:1]:
            called = tree.map_structure(lambda x, n=size: _symbol(x, n), (args, kwargs))
            runs.append(fn(*called[0], **called[1]))
    return tree.map_structure(_spec, runs[0], runs[-1])


def _symbol(x: Any, size: int) -> Any:
    if not isinstance(x, KerasTensor):
        return x
    sizes = tuple(size if n is None else n for n in x.shape)
    dtype = standardize_dtype(x.dtype)
    if dtype == "string":
        raise ValueError(f"{x} is {dtype}, which the kbench backend does not trace")
    if tracing.builds_on_values:
        return Traced(held(np.ones(sizes, dtype)), dtype)
    return symbol_of(sizes, dtype)


def _spec(x: Any, y: Any) -> Any:
    x, y = plain(x), plain(y)
    if not is_tensor(x):
        return x
    sizes = tuple(a if a == b else None for a, b in zip(x.shape, y.shape, strict=True))
    return KerasTensor(sizes, standardize_dtype(x.dtype))


def stop_gradient(variable: Any) -> Any:
    """The same value, through which no gradient passes."""
    value = plain(without_matrices(variable))
    if not isinstance(value, Traced):
        return value
    return Traced(K.stop_gradient(value.held), value.dtype)
