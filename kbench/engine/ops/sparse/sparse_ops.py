"""What can be done with sparse tensors: made dense, cast, multiplied, joined.

Every other operation refuses them (`op.apply`). Gradients flow to the dense side; the entries of
a sparse tensor have none.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.engine.core.csr import Csr, fill_dense, multiply, sparse_dtype, with_data
from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError
from kbench.engine.core.spec import INTEGERS, Spec, promote
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, cast_array, shared
from kbench.engine.graph.declare import structured
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.elementwise.arithmetic import cast
from kbench.engine.ops.layout.reshape import expand_dims, squeeze, transpose

# ------------------------------------------------------------------ to_dense


def _dense_numpy(out: np.ndarray | None, x: Csr) -> np.ndarray:
    if out is None:
        out = np.empty(x.shape, x.dtype)
    fill_dense(out, x)
    return out


TO_DENSE = structured(
    "to_dense",
    lambda x: Spec(x.shape, x.dtype),
    _dense_numpy,
    lambda g, y, x: (None,),
    sparse=True,
    tier="scipy",
)


def to_dense(tensor: Operand) -> Tensor:
    """A dense tensor of the same shape and dtype.

    Arguments:
        tensor: a sparse tensor; a dense one is returned as it is.
    Returns:
        Tensor with zeros where the sparse one has no entry.
    Raises:
        DtypeError: not a tensor, and no array either.
    Gradient: none to a sparse tensor.
    Source: Keras 2.3 `backend.to_dense`.

    >>> import scipy.sparse
    >>> K.eval(K.to_dense(K.variable(scipy.sparse.csr_matrix([[0, 2], [0, 0]]))))
    array([[0., 2.],
           [0., 0.]], dtype=float32)
    """
    x = as_tensor(tensor)
    return apply(TO_DENSE, x) if x.spec.sparse else x


# ------------------------------------------------------------------ cast


def _cast_infer(x: Spec, *, dtype: str, through: str | None = None) -> Spec:
    return Spec(x.shape, dtype, sparse=True)


def _cast_numpy(out: np.ndarray | None, x: Csr, *, dtype: str, through: str | None = None) -> Csr:
    if through is None:
        return with_data(x, cast_array(x.data, dtype))
    with np.errstate(all="ignore"):
        return with_data(x, x.data.astype(through).astype(dtype))


CAST = structured(
    "cast_sparse",
    _cast_infer,
    _cast_numpy,
    lambda g, y, x, dtype, through=None: (None,),
    allocates=True,
    sparse=True,
)


@shared
def cast_sparse(x: Tensor, dtype: str, through: str | None = None) -> Tensor:
    """`cast` of a sparse tensor, which stays sparse.

    Its entries are first rounded to the dtype `through`, which may be one that SciPy lacks, such as
    float16.
    """
    if through is None:
        return apply(CAST, x, dtype=sparse_dtype(dtype))
    return apply(CAST, x, dtype=sparse_dtype(dtype), through=through)


# ------------------------------------------------------------------ dot


def _dot_infer(x: Spec, y: Spec, *, transposed: bool) -> Spec:
    inner, outer = x.shape if transposed else x.shape[::-1]
    if None not in (inner, y.shape[0]) and inner != y.shape[0]:
        raise ShapeError(
            f"inner sizes differ: {inner} of the sparse factor {x}, {y.shape[0]} of the other, {y}"
        )
    return Spec((outer, y.shape[1]), y.dtype)


def _dot_numpy(out: np.ndarray | None, x: Csr, y: np.ndarray, *, transposed: bool) -> np.ndarray:
    return multiply(x, y, transposed)


def _dot_gradient(
    g: Tensor, z: Tensor, x: Tensor, y: Tensor, *, transposed: bool
) -> tuple[Tensor | None, ...]:
    return None, apply(DOT, x, g, transposed=not transposed)


DOT = structured(
    "dot_sparse",
    _dot_infer,
    _dot_numpy,
    _dot_gradient,
    allocates=True,
    sparse=True,
    tier="scipy",
    work=lambda x, y, *, transposed: 0,  # as much as there are entries, which no Spec tells
)


def dot_sparse(x: Tensor, y: Tensor) -> Tensor:
    """The product of a sparse and a dense tensor, in either order; a dense tensor."""
    if x.spec.sparse and y.spec.sparse:
        raise DtypeError(
            f"x is {x.spec} and y is {y.spec}: only one factor can be sparse",
            suggestion="K.dot(x, K.to_dense(y))",
        )
    dense = y if x.spec.sparse else x
    if dense.ndim not in (1, 2):
        raise ShapeError(
            f"x is {x.spec} and y is {y.spec}: the dense factor must be a matrix or a vector"
        )
    common = promote(x.spec.dtype, y.spec.dtype)
    working = {"bool": "int32", "float16": "float32"}.get(common, common)
    first, second = cast(x, working), cast(y, working)
    product = _right(first, second) if x.spec.sparse else _left(first, second)
    return cast(product, "float16") if common == "float16" else product


def _right(x: Tensor, y: Tensor) -> Tensor:
    """Sparse times dense."""
    if y.ndim == 1:
        return squeeze(apply(DOT, x, expand_dims(y, 1), transposed=False), 1)
    return apply(DOT, x, y, transposed=False)


def _left(x: Tensor, y: Tensor) -> Tensor:
    """Dense times sparse: x y = (y' x')'."""
    if x.ndim == 1:
        return squeeze(apply(DOT, y, expand_dims(x, 1), transposed=True), 1)
    return transpose(apply(DOT, y, transpose(x), transposed=True))


