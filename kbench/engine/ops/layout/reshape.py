"""Reshaping and reordering: views on the same data, and repetition along axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kbench.engine.core.errors import ArgumentError, ShapeError, shown
from kbench.engine.core.spec import Spec, check_axis, known_size, show
from kbench.engine.core.types import Attrs, Ints, Shape
from kbench.engine.graph.apply import apply, make_node
from kbench.engine.graph.convert import as_tensor
from kbench.engine.graph.declare import view
from kbench.engine.graph.op import Lowered, Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.batching import batched_alike, batched_along
from kbench.engine.graph.traits.roles import Role
from kbench.engine.ops.layout.shape import shape as shape_of
from kbench.engine.ops.layout.shape import shape_operand

# ------------------------------------------------------------------ reshape


def _fill_free_axis(x: Spec, target: Shape) -> Shape:
    """The result shape for a target that may hold one -1 and unknown sizes."""
    free = [i for i, size in enumerate(target) if size == -1]
    if len(free) > 1:
        raise ShapeError(f"shape {show(target)} has more than one -1")
    if any(size is not None and size < -1 for size in target):
        raise ShapeError(f"shape {show(target)} has a negative size")
    total, rest = known_size(x.shape), known_size(tuple(s for s in target if s != -1))
    if not free:
        if total is not None and rest is not None and total != rest:
            raise ShapeError(f"cannot reshape x, {x} with {total} elements, into {show(target)}")
        return _one_unknown(target, total)
    if total is None or rest is None:
        size = None
    elif rest == 0 or total % rest:
        raise ShapeError(f"cannot reshape x, {x} with {total} elements, into {show(target)}")
    else:
        size = total // rest
    return tuple(size if i == free[0] else s for i, s in enumerate(target))


def _one_unknown(target: Shape, total: int | None) -> Shape:
    """A single unknown size follows from the number of elements."""
    if total is None or target.count(None) != 1:
        return target
    rest = math.prod(size for size in target if size is not None)
    return tuple((total // rest if rest else None) if s is None else s for s in target)


def _reshape_infer(x: Spec, target: Spec | None = None, *, shape: Shape | None = None) -> Spec:
    if shape is None:
        assert target is not None
        if target.ndim != 1 or target.shape[0] is None:
            raise ShapeError(f"shape must be an integer vector of known length, got {target}")
        shape = target.value if target.value is not None else (None,) * target.shape[0]
    result = _fill_free_axis(x, shape)
    return Spec(result, x.dtype, x.value if len(result) <= 1 else None)


def _reshape_numpy(
    x: np.ndarray, target: np.ndarray | None = None, *, shape: Ints = ()
) -> np.ndarray:
    wanted = shape if target is None else tuple(target.tolist())
    try:
        return x.reshape(wanted)
    except ValueError:
        raise ShapeError(
            f"cannot reshape x, {show(x.shape)} with {x.size} elements, into {wanted}"
        ) from None


def _reshape_gradient(
    g: Tensor, y: Tensor, x: Tensor, target: Tensor | None = None, **_attrs: object
) -> tuple[Tensor | None, ...]:
    return (reshape_like(g, x),) + (() if target is None else (None,))


def _reshape_batched(
    node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]
) -> Tensor | None:
    shape = node.spec.shape
    if None in shape or len(inputs) > 1:
        return None
    count = inputs[0].spec.shape[0]
    if count is None and 0 in shape:
        return None
    return make_node(RESHAPE, node, inputs[0], shape=(-1 if count is None else count, *shape))


def merge_reshapes(node: Tensor) -> Tensor | None:
    """reshape(reshape(x, a), b) = reshape(x, b), when x is known to fill a"""
    source = node.inputs[0]
    if source.op is not RESHAPE or len(node.inputs) > 1:
        return None
    if known_size(source.inputs[0].spec.shape) is None or known_size(source.spec.shape) is None:
        return None
    return Tensor.derived(RESHAPE, (source.inputs[0],), node.attrs, node.spec, node)


RESHAPE: Op = view(
    "reshape",
    _reshape_infer,
    _reshape_numpy,
    _reshape_gradient,
    role=Role.RESHAPE,
    batched=_reshape_batched,
    laws=(merge_reshapes,),
)


def reshape(x: Operand, shape: Operand) -> Tensor:
    """The same elements, in row-major order, in another shape.

    Arguments:
        x: any dtype and shape.
        shape: sizes, one of which may be -1; integers, scalar tensors, or an integer vector tensor.
    Returns:
        Tensor of the dtype of `x`.
    Raises:
        ShapeError: the number of elements differs.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.reshape`.

    >>> K.int_shape(K.reshape(K.zeros((2, 6)), (3, -1)))
    (3, 4)
    """
    tensor, sizes = as_tensor(x), shape_operand(shape, allow_free=True)
    if isinstance(sizes, Tensor):
        return apply(RESHAPE, tensor, sizes)
    return apply(RESHAPE, tensor, shape=sizes)


def _like_infer(g: Spec, x: Spec) -> Spec:
    total, wanted = known_size(g.shape), known_size(x.shape)
    if total is not None and wanted is not None and total != wanted:
        raise ShapeError(f"cannot reshape {g} to the shape of {x}: they differ in size")
    return Spec(x.shape, g.dtype)


def _like_lower(specs: Sequence[Spec], _attrs: Attrs) -> Lowered:
    return RESHAPE, {"shape": specs[1].shape}, (0,)


RESHAPE_LIKE = register(
    Op(
        "reshape_like",
        "view",
        _like_infer,
        lambda out, g, x: g.reshape(x.shape),
        lambda g, y, z, x: (reshape_like(g, z), None),
        lower=_like_lower,
        allocates=True,
        role=Role.RESHAPE,
        batched=batched_alike,
    )
)


def reshape_like(g: Tensor, x: Tensor) -> Tensor:
    """`g` in the shape of `x`, which may be known only at evaluation."""
    return apply(RESHAPE_LIKE, g, x)


def flatten(x: Operand) -> Tensor:
    """All elements in one axis, in row-major order; a scalar gives one element.

    Arguments:
        x: any dtype and shape.
    Returns:
        Tensor [elements] of the dtype of `x`.
    Raises:
        DtypeError: no array of numbers.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.flatten`.

    >>> K.int_shape(K.flatten(K.zeros((2, 3))))
    (6,)
    """
    return reshape(x, (-1,))


def batch_flatten(x: Operand) -> Tensor:
    """All axes but the first in one.

    Arguments:
        x: any dtype, at least one axis.
    Returns:
        Tensor [n, product of the rest] of the dtype of `x`.
    Raises:
        ShapeError: `x` is a scalar. DtypeError: no array of numbers.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.batch_flatten`.

    >>> K.int_shape(K.batch_flatten(K.placeholder((None, 2, 3))))
    (None, 6)
    """
    tensor = as_tensor(x)
    if tensor.ndim == 0:
        raise ShapeError(f"x is {tensor.spec}, but at least one axis is needed")
    rest = known_size(tensor.spec.shape[1:])
    first = tensor.spec.shape[0]
    if rest is not None and (first is not None or rest > 0):
        return reshape(tensor, (-1 if first is None else first, rest))
    if first:
        return reshape(tensor, (first, -1))
    from_first = as_tensor(tensor)
    return reshape(from_first, _batch_and_rest(from_first))


def _batch_and_rest(tensor: Tensor) -> list[Tensor | int]:
    """First size and product of the others; a -1 would mean nothing where a size is 0."""
    sizes = shape_of(tensor)
    rest: Tensor | int = 1
    for axis in range(1, tensor.ndim):
        rest = sizes[axis] * rest
    return [sizes[0], rest]


# ------------------------------------------------------------------ order and number of axes


def _permute_infer(x: Spec, *, pattern: tuple[int, ...]) -> Spec:
    return Spec(tuple(x.shape[axis] for axis in pattern), x.dtype)


def _permute_gradient(
    g: Tensor, y: Tensor, x: Tensor, *, pattern: tuple[int, ...]
) -> tuple[Tensor | None, ...]:
    return (permute_dimensions(g, tuple(int(i) for i in np.argsort(pattern))),)


def _permute_batched(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor:
    pattern = (0, *(axis + 1 for axis in node.attrs["pattern"]))
    return make_node(PERMUTE, node, inputs[0], pattern=pattern)


def merge_permutations(node: Tensor) -> Tensor | None:
    """permute(permute(x, p), q) = permute(x, p[q]); the identical permutation = x"""
    pattern, source = node.attrs["pattern"], node.inputs[0]
    if source.op is PERMUTE:
        pattern = tuple(source.attrs["pattern"][axis] for axis in pattern)
        source = source.inputs[0]
    elif pattern != tuple(range(node.ndim)):
        return None
    if pattern == tuple(range(node.ndim)):
        return source
    return Tensor.derived(PERMUTE, (source,), {"pattern": pattern}, node.spec, node)


PERMUTE: Op = view(
    "permute",
    _permute_infer,
    lambda x, *, pattern: x.transpose(pattern),
    _permute_gradient,
    role=Role.PERMUTE,
    batched=_permute_batched,
    laws=(merge_permutations,),
)


def permute_dimensions(x: Operand, pattern: Sequence[int]) -> Tensor:
    """The axes in another order: axis i of the result is axis `pattern[i]` of `x`.

    Arguments:
        x: any dtype and shape.
        pattern: every axis once; negative ones count from the end.
    Returns:
        Tensor of the dtype of `x`.
    Raises:
        ShapeError: `pattern` does not name every axis once. ArgumentError: it is no list.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.permute_dimensions`.

    >>> K.int_shape(K.permute_dimensions(K.zeros((2, 3, 4)), (2, 0, 1)))
    (4, 2, 3)
    """
    tensor = as_tensor(x)
    if not isinstance(pattern, (list, tuple, np.ndarray)) or getattr(pattern, "ndim", 1) != 1:
        raise ArgumentError(f"pattern must be a list of axes, got {shown(pattern)}")
    if len(pattern) != tensor.ndim:
        needed = f"x is {tensor.spec}, so pattern needs {tensor.ndim} axes"
        raise ShapeError(f"{needed}, got {tuple(pattern)}")
    axes = tuple(check_axis(axis, tensor.ndim) for axis in pattern)
    if sorted(axes) != list(range(tensor.ndim)):
        raise ShapeError(f"pattern {tuple(pattern)} does not name each axis of {tensor.spec} once")
    return apply(PERMUTE, tensor, pattern=axes)


def transpose(x: Operand) -> Tensor:
    """All axes in reverse order; a matrix has its rows and columns exchanged.

    Arguments:
        x: any dtype and shape.
    Returns:
        Tensor of the dtype of `x`.
    Raises:
        DtypeError: no array of numbers.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.transpose`.

    >>> K.int_shape(K.transpose(K.zeros((2, 3))))
    (3, 2)
    """
    tensor = as_tensor(x)
    return apply(PERMUTE, tensor, pattern=tuple(range(tensor.ndim))[::-1])


def _expand_infer(x: Spec, *, axis: int) -> Spec:
    value = x.value if x.ndim == 0 else None
    return Spec((*x.shape[:axis], 1, *x.shape[axis:]), x.dtype, value)


EXPAND = view(
    "expand_dims",
    _expand_infer,
    lambda x, *, axis: np.expand_dims(x, axis),
    lambda g, y, x, *, axis: (squeeze(g, axis),),
    role=Role.RESHAPE,
    batched=batched_along("axis"),
)


def expand_dims(x: Operand, axis: int = -1) -> Tensor:
    """A new axis of size 1 at index `axis` of the result.

    Arguments:
        x: any dtype and shape.
        axis: integer; negative counts from the end of the result.
    Returns:
        Tensor of the dtype of `x`, with one axis more.
    Raises:
        ShapeError: no such axis. ArgumentError: `axis` is no integer.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.expand_dims`.

    >>> K.int_shape(K.expand_dims(K.zeros((2, 3)), 1))
    (2, 1, 3)
    """
    tensor = as_tensor(x)
    return apply(EXPAND, tensor, axis=check_axis(axis, tensor.ndim + 1, "a result of "))


def batched_rank(x: Tensor, rank: int) -> Tensor:
    """Batched entries with as many axes as `rank` more than the first, ones being put in front."""
    while x.ndim - 1 < rank:
        x = make_node(EXPAND, x, x, axis=1)
    return x


def _squeeze_infer(x: Spec, *, axis: int) -> Spec:
    if x.shape[axis] not in (1, None):
        raise ShapeError(f"x is {x}, so axis {axis} has size {x.shape[axis]}, not 1")
    return Spec((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype, x.value)


SQUEEZE = view(
    "squeeze",
    _squeeze_infer,
    lambda x, *, axis: np.squeeze(x, axis),
    lambda g, y, x, *, axis: (expand_dims(g, axis),),
    role=Role.RESHAPE,
    batched=batched_along("axis"),
)


def squeeze(x: Operand, axis: int) -> Tensor:
    """`x` without axis `axis`, which must have size 1.

    Arguments:
        x: any dtype, at least one axis.
        axis: integer; negative counts from the end.
    Returns:
        Tensor of the dtype of `x`, with one axis less.
    Raises:
        ShapeError: no such axis, or it has another size, which may show only at evaluation.
    Gradient: to `x`.
    Source: Keras 2.3 `backend.squeeze`.

    >>> K.int_shape(K.squeeze(K.zeros((2, 1, 3)), 1))
    (2, 3)
    """
    tensor = as_tensor(x)
    return apply(SQUEEZE, tensor, axis=check_axis(axis, tensor.ndim))
