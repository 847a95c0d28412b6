"""Matrix products.

One operation carries every product: `contract` multiplies over chosen axes, with leading batch
axes in common, and is closed under its own gradient. Only `@` with broadcast batches is another.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.core import cancel, fork_safety
from kbench.engine.core.errors import ArgumentError, ShapeError, shown
from kbench.engine.core.spec import (
    Spec,
    broadcast,
    check_axis,
    is_whole,
    known_size,
    promote,
    show,
)
from kbench.engine.core.types import Axes, Axis, Dim, Shape
from kbench.engine.graph.apply import apply, make_node
from kbench.engine.graph.convert import converted, tensors_of
from kbench.engine.graph.op import Op, register
from kbench.engine.graph.tensor import Operand, Tensor, operator
from kbench.engine.graph.traits.batching import axis_moved
from kbench.engine.graph.traits.roles import Role
from kbench.engine.ops.layout.reshape import (
    batched_rank,
    expand_dims,
    permute_dimensions,
    squeeze,
)
from kbench.engine.ops.linear.matmul_kernels import (
    arranged,
    contract_kernel,
    kept,
    matmul_kernel,
)
from kbench.engine.ops.reduce.reduction import reduce_like
from kbench.engine.ops.sparse.sparse_ops import dot_sparse
from kbench.engine.runtime.blas import BLAS_SERIAL_FLOPS, BLAS_SERIAL_VECTOR_FLOPS, matmul

MULTIPLY_ADDS_PER_CANCEL_CHECK = {"f": 1 << 29, "i": 1 << 24}
"""Multiply-adds between two looks at the cancel flag, by kind of dtype: BLAS knows floats only."""
MATRIX_AXES = ((1,), (0,))
"""The axes of a product of two matrices as they are."""
MAX_EXACT_FLOAT64 = 1 << 53
"""Whole numbers up to here are exact in float64."""

# ------------------------------------------------------------------ arrays


def multiply_into(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """`out = x @ y` for matrices, in pieces that leave at most 20 ms to an interrupt."""
    rows, inner, columns = x.shape[0], x.shape[1], y.shape[1]
    if (
        2 * rows * inner * columns
        <= MULTIPLY_ADDS_PER_CANCEL_CHECK["f" if x.dtype.kind == "f" else "i"]
    ):
        matmul(x, y, out)
        return
    if inner > 2 * max(rows, columns):
        half = inner // 2
        multiply_into(out, x[:, :half], y[:half])
        rest = np.empty(out.shape, out.dtype)
        multiply_into(rest, x[:, half:], y[half:])
        np.add(out, rest, out=out)
    elif rows >= columns:
        half = _half(rows)
        multiply_into(out[:half], x[:half], y)
        multiply_into(out[half:], x[half:], y)
    else:
        half = _half(columns)
        multiply_into(out[:, :half], x, y[:, :half])
        multiply_into(out[:, half:], x, y[:, half:])
    cancel.check()


def _half(size: int) -> int:
    """About half, in whole tiles of 16 where that leaves pieces of a useful size."""
    return size // 32 * 16 if size >= 64 else size // 2


def _batched_into(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Matrix products over leading axes, which broadcast."""
    work = 2 * out.size * x.shape[-1]
    if not work:  # there may be any number of empty matrices
        out.fill(0)
    elif work <= MULTIPLY_ADDS_PER_CANCEL_CHECK["f" if x.dtype.kind == "f" else "i"]:
        matmul(x, y, out)
    elif out.ndim == 2:
        multiply_into(out, x, y)
    else:
        for i in range(out.shape[0]):
            parts = [a if a.ndim < out.ndim else a[i if a.shape[0] > 1 else 0] for a in (x, y)]
            _batched_into(out[i], *parts)
        cancel.check()


def _working_dtype(x: np.ndarray, y: np.ndarray) -> type[np.generic] | np.dtype[np.generic]:
    """float16 multiplies in float32, integers in float64 where that is exact, and faster."""
    if x.dtype == np.float16:
        return np.float32
    if x.dtype.kind in "iu" and x.size and y.size and x.size * y.shape[-1] > 4096:
        largest = [max(abs(int(a.min())), abs(int(a.max()))) for a in (x, y)]
        if largest[0] * largest[1] * x.shape[-1] < MAX_EXACT_FLOAT64:
            return np.float64
    return x.dtype


