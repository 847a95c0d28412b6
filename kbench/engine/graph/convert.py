"""Operands: constants, and how anything the user passes becomes a tensor of the right dtype."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from kbench.engine.core.csr import is_csr, is_matrix
from kbench.engine.core.errors import (
    ArgumentError,
    CallSite,
    DtypeError,
    Place,
    ShapeError,
    call_site,
    role_of,
    shown,
)
from kbench.engine.core.spec import (
    MAX_KNOWN_ENTRIES,
    Spec,
    dense,
    dtype_name,
    is_float,
    promote,
)
from kbench.engine.core.type_errors import numeric_array, refuse_masked
from kbench.engine.core.types import Attrs
from kbench.engine.graph import scope
from kbench.engine.graph.expr.scalars import SCALARS
from kbench.engine.graph.op import Op, no_infer, no_numpy, register
from kbench.engine.graph.protocols.numpy_protocol import HoldsValue
from kbench.engine.graph.tensor import Operand, Tensor, serials
from kbench.engine.runtime import config

CONSTANT = register(Op("constant", "source", no_infer, no_numpy, None))


class Constant(HoldsValue, Tensor):
    """A tensor whose value is part of the graph."""

    kind = "constant"
    _phase_flag = False

    @property
    def value(self) -> np.ndarray:
        return self.attrs["value"]  # type: ignore[no-any-return]

    def window(self) -> np.ndarray:
        return self.attrs["value"]  # type: ignore[no-any-return]

    def _held_attrs(self) -> Attrs:
        value = self.value
        return {"value": _Uniform(value)} if is_uniform(value) else self.attrs

    def _take_state(self, state: dict[str, Any]) -> None:
        super()._take_state(state)
        self.value.flags.writeable = False


MIN_UNIFORM_ELEMENTS = 64
"""Elements from which on equal ones are worth a call of `np.full` in bytes, of some fifty."""


def is_uniform(array: np.ndarray) -> bool:
    """Whether all elements are the same bits, as those of zeros and ones; False for few."""
    if array.size < MIN_UNIFORM_ELEMENTS or not array.flags.c_contiguous:
        return False
    words = array.reshape(-1).view(f"u{array.itemsize}")
    return bool(words[0] == words[-1] and (words == words[0]).all())


def is_small_in_bytes(array: np.ndarray) -> bool:
    """Whether a constant of this value takes little room when it is pickled."""
    return array.size < MIN_UNIFORM_ELEMENTS or is_uniform(array)


class _Uniform:
    """Stands in bytes for an array of equal elements."""

    def __init__(self, value: np.ndarray) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        value = self._value
        return np.full, (value.shape, value.reshape(-1)[0], value.dtype)


def known_value(array: np.ndarray) -> tuple[int, ...] | None:
    """The entries of a small integer array, to be followed as a static value."""
    if array.dtype.kind in "iu" and array.ndim <= 1 and array.size <= MAX_KNOWN_ENTRIES:
        return tuple(array.ravel().tolist())
    return None


def runtime_value(array: np.ndarray) -> Spec:
    """The Spec of a computed array, entries included where rules may need them."""
    if is_csr(array):
        return Spec(array.shape, array.dtype.name, sparse=True)
    return Spec(array.shape, array.dtype.name, known_value(array))


def constant_node(
    value: np.ndarray, name: str | None = None, place: Place | None = None
) -> Constant:
    """A constant that owns `value`; the caller hands over an array nobody else changes."""
    value.flags.writeable = False
    entries, dtype = known_value(value), value.dtype.name
    spec = dense(value.shape, dtype) if entries is None else Spec(value.shape, dtype, entries)
    return Constant(CONSTANT, (), {"value": value}, spec, name, place)


def to_array(value: object) -> np.ndarray:
    """Anything array-like as an array of a dtype that kbench has; DtypeError otherwise."""
    if is_matrix(value):
        raise DtypeError("a sparse matrix is not an array; K.variable makes a sparse tensor of it")
    return numeric_array(value)


def plain_array(value: object) -> np.ndarray | None:
    """Anything as an array of whatever dtype; None for rows of different lengths.

    ArgumentError when entries are masked.
    """
    refuse_masked(value)
    try:
        return np.asarray(value)
    except ValueError:
        return None


def _is_weak(value: object) -> bool:
    return isinstance(value, (bool, int, float, list, tuple)) and not isinstance(value, np.generic)


def adopt_dtype(value: object, array: np.ndarray, dtype: str) -> str:
    """The dtype that a non-tensor takes beside a tensor of `dtype`."""
    kind = array.dtype.kind
    if kind == "f":
        if is_float(dtype):
            return dtype
        return config.floatx() if _is_weak(value) else array.dtype.name
    if kind == "b":
        return "bool" if dtype == "bool" else dtype
    if dtype == "bool":
        return "int32" if _is_weak(value) else array.dtype.name
    return dtype


def as_tensor(value: Operand, dtype: str | None = None, like: str | None = None) -> Tensor:
    """A tensor of `value`: tensors as they are, anything else as a constant.

    `dtype` forces a dtype; `like` is the dtype of a neighbour that Python numbers, lists and
    arrays adopt. A list that holds tensors is stacked.
    """
    if isinstance(value, Tensor):
        return value
    if like is not None and dtype is None and type(value) in (float, int) and is_float(like):
        return number(value, like, call_site(1))  # type: ignore[arg-type]  # by its type
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return _stacked(value)
    array = to_array(value)
    if dtype is None:
        dtype = adopt_dtype(value, array, like) if like is not None else _own_dtype(value, array)
    if array.dtype.kind in "iu" and dtype in ("bool", "float16", "float32", "float64"):
        return constant_node(array.astype(dtype))
    return constant_node(_exact_cast(array, dtype))


def _stacked(values: Sequence[object]) -> Tensor:
    try:
        return REGISTRY_FUNCTIONS["stack"](list(values))  # type: ignore[no-any-return]
    except ShapeError as error:
        head = f"{role_of(values) or 'value'} is a list of {len(values)}, which is stacked into one"
        error.reason = f"{head} tensor, but {error.reason}"
        raise


def number(value: float, dtype: str, site: CallSite) -> Tensor:
    """A Python number beside a float tensor, of whose dtype it becomes.

    One stands in most lines of a program, so it gets its name only when somebody asks for it.
    """
    node: Constant = _new(Constant)
    node.op, node.inputs = CONSTANT, ()
    node.attrs = {"value": _held(value, dtype) if value else _array(value, dtype)}  # 0 has a sign
    node.spec = dense((), dtype)
    node._site = site
    node.generation = scope._generation
    node.serial = next(serials)
    return node


_new = object.__new__


def _array(value: float, dtype: str) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):
            array = np.array(value, dtype)
    except OverflowError:  # an integer beyond all floats
        raise ArgumentError(f"{shown(value)} does not fit into {dtype}") from None
    array.flags.writeable = False
    return array


_held = functools.lru_cache(1024, typed=True)(_array)


def _exact_cast(array: np.ndarray, dtype: str) -> np.ndarray:
    target = np.dtype(dtype)
    if target.kind in "iu" and array.dtype.kind in "iu" and array.size:
        limits = np.iinfo(target)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise DtypeError(f"value {array.ravel()[:3].tolist()} does not fit into {dtype}")
    with np.errstate(over="ignore"):
        return np.array(array, dtype=dtype)


def _own_dtype(value: object, array: np.ndarray) -> str:
    if not _is_weak(value):
        return array.dtype.name
    if array.dtype.kind == "f":
        return config.floatx()
    return "int32" if array.dtype.kind in "iu" else array.dtype.name


REGISTRY_FUNCTIONS: dict[str, Callable[..., Any]] = {}
F = TypeVar("F", bound=Callable[..., object])


Function = TypeVar("Function", bound=Callable[..., Any])


def shared(function: Function) -> Function:
    """Offer a function to lower files by name, as `stack` and `cast` must be."""
    REGISTRY_FUNCTIONS[function.__name__] = function
    return function


def tensors_of(*values: Operand) -> list[Tensor]:
    """Operands of one elementwise operation: non-tensors adopt the dtype of the tensors."""
    like: str | None = None
    for value in values:
        if isinstance(value, Tensor):
            like = value.spec.dtype if like is None else promote(like, value.spec.dtype)
    return [as_tensor(value, like=like) for value in values]


def cast_array(array: np.ndarray, dtype: str) -> np.ndarray:
    """A new array in another dtype, by the same rule as the op `cast`."""
    with np.errstate(all="ignore"):
        if array.dtype.kind == "f" and np.dtype(dtype).kind in "iu":
            return np.array(SCALARS["cast"].numpy(array, dtype))
        return np.array(array, dtype=dtype, order="C")


def converted(tensor: Tensor, dtype: str) -> Tensor:
    """`tensor` in another dtype, itself when it has it.

    Constants are converted at once, except between floats: there a gradient may be asked for.
    """
    if tensor.spec.dtype == dtype:
        return tensor
    if isinstance(tensor, Constant) and not (is_float(tensor.spec.dtype) and is_float(dtype)):
        return constant_node(cast_array(tensor.value, dtype), place=tensor.place)
    return REGISTRY_FUNCTIONS["cast"](tensor, dtype)  # type: ignore[no-any-return]


def dtype_or_floatx(dtype: object) -> str:
    """The dtype named by an argument, None meaning `floatx()`."""
    return config.floatx() if dtype is None else dtype_name(dtype)
