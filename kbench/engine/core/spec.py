"""What is known of a tensor before it has a value: shape with None for unknown, dtype.

A small integer tensor (rank 0 or 1) may also carry `value`, its known entries, so that shapes
computed from `shape(x)` stay static where they can be.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
from msgspec import Struct

from kbench.engine.core import masked_arrays
from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.types import Axis, Dim, Shape

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = ("bool", *INTEGERS, *FLOATS)
MAX_KNOWN_ENTRIES = 32
"""Entries of an integer tensor that are followed as known values: a shape, as a rule."""


class DType(str):
    """The name of a dtype that also answers as the dtype objects of other libraries do."""

    @property
    def name(self) -> str:
        return str(self)

    @property
    def base_dtype(self) -> DType:
        return self

    @property
    def as_numpy_dtype(self) -> type:
        return np.dtype(str(self)).type

    @property
    def is_floating(self) -> bool:
        return self in FLOATS

    @property
    def itemsize(self) -> int:
        return np.dtype(str(self)).itemsize


class TensorShape(tuple[Dim, ...]):
    """A static shape: a tuple with None for unknown sizes, and the field's usual accessors."""

    def as_list(self) -> list[Dim]:
        return builtins.list(self)

    @property
    def ndims(self) -> int:
        return len(self)

    rank = ndims

    def is_fully_defined(self) -> bool:
        return None not in self

    def num_elements(self) -> int | None:
        return known_size(self)


class Spec(Struct, frozen=True, dict=True):
    """Static shape, dtype name and, for small integer tensors, the entries that are known.

    `sparse` says that the value keeps only its entries, not its zeros.
    """

    shape: Shape
    dtype: str
    value: tuple[int | None, ...] | None = None
    sparse: bool = False
    elements: ClassVar[int | None] = None  # how many, once they are counted; copies count again

    def __str__(self) -> str:
        return f"{'sparse ' if self.sparse else ''}{self.dtype}{show(self.shape)}"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def known(self) -> bool:
        """True when every entry is known, so that the tensor is a constant."""
        return self.value is not None and None not in self.value

    def count_elements(self) -> int:
        """The number of elements, `MAX_INDEX` when a size is unknown; it stays in `elements`."""
        count = known_size(self.shape)
        elements = MAX_INDEX if count is None else count
        vars(self)["elements"] = elements
        return elements

    def with_dtype(self, dtype: str) -> Spec:
        return Spec(self.shape, dtype)


_dense: dict[tuple[Shape, str], Spec] = {}
_MAX_SPECS = 4096
"""Specs that are kept for the next node of that shape: some hundred bytes each."""


def dense(shape: Shape, dtype: str) -> Spec:
    """The Spec of a dense tensor of unknown entries: as a rule, the same object every time."""
    spec = _dense.get((shape, dtype))
    if spec is None:
        if len(_dense) >= _MAX_SPECS:
            _dense.clear()
        spec = _dense[shape, dtype] = Spec(shape, dtype)
    return spec


class Specs(Spec, frozen=True):
    """What is known of a node with several results; its own shape and dtype mean nothing."""

    parts: tuple[Spec, ...] = ()

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parts))})"


def several(parts: Sequence[Spec]) -> Specs:
    """The Spec of a node with these results; float when gradients can flow to one of them."""
    dtypes = [part.dtype for part in parts]
    dtype = next((name for name in dtypes if is_float(name)), "bool")
    return Specs((), dtype, parts=tuple(parts))


def known_size(shape: Shape) -> int | None:
    """Number of elements, or None when a size is unknown."""
    if None in shape:
        return None
    return math.prod(size for size in shape if size is not None)


def dtype_name(dtype: object) -> str:
    """Canonical name of anything that names a dtype; DtypeError when kbench does not have it."""
    if type(dtype) is str and dtype in DTYPES:
        return dtype
    candidate = getattr(dtype, "name", dtype)
    if isinstance(candidate, str) and candidate.endswith("_ref"):
        candidate = candidate[:-4]
    try:
        # NumPy takes None, and pairs, for float64; here they name nothing.
        named = isinstance(candidate, (str, type, np.dtype))
        name = str(np.dtype(candidate).name) if named else ""  # type: ignore[call-overload]
    except (TypeError, ValueError):
        name = str(candidate)
    if name not in DTYPES:
        raise DtypeError(f"unknown dtype {shown(dtype)}; kbench has {', '.join(DTYPES)}")
    return name


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def promote(first: str, second: str) -> str:
    """Common dtype of two tensors: bool < integers < float16 < float32 < float64."""
    if first == second:
        return first
    if first == "bool" or second == "bool":
        return second if first == "bool" else first
    if is_float(first) != is_float(second):
        return first if is_float(first) else second
    if is_float(first):
        return max(first, second, key=FLOATS.index)
    return str(np.promote_types(first, second).name)


