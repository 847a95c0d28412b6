"""Gradients through determinants, inverses and solutions of linear systems.

Sources: Giles (2008), "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation"; Golub & Pereyra (1973), "The differentiation of pseudo-inverses and nonlinear
least squares problems whose variables separate".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kbench import backend as K
from kbench.api.operations import Spec, Tensor, numpy_call
from kbench.keras3.rules.nodes import (
    flipped,
    inverse,
    lacks_rank,
    masked,
    same_spec,
    times,
)


def _raised(x: Tensor) -> Tensor:
    """A number for each matrix, as a matrix of one element."""
    return K.expand_dims(K.expand_dims(x, -1), -1)


def _cofactors(a: np.ndarray) -> np.ndarray:
    """The derivative of the determinant, singular matrices included, by singular values."""
    left, values, right = np.linalg.svd(a)
    side = values.shape[-1]
    others = np.where(np.eye(side, dtype=bool), 1, values[..., None, :]).prod(-1)
    sign = np.linalg.det(left) * np.linalg.det(right)
    found: np.ndarray = (left * (sign[..., None] * others)[..., None, :]) @ right
    return found.astype(a.dtype)


def _cofactor_rule(g: Tensor, y: Tensor, a: Tensor) -> tuple[Tensor]:
    back = flipped(inverse(a))
    scale = K.sum(g * y, axis=(-2, -1), keepdims=True)
    return (scale * back - times(back, flipped(g), y),)


def det_rule(g: Tensor, y: Tensor, a: Tensor) -> tuple[Tensor]:
    """Giles 2008, 2.2.4."""
    return (_raised(g) * numpy_call(_cofactors, [a], same_spec(a), _cofactor_rule),)


def slogdet_rule(g: Mapping[int, Tensor], y: Tensor, a: Tensor) -> tuple[Tensor | None]:
    """Through the logarithm; the sign is constant in pieces."""
    return (_raised(g[1]) * flipped(inverse(a)) if 1 in g else None,)


def solve_rule(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Giles 2008, 2.3.1."""
    column = b.ndim == a.ndim - 1
    slope, found = (K.expand_dims(g, -1), K.expand_dims(y, -1)) if column else (g, y)
    to_b = times(flipped(inverse(a)), slope)
    to_a = -times(to_b, flipped(found))
    return to_a, (K.squeeze(to_b, to_b.ndim - 1) if column else to_b)


def triangular_rule(
    g: Tensor, y: Tensor, a: Tensor, b: Tensor, lower: bool = False
) -> tuple[Tensor, Tensor]:
    """Through a triangular system, which does not read the other triangle."""
    mask = np.tri(a.spec.shape[-1] or 0)
    mask = mask if lower else mask.T
    to_a, to_b = solve_rule(g, y, masked(a, mask), b)
    return masked(to_a, mask), to_b


def default_rcond(shape: tuple[int | None, ...], dtype: str) -> float:
    """The part of the largest singular value up to which another one counts as 0."""
    return float(max(size or 0 for size in shape[-2:]) * np.finfo(dtype).eps)


def pinv_rule(g: Tensor, y: Tensor, a: Tensor, rcond: float | None = None) -> tuple[Tensor]:
    """Golub & Pereyra 1973; without full rank along the changes that keep the rank.

    One term is 0 for a matrix of full rank with as many rows as columns or more, another for one
    with as many columns or more. They are left out there, so that nothing is rounded in them.
    """
    rows, columns = a.spec.shape[-2:]
    assert rows is not None and columns is not None
    turned, slope = flipped(y), flipped(g)
    limit = default_rcond(a.spec.shape, a.spec.dtype) if rcond is None else rcond
    share = lacks_rank(a, limit)
    beyond_columns = times(slope - times(a, y, slope), y, turned)
    beyond_rows = times(turned, y, slope - times(slope, y, a))
    found = -times(turned, g, turned)
    found = found + (beyond_columns if rows > columns else share * beyond_columns)
    found = found + (beyond_rows if rows < columns else share * beyond_rows)
    return (found,)


def lstsq_rule(
    g: Tensor, y: Tensor, a: Tensor, b: Tensor, rcond: float | None = None
) -> tuple[Tensor, Tensor]:
    """Through the pseudoinverse times `b`."""
    column = b.ndim == a.ndim - 1
    slope, given = (K.expand_dims(g, -1), K.expand_dims(b, -1)) if column else (g, b)
    back = _pseudoinverse(a, rcond)
    (to_a,) = pinv_rule(times(slope, flipped(given)), back, a, rcond)
    to_b = times(flipped(back), slope)
    return to_a, (K.squeeze(to_b, to_b.ndim - 1) if column else to_b)


def _pseudoinverse(a: Tensor, rcond: float | None) -> Tensor:
    limit = default_rcond(a.spec.shape, a.spec.dtype) if rcond is None else rcond

    def pinv(array: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.pinv(array, limit))

    *lead, rows, columns = a.spec.shape
    part = Spec((*lead, columns, rows), a.spec.dtype)
    return numpy_call(pinv, [a], part, lambda g, y, x: pinv_rule(g, y, x, rcond))
