"""Values of Keras 3: arrays when they are known, `Traced` while a graph is built."""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  # it makes the narrow dtypes known to NumPy
import numpy as np
from keras.src import tree

from kbench import backend as K
from kbench.api import operations
from kbench.api.operations import Spec, Tensor, cast_sparse, numpy_call, sparse_constant
from kbench.keras3.complex_numbers.refusal import loses_a_part, refused
from kbench.keras3.matrices import Rows, array_of, held_dtype, is_matrix, rows_of

WIDE = {"bfloat16": "float32", "float8_e4m3fn": "float32", "float8_e5m2": "float32"}
"""The dtypes that NumPy lacks, and those in which they are computed; results are rounded once."""
PARTS = {"complex64": "float32", "complex128": "float64"}
"""Complex dtypes, and those of their parts, which the engine holds in a last axis of their own."""


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

    def __init__(self, held: Tensor, dtype: str | None = None) -> None:
        self.held = held
        """What the engine computes; of complex numbers the parts, in a last axis of two."""
        self.dtype: str = str(dtype or held.spec.dtype)
        self.parts: tuple[Tensor, Tensor] | None = None
        """The nodes of both parts of complex numbers, once they were asked for."""

    @property
    def node(self) -> Tensor:
        """The node of real numbers; DtypeError for complex ones, which are more than a node."""
        if self.dtype in PARTS:
            raise refused(self)
        return self.held

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, all of which are known while Keras 3 traces."""
        sizes = tuple(size for size in self.held.spec.shape if size is not None)
        return sizes[:-1] if self.dtype in PARTS else sizes

    @property
    def ndim(self) -> int:
        return len(self.held.spec.shape) - (self.dtype in PARTS)

    def __repr__(self) -> str:
        return f"<Traced {Spec(self.shape, self.dtype)}>"

    def __format__(self, form: str) -> str:
        return format(self.value(), form) if form else repr(self)

    def value(self) -> np.ndarray:
        """Its array, where the step runs eagerly; TypeError where it is traced."""
        if not tracing.known:
            raise NoValueError(
                f"{self!r} has no value while it is traced; run_eagerly=True shows it"
            )
        return from_held(K.eval(self.held), self.dtype)

    def __getattr__(self, name: str) -> Any:
        raise NoAttributeError(f"a symbol of the trace has no attribute {name!r}")

    def __bool__(self) -> bool:
        return bool(self.value())

    def __int__(self) -> int:
        return int(self.value())

    def __float__(self) -> float:
        return float(self.value())

    def __complex__(self) -> complex:
        return complex(self.value())

    def __index__(self) -> int:
        return self.value().__index__()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if _is_asked_by_scipy():  # what it computes would be an array, which passes no gradient
            raise NoValueError(
                f"an operator of a matrix of SciPy cannot take {self!r}; "
                "keras.ops.matmul(matrix, symbol) is their product"
            )
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
        from kbench.keras3.numpy.subscript import subscript

        return subscript(self, key)


MAX_CALLERS = 6
"""Callers that are looked at: `__array__` of a variable and functions of NumPy stand between."""


def _is_asked_by_scipy() -> bool:
    """Whether an operator of a matrix of SciPy wants an array of a symbol."""
    frame = sys._getframe(2)
    for _ in range(MAX_CALLERS):
        if frame.f_globals.get("__name__", "").startswith("scipy.sparse"):
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


class SparseTraced(Traced):
    """A matrix of which a product reads the rows, and everything else the array that they make."""

    def __init__(self, rows: Tensor, dtype: str | None = None) -> None:
        self.rows, self.parts = rows, None
        self.dtype = str(dtype or rows.spec.dtype)

    @functools.cached_property
    def held(self) -> Tensor:  # type: ignore[override]  # made on first need, not at once
        """The dense node; the rows hold entries that were rounded to the dtype before."""
        wide = WIDE.get(self.dtype, self.dtype)
        return K.cast(K.to_dense(self.rows), wide)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for size in self.rows.spec.shape if size is not None)

    @property
    def ndim(self) -> int:
        return 2

    def __repr__(self) -> str:
        return f"<Traced sparse {Spec(self.shape, self.dtype)}>"

    def cast(self, dtype: str) -> SparseTraced:
        """The same with entries of a float dtype, rounded to it."""
        if dtype == self.dtype:
            return self
        held = held_dtype(dtype)
        if held == dtype:
            return SparseTraced(K.cast(self.rows, held), dtype)
        rows = K.cast(self.rows, WIDE[dtype]) if dtype in WIDE else self.rows
        return SparseTraced(cast_sparse(rows, held, through=dtype), dtype)


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


@functools.lru_cache
def name_of(dtype: np.dtype) -> str:
    """The name of a dtype, which NumPy puts together anew each time."""
    return dtype.name


def to_wide(array: np.ndarray) -> np.ndarray:
    """An array in a dtype that NumPy computes with."""
    wide = WIDE.get(name_of(array.dtype))
    return array if wide is None else array.astype(wide)


def from_held(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array of the dtype, of what the engine holds of it."""
    if dtype in PARTS:
        return np.ascontiguousarray(array).view(dtype)[..., 0]
    return from_wide(array, dtype)


