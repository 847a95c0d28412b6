"""Values of Keras 3: arrays when they are known, `Traced` while a graph is built."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  # it makes the narrow dtypes known to NumPy
import numpy as np
from keras.src import tree

from kbench import backend as K
from kbench.api import operations
from kbench.api.operations import Spec, Tensor, numpy_call

WIDE = {"bfloat16": "float32", "float8_e4m3fn": "float32", "float8_e5m2": "float32"}
"""The dtypes that NumPy lacks, and those in which they are computed; results are rounded once."""


class NeedsValues(Exception):
    """Something asks for values that are not known while it is traced."""


class NoValueError(NeedsValues, TypeError):
    """Python asks a symbol for its value: `if`, `int`, `range`, an index of a list."""


class NoAttributeError(NeedsValues, AttributeError):
    """A symbol is asked for what only arrays have."""


class NotTracedError(NeedsValues, NotImplementedError):
    """A function needs values, often because the shape of its result depends on them."""


class _Tracing(threading.local):
    active = False
    known = False
    """Whether nodes of the trace have values that Python may look at: `run_eagerly`."""
    builds_on_values = False
    """Whether shapes are found on ones, not on symbols: `run_eagerly`, while a model is built."""


tracing = _Tracing()


class Traced:
    """A node of a graph with the manners of a tensor of Keras 3: `==` compares its elements."""

    __array_priority__ = 1000.0
    __hash__ = object.__hash__

    def __init__(self, node: Tensor, dtype: str | None = None) -> None:
        self.node = node
        self.dtype: str = str(dtype or node.spec.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, all of which are known while Keras 3 traces."""
        return tuple(size for size in self.node.spec.shape if size is not None)

    @property
    def ndim(self) -> int:
        return len(self.node.spec.shape)

    def __repr__(self) -> str:
        return f"<Traced {Spec(self.node.spec.shape, self.dtype)}>"

    def __format__(self, form: str) -> str:
        return format(self.value(), form) if form else repr(self)

    def value(self) -> np.ndarray:
        """Its array, where the step runs eagerly; TypeError where it is traced."""
        if not tracing.known:
            raise NoValueError(
                f"{self!r} has no value while it is traced; run_eagerly=True shows it"
            )
        return from_wide(K.eval(self.node), self.dtype)

    def __getattr__(self, name: str) -> Any:
        raise NoAttributeError(f"a symbol of the trace has no attribute {name!r}")

    def __bool__(self) -> bool:
        return bool(self.value())

    def __int__(self) -> int:
        return int(self.value())

    def __float__(self) -> float:
        return float(self.value())

    def __index__(self) -> int:
        return self.value().__index__()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.value(), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's operators where an array is on the left: the function of Keras of that name."""
        from kbench.keras3 import numpy

        function = getattr(numpy, ufunc.__name__, None)
        name = {"remainder": "mod", "invert": "bitwise_not"}.get(ufunc.__name__)
        function = getattr(numpy, name) if name else function
        if method != "__call__" or function is None:
            raise NoValueError(
                f"{ufunc.__name__} of NumPy needs values, and {self!r} is a symbol; keras.ops has "
                "functions of symbols"
            )
        return function(*inputs)

    def __len__(self) -> int:
        if not self.shape:
            raise NoValueError(f"{self!r} is a scalar, which has no length")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        from kbench.keras3.numpy.layout import trim

        return trim(self, key)


class HiddenArray(np.ndarray):
    """An array of numbers that `is_tensor` does not count, as other backends do not."""

    shown: Any = None

    @classmethod
    def of(cls, array: Any) -> HiddenArray:
        """Hide an array, or a number of NumPy; `shown` is what it was."""
        found: HiddenArray = np.asarray(array).view(cls)
        found.shown = array
        return found


