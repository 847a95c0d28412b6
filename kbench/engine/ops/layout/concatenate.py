"""Several tensors into one along an axis that they have: concatenate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.core.errors import ShapeError
from kbench.engine.core.spec import Spec, check_axis, show
from kbench.engine.core.types import Attrs, Ints
from kbench.engine.graph.apply import apply
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import Lowered, Op, register
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.graph.traits.batching import batched_along
from kbench.engine.graph.traits.roles import Extents, Role, axis_permuted
from kbench.engine.ops.layout.copy_kernels import Copy, copy_kernel
from kbench.engine.ops.layout.stack import operands_of
from kbench.engine.ops.sparse.sparse_ops import concatenate_sparse, to_dense

# ------------------------------------------------------------------ concatenate


def _concatenate_infer(*tensors: Spec, axis: int) -> Spec:
    merged: list[int | None] = list(tensors[0].shape)
    for x in tensors[1:]:
        if x.ndim != len(merged):
            raise ShapeError(f"shapes {show(tensors[0].shape)} and {show(x.shape)} differ in rank")
        for i, size in enumerate(x.shape):
            if i == axis:
                known = merged[i]
                merged[i] = None if known is None or size is None else known + size
            elif merged[i] is None:
                merged[i] = size
            elif size is not None and size != merged[i]:
                raise ShapeError(
                    f"shapes {show(tensors[0].shape)} and {show(x.shape)} differ on axis {i}, "
                    f"which is not the axis {axis} that is joined"
                )
    value = None
    if len(merged) == 1 and merged[0] is not None and any(x.value is not None for x in tensors):
        value = tuple(entry for x in tensors for entry in x.value or (None,) * (x.shape[0] or 0))
    return Spec(tuple(merged), tensors[0].dtype, value)


def _concatenate_numpy(out: np.ndarray | None, *xs: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate(xs, axis=axis, out=out)


def _concatenate_by_copies(copy: Copy, out: np.ndarray, *xs: np.ndarray, axis: int) -> None:
    start = 0
    for x in xs:
        copy(_window(out, axis, start, x.shape[axis]), x)
        start += x.shape[axis]


def _concatenate_gradient(
    g: Tensor, y: Tensor, *xs: Tensor, axis: int
) -> tuple[Tensor | None, ...]:
    return tuple(apply(PART, g, *xs, axis=axis, index=index) for index in range(len(xs)))


def _part_infer(g: Spec, *xs: Spec, axis: int, index: int) -> Spec:
    return Spec(xs[index].shape, g.dtype)


def _part_numpy(
    out: np.ndarray | None, g: np.ndarray, *xs: np.ndarray, axis: int, index: int
) -> np.ndarray:
    start = sum(x.shape[axis] for x in xs[:index])
    return _window(g, axis, start, xs[index].shape[axis])


def _window(g: np.ndarray, axis: int, start: int, size: int) -> np.ndarray:
    place: list[slice] = [slice(None)] * g.ndim
    place[axis] = slice(start, start + size)
    return g[tuple(place)]


def _part_gradient(
    g: Tensor, y: Tensor, z: Tensor, *xs: Tensor, axis: int, index: int
) -> tuple[Tensor | None, ...]:
    pieces = [g if i == index else x * 0 for i, x in enumerate(xs)]
    return (apply(CONCATENATE, *pieces, axis=axis),) + (None,) * len(xs)


def _part_lower(specs: Sequence[Spec], attrs: Attrs) -> Lowered:
    axis, index = attrs["axis"], attrs["index"]
    start = sum(spec.shape[axis] or 0 for spec in specs[1 : index + 1])
    size = specs[index + 1].shape[axis]
    return WINDOW, {"axis": axis, "start": start, "size": size}, (0,)


CONCATENATE = structured(
    "concatenate",
    _concatenate_infer,
    _concatenate_numpy,
    _concatenate_gradient,
    kernel=copy_kernel(_concatenate_infer, _concatenate_by_copies),
    role=Role.JOIN,
    permuted=axis_permuted,
    batched=batched_along("axis"),
)
PART = register(
    Op(
        "concatenate_part",
        "view",
        _part_infer,
        _part_numpy,
        _part_gradient,
        lower=_part_lower,
        allocates=True,
        permuted=axis_permuted,
        batched=batched_along("axis"),
    )
)


def _window_extents(attrs: Attrs, shape: Ints) -> Extents:
    found = [(0, size) for size in shape]
    found[attrs["axis"]] = (attrs["start"], attrs["size"])
    return found


WINDOW = register(
    Op(
        "window",
        "view",
        lambda g, *, axis, start, size: Spec(
            (*g.shape[:axis], size, *g.shape[axis + 1 :]), g.dtype
        ),
        lambda out, g, *, axis, start, size: _window(g, axis, start, size),
        None,
        allocates=True,
        role=Role.PART,
        extents=_window_extents,
    )
)


def concatenate(tensors: Sequence[Operand], axis: int = -1) -> Tensor:
    """Tensors of one rank joined along an existing axis.

    Arguments:
        tensors: list of at least one tensor; all sizes but that of `axis` agree. Sparse tensors
            alone give a sparse tensor; beside dense ones they are made dense.
        axis: integer; negative counts from the end.
    Returns:
        Tensor of the common dtype, along `axis` as long as all together.
    Raises:
        ShapeError: ranks or other sizes differ. ArgumentError: no list, or an empty one.
    Gradient: to each dense tensor its part.
    Source: Keras 2.3 `backend.concatenate`.

    >>> K.int_shape(K.concatenate([K.zeros((2, 3)), K.zeros((2, 4))]))
    (2, 7)
    """
    items = operands_of(tensors)
    along = check_axis(axis, items[0].ndim)
    if all(item.spec.sparse for item in items):
        return concatenate_sparse(items, along)
    return apply(CONCATENATE, *[to_dense(item) for item in items], axis=along)