def broadcast_dim(first: Dim, second: Dim) -> Dim:
    """Common size of two axes; -1 when they can never match."""
    if first == second or second == 1:
        return first
    if first == 1 or first is None:
        return second
    if second is None:
        return first
    return -1


def broadcast(*shapes: Shape) -> Shape:
    """NumPy's broadcasting over static shapes; an unknown size fits every other."""
    result: Shape = shapes[0]
    for shape in shapes[1:]:
        if shape == result or not shape:
            continue
        short, long = sorted((result, shape), key=len)
        padded = (1,) * (len(long) - len(short)) + short
        dims = [broadcast_dim(a, b) for a, b in zip(padded, long, strict=True)]
        if -1 in dims:
            axis = dims.index(-1) - len(dims)
            raise ShapeError(
                f"shapes {show(shapes[0])} and {show(shape)} do not broadcast: "
                f"sizes {shapes[0][axis]} and {shape[axis]} differ on axis {axis}"
                if len(shapes) == 2
                else f"shapes {', '.join(map(show, shapes))} do not broadcast: axis {axis} differs"
            )
        result = tuple(dims)
    return result


def show(shape: Iterable[Dim]) -> str:
    """A shape as text, with ? for unknown sizes."""
    return f"[{', '.join('?' if size is None else _size_text(size) for size in shape)}]"


MAX_INDEX = 2**63 - 1
"""The largest size of an axis, and the largest index."""


def _size_text(size: int) -> str:
    return str(size) if size <= MAX_INDEX else shown(size)  # a product of sizes has no bound


MAX_AXES = 64 if int(np.__version__.partition(".")[0]) > 1 else 32
"""Axes that an array of NumPy can have."""


def check_rank(shape: Sequence[object]) -> None:
    """ShapeError for more axes than an array can have."""
    if len(shape) > MAX_AXES:
        raise ShapeError(f"{len(shape)} axes are more than the {MAX_AXES} that an array can have")


def is_whole(value: object) -> bool:
    """Whether it is an integer of Python or NumPy; neither a truth value nor a span of time."""
    if isinstance(value, (bool, np.timedelta64)):
        return False
    return isinstance(value, (int, np.integer))


def integer(value: object) -> int:
    """The integer that an argument is, by Python's protocol.

    Raises:
        AttributeError, TypeError: it is none. ArgumentError: it is masked, or of hundreds of
        digits, which are beyond every size and index.
    """
    number = int(value.__index__())  # type: ignore[attr-defined]
    if isinstance(value, np.ndarray) and masked_arrays.masked_entries(value):
        raise ArgumentError(f"{shown(value)} is masked, where an integer is needed")
    if number.bit_length() > 1000:
        raise ArgumentError(f"{shown(number)} is too large for a size or an index")
    return number


def check_axis(axis: object, ndim: int, whose: str = "") -> int:
    """A single axis made non-negative; ArgumentError when it is no integer or out of range.

    `whose` says in the error what has the axes, where that is not the operand.
    """
    try:
        if isinstance(axis, (bool, np.bool_)):
            raise TypeError
        index = integer(axis)
    except (AttributeError, TypeError):
        raise ArgumentError(f"axis must be an integer, got {shown(axis)}") from None
    if not -ndim <= index < ndim:
        raise ShapeError(
            f"axis {shown(index)} is out of range for {whose}rank {ndim}"
            + (f" (allowed: {-ndim} to {ndim - 1})" if ndim else ", a scalar has no axes")
        )
    return index % ndim


def check_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Sorted, non-negative, distinct axes; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, TensorShape):
        raise ArgumentError(
            f"axis must be an integer or a list of integers, got the shape {show(axis)}"
        )
    scalar = not isinstance(axis, (list, tuple, np.ndarray)) or getattr(axis, "ndim", None) == 0
    items = (axis,) if scalar else tuple(axis)  # type: ignore[arg-type]
    axes = sorted(check_axis(item, ndim) for item in items)
    if len(set(axes)) != len(axes):
        raise ArgumentError(f"axis {shown(axis)} names the same axis twice")
    return tuple(axes)


def checked_flag(value: object, name: str) -> bool:
    """An argument that is a yes or a no: a bool, 0 or 1."""
    if (isinstance(value, (bool, np.bool_)) or is_whole(value)) and value in (0, 1):
        return bool(value)
    raise ArgumentError(f"{name} must be True or False, got {shown(value)}")


def checked_function(value: object, name: str) -> None:
    """An argument that is called later."""
    if not callable(value):
        raise ArgumentError(f"{name} must be a function, got {shown(value)}")


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after reducing over `axes`."""
    if keepdims:
        return tuple(1 if i in axes else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in axes)
