"""Products and running totals on NumPy whose intermediate results do no harm.

A product that goes beyond float64 on the way to a number within it keeps its exponent apart. That
is rare, and told by the processor's own flags, so that the plain form is tried first. A running sum
of float64 keeps what each addition loses.
"""

from __future__ import annotations

import math

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.types import Array, Axes

CHUNK_ROWS = 512
"""Mantissas, of 1/2 to 2, that are multiplied before the exponent of the product is taken off."""
SUM_CHUNK_ROWS = 8
"""Numbers that are added by themselves before they join a running sum, as the kernels do it: the
error grows with it, and with nothing else."""
SLAB_ELEMENTS = 1 << 16
"""Elements that are taken apart at a time."""
MAX_EXPONENT = 4000
"""Exponents beyond which every number is 0 or infinite."""

Factors = tuple[Array, Array]
"""Mantissas in float64, and exponents of 2 in int64."""


def factored(x: Array) -> Factors:
    """The mantissa and the exponent of each number; 0, infinity and NaN have the exponent 0."""
    mantissas, exponents = np.frexp(x.astype(np.float64, copy=False))
    return mantissas, np.where(np.isfinite(mantissas), exponents, 0).astype(np.int64)


def scaled(factors: Factors) -> Array:
    """The numbers that mantissas and exponents stand for."""
    mantissas, exponents = factors
    with np.errstate(all="ignore"):
        shift = np.clip(exponents, -MAX_EXPONENT, MAX_EXPONENT).astype(np.intc)
        return np.asarray(np.ldexp(mantissas, shift))


def product(x: Array, axis: Axes, keepdims: bool = False) -> Array:
    """The product of floats over axes, in float64."""
    try:
        return _plain_product(x, axis, keepdims)
    except FloatingPointError:
        return scaled(_apart(x, axis, keepdims))


def product_factors(x: Array, axis: Axes, keepdims: bool = False) -> Factors:
    """The product of floats over axes, to be multiplied by others."""
    try:
        return factored(_plain_product(x, axis, keepdims))
    except FloatingPointError:
        return _apart(x, axis, keepdims)


def product_of_factors(factors: Factors, axis: Axes, keepdims: bool = False) -> Factors:
    """The product of what is taken apart already."""
    mantissas, exponents = product_factors(factors[0], axis, keepdims)
    return mantissas, exponents + np.sum(factors[1], axis, keepdims=keepdims)


def _plain_product(x: Array, axis: Axes, keepdims: bool) -> Array:
    with np.errstate(over="raise", under="raise", invalid="ignore"):
        whole = np.prod(x, axis, np.float64, keepdims=keepdims)
    return np.asarray(whole)


def _apart(x: Array, axis: Axes, keepdims: bool) -> Factors:
    kept = [size for at, size in enumerate(x.shape) if at not in axis]
    left = [1 if at in axis else size for at, size in enumerate(x.shape)] if keepdims else kept
    across = math.prod(kept)
    rows = np.moveaxis(x, axis, range(len(axis))).reshape(-1, across)
    mantissas, exponents = np.ones(across), np.zeros(across, np.int64)
    step = max(1, SLAB_ELEMENTS // max(1, across * CHUNK_ROWS)) * CHUNK_ROWS
    with np.errstate(all="ignore"):
        for start in range(0, len(rows), step):
            parts, more = factored(rows[start : start + step])
            chunks = np.multiply.reduceat(parts, np.arange(0, len(parts), CHUNK_ROWS), axis=0)
            wholes, beyond = factored(chunks)
            mantissas, rest = factored(mantissas * np.multiply.reduce(wholes, axis=0))
            exponents += rest + np.add.reduce(more, axis=0) + np.add.reduce(beyond, axis=0)
            cancel.check()
    return mantissas.reshape(left), exponents.reshape(left)


def running_product(x: Array, axis: int) -> Array:
    """Running products of floats, in float64."""
    try:
        with np.errstate(over="raise", under="raise", invalid="ignore"):
            return np.asarray(np.multiply.accumulate(x, axis, dtype=np.float64))
    except FloatingPointError:
        return scaled(running_factors(factored(x), axis))


def running_factors(factors: Factors, axis: int) -> Factors:
    """Running products of what is taken apart; the mantissas are taken apart anew now and then."""
    mantissas, exponents = (np.moveaxis(part, axis, 0) for part in factors)
    found, powers = np.empty(mantissas.shape), np.empty(mantissas.shape, np.int64)
    before: Factors = np.ones(mantissas.shape[1:]), np.zeros(mantissas.shape[1:], np.int64)
    with np.errstate(all="ignore"):
        for start in range(0, len(mantissas), CHUNK_ROWS):
            rows, places = (part[start : start + CHUNK_ROWS] for part in (found, powers))
            np.multiply.accumulate(mantissas[start : start + CHUNK_ROWS], axis=0, out=rows)
            np.add.accumulate(exponents[start : start + CHUNK_ROWS], axis=0, out=places)
            rows *= before[0]
            places += before[1]
            last, more = factored(rows[-1])
            before = last, places[-1] + more
            cancel.check()
    return np.moveaxis(found, 0, axis), np.moveaxis(powers, 0, axis)


def running_sum(x: Array, axis: int) -> Array:
    """Running sums of float64: of few numbers alone, on top of sums that keep what they lose."""
    rows, result = np.moveaxis(x, axis, 0), np.empty(x.shape)
    target, whole = np.moveaxis(result, axis, 0), len(rows) // SUM_CHUNK_ROWS * SUM_CHUNK_ROWS
    shape = (whole // SUM_CHUNK_ROWS, SUM_CHUNK_ROWS, *rows.shape[1:])
    parts = target[:whole].reshape(shape)
    np.add.accumulate(rows[:whole].reshape(shape), axis=1, out=parts)
    np.add.accumulate(rows[whole:], axis=0, out=target[whole:])
    if len(rows) > SUM_CHUNK_ROWS:
        totals, carries = running_totals(parts[:, -1], 0)
        carries = np.where(np.isnan(carries), 0.0, carries)
        for addend in (carries, totals):
            parts[1:] += addend[:-1, None]
            target[whole:] += addend[-1]
    return result


def running_totals(x: Array, axis: int) -> tuple[Array, Array]:
    """Running sums of float64, and what they have lost: Knuth 2, 4.2.2, theorem B, at each step."""
    totals = np.add.accumulate(x, axis, dtype=np.float64)
    after, before = np.moveaxis(totals, axis, 0)[1:], np.moveaxis(totals, axis, 0)[:-1]
    carries = np.zeros(totals.shape)
    losses = np.moveaxis(carries, axis, 0)[1:]
    rest = after - before
    np.subtract(after, rest, out=losses)
    np.subtract(before, losses, out=losses)
    losses += np.moveaxis(x, axis, 0)[1:] - rest
    return totals, np.add.accumulate(carries, axis, out=carries)
