"""Branch-free scalar functions, continued: error function and powers (see `exp`)."""

from __future__ import annotations

import math

import numpy as np

from kbench.engine.core.special import ERF_FAR, ERF_NEAR
from kbench.engine.intrinsics.exp import MAGIC_64, NAN, ONE, exp_f32, exp_f64
from kbench.engine.intrinsics.primitives import (
    bits_of_f32,
    bits_of_f64,
    copysign,
    f64_of_bits,
    fabs,
    polynomial,
    rint,
)
from kbench.engine.jit.numba_backend import inline

F32 = np.float32

_erf_near_f32 = polynomial(
    0.1283791665057135,
    -0.3761263238826018,
    0.11283674071282881,
    -0.026858185883574002,
    0.005197991811029061,
    -0.0008108082517894579,
    8.223986106680019e-05,
)
_erf_far_f32 = polynomial(
    -0.00018173873252071818,
    1.1295495701237632,
    0.6332753835360284,
    0.10836051705285651,
    -0.025172582544172,
    0.004191696378430588,
    -0.0004388157873721147,
    2.1479953054921297e-05,
)
_erf_near_f64 = polynomial(*ERF_NEAR)
_erf_far_f64 = polynomial(*ERF_FAR)
_log2_f64 = polynomial(
    2.8853900817778526,
    0.9617966941153009,
    0.5770779418425664,
    0.41220930325972127,
    0.31990364391759857,
    0.2829293005711902,
)
_exp2_f64 = polynomial(
    0.999999999959549,
    0.6931471805350293,
    0.24022651213585203,
    0.055504109761082505,
    0.009618025603974545,
    0.0013333422642879786,
    0.00015469731718476275,
    1.5316462855471087e-05,
)


@inline
def erf_f32(x):
    """x + x P(x^2) below 0.945, where P is small; else 1 - exp(-g(x)) with g = -log erfc."""
    size = fabs(x)
    clamped = F32(4) if size > F32(4) else size
    near = copysign(x + x * _erf_near_f32(x * x), x)
    far = copysign(ONE - exp_f32(-_erf_far_f32(clamped)), x)
    return near if size < F32(0.945) else far


@inline
def erf_f64(x):
    """x P(x^2) below 1, else 1 - exp(-x^2) Q(t) / (1 + 2x) with t = (x - 2.5) / (x + 2.5)."""
    size = fabs(x)
    clamped = 6.0 if size > 6.0 else size
    near = x * _erf_near_f64(x * x)
    t = (clamped - 2.5) / (clamped + 2.5)
    tail = exp_f64(-clamped * clamped) * _erf_far_f64(t) / (1.0 + 2.0 * clamped)
    far = copysign(1.0 - tail, x)
    return near if size < 1.0 else far


@inline
def _log2(a):
    """log2 of a non-negative float64 that came from a float32."""
    bits = bits_of_f64(a)
    e = np.float64((bits >> 52) - 1022)
    m = f64_of_bits((bits & 0xFFFFFFFFFFFFF) | 0x3FE0000000000000)
    low = m < 0.7071067811865476
    m = m + m if low else m
    e = e - 1.0 if low else e
    s = (m - 1.0) / (m + 1.0)
    r = s * _log2_f64(s * s) + e
    r = -np.inf if a == 0.0 else r
    return np.inf if a == np.inf else r


@inline
def power_f32(x, y):
    """2^(y log2|x|) in double; the sign and C's special cases by selects."""
    p = np.float64(y) * _log2(np.float64(fabs(x)))
    p = 300.0 if p > 300.0 else p
    p = -300.0 if p < -300.0 else p
    t = p + MAGIC_64
    n = t - MAGIC_64
    scale = f64_of_bits((bits_of_f64(t) - 0x4338000000000000 + 1023) << 52)
    value = F32(_exp2_f64(p - n) * scale)
    size = fabs(y)
    half = y * F32(0.5)
    whole = rint(y) == y
    odd = whole & (rint(half) != half) & (size < F32(16777216.0))
    negative = bits_of_f32(x) < 0
    value = -value if negative & odd else value
    value = NAN if (x < F32(0)) & (not whole) & (x != -F32(np.inf)) else value
    value = NAN if x != x else value
    one = (y == F32(0)) | (x == ONE) | ((x == F32(-1)) & (size == F32(np.inf)))
    return ONE if one else value


@inline
def power_f64(x, y):
    """The C library's power: not SIMD, but right to the last place."""
    return math.pow(x, y)
