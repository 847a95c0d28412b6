"""Branch-free scalar functions that LLVM turns into SIMD inside a loop: the exponential family.

Each function `name_f32` / `name_f64` is right for NaN, infinities, zeros and denormals. The largest
error found against a wider reference is 2 units in the last place for float32 and 3 for float64
(`tests/engine/intrinsics/test_accuracy.py` measures it). Clamps are written so that NaN fails every
comparison and so passes. Coefficients are own fits: weighted least squares for float32, Chebyshev
in 50 digits for float64.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.intrinsics.primitives import (
    bits_of_f32,
    bits_of_f64,
    copysign,
    f32_of_bits,
    f64_of_bits,
    fabs,
    fused,
    polynomial,
    square_root,
)
from kbench.engine.jit.numba_backend import inline

F32, I32, I64 = np.float32, np.int32, np.int64

ONE, TWO, HALF = F32(1), F32(2), F32(0.5)
INF, NAN = F32(np.inf), F32(np.nan)
LOG2E = F32(1.4426950408889634)
LN2 = F32(0.6931471805599453)
LN2_HIGH, LN2_LOW = F32(0.693359375), F32(-2.12194440e-4)
MAGIC = F32(12582912.0)  # 1.5 * 2^23: adding it leaves the nearest integer in the low bits
LN2_HIGH_64, LN2_LOW_64 = 6.93147180369123816490e-01, 1.90821492927058770002e-10
MAGIC_64 = 6755399441055744.0

_exp_f32 = polynomial(
    0.4999999952528148,
    0.16666573694401465,
    0.041666860986466776,
    0.008363739843670252,
    0.0013901529440690393,
)
_exp_whole_f32 = polynomial(
    1.0,
    1.0,
    0.4999999952528148,
    0.16666573694401465,
    0.041666860986466776,
    0.008363739843670252,
    0.0013901529440690393,
)
_exp_f64 = polynomial(
    0.4999999999999999,
    0.1666666666666645,
    0.04166666666664335,
    0.008333333333646118,
    0.0013888888909792474,
    0.00019841268879279003,
    2.4801530699995622e-05,
    2.75583770894318e-06,
    2.7616327905092186e-07,
    2.468616842657152e-08,
)
_log_f32 = polynomial(
    0.33333312603015874,
    -0.25000009606138884,
    0.20002118724507467,
    -0.16667995547598752,
    0.1421955092252033,
    -0.12405593250074122,
    0.11888176364292163,
    -0.11675632206145395,
    0.06746587037787882,
)
_log_f64 = polynomial(
    0.6666666666666838,
    0.3999999999869192,
    0.28571428907357455,
    0.22222181709410319,
    0.18184428142883738,
    0.1529230337294952,
    0.15010467883846484,
)
_tanh_f32 = polynomial(
    -0.333332783133183,
    0.13331328914408974,
    -0.05372922674649414,
    0.020601998307147023,
    -0.005660779619238827,
)
_tanh_f64 = polynomial(
    -0.3333333333333333,
    0.1333333333333276,
    -0.053968253967489145,
    0.021869488496195088,
    -0.00886323445636975,
    0.0035921111540182776,
    -0.0014556680542120901,
    0.0005889668638907071,
    -0.00023472661897624728,
    8.52643792388099e-05,
    -2.0708300493391477e-05,
)
_expm1_f32 = polynomial(
    0.16666666772936778,
    0.04166648131308754,
    0.008333281968063213,
    0.001393339662998275,
    0.0001990981436558917,
)


@inline
def _power_of_two(k):
    """2^k for -126 <= k <= 127, by its bits."""
    return f32_of_bits(I32((k + I32(127)) << I32(23)))


@inline
def _power_of_two_64(k):
    return f64_of_bits((k + 1023) << 52)


@inline
def _parts(y):
    """exp(y) as p 2^k by y = k ln 2 + r, for y that is clamped already."""
    t = y * LOG2E + MAGIC
    n = t - MAGIC
    k = I32(bits_of_f32(t) - I32(0x4B400000))
    r = y - n * LN2_HIGH
    r = r - n * LN2_LOW
    return _exp_f32(r) * (r * r) + r + ONE, k


@inline
def _scaled(p, k):
    """p 2^k by two factors, so that denormals and infinity come by rounding."""
    half = I32(k >> I32(1))
    return p * _power_of_two(half) * _power_of_two(I32(k - half))


@inline
def _parts_64(y):
    t = y * 1.4426950408889634 + MAGIC_64
    n = t - MAGIC_64
    k = bits_of_f64(t) - 0x4338000000000000
    r = y - n * LN2_HIGH_64
    r = r - n * LN2_LOW_64
    return _exp_f64(r) * (r * r) + r + 1.0, k


@inline
def _scaled_64(p, k):
    half = k >> 1
    return p * _power_of_two_64(half) * _power_of_two_64(k - half)


@inline
def exp_f32(x):
    y = F32(89.0) if x > F32(89.0) else x
    y = F32(-104.0) if y < F32(-104.0) else y
    p, k = _parts(y)
    return _scaled(p, k)


@inline
def exp_f64(x):
    y = 710.0 if x > 710.0 else x
    y = -746.0 if y < -746.0 else y
    p, k = _parts_64(y)
    return _scaled_64(p, k)


@inline
def _decay(size):
    """exp(-size) for size >= 0."""
    y = F32(-104.0) if size > F32(104.0) else -size
    p, k = _parts(y)
    return _scaled(p, k)


@inline
def _decay_64(size):
    y = -746.0 if size > 746.0 else -size
    p, k = _parts_64(y)
    return _scaled_64(p, k)


@inline
def expm1_f32(x):
    y = F32(89.0) if x > F32(89.0) else x
    y = F32(-30.0) if y < F32(-30.0) else y
    t = y * LOG2E + MAGIC
    n = t - MAGIC
    k = I32(bits_of_f32(t) - I32(0x4B400000))
    r = y - n * LN2_HIGH
    r = r - n * LN2_LOW
    p = r + r * r * (HALF + r * _expm1_f32(r))
    s = _power_of_two(I32(k - I32(1)))
    value = TWO * (s * p + (s - HALF))
    value = p if k == I32(0) else value  # keeps -0 and tiny x exact
    return x if x == F32(0) else value


@inline
def expm1_f64(x):
    """exp(x) - 1 = 2^k (expm1(r) + 1 - 2^-k), with the small part of r kept apart."""
    y = 710.0 if x > 710.0 else x
    y = -40.0 if y < -40.0 else y
    t = y * 1.4426950408889634 + MAGIC_64
    n = t - MAGIC_64
    k = bits_of_f64(t) - 0x4338000000000000
    high = y - n * LN2_HIGH_64
    low = n * LN2_LOW_64
    r = high - low
    rest = (high - r) - low
    p = r + (r * r * _exp_f64(r) + rest)
    s = _power_of_two_64(k - 1)
    value = 2.0 * (s * p + (s - 0.5))
    value = p if k == 0 else value
    return x if x == 0.0 else value


@inline
def log_f32(x):
    """log by x = m 2^e with m around 1; denormals are scaled up first."""
    tiny = x < F32(1.17549435e-38)
    y = x * F32(8388608.0) if tiny else x
    bits = bits_of_f32(y)
    e = I32((bits >> I32(23)) - I32(126))
    m = f32_of_bits(I32((bits & I32(0x007FFFFF)) | I32(0x3F000000)))
    low = m < F32(0.70710678)
    m = m + m if low else m
    n = F32(e) - (ONE if low else F32(0)) - (F32(23) if tiny else F32(0))
    t = m - ONE
    z = t * t
    r = t * z * _log_f32(t) + n * LN2_LOW - HALF * z
    r = r + t + n * LN2_HIGH
    r = x if x == INF else r
    r = -INF if x == F32(0) else r
    return r if x >= F32(0) else NAN


@inline
def log_f64(x):
    tiny = x < 2.2250738585072014e-308
    y = x * 18014398509481984.0 if tiny else x
    bits = bits_of_f64(y)
    m = f64_of_bits((bits & 0xFFFFFFFFFFFFF) | 0x3FE0000000000000)
    low = m < 0.7071067811865476
    m = m + m if low else m
    e = np.float64((bits >> 52) - 1022) - (1.0 if low else 0.0) - (54.0 if tiny else 0.0)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    h = 0.5 * f * f
    r = e * LN2_HIGH_64 - ((h - (s * (h + z * _log_f64(z)) + e * LN2_LOW_64)) - f)
    r = x if x == np.inf else r
    r = -np.inf if x == 0.0 else r
    return r if x >= 0.0 else np.nan


@inline
def log1p_f32(x):
    """log(u) with u = 1 + x rounded, corrected by what the rounding lost."""
    u = ONE + x
    lost = (x - (u - ONE)) / u
    r = log_f32(u) + lost
    r = x if x == INF else r
    r = -INF if x == F32(-1) else r
    return x if x == F32(0) else r


@inline
def log1p_f64(x):
    u = 1.0 + x
    lost = (x - (u - 1.0)) / u if x < 1.0 else (1.0 - (u - x)) / u
    r = log_f64(u) + lost
    r = x if x == np.inf else r
    r = -np.inf if x == -1.0 else r
    return x if fabs(x) < 1e-17 else r


@inline
def tanh_f32(x):
    """tanh near 0 by its series, farther out by 1 - 2 / (exp(2 |x|) + 1); both for |x|.

    The quotient is at most 0.45 there, so exp(2 |x|) needs no second part of ln 2.
    """
    size = fabs(x)
    z = size * size
    near = _tanh_f32(z) * z * size + size
    y = F32(20) if size > F32(10) else size + size  # 1 from there on
    t = y * LOG2E + MAGIC
    power = _exp_whole_f32(fused(MAGIC - t, LN2, y))
    scale = f32_of_bits(I32((bits_of_f32(t) << I32(23)) + I32(0x3F800000)))
    far = ONE - TWO / (power * scale + ONE)
    return copysign(near if size < F32(0.625) else far, x)


@inline
def tanh_f64(x):
    size = fabs(x)
    z = x * x
    near = copysign(x * z * _tanh_f64(z) + x, x)
    p, k = _parts_64(40.0 if size > 20.0 else size + size)
    far = copysign(1.0 - 2.0 / (p * _power_of_two_64(k) + 1.0), x)
    return near if size < 0.547 else far


@inline
def sigmoid_f32(x):
    """exp(-|x|) never overflows, so the far negative tail keeps its denormals.

    The quotient is corrected by its remainder, which brings the error from 2.3 below 2 units.
    """
    tail = _decay(fabs(x))
    whole = ONE + tail
    lost = tail - (whole - ONE)
    inverse = ONE / whole
    above = tail if x < F32(0) else ONE
    quotient = above * inverse
    return quotient + (fused(-quotient, whole, above) - quotient * lost) * inverse


@inline
def sigmoid_f64(x):
    tail = _decay_64(fabs(x))
    return (tail if x < 0.0 else 1.0) / (1.0 + tail)


@inline
def softplus_f32(x):
    return log1p_f32(_decay(fabs(x))) + (F32(0) if x < F32(0) else x)


@inline
def softplus_f64(x):
    return log1p_f64(_decay_64(fabs(x))) + (0.0 if x < 0.0 else x)


@inline
def sqrt_f32(x):
    return square_root(x)


@inline
def sqrt_f64(x):
    return square_root(x)


@inline
def rsqrt_f32(x):
    return ONE / square_root(x)


@inline
def rsqrt_f64(x):
    return 1.0 / square_root(x)
