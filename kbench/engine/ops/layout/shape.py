"""The shape of a tensor as a tensor, shapes given by the user, and the copy that changes nothing.

Creation, layout and indexing build on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.spec import INTEGERS, Spec, check_rank, integer, is_whole, known_size
from kbench.engine.core.type_errors import entries_of
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, runtime_value
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor, operator
from kbench.engine.graph.traits.batching import batched_alike
from kbench.engine.graph.traits.roles import Role
from kbench.engine.ops.elementwise.arithmetic import cast
from kbench.engine.ops.layout.stack import stack

# ------------------------------------------------------------------ identity


def drop_identity(node: Tensor) -> Tensor:
    """identity(x) = x"""
    return node.inputs[0]


def _identity_gradient(g: Tensor, y: Tensor, x: Tensor, *, stop: bool) -> tuple[Tensor | None, ...]:
    return (None if stop else g,)


IDENTITY = register(
    Op(
        "identity",
        "view",
        lambda x, *, stop: x,
        lambda out, x, *, stop: x,
        _identity_gradient,
        allocates=True,
        sparse=True,
        batched=batched_alike,
        role=Role.IDENTITY,
        laws=(drop_identity,),
    )
)


@operator("identity")
def identity(x: Operand, name: str | None = None) -> Tensor:
    """A new tensor equal to `x`.

    Arguments:
        x: any dtype and shape.
        name: of the new tensor.
    Returns:
        Tensor of the shape and dtype of `x`.
    Raises:
        DtypeError: no array of numbers. ArgumentError: `name` is no string.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.identity`.

    >>> K.eval(K.identity(K.constant([1.0, 2.0])))
    array([1., 2.], dtype=float32)
    """
    return apply(IDENTITY, as_tensor(x), name=name, stop=False)


def stopped(x: Operand) -> Tensor:
    """A new tensor equal to `x` that no gradient passes."""
    return apply(IDENTITY, as_tensor(x), stop=True)


# ------------------------------------------------------------------ a size that is promised


def _sized_infer(x: Spec, *, axis: int, size: int) -> Spec:
    if x.shape[axis] not in (None, size):
        raise ShapeError(f"x is {x}, but axis {axis} was declared with size {size}")
    return Spec((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)


SIZED = register(
    Op(
        "sized",
        "view",
        _sized_infer,
        lambda out, x, *, axis, size: x,
        lambda g, y, x, *, axis, size: (g,),
        allocates=True,
    )
)


def sized(x: Tensor, axis: int, size: int) -> Tensor:
    """`x` with a size that the caller knows; told wrong, evaluating it is an error."""
    return x if x.spec.shape[axis] == size else apply(SIZED, x, axis=axis, size=size)


# ------------------------------------------------------------------ shape and size


MAX_SIZE = 2**31 - 1
"""The largest size that an int32 holds; an empty array may have larger ones."""


def _shape_infer(x: Spec) -> Spec:
    fits = all(size is None or size <= MAX_SIZE for size in x.shape)
    return Spec((x.ndim,), "int32", x.shape if fits else None)


def _size_infer(x: Spec) -> Spec:
    size = known_size(x.shape)
    return Spec((), "int32", (size,) if size is None or size <= MAX_SIZE else None)


def _as_sizes(x: np.ndarray, sizes: int | Sequence[int]) -> np.ndarray:
    """What is told of a shape: int32, as every shape is."""
    if np.max(sizes, initial=0) > MAX_SIZE:
        raise ShapeError(
            f"x is {runtime_value(x)}; its size does not fit int32 (at most {MAX_SIZE})"
        )
    return np.array(sizes, dtype=np.int32)


SHAPE = structured(
    "shape",
    _shape_infer,
    lambda out, x: _as_sizes(x, x.shape),
    lambda g, y, x: (None,),
    allocates=True,
    shapes=(0,),
    sparse=True,
)


def shape(x: Operand) -> Tensor:
    """The shape at evaluation.

    Arguments:
        x: any dtype and shape; its values are not looked at.
    Returns:
        Tensor int32 [axes]. Sizes that are known are followed, so that it can serve as a shape.
    Raises:
        DtypeError: no array of numbers. ShapeError: a size that no int32 holds, at evaluation.
    Gradient: none.
    Source: Keras 2.3 `backend.shape`.

    >>> K.eval(K.shape(K.zeros((2, 3))))
    array([2, 3], dtype=int32)
    """
    return apply(SHAPE, as_tensor(x))


SIZE = structured(
    "size",
    _size_infer,
    lambda out, x: _as_sizes(x, math.prod(x.shape)),
    lambda g, y, x: (None,),
    allocates=True,
    sparse=True,
)


def size(x: Operand, name: str | None = None) -> Tensor:
    """The number of elements at evaluation.

    Arguments:
        x: any dtype and shape; its values are not looked at.
        name: of the result.
    Returns:
        Tensor int32, a scalar.
    Raises:
        DtypeError: no array of numbers. ArgumentError: `name` is no string. ShapeError: more
            elements than an int32 holds, at evaluation.
    Gradient: none.
    Source: Keras 2.3 `backend.size`.

    >>> K.eval(K.size(K.zeros((2, 3))))
    array(6, dtype=int32)
    """
    return apply(SIZE, as_tensor(x), name=name)


def pattern_broadcast(x: Operand, broadcastable: Sequence[bool]) -> Tensor:
    """`x` itself: here every axis of size 1 broadcasts, without being marked.

    Arguments:
        x: tensor of any rank.
        broadcastable: for each axis, whether it is to broadcast; such an axis must be of size 1.
    Returns:
        `x`, as a tensor.
    Raises:
        ArgumentError: not one bool for each axis. ShapeError: a marked axis is known not to be 1.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.pattern_broadcast`, which Theano needs.

    >>> K.int_shape(K.pattern_broadcast(K.zeros((3, 1)), (False, True)))
    (3, 1)
    """
    tensor = as_tensor(x)
    listed = isinstance(broadcastable, (list, tuple, np.ndarray))
    flags = list(broadcastable) if listed and getattr(broadcastable, "ndim", 1) == 1 else None
    if flags is None or not all(isinstance(flag, (bool, np.bool_)) for flag in flags):
        raise ArgumentError(f"broadcastable must hold bools, got {shown(broadcastable)}")
    if len(flags) != tensor.ndim:
        raise ArgumentError(
            f"broadcastable has {len(flags)} entries, but x is {tensor.spec}: one for each axis "
            "is needed"
        )
    for axis, (size, flag) in enumerate(zip(tensor.spec.shape, flags, strict=True)):
        if flag and size not in (None, 1):
            raise ShapeError(f"axis {axis} of x, {tensor.spec}, cannot broadcast: it is {size}")
    return tensor


# ------------------------------------------------------------------ shapes that the user gives


def shape_operand(
    shape: Operand, *, allow_free: bool = False, name: str = "shape"
) -> tuple[int, ...] | Tensor:
    """A shape argument: a tuple of integers, or an int32 vector tensor when it must be computed."""
    if isinstance(shape, Tensor):
        return _vector(shape, name)
    sizes = entries_of((shape,) if is_whole(shape) else shape, name)
    if not isinstance(sizes, (list, tuple)):
        raise ArgumentError(f"{name} must be integers or a tensor, got {shown(sizes)}")
    check_rank(sizes)
    if any(isinstance(size, Tensor) and not _is_known(size) for size in sizes):
        return _stacked(sizes, allow_free, name)
    return tuple(_checked_size(size, allow_free, name) for size in sizes)


def _vector(shape: Tensor, name: str) -> tuple[int, ...] | Tensor:
    if shape.spec.dtype not in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"):
        raise DtypeError(f"{name} must be an integer tensor, got {shape.spec}")
    if shape.spec.ndim != 1:
        raise ShapeError(f"{name} must be a vector, got {shape.spec}")
    if shape.spec.known and shape.spec.value is not None:
        return tuple(int(size) for size in shape.spec.value if size is not None)
    return cast(shape, "int32")


def _is_known(item: Tensor) -> bool:
    return item.spec.known and item.spec.ndim == 0


def _stacked(shape: Sequence[object], allow_free: bool, name: str) -> Tensor:
    """The sizes as one vector; some of them are tensors."""
    items: list[int | Tensor] = []
    for item in shape:
        if not isinstance(item, Tensor):
            items.append(_checked_size(item, allow_free, name))
        elif item.ndim or item.spec.dtype not in INTEGERS:
            raise ArgumentError(f"{name} must hold integers, got {item.kind} {item.spec}")
        else:
            items.append(item)
    return stack([cast(as_tensor(item), "int32") for item in items])


def _checked_size(item: object, allow_free: bool, name: str) -> int:
    if item is None and allow_free:
        return -1
    try:
        number = integer(item)
    except (AttributeError, TypeError):
        hint = "K.shape(...), which has the sizes of each call" if item is None else None
        reason = f"{name} must hold integers, got {shown(item)}"
        raise ArgumentError(reason, suggestion=hint) from None
    if number < (-1 if allow_free else 0):
        raise ShapeError(f"{name} must not hold negative sizes, got {shown(number)}")
    return number
