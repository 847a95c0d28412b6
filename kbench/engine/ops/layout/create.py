"""Tensors out of nothing: zeros, ones, ranges, identity matrices, one-hot rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from kbench.engine.core import memory_limit
from kbench.engine.core.errors import ArgumentError, DtypeError, shown
from kbench.engine.core.spec import INTEGERS, MAX_INDEX, Spec, integer, is_whole, known_size
from kbench.engine.core.types import Array, Attrs, Ints, Shape
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import (
    Constant,
    as_tensor,
    constant_node,
    dtype_or_floatx,
    plain_array,
)
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import KernelFactory, Lowered, Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.batching import batched_alike
from kbench.engine.graph.traits.roles import Role
from kbench.engine.graph.traverse import walk
from kbench.engine.graph.variables import Variable
from kbench.engine.kernels.data import one_hot as onehot
from kbench.engine.ops.elementwise.arithmetic import cast, maximum
from kbench.engine.ops.elementwise.compare import equal
from kbench.engine.ops.layout.reshape import expand_dims
from kbench.engine.ops.layout.shape import shape_operand, stopped
from kbench.engine.ops.reduce.cumulative import cumsum
from kbench.engine.runtime import config

MIN_KERNEL_CELLS = 16_384
"""Cells from which on a kernel is worth while."""

# ------------------------------------------------------------------ filled with one number


def _full_infer(*target: Spec, value: float, dtype: str, shape: Shape = ()) -> Spec:
    if target:
        sizes = target[0].value
        return Spec(sizes if sizes is not None else (None,) * (target[0].shape[0] or 0), dtype)
    return Spec(shape, dtype)


def _full_numpy(
    out: np.ndarray | None, *target: np.ndarray, value: float, dtype: str, shape: Ints = ()
) -> np.ndarray:
    sizes = tuple(target[0].tolist()) if target else shape
    if any(size < 0 for size in sizes):
        raise ArgumentError(f"shape must not hold negative sizes, got {sizes}")
    return np.broadcast_to(np.array(value, dtype=dtype), sizes)


FULL = register(
    Op(
        "full",
        "view",
        _full_infer,
        _full_numpy,
        lambda g, y, *target, **_attrs: (None,) * len(target),
        allocates=True,
        role=Role.FILL,
    )
)


def _full_like_lower(specs: Sequence[Spec], attrs: Attrs) -> Lowered:
    return FULL, {**attrs, "shape": specs[0].shape}, ()


FULL_LIKE = register(
    Op(
        "full_like",
        "view",
        lambda x, *, value, dtype: Spec(x.shape, dtype),
        lambda out, x, *, value, dtype: _full_numpy(out, value=value, dtype=dtype, shape=x.shape),
        lambda g, y, x, **_attrs: (None,),
        lower=_full_like_lower,
        allocates=True,
        shapes=(0,),
        role=Role.FILL,
        batched=batched_alike,
    )
)


def _filled(shape: Operand, value: float, dtype: str | None, name: str | None) -> Tensor:
    wanted = dtype_or_floatx(dtype)
    sizes = shape_operand(shape)
    if isinstance(sizes, Tensor):
        return apply(FULL, sizes, name=name, value=value, dtype=wanted)
    memory_limit.require_array(
        sizes, np.dtype(wanted).itemsize, f"a variable {wanted}{list(sizes)}"
    )
    return Variable(np.full(sizes, value, dtype=wanted), name)


def zeros(shape: Operand, dtype: str | None = None, name: str | None = None) -> Tensor:
    """A variable of zeros; a plain tensor when the shape is known only at evaluation.

    Arguments:
        shape: integers, or scalar tensors, or an integer vector tensor.
        dtype: None means `floatx()`.
        name: of the variable.
    Returns:
        Variable or Tensor of that shape.
    Raises:
        ShapeError: a negative size. ArgumentError: no integers. DtypeError: unknown dtype.
        OutOfMemory: more than the machine has.
    Gradient: to the variable, as to any.
    Source: Keras 2.3 `backend.zeros`.

    >>> K.eval(K.zeros((2, 3)))
    array([[0., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """
    return _filled(shape, 0, dtype, name)


def ones(shape: Operand, dtype: str | None = None, name: str | None = None) -> Tensor:
    """A variable of ones; a plain tensor when the shape is known only at evaluation.

    Arguments:
        shape: integers, or scalar tensors, or an integer vector tensor.
        dtype: None means `floatx()`.
        name: of the variable.
    Returns:
        Variable or Tensor of that shape.
    Raises:
        ShapeError: a negative size. ArgumentError: no integers. DtypeError: unknown dtype.
        OutOfMemory: more than the machine has.
    Gradient: to the variable, as to any.
    Source: Keras 2.3 `backend.ones`.

    >>> K.eval(K.ones((2,), dtype="int32"))
    array([1, 1], dtype=int32)
    """
    return _filled(shape, 1, dtype, name)


def _like(x: Operand, value: float, dtype: str | None, name: str | None) -> Tensor:
    tensor = as_tensor(x)
    wanted = tensor.spec.dtype if dtype is None else dtype_or_floatx(dtype)
    return apply(FULL_LIKE, tensor, name=name, value=value, dtype=wanted)


def zeros_like(x: Operand, dtype: str | None = None, name: str | None = None) -> Tensor:
    """Zeros of the shape of a tensor, which may be known only at evaluation.

    Arguments:
        x: any dtype and shape; its values are not looked at.
        dtype: None means that of `x`.
        name: of the result.
    Returns:
        Tensor of the shape of `x`.
    Raises:
        DtypeError: unknown dtype, or `x` is not an array of numbers.
    Gradient: none.
    Source: Keras 2.3 `backend.zeros_like`.

    >>> K.eval(K.zeros_like(K.constant([3.0, 4.0]), dtype="int32"))
    array([0, 0], dtype=int32)
    """
    return _like(x, 0, dtype, name)


def ones_like(x: Operand, dtype: str | None = None, name: str | None = None) -> Tensor:
    """Ones of the shape of a tensor, which may be known only at evaluation.

    Arguments:
        x: any dtype and shape; its values are not looked at.
        dtype: None means that of `x`.
        name: of the result.
    Returns:
        Tensor of the shape of `x`.
    Raises:
        DtypeError: unknown dtype, or `x` is not an array of numbers.
    Gradient: none.
    Source: Keras 2.3 `backend.ones_like`.

    >>> K.eval(K.ones_like(K.constant([3.0, 4.0])))
    array([1., 1.], dtype=float32)
    """
    return _like(x, 1, dtype, name)


# ------------------------------------------------------------------ patterns


def eye(size: int | Sequence[int], dtype: str | None = None, name: str | None = None) -> Variable:
    """A variable with ones on the diagonal, zeros elsewhere.

    Arguments:
        size: an integer, or a pair (rows, columns).
        dtype: None means `floatx()`.
        name: of the variable.
    Returns:
        Variable [size, size] or [rows, columns].
    Raises:
        ShapeError: a negative size. ArgumentError: no integers. DtypeError: unknown dtype.
    Gradient: to the variable, as to any.
    Source: Keras 2.3 `backend.eye`.

    >>> K.eval(K.eye(2))
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    sizes = shape_operand(size, name="size")
    if isinstance(sizes, Tensor) or len(sizes) not in (1, 2):
        raise ArgumentError(f"size must be one or two known integers, got {shown(size)}")
    rows, columns = sizes[0], sizes[-1]
    memory_limit.require_array((rows, columns), 8, f"a variable [{rows}, {columns}]")
    return Variable(np.eye(rows, columns, dtype=dtype_or_floatx(dtype)), name)


def arange(
    start: Operand, stop: Operand | None = None, step: Operand = 1, dtype: str | None = "int32"
) -> Tensor:
    """Numbers from `start` to before `stop`, a vector; one argument alone is `stop`.

    Arguments:
        start, stop: numbers, or scalar tensors; the count is then known only at evaluation.
        step: a number, not 0; may be negative.
        dtype: "int32" by default, when the numbers are integers; floats then stay `floatx()`.
    Returns:
        Tensor [count]; empty when `stop` is not beyond `start`.
    Raises:
        ArgumentError: a step of 0 or one that must be computed, or arguments that are no numbers.
    Gradient: none.
    Source: Keras 2.3 `backend.arange`.

    >>> K.eval(K.arange(2, 8, 3))
    array([2, 5], dtype=int32)
    """
    by = _number(step, "step")
    if by == 0:
        raise ArgumentError("step must not be 0")
    if _is_computed(start) or _is_computed(stop):
        return _computed_range(start, stop, by, dtype)
    if stop is None:
        start, stop = 0, max(_number(start, "start"), 0)
    first, last = _number(start, "start"), _number(stop, "stop")
    whole = all(isinstance(number, int) for number in (first, last, by))
    natural = "int32" if whole else config.floatx()
    span = (last - first) / by
    if not math.isfinite(span):
        raise ArgumentError(f"from {first} to {last} in steps of {by} are more than an array holds")
    count = max(0, math.ceil(span))
    memory_limit.require_array((count,), 16, f"{shown(count)} numbers")
    wanted = "int32" if dtype is None else dtype_or_floatx(dtype)
    result = natural if wanted == "int32" else wanted
    if whole and count and result in INTEGERS:
        _need_room((first, first + (count - 1) * by), result)
    if whole and max(abs(first), abs(by)) > MAX_INDEX:  # few are in reach then
        exact = result if result in INTEGERS else "float64"
        values = np.array([first + place * by for place in range(count)], exact)
    else:
        places: Array = np.arange(count, dtype=np.float64 if not whole else np.int64)
        values = places * by + first
    return constant_node(values.astype(result))


def _is_computed(value: object) -> bool:
    """Whether only an evaluation tells the value, or it may be another one each time."""
    if not isinstance(value, Tensor) or value.spec.known:
        return False
    nodes = walk([value])
    return not all(node.op.pure and (node.inputs or isinstance(node, Constant)) for node in nodes)


def _computed_range(
    start: Operand, stop: Operand | None, step: int | float, dtype: str | None
) -> Tensor:
    """A range whose ends are tensors: as many ones as it has numbers, summed up."""
    if stop is None:
        start, stop = 0, maximum(_scalar(start, "start"), 0)
    ends = [_scalar(start, "start"), _scalar(stop, "stop")]
    whole = isinstance(step, int) and all(end.spec.dtype in INTEGERS for end in ends)
    first, last = (stopped(cast(end, "int64" if whole else "float64")) for end in ends)
    count = cast(maximum(-((first - last) // step), 0), "int64")
    places = cumsum(ones((count,), "int64")) - 1
    wanted = "int32" if dtype is None else dtype_or_floatx(dtype)
    natural = "int32" if whole else config.floatx()
    return cast(
        first + cast(places, first.dtype.name) * step, natural if wanted == "int32" else wanted
    )


def _scalar(value: Operand, name: str) -> Tensor:
    scalar = as_tensor(value)
    if scalar.ndim or scalar.spec.dtype == "bool":
        raise ArgumentError(f"{name} must be a number, got {scalar.spec}")
    return scalar


def _need_room(ends: Sequence[int | float], dtype: str) -> None:
    """Refuse whole numbers that would wrap around."""
    limits = np.iinfo(dtype)
    for number in ends:
        if not limits.min <= number <= limits.max:
            wider = "" if dtype == "int64" else "; dtype='int64' holds more"
            raise DtypeError(f"{number} does not fit into {dtype}{wider}")


def _number(value: Operand, name: str) -> int | float:
    if _is_computed(value):
        raise ArgumentError(f"{name} must be a known number, got {shown(value)}")
    if isinstance(value, Tensor):
        value = value.eval()
    array = plain_array(value)
    if array is None or array.ndim or array.dtype.kind not in "iuf" or not np.isfinite(array):
        raise ArgumentError(f"{name} must be a finite number, got {shown(value)}")
    number: int | float = array.item()
    return number


def _one_hot_numpy(
    out: np.ndarray | None, indices: np.ndarray, *, num_classes: int, dtype: str
) -> np.ndarray:
    if out is None:
        out = np.empty((*indices.shape, num_classes), dtype)
    if not num_classes:
        return out
    flat = out.reshape(-1, num_classes)
    flat.fill(0)
    classes = indices.ravel().astype(np.int64)
    rows = np.flatnonzero((classes >= 0) & (classes < num_classes))
    flat[rows, classes[rows]] = 1
    return out


def _one_hot_kernel(x: Spec, *, num_classes: int, dtype: str) -> KernelFactory | None:
    size = (known_size(x.shape) or 0) * num_classes
    return (
        partial(onehot.find, "rows", dtype)
        if size >= max(1, config.min_elements(MIN_KERNEL_CELLS))
        else None
    )


ONE_HOT = structured(
    "one_hot",
    lambda x, *, num_classes, dtype: Spec((*x.shape, num_classes), dtype),
    _one_hot_numpy,
    lambda g, y, x, **_attrs: (None,),
    kernel=_one_hot_kernel,
)


def one_hot(indices: Operand, num_classes: int | Tensor) -> Tensor:
    """A new last axis of size `num_classes` with 1 at each index, 0 elsewhere.

    Arguments:
        indices: integers of any shape; one that is out of range gives a row of zeros.
        num_classes: the size of the new axis, at least 0; may be a scalar tensor of integers.
    Returns:
        Tensor [*indices.shape, num_classes] of `floatx()`.
    Raises:
        DtypeError: `indices` are not integers. ArgumentError: `num_classes` is none of at least 0.
    Gradient: none.
    Source: Keras 2.3 `backend.one_hot`.

    >>> K.eval(K.one_hot(K.constant([0, 2], dtype="int32"), 3))
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    tensor = as_tensor(indices)
    if tensor.spec.dtype not in INTEGERS:
        raise DtypeError(f"indices must be integers, got {tensor.spec}")
    if isinstance(num_classes, Tensor):
        if num_classes.ndim or num_classes.spec.dtype not in INTEGERS:
            raise ArgumentError(f"num_classes must be an integer, got {num_classes.spec}")
        if not num_classes.spec.known:
            classes = arange(0, num_classes, dtype=tensor.spec.dtype)
            return cast(equal(expand_dims(tensor, -1), classes), config.floatx())
        num_classes = int(num_classes)
    if not is_whole(num_classes) or num_classes < 0:
        given = shown(num_classes)
        raise ArgumentError(f"num_classes must be an integer of at least 0, got {given}")
    return apply(ONE_HOT, tensor, num_classes=integer(num_classes), dtype=config.floatx())