def to_held(array: np.ndarray) -> np.ndarray:
    """An array as the engine holds it: complex numbers as two floats in a last axis."""
    parts = PARTS.get(name_of(array.dtype))
    if parts is None:
        return to_wide(array)
    return np.ascontiguousarray(array[..., None]).view(parts)


def held_spec(shape: Any, dtype: str) -> Spec:
    """Shape and dtype of what the engine holds of values of a dtype."""
    if dtype in PARTS:
        return Spec((*shape, 2), PARTS[dtype])
    return Spec(tuple(shape), WIDE.get(dtype, dtype))


def symbol_of(shape: Any, dtype: str) -> Traced:
    """A symbol without a value, which is fed."""
    spec = held_spec(shape, dtype)
    return Traced(K.placeholder(spec.shape, dtype=spec.dtype), dtype)


def converted(array: np.ndarray, dtype: Any, copy: bool = False) -> np.ndarray:
    """`astype` of NumPy; DtypeError where it would lose imaginary parts."""
    if array.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
        raise loses_a_part(array, str(np.dtype(dtype)))
    return array.astype(dtype, copy=copy)


def place_of(axis: Any, rank: int) -> int:
    """An axis counted from the first; AxisError for one that is not there."""
    return np.lib.array_utils.normalize_axis_index(operator.index(axis), rank)


_least: Any = np.minimum.reduce
_most: Any = np.maximum.reduce


@functools.lru_cache
def _limits(source: str, dtype: str) -> tuple[np.iinfo, float, float] | None:
    """What an integer dtype holds, and its ends in a float dtype; None for other conversions."""
    if np.dtype(dtype).kind not in "iu" or not np.issubdtype(np.dtype(source), np.floating):
        return None
    whole = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        low, high = (float(np.dtype(source).type(end)) for end in (whole.min, whole.max))
    return whole, low, high


@functools.lru_cache
def _holds_all(source: np.dtype, dtype: str) -> bool:
    """Whether a dtype has every number of another, or at least none is beyond its ends."""
    wanted = np.dtype(dtype)
    whole_in_float = source.kind in "biu" and wanted.kind == "f" and wanted.itemsize > 2
    return whole_in_float or np.can_cast(source, wanted, "safe")


