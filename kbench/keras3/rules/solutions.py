"""Gradients through determinants, inverses and solutions of linear systems.

Each rule serves real and complex matrices. Sources: Giles (2008), "Collected matrix derivative
results for forward and reverse mode algorithmic differentiation"; Golub & Pereyra (1973), "The
differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate".
"""

from __future__ import annotations

import numpy as np

from kbench import backend as K
from kbench.keras3.rules.nodes import (
    Numbers,
    Slopes,
    by_numpy,
    inverse,
    lacks_rank,
    rule_on_numbers,
)


def _raised(x: Numbers) -> Numbers:
    """A number for each matrix, as a matrix of one element."""
    return x.each(lambda one: K.expand_dims(K.expand_dims(one, -1), -1))


def _as_column(x: Numbers) -> Numbers:
    return x.each(lambda one: K.expand_dims(one, -1))


def _as_vector(x: Numbers) -> Numbers:
    return x.each(lambda one: K.squeeze(one, one.ndim - 1))


def cofactors(a: np.ndarray) -> np.ndarray:
    """The derivative of the determinant, conjugated, by singular values: singular ones included."""
    left, values, right = np.linalg.svd(a)
    side = values.shape[-1]
    others = np.where(np.eye(side, dtype=bool), 1, values[..., None, :]).prod(-1)
    sign = np.conj(np.linalg.det(left) * np.linalg.det(right))
    found: np.ndarray = (left * (sign[..., None] * others)[..., None, :]) @ right
    return found.astype(a.dtype)


@rule_on_numbers
def _cofactor_rule(g: Numbers, y: Numbers, a: Numbers) -> list[Numbers]:
    back = inverse(a).H
    scale = (g.conjugate * y).each(lambda x: K.sum(x, axis=(-2, -1), keepdims=True))
    return [scale * back - y @ g.H @ back]


@rule_on_numbers
def det_rule(g: Numbers, _y: Numbers, a: Numbers) -> list[Numbers]:
    """Giles 2008, 2.2.4; singular matrices included."""
    return [_raised(g) * by_numpy("det", cofactors, a, [(a.shape, a.dtype)], _cofactor_rule)[0]]


@rule_on_numbers
def slogdet_rule(g: Slopes, y: list[Numbers], a: Numbers) -> list[Numbers | None]:
    """Through the logarithm of the size, and the phase of the sign, which a real one lacks."""
    slope = g.get(1)
    turn = y[0] * g[0].conjugate if 0 in g else None
    if turn is not None and turn.imaginary is not None:
        size = K.zeros_like(turn.real) if slope is None else slope.real
        slope = Numbers(size, -turn.imaginary)
    return [None if slope is None else _raised(slope) * inverse(a).H]


@rule_on_numbers
def solve_rule(g: Numbers, y: Numbers, a: Numbers, b: Numbers) -> list[Numbers]:
    """Giles 2008, 2.3.1."""
    return _through_solution(g, y, a, b)


def _through_solution(g: Numbers, y: Numbers, a: Numbers, b: Numbers) -> list[Numbers]:
    column = b.ndim == a.ndim - 1
    slope, found = (_as_column(g), _as_column(y)) if column else (g, y)
    to_b = inverse(a).H @ slope
    return [-(to_b @ found.H), _as_vector(to_b) if column else to_b]


@rule_on_numbers
def triangular_rule(
    g: Numbers, y: Numbers, a: Numbers, b: Numbers, lower: bool = False
) -> list[Numbers]:
    """Through a triangular system, which does not read the other triangle."""
    mask = np.tri(a.shape[-1])
    mask = mask if lower else mask.T
    to_a, to_b = _through_solution(g, y, a * mask, b)
    return [to_a * mask, to_b]


def default_rcond(shape: tuple[int | None, ...], dtype: str) -> float:
    """The part of the largest singular value up to which another one counts as 0."""
    return float(max(size or 0 for size in shape[-2:]) * np.finfo(dtype).eps)


@rule_on_numbers
def pinv_rule(g: Numbers, y: Numbers, a: Numbers, rcond: float | None = None) -> list[Numbers]:
    """Golub & Pereyra 1973; without full rank along the changes that keep the rank."""
    return [_through_pinv(g, y, a, rcond)]


def _through_pinv(g: Numbers, y: Numbers, a: Numbers, rcond: float | None) -> Numbers:
    """One term is 0 for a matrix of full rank with as many rows as columns or more, another for one
    with as many columns or more. They are left out there, so that nothing is rounded in them."""
    rows, columns = a.shape[-2:]
    turned, slope = y.H, g.H
    share = lacks_rank(a, default_rcond(a.shape, a.dtype) if rcond is None else rcond)
    beyond_columns = (slope - a @ y @ slope) @ y @ turned
    beyond_rows = turned @ y @ (slope - slope @ y @ a)
    found = -(turned @ g @ turned)
    found = found + (beyond_columns if rows > columns else share * beyond_columns)
    return found + (beyond_rows if rows < columns else share * beyond_rows)


@rule_on_numbers
def lstsq_rule(
    g: Numbers, y: Numbers, a: Numbers, b: Numbers, rcond: float | None = None
) -> list[Numbers]:
    """Through the pseudoinverse times `b`."""
    column = b.ndim == a.ndim - 1
    slope, given = (_as_column(g), _as_column(b)) if column else (g, b)
    back = _pseudoinverse(a, rcond)
    to_b = back.H @ slope
    return [
        _through_pinv(slope @ given.H, back, a, rcond),
        _as_vector(to_b) if column else to_b,
    ]


def _pseudoinverse(a: Numbers, rcond: float | None) -> Numbers:
    limit = default_rcond(a.shape, a.dtype) if rcond is None else rcond

    def pinv(array: np.ndarray) -> np.ndarray:
        return np.asarray(np.linalg.pinv(array, limit))

    specs = [((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)]
    return by_numpy("pinv", pinv, a, specs, lambda g, y, x: pinv_rule(g, y, x, rcond))[0]