def from_wide(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array of the dtype that the engine holds as another."""
    return array.astype(dtype) if dtype in WIDE else array


def own(array: np.ndarray) -> np.ndarray:
    """The array, copied where it looks into the memory of another: `x += 1` changes x alone."""
    return array if array.base is None else array.copy()


def to_wide(array: np.ndarray) -> np.ndarray:
    """An array in a dtype that NumPy computes with."""
    wide = WIDE.get(array.dtype.name)
    return array if wide is None else array.astype(wide)


@functools.lru_cache
def _limits(source: str, dtype: str) -> tuple[np.iinfo, float, float] | None:
    """What an integer dtype holds, and its ends in a float dtype; None for other conversions."""
    if np.dtype(dtype).kind not in "iu" or not np.issubdtype(np.dtype(source), np.floating):
        return None
    whole = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        low, high = (float(np.dtype(source).type(end)) for end in (whole.min, whole.max))
    return whole, low, high


def array_as(array: np.ndarray, dtype: str) -> np.ndarray:
    """The elements in another dtype.

    A float that an integer dtype does not hold becomes the nearest that it does, and NaN becomes 0,
    as on XLA. NumPy and C give whatever the processor gives there.
    """
    wide = to_wide(array)
    limits = _limits(wide.dtype.name, dtype)
    with np.errstate(all="ignore"):
        found = np.asarray(array.astype(dtype))
        if limits is None:
            return found
        whole, low, high = limits
        found = np.where(wide >= high, whole.max, np.where(wide <= low, whole.min, found))
        return np.where(wide == wide, found, 0).astype(dtype)


def node_as(node: Tensor, dtype: str) -> Tensor:
    """The same for a node of a dtype that the engine has."""
    limits = _limits(node.spec.dtype, dtype)
    found = K.cast(node, dtype)
    if limits is None:
        return found
    whole, low, high = limits
    ends = [K.constant(end, dtype=dtype) for end in (whole.min, whole.max, 0)]
    found = operations.where(K.less_equal(node, low), ends[0], found)
    found = operations.where(K.greater_equal(node, high), ends[1], found)
    return operations.where(K.equal(node, node), found, ends[2])


def _round_to(dtype: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x.astype(dtype).astype(x.dtype)


def finish(node: Tensor, dtype: str) -> Traced:
    """A node as a result of that dtype, rounded to it where the engine computes in a wider one."""
    wide = WIDE.get(dtype)
    if wide is None:
        return Traced(node if node.spec.dtype == dtype else K.cast(node, dtype), dtype)
    if node.spec.dtype != wide:
        node = K.cast(node, wide)
    spec = Spec(node.spec.shape, wide)
    return Traced(numpy_call(_round_to(dtype), [node], spec, lambda g, y, x: (g,)), dtype)


def in_dtype(x: Any, dtype: str) -> Tensor:
    """The node of an operand in a dtype, or in the wider one that stands for it."""
    wide = WIDE.get(dtype, dtype)
    if isinstance(x, Traced):
        if x.dtype == dtype:
            return x.node
        return finish(x.node, dtype).node if dtype in WIDE else K.cast(x.node, wide)
    if is_variable(x):
        return in_dtype(x.value, dtype)
    return _constant(to_wide(array_as(np.asarray(x), dtype)))


def node_of(value: Any) -> Tensor:
    """The node of anything that Keras takes for a tensor."""
    if isinstance(value, Traced):
        return value.node
    if is_variable(value):
        return node_of(value.value)
    return _constant(to_wide(np.asarray(value)))


def _constant(array: np.ndarray) -> Tensor:
    """A constant; sizes are numbers of Python here, so that arrays of integers are no shapes."""
    if array.ndim and array.dtype.kind in "iu":
        return operations.opaque_constant(array)
    return K.constant(array, dtype=array.dtype.name)


def is_variable(value: Any) -> bool:
    return hasattr(value, "_node") and hasattr(value, "path")


def is_traced(value: Any) -> bool:
    return isinstance(value, Traced)


def any_traced(*values: Any) -> bool:
    return any(isinstance(leaf, Traced) for leaf in tree.flatten(values))


def values_of(results: Any) -> Any:
    """Arrays of what was built on known values alone."""
    return tree.map_structure(
        lambda x: from_wide(K.eval(x.node), x.dtype) if isinstance(x, Traced) else x, results
    )


def plain(leaf: Any) -> Any:
    """What a variable holds; any other value as it is."""
    return leaf.value if is_variable(leaf) else leaf


def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function on graphs as one that computes at once where nothing that it takes is traced."""

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        given = tree.map_structure(plain, (arguments, options))
        found = function(*given[0], **given[1])
        return found if any_traced(given) else values_of(found)

    return call


def absent(name: str) -> Callable[..., Any]:
    """A function that says that it is not there."""

    def missing(*_arguments: Any, **_options: Any) -> Any:
        raise NotImplementedError(f"{name} is not available on the kbench backend")

    missing.__name__ = name.rpartition(".")[2]
    return missing
