"""Gradients through factors of matrices: eigenvectors, singular vectors, triangles.

Sources: Giles (2008), "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation"; Townsend (2016), "Differentiating the singular value decomposition"; Seeger et al.
(2017), "Auto-differentiating linear algebra"; Roberts & Roberts (2020), "QR and LQ decomposition
matrix backpropagation algorithms for square, wide, and deep matrices"; de Hoog, Anderssen & Lukas
(2011), "Differentiation of matrix functionals using triangular factorization".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kbench import backend as K
from kbench.api.operations import GradientError, Spec, Tensor, numpy_call, numpy_calls, results
from kbench.keras3.rules.nodes import (
    columns_by,
    diagonal_of,
    flipped,
    gaps_of,
    identity_like,
    inverse,
    lower_part,
    masked,
    one_over_gaps,
    rows_by,
    side_of,
    times,
    upper_part,
)

Slopes = Mapping[int, Tensor]
"""The gradients that arrived, by the number of the result."""


def _sum(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _symmetric(x: Tensor) -> Tensor:
    return (x + flipped(x)) * 0.5


def _or_zeros(g: Slopes, place: int, like: Tensor) -> Tensor:
    return g[place] if place in g else K.zeros_like(like)


def cholesky_rule(g: Tensor, y: Tensor, a: Tensor, upper: bool = False) -> tuple[Tensor]:
    """Seeger et al. 2017, 4.1."""
    lower, slope = (flipped(y), flipped(g)) if upper else (y, g)
    back = inverse(lower)
    inner = times(flipped(lower), slope)
    half = np.tri(side_of(inner)) - 0.5 * np.eye(side_of(inner))
    inner = masked(inner, half)
    return (_symmetric(times(flipped(back), inner, back)),)


def cholesky_inverse_rule(g: Tensor, y: Tensor, a: Tensor, upper: bool = False) -> tuple[Tensor]:
    """The inverse of L L', of which the derivative to L is known."""
    lower = lower_part(flipped(a) if upper else a)
    slope = -lower_part(times(y, g + flipped(g), y, lower))
    return (flipped(slope) if upper else slope,)


def eigh_rule(g: Slopes, y: Tensor, a: Tensor) -> tuple[Tensor]:
    """Giles 2008, 3.1, of a symmetric matrix."""
    values, vectors = results(y)
    turned = flipped(vectors)
    parts = []
    if 1 in g:
        parts.append(times(turned, g[1]) * one_over_gaps(values, gaps_of(values)))
    if 0 in g:
        parts.append(diagonal_of(g[0]))
    return (_symmetric(times(vectors, _sum(parts), turned)),)


# ------------------------------------------------------------------ singular values


def thin_svd(a: Tensor) -> list[Tensor]:
    """As many singular vectors of both sides as there are singular values."""
    *lead, rows, columns = a.spec.shape
    assert rows is not None and columns is not None
    count = min(rows, columns)
    shapes = [(*lead, rows, count), (*lead, count), (*lead, count, columns)]

    def svd(array: np.ndarray) -> Any:
        return tuple(np.linalg.svd(array, full_matrices=False))

    parts = [Spec(tuple(shape), a.spec.dtype) for shape in shapes]
    return numpy_calls(svd, [a], parts, lambda g, y, x: svd_rule(g, y, x, False))


def svd_rule(
    g: Any, y: Tensor, a: Tensor, full_matrices: bool = True, compute_uv: bool = True
) -> tuple[Tensor]:
    """Townsend 2016; of singular values alone, U diag(g) V'."""
    if not compute_uv:
        left, _, right = thin_svd(a)
        return (times(columns_by(left, g), right),)
    left, values, right = results(y)
    rows, columns = a.spec.shape[-2:]
    assert rows is not None and columns is not None
    count = min(rows, columns)
    beyond = (rows > count and 0 in g) or (columns > count and 2 in g)
    if full_matrices and beyond:
        raise GradientError(
            f"svd of {a.spec} with full_matrices=True gives vectors that its singular values do "
            "not determine, which have no derivative; full_matrices=False leaves them out",
            function="gradients",
        )
    left, right = left[..., :, :count], right[..., :count, :]
    return (_through_svd(g, left, values, right),)