def _product(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if not x.shape[-1]:
        out[...] = 0
        return out
    dtype = _working_dtype(x, y)
    if dtype == x.dtype:
        _batched_into(out, x, y)
        return out
    wide = np.empty(out.shape, dtype)
    _batched_into(wide, x.astype(dtype), y.astype(dtype))
    with np.errstate(all="ignore"):
        out[...] = wide
    return out


# ------------------------------------------------------------------ contraction


def _merged(first: Dim, second: Dim) -> Dim:
    return second if first is None else first


def _contract_infer(x: Spec, y: Spec, *, batch: int, axes: tuple[Axes, Axes]) -> Spec:
    for i in range(batch):
        if None not in (x.shape[i], y.shape[i]) and x.shape[i] != y.shape[i]:
            raise ShapeError(
                f"batch sizes differ: x {x} has {x.shape[i]} on axis {i}, y {y} has "
                f"{y.shape[i]} on axis {i}",
                axes={"x": i, "y": i},
            )
    for i, j in zip(*axes, strict=True):
        if None not in (x.shape[i], y.shape[j]) and x.shape[i] != y.shape[j]:
            raise _unequal(x, y, i, j, batch)
    common = [_merged(x.shape[i], y.shape[i]) for i in range(batch)]
    rest = [x.shape[i] for i in kept(x.ndim, batch, axes[0])]
    rest += [y.shape[i] for i in kept(y.ndim, batch, axes[1])]
    return Spec((*common, *rest), x.dtype)


def _unequal(x: Spec, y: Spec, i: int, j: int, batch: int) -> ShapeError:
    return ShapeError(
        f"inner sizes differ: x {x} has {x.shape[i]} on axis {i - x.ndim}, y {y} has "
        f"{y.shape[j]} on axis {j - y.ndim}",
        axes={"x": i - x.ndim, "y": j - y.ndim},
        suggestion=(_batch_suggestion if batch else _suggestion)(x.shape, y.shape),
    )


def _batch_suggestion(x: Shape, y: Shape) -> str | None:
    """Axes over which the product of two batches can be taken; the outermost pair comes last."""
    for i in range(len(x) - 1, 0, -1):
        for j in range(1, len(y)):
            if x[i] is not None and x[i] == y[j]:
                sizes = [*x[:i], *x[i + 1 :], *y[1:j], *y[j + 1 :]]
                result = show(sizes if len(sizes) > 1 else (*sizes, 1))[1:-1]
                return f"K.batch_dot(x, y, axes=({i}, {j})) -> ({result})"
    return None


def _suggestion(x: Shape, y: Shape) -> str | None:
    """A product of the same matrices that fits, with the shape it would have."""
    if len(x) != 2 or len(y) != 2:
        return None
    forms = (
        ("K.dot(y, x)", y[1], x[0], (y[0], x[1])),
        ("K.dot(x, K.transpose(y))", x[1], y[1], (x[0], y[0])),
        ("K.dot(K.transpose(x), y)", x[0], y[0], (x[1], y[1])),
    )
    for text, inner, other, sizes in forms:
        if inner is not None and inner == other:
            return f"{text} -> ({show(sizes)[1:-1]})"
    return None


def _contract_numpy(
    out: np.ndarray | None, x: np.ndarray, y: np.ndarray, *, batch: int, axes: tuple[Axes, Axes]
) -> np.ndarray:
    first, second = axes
    if out is not None and x.ndim == y.ndim == 2 and axes == MATRIX_AXES:
        if x.dtype.char in "fd" and (work := 2 * out.size * x.shape[1]) <= BLAS_SERIAL_FLOPS:
            if (
                work <= BLAS_SERIAL_VECTOR_FLOPS
            ):  # as `_product` would, but each question takes time
                return np.matmul(x, y, out=out)
            with fork_safety.unforked:
                return np.matmul(x, y, out=out)
        return _product(out, x, y)
    x_kept, y_kept = kept(x.ndim, batch, first), kept(y.ndim, batch, second)
    lead = tuple(range(batch))
    if out is None:
        rest = [*[x.shape[i] for i in x_kept], *[y.shape[i] for i in y_kept]]
        out = np.empty((*x.shape[:batch], *rest), x.dtype)
    left = arranged(x, batch, (*lead, *x_kept, *first), batch + len(x_kept))
    right = arranged(y, batch, (*lead, *second, *y_kept), batch + len(second))
    target = out.reshape(*left.shape[:-1], right.shape[-1])
    _product(target, left, right)
    return out


def _contract_work(x: Spec, y: Spec, *, batch: int, axes: tuple[Axes, Axes]) -> int:
    return 2 * (known_size(tuple(x.shape[i] for i in axes[0])) or 1)


def _contract_gradient(
    g: Tensor, z: Tensor, x: Tensor, y: Tensor, *, batch: int, axes: tuple[Axes, Axes]
) -> tuple[Tensor, Tensor]:
    x_kept, y_kept = kept(x.ndim, batch, axes[0]), kept(y.ndim, batch, axes[1])
    middle = batch + len(x_kept)
    from_x, from_y = tuple(range(batch, middle)), tuple(range(middle, g.ndim))
    to_x = contract(g, y, batch, (from_y, y_kept))
    to_y = contract(x, g, batch, (x_kept, from_x))
    return _restored(to_x, batch, x_kept, axes[1], axes[0]), _restored_right(
        to_y, batch, y_kept, axes[0], axes[1]
    )


def _restored(to_x: Tensor, batch: int, kept: Axes, theirs: Axes, own: Axes) -> Tensor:
    """Axes (batch, kept, contracted in the order of the other operand) as the operand has them."""
    partner = dict(zip(theirs, own, strict=True))
    return _ordered(to_x, (*range(batch), *kept, *[partner[i] for i in sorted(theirs)]))


def _restored_right(to_y: Tensor, batch: int, kept: Axes, theirs: Axes, own: Axes) -> Tensor:
    """Axes (batch, contracted in the order of the other operand, kept) likewise."""
    partner = dict(zip(theirs, own, strict=True))
    return _ordered(to_y, (*range(batch), *[partner[i] for i in sorted(theirs)], *kept))


def _ordered(tensor: Tensor, present: Sequence[int]) -> Tensor:
    """`tensor`, whose axis i is axis `present[i]` of the wanted order."""
    if list(present) == list(range(len(present))):
        return tensor
    return permute_dimensions(tensor, tuple(present.index(i) for i in range(len(present))))


def _contract_batched(
    node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]
) -> Tensor | None:
    x, y = inputs
    batch, (first, second) = node.attrs["batch"], node.attrs["axes"]
    later = tuple(tuple(axis + 1 for axis in axes) for axes in (first, second))
    if all(mapped):
        return make_node(BATCH_DOT, node, x, y, batch=batch + 1, axes=later)
    if batch:
        return None
    if mapped[0]:
        return make_node(DOT, node, x, y, batch=0, axes=(later[0], second))
    product = make_node(DOT, node, x, y, batch=0, axes=(first, later[1]))
    return axis_moved(product, x.ndim - len(first), 0)