# ------------------------------------------------------------------ concatenate


def _concatenate_infer(*tensors: Spec, axis: int) -> Spec:
    across = 1 - axis
    sizes = {x.shape[across] for x in tensors if x.shape[across] is not None}
    if len(sizes) > 1:
        raise ShapeError(
            f"{', '.join(map(str, tensors))} differ on axis {across}, which is not the axis {axis} "
            "that is joined"
        )
    along = [x.shape[axis] for x in tensors]
    shape = [sizes.pop() if sizes else None] * 2
    shape[axis] = None if None in along else sum(size or 0 for size in along)
    return Spec(tuple(shape), tensors[0].dtype, sparse=True)


def _concatenate_numpy(out: np.ndarray | None, *xs: Csr, axis: int) -> Csr:
    from scipy import sparse

    join = sparse.vstack if axis == 0 else sparse.hstack
    return sparse.csr_array(join(xs, format="csr", dtype=xs[0].dtype))


CONCATENATE = structured(
    "concatenate_sparse",
    _concatenate_infer,
    _concatenate_numpy,
    lambda g, y, *xs, axis: (None,) * len(xs),
    allocates=True,
    sparse=True,
    tier="scipy",
)


def concatenate_sparse(tensors: Sequence[Tensor], axis: int) -> Tensor:
    """Sparse tensors of one dtype joined along an axis; the result is sparse."""
    return apply(CONCATENATE, *tensors, axis=axis)


# ------------------------------------------------------------------ labels of CTC


def _labels_infer(labels: Spec, label_lengths: Spec) -> Spec:
    rows, others = labels.shape[0], label_lengths.shape[0]
    if None not in (rows, others) and rows != others:
        raise ShapeError(
            f"labels is {labels}, which has {rows} rows, but label_lengths is {label_lengths}"
        )
    rows = others if rows is None else rows
    return Spec((rows, labels.shape[1]), labels.dtype, sparse=True)


def _labels_numpy(out: np.ndarray | None, labels: np.ndarray, lengths: np.ndarray) -> Csr:
    from scipy import sparse

    most = labels.shape[1]
    wrong = np.flatnonzero((lengths < 0) | (lengths > most))
    if wrong.size:
        row = int(wrong[0])
        raise ArgumentError(
            f"row {row} of labels has {most} places, but label_lengths[{row}] is {lengths[row]}"
        )
    taken = np.arange(most) < lengths[:, None]
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    columns = np.broadcast_to(np.arange(most), labels.shape)[taken]
    return sparse.csr_array((labels[taken], columns, starts), shape=labels.shape)


LABELS = structured(
    "ctc_label_dense_to_sparse",
    _labels_infer,
    _labels_numpy,
    lambda g, y, labels, lengths: (None, None),
    allocates=True,
)


def ctc_label_dense_to_sparse(labels: Operand, label_lengths: Operand) -> Tensor:
    """The labels of a batch as a sparse tensor that keeps the first ones of each row.

    Arguments:
        labels: [batch, most], integers as a rule.
        label_lengths: integers[batch], how many labels of each row count; label 0 is kept too.
    Returns:
        Sparse tensor [batch, most] of the dtype of `labels`.
    Raises:
        ShapeError: other ranks, or another number of rows.
        DtypeError: lengths that are not integers, or float16 labels.
        ArgumentError: at evaluation, a length below 0 or above the number of places.
    Gradient: none.
    Source: Keras 2.3 `backend.ctc_label_dense_to_sparse`.

    >>> K.eval(K.ctc_label_dense_to_sparse(K.constant([[3, 1], [2, 7]], "int32"), [2, 1]))
    array([[3, 1],
           [2, 0]], dtype=int32)
    """
    first, lengths = as_tensor(labels), as_tensor(label_lengths)
    if first.ndim != 2 or lengths.ndim != 1:
        raise ShapeError(
            f"labels is {first.spec} and label_lengths {lengths.spec}; needed are [batch, most] "
            "and [batch]"
        )
    if lengths.spec.dtype not in INTEGERS:
        raise DtypeError(f"label_lengths must be integers, got {lengths.spec}")
    sparse_dtype(first.spec.dtype)
    return apply(LABELS, first, lengths)