def _through_svd(g: Slopes, left: Tensor, values: Tensor, right: Tensor) -> Tensor:
    gaps = gaps_of(values)
    shares = one_over_gaps(values, gaps * (K.expand_dims(values, -2) + K.expand_dims(values, -1)))
    inner, outer = [], []
    if 1 in g:
        inner.append(diagonal_of(g[1]))
    if 0 in g:
        own = times(flipped(left), g[0])
        turned = own * shares
        inner.append(columns_by(turned + flipped(turned), values))
        if left.spec.shape[-2] != left.spec.shape[-1]:
            outer.append(times(columns_by(g[0] - times(left, own), 1.0 / values), right))
    if 2 in g:
        own = times(g[2], flipped(right))
        turned = flipped(own) * shares
        inner.append(rows_by(turned + flipped(turned), values))
        if right.spec.shape[-2] != right.spec.shape[-1]:
            outer.append(times(left, rows_by(g[2] - times(own, right), 1.0 / values)))
    return _sum([times(left, _sum(inner), right), *outer])


# ------------------------------------------------------------------ orthogonal and triangular


def qr_rule(g: Slopes, y: Tensor, a: Tensor, mode: str = "reduced") -> tuple[Tensor]:
    """Roberts & Roberts 2020; of a wide matrix the square part first."""
    q, r = results(y)
    rows, columns = a.spec.shape[-2:]
    assert rows is not None and columns is not None
    if mode == "complete" and rows > columns:
        if 0 in g:
            raise GradientError(
                f"qr of {a.spec} with mode='complete' gives columns that the matrix does not "
                "determine, which have no derivative; mode='reduced' leaves them out",
                function="gradients",
            )
        g = {1: g[1][..., :columns, :]}
        q, r = q[..., :, :columns], r[..., :columns, :]
    to_q, to_r = _or_zeros(g, 0, q), _or_zeros(g, 1, r)
    if rows >= columns:
        return (_through_square_qr(q, r, to_q, to_r),)
    rest, to_rest = a[..., :, rows:], to_r[..., :, rows:]
    to_q = to_q + times(rest, flipped(to_rest))
    first = _through_square_qr(q, r[..., :, :rows], to_q, to_r[..., :, :rows])
    return (K.concatenate([first, times(q, to_rest)], -1),)


def _through_square_qr(q: Tensor, r: Tensor, to_q: Tensor, to_r: Tensor) -> Tensor:
    inner = times(r, flipped(to_r)) - times(flipped(to_q), q)
    inner = lower_part(inner) + flipped(lower_part(inner, 1))
    return times(to_q + times(q, inner), flipped(inverse(r)))


def _rows_back(pivots: Tensor, size: int, dtype: str) -> Tensor:
    """The matrix that moves rows back to where they were before they were exchanged."""

    def back(exchanged: np.ndarray) -> np.ndarray:
        flat = exchanged.reshape(-1, exchanged.shape[-1])
        found = np.zeros((len(flat), size, size), dtype)
        for matrix, swaps in zip(found, flat, strict=True):
            order = np.arange(size)
            for row, other in enumerate(swaps):
                order[[row, other]] = order[[other, row]]
            matrix[order, np.arange(size)] = 1
        return found.reshape(*exchanged.shape[:-1], size, size)

    lead = pivots.spec.shape[:-1]
    return numpy_call(back, [pivots], Spec((*lead, size, size), dtype), lambda g, y, p: (None,))


def lu_rule(g: Slopes, y: Tensor, a: Tensor) -> tuple[Tensor | None]:
    """de Hoog, Anderssen & Lukas 2011; a matrix that is no square by its square part."""
    if 0 not in g:
        return (None,)
    both, pivots = results(y)
    slope = g[0]
    rows, columns = a.spec.shape[-2:]
    assert rows is not None and columns is not None
    count = min(rows, columns)
    top, to_top = both[..., :count, :count], slope[..., :count, :count]
    lower, upper = lower_part(top, 1) + identity_like(top), upper_part(top)
    below = times(flipped(lower), lower_part(to_top, 1))
    above = times(upper_part(to_top), flipped(upper))
    to_columns, to_rows = flipped(inverse(lower)), flipped(inverse(upper))
    if columns > count:
        to_rest = slope[..., :, count:]
        below = below - times(to_rest, flipped(both[..., :, count:]))
    if rows > count:
        to_rest = slope[..., count:, :]
        above = above - times(flipped(both[..., count:, :]), to_rest)
    found = times(to_columns, lower_part(below, 1) + upper_part(above), to_rows)
    if columns > count:
        found = K.concatenate([found, times(to_columns, slope[..., :, count:])], -1)
    if rows > count:
        found = K.concatenate([found, times(slope[..., count:, :], to_rows)], -2)
    return (times(_rows_back(pivots, rows, str(a.spec.dtype)), found),)