DOT, BATCH_DOT = (
    register(
        Op(
            name,
            "structured",
            _contract_infer,
            _contract_numpy,
            _contract_gradient,
            tier="blas",
            work=_contract_work,
            kernel=contract_kernel,
            takes_epilogue=True,
            role=Role.PRODUCT,
            batched=_contract_batched,
        )
    )
    for name in ("dot", "batch_dot")
)


def contract(x: Tensor, y: Tensor, batch: int, axes: tuple[Axes, Axes]) -> Tensor:
    """Sum of products over pairs of axes; `batch` leading axes are in common.

    The result has the batch axes, then what is left of `x`, then what is left of `y`.
    """
    return apply(BATCH_DOT if batch else DOT, x, y, batch=batch, axes=axes)


def _factors(x: Operand, y: Operand) -> list[Tensor]:
    tensors = tensors_of(x, y)
    common = promote(tensors[0].spec.dtype, tensors[1].spec.dtype)
    return [converted(tensor, "int32" if common == "bool" else common) for tensor in tensors]


def _with_sparse(x: Operand, y: Operand) -> Tensor | None:
    """The product when a factor is sparse."""
    if not any(isinstance(factor, Tensor) and factor.is_sparse for factor in (x, y)):
        return None
    return dot_sparse(*tensors_of(x, y))


def dot(x: Operand, y: Operand) -> Tensor:
    """Matrix product; more than two axes contract the last of `x` with the second-to-last of `y`.

    Arguments:
        x: [..., n]. y: [..., n, m], or a vector [n]. Any numeric dtype; float16 computes in
            float32, integers keep their dtype. One of them may be sparse; then the other is a
            matrix or a vector.
    Returns:
        Tensor [*x.shape[:-1], *y.shape[:-2], m]: not batched, unlike `x @ y` and `batch_dot`.
    Raises:
        ShapeError: the contracted sizes differ, or an operand is a scalar. DtypeError: both are
            sparse.
    Gradient: to both, but not to the entries of a sparse one.
    Source: Keras 2.3 `backend.dot`; vectors as in NumPy.

    >>> K.int_shape(K.dot(K.placeholder((2, 3)), K.placeholder((4, 3, 5))))
    (2, 4, 5)
    """
    sparse = _with_sparse(x, y)
    if sparse is not None:
        return sparse
    first, second = _factors(x, y)
    for name, factor in (("x", first), ("y", second)):
        if factor.ndim == 0:
            raise ShapeError(
                f"{name} is {factor.spec}, but a product needs at least one axis",
                suggestion="x * y",
            )
    return contract(first, second, 0, ((first.ndim - 1,), (max(second.ndim - 2, 0),)))


