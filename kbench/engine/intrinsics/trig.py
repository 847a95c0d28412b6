"""Branch-free sine and cosine that are right for every finite argument (see `exp`).

The `_near_` forms reduce by subtracting multiples of pi/2 in parts: several times as fast, but only
right up to `loop_source.MAX_FAST_ANGLE`. A loop nest chooses by a block's largest angle.

x is reduced to a quadrant and a rest in [-pi/4, pi/4] by multiplying it with a window of the bits
of 2/pi. The exponent of x chooses the window: bits whose product is a multiple of four quadrants
are left out (Payne and Hanek, 1983, without their branch).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from kbench.engine.intrinsics.exp import MAGIC_64
from kbench.engine.intrinsics.primitives import (
    bits_of_f32,
    bits_of_f64,
    choice,
    f64_of_bits,
    fabs,
    fused,
    polynomial,
    rint,
    table,
)
from kbench.engine.jit.numba_backend import inline

F32, I64 = np.float32, np.int64

TWO_OVER_PI = (
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e00649"
    "2eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8b"
    "bdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5"
    "f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361da9e391615ee61b08"
)
"""The first 1344 bits of 2/pi behind the binary point."""

GROUP_ELEMENTS = 16
HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
HALF_PI_REST = -1.4973849048591833e-33
TWO_OVER_PI_64 = 0.6366197723675814


def _window(top: int, count: int, scale: int) -> list[float]:
    """The bits of 2/pi below weight 2^top, times 2^scale, as a sum of `count` doubles."""
    bits = 4 * len(TWO_OVER_PI)
    value = int(TWO_OVER_PI, 16)
    rest = Fraction(value % (1 << (bits + top)) if top < 0 else value, 1 << (bits - scale))
    parts = []
    for _ in range(count):
        parts.append(float(rest))
        rest -= Fraction(parts[-1])
    return parts


def _windows(digits: int, largest: int, count: int) -> list[tuple[float, ...]]:
    """Columns of windows for each group of exponents, for numbers of that many binary digits.

    Each window is scaled up by 2^(16 group), as the number is scaled down: no part is denormal.
    """
    rows = []
    for group in range(largest // GROUP_ELEMENTS + 1):
        parts = _window(digits + 1 - GROUP_ELEMENTS * group, count, GROUP_ELEMENTS * group)
        rows.append(parts)
    return list(zip(*rows, strict=True))


_first_f32, _second_f32 = (choice(*column) for column in _windows(24, 128, 2))
_first, _second, _third, _fourth = (table(*column) for column in _windows(53, 1024, 4))

_sin_f32 = polynomial(
    -0.16666666641224354, 0.00833332933847535, -0.000198393193903012, 2.7181627689480837e-06
)
_cos_f32 = polynomial(0.04166664662829168, -0.0013887355357155172, 2.443700695261224e-05)
_sin_f64 = polynomial(
    -0.16666666666666666,
    0.008333333333330901,
    -0.00019841269836686008,
    2.7557316064986773e-06,
    -2.505112403138208e-08,
    1.59175674789068e-10,
)
_cos_f64 = polynomial(
    0.041666666666666664,
    -0.0013888888888887367,
    2.480158729872029e-05,
    -2.7557317248229367e-07,
    2.0876141380294955e-09,
    -1.1382280957702634e-11,
)


@inline
def _scale(group):
    """2^(-16 group), by its bits."""
    return f64_of_bits((1023 - (group << 4)) << 52)


@inline
def _mod4(x):
    return x - 4.0 * rint(0.25 * x)


@inline
def _sincos_f32(x, shift):
    exponent = I64((bits_of_f32(x) >> np.int32(23)) & np.int32(255)) - 127
    group = (exponent if exponent > 0 else 0) >> 4
    wide = np.float64(x) * _scale(group)
    first = _first_f32(group)
    product = wide * first
    rest = fused(wide, first, -product) + wide * _second_f32(group)
    product = _mod4(product)
    t = product + MAGIC_64
    quadrant = bits_of_f64(t) + shift
    return _finish_f32(F32(((product - (t - MAGIC_64)) + rest) * HALF_PI), quadrant)


@inline
def _finish_f32(r, quadrant):
    """Sine of a rest r in [-pi/4, pi/4], some quadrants further."""
    z = r * r
    s = r + r * z * _sin_f32(z)
    c = (F32(1) - F32(0.5) * z) + z * z * _cos_f32(z)
    value = c if (quadrant & 1) != 0 else s
    return -value if (quadrant & 2) != 0 else value


@inline
def _near_f32(x, shift):
    wide = np.float64(x)
    t = wide * TWO_OVER_PI_64 + MAGIC_64
    k = t - MAGIC_64
    r = F32(fused(-k, HALF_PI, wide) - k * HALF_PI_LOW)
    return _finish_f32(r, bits_of_f64(t) + shift)


@inline
def sin_near_f32(x):
    return x if x == F32(0) else _near_f32(x, 0)


@inline
def cos_near_f32(x):
    return _near_f32(x, 1)


@inline
def sin_f32(x):
    return x if x == F32(0) else _sincos_f32(x, 0)


@inline
def cos_f32(x):
    return _sincos_f32(x, 1)


@inline
def _lost(x, y, total):
    """What rounding lost in total = x + y (Knuth's two-sum)."""
    part = total - x
    return (x - (total - part)) + (y - part)


@inline
def _sincos_f64(x, shift):
    exponent = ((bits_of_f64(x) >> 52) & 2047) - 1023
    group = (exponent if exponent > 0 else 0) >> 4
    x = x * _scale(group)
    first, second, third = _first(group), _second(group), _third(group)
    p1, p2, p3 = x * first, x * second, x * third
    e1, e2 = fused(x, first, -p1), fused(x, second, -p2)
    e3 = fused(x, third, -p3) + x * _fourth(group)
    # The parts that may hold whole quadrants, then the nearest quadrant taken off exactly.
    a, b, c = _mod4(p1), _mod4(e1), _mod4(p2)
    ab = a + b
    abc = ab + c
    low = _lost(a, b, ab) + _lost(ab, c, abc)
    t = abc + MAGIC_64
    quadrant = bits_of_f64(t) + shift
    f = abc - (t - MAGIC_64)
    f1 = f + p3
    f2 = f1 + e2
    low += _lost(f, p3, f1) + _lost(f1, e2, f2) + e3
    high = f2 + low
    low = _lost(f2, low, high)
    r = high * HALF_PI
    low = fused(high, HALF_PI, -r) + high * HALF_PI_LOW + low * HALF_PI
    return _finish_f64(r, low, quadrant)


@inline
def _finish_f64(r, low, quadrant):
    """Sine of a rest r + low in [-pi/4, pi/4], some quadrants further."""
    z = r * r
    s = r + (r * z * _sin_f64(z) + low)
    h = 0.5 * z
    o = 1.0 - h
    k = o + ((1.0 - o - h) + (z * z * _cos_f64(z) - r * low))
    value = k if (quadrant & 1) != 0 else s
    return -value if (quadrant & 2) != 0 else value


@inline
def _near_f64(x, shift):
    t = x * TWO_OVER_PI_64 + MAGIC_64
    k = t - MAGIC_64
    a = fused(-k, HALF_PI, x)  # exact: both sides are multiples of 2^-52, the difference below 1
    w = k * HALF_PI_LOW
    r = a - w
    low = ((a - r) - w) - (fused(k, HALF_PI_LOW, -w) + k * HALF_PI_REST)
    return _finish_f64(r, low, bits_of_f64(t) + shift)


@inline
def sin_near_f64(x):
    return x if fabs(x) < 1e-9 else _near_f64(x, 0)


@inline
def cos_near_f64(x):
    return _near_f64(x, 1)


@inline
def sin_f64(x):
    return x if fabs(x) < 1e-9 else _sincos_f64(x, 0)


@inline
def cos_f64(x):
    return _sincos_f64(x, 1)
