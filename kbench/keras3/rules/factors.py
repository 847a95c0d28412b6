"""Gradients through factors of matrices: eigenvectors, singular vectors, triangles.

Each rule serves real and complex matrices. Transposes of the papers on real ones are conjugated
here. Sources: Giles (2008), "Collected matrix derivative results for forward and reverse mode
algorithmic differentiation"; Townsend (2016), "Differentiating the singular value decomposition";
Wan & Zhang (2019), "Automatic differentiation for complex valued SVD"; Seeger et al. (2017),
"Auto-differentiating linear algebra"; Roberts & Roberts (2020), "QR and LQ decomposition matrix
backpropagation algorithms for square, wide, and deep matrices"; Walter & Lehmann (2018),
"Algorithmic differentiation of linear algebra functions with application in optimum experimental
design"; Papanicolopulos (2024), "Derivatives of the full QR factorisation and of the factored-form
and compact WY representations"; de Hoog, Anderssen & Lukas (2011), "Differentiation of matrix
functionals using triangular factorization".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kbench import backend as K
from kbench.api.operations import GradientError, Spec
from kbench.keras3.rules.nodes import (
    Numbers,
    Slopes,
    by_numpy,
    columns_by,
    diagonal_of,
    gaps_of,
    hermitian,
    identity_like,
    inverse,
    joined_along,
    lower_part,
    nan_of_phases,
    no_slope,
    on_diagonal,
    one_over,
    one_over_gaps,
    rows_by,
    rule_on_numbers,
    total,
    upper_part,
)

ROUNDING = 64
"""So many units in the last place two elements may differ that count as equally large."""


@rule_on_numbers
def cholesky_rule(g: Numbers, y: Numbers, _a: Numbers, upper: bool = False) -> list[Numbers]:
    """Seeger et al. 2017, 4.1."""
    lower, slope = (y.H, g.H) if upper else (y, g)
    back = inverse(lower)
    side = y.shape[-1]
    inner = (lower.H @ slope) * (np.tri(side) - 0.5 * np.eye(side))
    return [hermitian(back.H @ inner @ back)]


@rule_on_numbers
def cholesky_inverse_rule(g: Numbers, y: Numbers, a: Numbers, upper: bool = False) -> list[Numbers]:
    """The inverse of L L^H, of which the derivative to L is known."""
    lower = lower_part(a.H if upper else a)
    slope = -lower_part(y @ (g + g.H) @ y @ lower)
    return [slope.H if upper else slope]


@rule_on_numbers
def eigh_rule(g: Slopes, y: list[Numbers], _a: Numbers) -> list[Numbers]:
    """Giles 2008, 3.1; NaN where a loss depends on the phases of complex vectors."""
    values, vectors = y
    parts = []
    if 1 in g:
        own = vectors.H @ g[1]
        parts.append(own * one_over_gaps(gaps_of(values)))
        if own.imaginary is not None:
            parts.append(nan_of_phases(on_diagonal(own.imaginary), [own], [g[1]]))
    if 0 in g:
        parts.append(diagonal_of(g[0]))
    return [hermitian(vectors @ total(parts) @ vectors.H)]


@rule_on_numbers
def eig_rule(g: Slopes, y: list[Numbers], a: Numbers) -> list[Numbers]:
    """Giles 2008, 3.1, of vectors as LAPACK gives them: of length 1, their largest element real.

    NaN where a loss depends on the phase of a vector whose largest element is not the only one.
    """
    values, vectors = y
    turned = vectors.H
    parts = []
    if 0 in g:
        parts.append(diagonal_of(g[0]))
    if 1 in g:
        own = turned @ g[1]
        assert own.imaginary is not None
        lengths, phases = on_diagonal(own.real), on_diagonal(own.imaginary)
        largest, ties = _largest_elements(vectors, a.imaginary is None)
        slope = g[1] - columns_by(vectors, Numbers(lengths))
        size = K.sum(vectors.real * largest.real, axis=-2)
        turn = columns_by(largest, Numbers(phases / size)).real
        slope = slope - Numbers(K.zeros_like(turn), turn)
        parts.append(turned @ slope * one_over_gaps(gaps_of(values)).conjugate)
        parts.append(nan_of_phases(phases * ties.real, [own], [g[1]]))
    return [inverse(turned) @ total(parts) @ turned]


def _largest_elements(vectors: Numbers, of_real: bool) -> list[Numbers]:
    """1 in place of the element that LAPACK made real, 0 elsewhere; and for each vector 1 where
    another element is as large but for rounding, else 0.

    A real vector of a real matrix stays real, whichever of its elements is the largest.
    """

    def found(array: np.ndarray) -> Any:
        sizes = np.abs(array)
        place = np.where(array.imag == 0, sizes, -1).argmax(-2)[..., None, :]
        here = np.arange(array.shape[-2])[:, None] == place
        size = np.take_along_axis(sizes, place, -2)
        near = sizes > size * (1 - ROUNDING * np.finfo(sizes.dtype).eps)
        stays = of_real & (array.imag == 0).all(-2)
        return here, (near.sum(-2) > 1) & ~stays

    half = str(vectors.real.spec.dtype)
    specs = [(vectors.shape, half), (vectors.shape[:-1], half)]
    return by_numpy("largest", found, vectors, specs, no_slope)


# ------------------------------------------------------------------ singular values


def thin_svd(a: Numbers) -> list[Numbers]:
    """As many singular vectors of both sides as there are singular values."""
    *lead, rows, columns = a.shape
    count = min(rows, columns)
    specs = [
        ((*lead, rows, count), a.dtype),
        ((*lead, count), str(a.real.spec.dtype)),
        ((*lead, count, columns), a.dtype),
    ]

    def svd(array: np.ndarray) -> Any:
        return tuple(np.linalg.svd(array, full_matrices=False))

    return by_numpy("svd", svd, a, specs, lambda g, y, x: svd_rule(g, y, x, False))


@rule_on_numbers
def svd_rule(
    g: Any, y: Any, a: Numbers, full_matrices: bool = True, compute_uv: bool = True
) -> list[Numbers]:
    """Townsend 2016, Wan & Zhang 2019; of singular values alone, U diag(g) V^H.

    NaN where a loss depends on the phases of complex vectors.
    """
    if not compute_uv:
        left, _, right = thin_svd(a)
        return [columns_by(left, g) @ right]
    left, values, right = y
    rows, columns = a.shape[-2:]
    count = min(rows, columns)
    beyond = (rows > count and 0 in g) or (columns > count and 2 in g)
    if full_matrices and beyond:
        raise GradientError(
            f"svd of {Spec(a.shape, a.dtype)} with full_matrices=True gives vectors that its "
            "singular values do not determine, which have no derivative; full_matrices=False "
            "leaves them out",
            function="gradients",
        )
    return [_through_svd(g, left[..., :, :count], values, right[..., :count, :])]


def _through_svd(g: Slopes, left: Numbers, values: Numbers, right: Numbers) -> Numbers:
    sums = values.each(lambda x: K.expand_dims(x, -2) + K.expand_dims(x, -1))
    shares = one_over_gaps(gaps_of(values) * sums)
    inner, outer = [], []
    own = {}
    if 1 in g:
        inner.append(diagonal_of(g[1]))
    if 0 in g:
        own[0] = left.H @ g[0]
        turned = own[0] * shares
        inner.append(columns_by(turned + turned.H, values))
        if left.shape[-2] != left.shape[-1]:
            outer.append(columns_by(g[0] - left @ own[0], one_over(values)) @ right)
    if 2 in g:
        own[2] = (g[2] @ right.H).H
        turned = own[2] * shares
        inner.append(rows_by(turned + turned.H, values))
        if right.shape[-2] != right.shape[-1]:
            outer.append(left @ rows_by(g[2] - own[2].H @ right, one_over(values)))
    inner.extend(_of_phases(list(own.values()), [g[i] for i in own], values))
    return total([left @ total(inner) @ right, *outer])


def _of_phases(own: list[Numbers], slopes: list[Numbers], values: Numbers) -> list[Numbers]:
    """What the gradients to vectors, left and right or one of them, say of their phases.

    Of both together only the difference is determined.
    """
    turns = [on_diagonal(one.imaginary) for one in own if one.imaginary is not None]
    if not turns:
        return []
    if len(turns) == 1:
        return [nan_of_phases(turns[0], own, slopes)]
    apart = Numbers((turns[0] - turns[1]) * 0.5 / values.real)
    zeros = K.zeros_like(apart.real)
    turn = diagonal_of(Numbers(zeros, apart.real))
    return [turn, nan_of_phases(turns[0] + turns[1], own, slopes)]


# ------------------------------------------------------------------ orthogonal and triangular


@rule_on_numbers
def qr_rule(g: Slopes, y: list[Numbers], a: Numbers, mode: str = "reduced") -> list[Numbers]:
    """Roberts & Roberts 2020; of a wide matrix the square part first.

    Signs and phases are those of LAPACK, which makes the diagonal of the triangle real.
    """
    q, r = y
    rows, columns = a.shape[-2:]
    if mode == "complete" and rows > columns:
        slopes = {}
        if 0 in g:
            slopes[0] = _to_first_columns(g[0], q, columns)
        if 1 in g:
            slopes[1] = g[1][..., :columns, :]
        g = slopes
        q, r = q[..., :, :columns], r[..., :columns, :]
    to_q = g[0] if 0 in g else q.each(K.zeros_like)
    to_r = g[1] if 1 in g else r.each(K.zeros_like)
    if rows >= columns:
        return [_through_square_qr(q, r, to_q, to_r)]
    rest, to_rest = a[..., :, rows:], to_r[..., :, rows:]
    to_q = to_q + rest @ to_rest.H
    first = _through_square_qr(q, r[..., :, :rows], to_q, to_r[..., :, :rows])
    return [joined_along(-1, first, q @ to_rest)]


def _to_first_columns(slope: Numbers, q: Numbers, count: int) -> Numbers:
    """Through the columns that LAPACK's reflections add (Papanicolopulos 2024).

    They are E - (E - Q) Z^H of the first columns Q, with Z = below (above - I)^-1 of their rows.
    """
    first = q[..., :, :count]
    above, below = first[..., :count, :], first[..., count:, :]
    eye = Numbers(K.constant(np.eye(q.shape[-1], count), dtype=q.real.spec.dtype))
    back = inverse(above - identity_like(above))
    shares = below @ back
    to_first, to_rest = slope[..., :, :count], slope[..., :, count:]
    turned = to_rest.H @ (first - eye) @ back.H
    return to_first + to_rest @ shares + joined_along(-2, -(shares.H @ turned), turned)


def _through_square_qr(q: Numbers, r: Numbers, to_q: Numbers, to_r: Numbers) -> Numbers:
    """Walter & Lehmann 2018, of a triangle with a real diagonal."""
    inner = r @ to_r.H - to_q.H @ q
    below = lower_part(inner, 1)
    diagonal = Numbers(inner.real) * np.eye(inner.shape[-1])
    return (to_q + q @ (below + below.H + diagonal)) @ inverse(r).H


def _rows_back(pivots: Numbers, size: int, dtype: str) -> Numbers:
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

    specs = [((*pivots.shape[:-1], size, size), dtype)]
    return by_numpy("rows_back", back, pivots, specs, no_slope)[0]


@rule_on_numbers
def lu_rule(g: Slopes, y: list[Numbers], a: Numbers) -> list[Numbers | None]:
    """de Hoog, Anderssen & Lukas 2011; a matrix that is no square by its square part."""
    if 0 not in g:
        return [None]
    both, pivots = y
    slope = g[0]
    rows, columns = a.shape[-2:]
    count = min(rows, columns)
    top, to_top = both[..., :count, :count], slope[..., :count, :count]
    lower, upper = lower_part(top, 1) + identity_like(top), upper_part(top)
    below = lower.H @ lower_part(to_top, 1)
    above = upper_part(to_top) @ upper.H
    to_columns, to_rows = inverse(lower).H, inverse(upper).H
    if columns > count:
        below = below - slope[..., :, count:] @ both[..., :, count:].H
    if rows > count:
        above = above - both[..., count:, :].H @ slope[..., count:, :]
    found = to_columns @ (lower_part(below, 1) + upper_part(above)) @ to_rows
    if columns > count:
        found = joined_along(-1, found, to_columns @ slope[..., :, count:])
    if rows > count:
        found = joined_along(-2, found, slope[..., count:, :] @ to_rows)
    return [_rows_back(pivots, rows, str(a.real.spec.dtype)) @ found]