def _pair(axes: Axis, x: Tensor, y: Tensor) -> tuple[int, int]:
    if axes is None:
        axes = (-1, -1) if y.ndim == 2 else (-1, -2)
    pair = (axes, axes) if is_whole(axes) else axes
    if not isinstance(pair, (list, tuple)) or len(pair) != 2:
        raise ArgumentError(f"axes must be None, an integer or two integers, got {shown(pair)}")
    first, second = check_axis(pair[0], x.ndim), check_axis(pair[1], y.ndim)
    if first == 0 or second == 0:
        raise ArgumentError(f"axes {shown(pair)} name axis 0, which is the batch")
    return first, second


def batch_dot(x: Operand, y: Operand, axes: int | Sequence[int] | None = None) -> Tensor:
    """The products of matching entries of two batches, over one axis of each.

    Arguments:
        x: [batch, ...]. y: [batch, ...], both of rank 2 or more.
        axes: the contracted axis of both, or one for each, not 0. None means the last of `x` and
            the second-to-last of `y`, or the last when `y` has rank 2.
    Returns:
        Tensor of the axes of `x` without the contracted one, then those of `y` without it and
        the batch; when only the batch is left, [batch, 1].
    Raises:
        ShapeError: rank below 2, or batch or contracted sizes differ.
        ArgumentError: `axes` are not integers, or name the batch.
    Gradient: to both.
    Source: Keras 2.3 `backend.batch_dot`.

    >>> K.int_shape(K.batch_dot(K.zeros((32, 20, 5)), K.zeros((32, 5, 7))))
    (32, 20, 7)
    """
    first, second = _factors(x, y)
    for name, factor in (("x", first), ("y", second)):
        if factor.ndim < 2:
            raise ShapeError(f"{name} is {factor.spec}, but rank 2 or more is needed")
    i, j = _pair(axes, first, second)
    result = contract(first, second, 1, ((i,), (j,)))
    return expand_dims(result, 1) if result.ndim == 1 else result


# ------------------------------------------------------------------ x @ y


def _matmul_infer(x: Spec, y: Spec) -> Spec:
    if None not in (x.shape[-1], y.shape[-2]) and x.shape[-1] != y.shape[-2]:
        raise _unequal(x, y, x.ndim - 1, y.ndim - 2, 0)
    return Spec((*broadcast(x.shape[:-2], y.shape[:-2]), x.shape[-2], y.shape[-1]), x.dtype)


def _matmul_numpy(out: np.ndarray | None, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if out is None:
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        out = np.empty((*lead, x.shape[-2], y.shape[-1]), x.dtype)
    return _product(out, x, y)


def _flipped(x: Tensor) -> Tensor:
    return permute_dimensions(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _matmul_gradient(g: Tensor, z: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    to_x, to_y = apply(MATMUL, g, _flipped(y)), apply(MATMUL, _flipped(x), g)
    return reduce_like(to_x, x), reduce_like(to_y, y)


def _matmul_batched(node: Tensor, inputs: Sequence[Tensor], mapped: Sequence[bool]) -> Tensor:
    widened = [
        batched_rank(operand, node.ndim) if whole else operand
        for operand, whole in zip(inputs, mapped, strict=True)
    ]
    return make_node(MATMUL, node, *widened)


MATMUL: Op = register(
    Op(
        "matmul",
        "structured",
        _matmul_infer,
        _matmul_numpy,
        _matmul_gradient,
        tier="blas",
        work=lambda x, y: 2 * (x.shape[-1] or 1),
        kernel=matmul_kernel,
        takes_epilogue=True,
        role=Role.PRODUCT,
        batched=_matmul_batched,
    )
)


@operator("__matmul__")
def _matmul(x: Operand, y: Operand) -> Tensor:
    """Matrix product `x @ y`: leading axes are a batch and broadcast; vectors as in NumPy."""
    sparse = _with_sparse(x, y)
    if sparse is not None:
        return sparse
    first, second = _factors(x, y)
    if first.ndim == 0 or second.ndim == 0:
        raise ShapeError(
            f"x is {first.spec} and y is {second.spec}, but a product needs at least one axis",
            suggestion="x * y",
        )
    if second.ndim <= 2:
        return contract(first, second, 0, ((first.ndim - 1,), (max(second.ndim - 2, 0),)))
    if first.ndim == 1:
        return squeeze(apply(MATMUL, expand_dims(first, 0), second), second.ndim - 2)
    return apply(MATMUL, first, second)
