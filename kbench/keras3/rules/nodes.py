"""Matrices as nodes, of which any leading axes are a stack: what the rules are made of."""

from __future__ import annotations

import numpy as np

from kbench import backend as K
from kbench.api.operations import Spec, Tensor, numpy_call


def flipped(x: Tensor) -> Tensor:
    """The last two axes exchanged."""
    order = list(range(x.ndim))
    order[-1], order[-2] = order[-2], order[-1]
    return K.permute_dimensions(x, order)


def times(x: Tensor, *others: Tensor) -> Tensor:
    """The product of matrices."""
    for y in others:
        x = x @ y if x.ndim > 2 or y.ndim > 2 else K.dot(x, y)
    return x


def columns_by(x: Tensor, scale: Tensor) -> Tensor:
    """Each column of a matrix times its own number."""
    return x * K.expand_dims(scale, -2)


def rows_by(x: Tensor, scale: Tensor) -> Tensor:
    """Each row of a matrix times its own number."""
    return x * K.expand_dims(scale, -1)


def masked(x: Tensor, mask: np.ndarray) -> Tensor:
    """The elements times those of a matrix that is known."""
    return x * K.constant(mask.astype(x.spec.dtype), dtype=x.spec.dtype)


def side_of(x: Tensor) -> int:
    """The number of columns."""
    size = x.spec.shape[-1]
    assert size is not None
    return size


def _ones(x: Tensor) -> np.ndarray:
    return np.ones([size or 0 for size in x.spec.shape[-2:]])


def lower_part(x: Tensor, below: int = 0) -> Tensor:
    """The lower triangle, so many diagonals below the main one; zeros above."""
    return masked(x, np.tril(_ones(x), -below))


def upper_part(x: Tensor) -> Tensor:
    """The upper triangle; zeros below."""
    return masked(x, np.triu(_ones(x)))


def identity_like(x: Tensor) -> Tensor:
    """The identity with as many columns as `x`."""
    return K.constant(np.eye(side_of(x)), dtype=x.spec.dtype)


def diagonal_of(values: Tensor) -> Tensor:
    """The matrix with these values on its diagonal."""
    return rows_by(identity_like(values), values)


def one_over_gaps(values: Tensor, gaps: Tensor) -> Tensor:
    """One over each gap, 0 on the diagonal; infinite where two values are equal."""
    eye = identity_like(values)
    return 1.0 / (gaps + eye) - eye


def gaps_of(values: Tensor) -> Tensor:
    """At row i and column j, value j less value i."""
    return K.expand_dims(values, -2) - K.expand_dims(values, -1)


def same_spec(x: Tensor) -> Spec:
    return Spec(x.spec.shape, x.spec.dtype)


def _inverses(a: np.ndarray) -> np.ndarray:
    """The inverses of a stack; NaN for a matrix that has none."""
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        flat = a.reshape(-1, *a.shape[-2:])
        if len(flat) == 1:
            return np.full_like(a, np.nan)
        return np.concatenate([_inverses(one[None]) for one in flat]).reshape(a.shape)


def inverse(x: Tensor) -> Tensor:
    """The inverse; NaN where there is none."""
    return numpy_call(_inverses, [x], same_spec(x), inverse_rule)


def inverse_rule(g: Tensor, y: Tensor, _a: Tensor) -> tuple[Tensor]:
    """Through an inverse (Giles 2008, 2.2.3)."""
    turned = flipped(y)
    return (-times(turned, g, turned),)


def lacks_rank(a: Tensor, rcond: float) -> Tensor:
    """For each matrix 1 where a singular value counts as 0, else 0; of shape (..., 1, 1)."""

    def told(array: np.ndarray) -> np.ndarray:
        sizes = np.linalg.svd(array, compute_uv=False)
        there = sizes[..., -1:] > rcond * sizes[..., :1]
        return (~there)[..., None].astype(array.dtype)

    told.__name__ = "lacks_rank"
    part = Spec((*a.spec.shape[:-2], 1, 1), a.spec.dtype)
    return numpy_call(told, [a], part, lambda g, y, x: (None,))