def array_as(array: np.ndarray, dtype: str) -> np.ndarray:
    """The elements in another dtype, in memory of their own.

    A float that an integer dtype does not hold becomes the nearest that it does, and NaN becomes 0,
    as on XLA. NumPy and C give whatever the processor gives there.
    """
    if _holds_all(array.dtype, dtype):
        return array.astype(dtype)
    wide = to_wide(array)
    limits = _limits(name_of(wide.dtype), dtype)
    with np.errstate(all="ignore"):
        found = np.asarray(converted(array, dtype, copy=True))
        if limits is None:
            return found
        whole, low, high = limits
        if wide.size and low < _least(wide, None) and _most(wide, None) < high:  # NaN is not
            return found
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
    """A node as a result of that dtype, rounded to it where the engine computes in a wider one.

    Of complex numbers it is what the engine holds.
    """
    if dtype in PARTS:
        return Traced(node, dtype)
    wide = WIDE.get(dtype)
    if wide is None:
        return Traced(node if node.spec.dtype == dtype else K.cast(node, dtype), dtype)
    if node.spec.dtype != wide:
        node = K.cast(node, wide)
    spec = Spec(node.spec.shape, wide)
    return Traced(numpy_call(_round_to(dtype), [node], spec, lambda g, y, x: (g,)), dtype)


def in_dtype(x: Any, dtype: str) -> Tensor:
    """The node of an operand in a dtype of real numbers, or in the wider one that stands for it.

    DtypeError for complex numbers, which `held` is for; as bool they say whether they are not 0.
    """
    x = plain(x)
    if dtype in PARTS:
        raise refused(x)
    if not isinstance(x, Traced):
        return _constant(to_wide(array_as(np.asarray(x), dtype)))
    if x.dtype == dtype:
        return x.held
    if x.dtype in PARTS:
        if dtype != "bool":
            raise loses_a_part(x, dtype)
        return K.any(K.not_equal(x.held, 0), axis=-1)
    return finish(x.held, dtype).held if dtype in WIDE else K.cast(x.held, WIDE.get(dtype, dtype))


def node_of(value: Any) -> Tensor:
    """The node of anything that Keras takes for a tensor of real numbers."""
    value = plain(value)
    if isinstance(value, Traced):
        return value.node
    array = np.asarray(value)
    if array.dtype.kind == "c":
        raise refused(array)
    return _constant(to_wide(array))


def held(value: Any, dtype: str | None = None) -> Tensor:
    """The node that the engine holds of anything that Keras takes for a tensor, in a dtype."""
    value = plain(value)
    dtype = str(value.dtype) if dtype is None else dtype
    if dtype not in PARTS:
        return in_dtype(value, dtype)
    if not isinstance(value, Traced):
        return _constant(to_held(np.asarray(value).astype(dtype)))
    if value.dtype == dtype:
        return value.held
    if value.dtype in PARTS:
        return K.cast(value.held, PARTS[dtype])
    real = in_dtype(value, PARTS[dtype])
    return K.stack([real, K.zeros_like(real)], -1)


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
        lambda x: from_held(K.eval(x.held), x.dtype) if isinstance(x, Traced) else x, results
    )


def plain(leaf: Any) -> Any:
    """What a variable holds, and a matrix of SciPy as a tensor; any other value as it is."""
    if type(leaf) is np.ndarray:
        return leaf
    if is_matrix(leaf):
        return tensor_of(leaf)
    return leaf.value if is_variable(leaf) else leaf


def tensor_of(matrix: Any) -> Any:
    """A matrix of SciPy as an array; in a trace as a symbol, of which products read the rows."""
    rows = rows_of(matrix) if tracing.active else None
    return array_of(matrix) if rows is None else known_rows(rows)


def without_matrices(values: Any) -> Any:
    """Arguments of a function, each matrix of SciPy among them as a tensor."""
    if is_matrix(values):
        return tensor_of(values)
    if not isinstance(values, (list, tuple, dict)) or not any(map(is_matrix, tree.flatten(values))):
        return values
    return tree.map_structure(lambda leaf: tensor_of(leaf) if is_matrix(leaf) else leaf, values)


def known_rows(rows: Rows) -> SparseTraced:
    """Known rows as a symbol of the trace."""
    return SparseTraced(sparse_constant(rows.csr), rows.dtype)


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
