"""Scalar helpers that are the same for every dtype, and integer arithmetic as NumPy does it.

Numba computes small integers in 64 bits; the loop writer casts back, so they wrap as in NumPy.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.intrinsics.primitives import (
    bits_of_f64,
    ceil,
    copysign,
    f64_of_bits,
    fabs,
    floor,
    largest,
    remainder,
    rint,
    select,
    smallest,
)
from kbench.engine.jit.numba_backend import any_order, exact_inline, inline

F32 = np.float32
SMALLEST_NORMAL = 2.0**-1022
"""Below it a float64 has no exponent of its own."""


@inline
def square(x):
    return x * x


@inline
def cube(x):
    return x * x * x


@inline
def reciprocal(x):
    return F32(1) / x


@inline
def absolute_float(x):
    return fabs(x)


@inline
def absolute_int(x):
    return -x if x < 0 else x


@inline
def sign_f32(x):
    one = F32(1) if x > F32(0) else F32(-1)
    return one if (x > F32(0)) | (x < F32(0)) else (x if x != x else F32(0))


@inline
def sign_f64(x):
    one = 1.0 if x > 0.0 else -1.0
    return one if (x > 0.0) | (x < 0.0) else (x if x != x else 0.0)


@inline
def sign_int(x):
    return (1 if x > 0 else 0) - (1 if x < 0 else 0)


@inline
def sign_uint(x):
    return 1 if x > 0 else 0


@inline
def maximum_float(x, y):
    return largest(x, y)


@inline
def minimum_float(x, y):
    return smallest(x, y)


@inline
def maximum_int(x, y):
    return x if x > y else y


@inline
def minimum_int(x, y):
    return x if x < y else y


@inline
def floor_float(x):
    return floor(x)


@inline
def ceil_float(x):
    return ceil(x)


@inline
def rint_float(x):
    return rint(x)


@inline
def floordiv_int(x, y):
    """Rounds down; 0 for y = 0; wraps for the smallest integer by -1, a hardware trap."""
    safe = 1 if (y == 0) | (y == -1) else y
    quotient = x // safe
    quotient = -x if y == -1 else quotient
    return 0 if y == 0 else quotient


@inline
def mod_int(x, y):
    """Has the sign of y; 0 for y = 0."""
    safe = 1 if (y == 0) | (y == -1) else y
    return x % safe


@inline
def floordiv_uint(x, y):
    safe = y if y != 0 else y + np.uint64(1)
    return x // safe if y != 0 else y


@inline
def mod_uint(x, y):
    safe = y if y != 0 else y + np.uint64(1)
    return x % safe if y != 0 else y


@inline
def mod_float(x, y):
    rest = remainder(x, y)
    moved = rest + y if (rest < 0) != (y < 0) else rest
    return moved if rest != 0 else copysign(rest, y)


@inline
def floordiv_float(x, y):
    """NumPy's: the exact remainder taken off first, then rounded to the nearest whole quotient."""
    rest = remainder(x, y)
    quotient = (x - rest) / y
    quotient = quotient - F32(1) if (rest != 0) & ((rest < 0) != (y < 0)) else quotient
    whole = floor(quotient)
    whole = whole + F32(1) if quotient - whole > 0.5 else whole
    result = whole if quotient != 0 else copysign(quotient * F32(0), x / y)
    return x / y if y == 0 else result


@inline
def power_int(x, n):
    """By squaring, wrapping; a negative exponent gives 1 / x cut to an integer."""
    if n < 0:
        return 1 if x == 1 else ((1 if n % 2 == 0 else -1) if x == -1 else 0)
    result = x * 0 + 1
    while n > 0:
        if n & 1:
            result = result * x
        x = x * x
        n = n >> 1
    return result


@inline
def power_uint(x, n):
    result = x * np.uint64(0) + np.uint64(1)
    while n > np.uint64(0):
        if n & np.uint64(1):
            result = result * x
        x = x * x
        n = n >> np.uint64(1)
    return result


@any_order
def plus(total, x):
    """One step of a sum whose order is free."""
    return total + x


@any_order
def times(total, x):
    """One step of a product whose order is free."""
    return total * x


@exact_inline
def lost(total, x, joint):
    """What rounding took from `joint`, the sum of two numbers; NaN where that is not finite.

    Knuth, The Art of Computer Programming 2, 4.2.2, theorem B: exact, whichever is larger.
    """
    rest = joint - total
    return (total - (joint - rest)) + (x - rest)


@exact_inline
def settled(total, carry):
    """A total with all that was lost on the way to it."""
    return select(carry == carry, total + carry, total)


@exact_inline
def _magnified(x):
    return select(fabs(x) < SMALLEST_NORMAL, x * 18014398509481984.0, x)  # by 2 ** 54


@exact_inline
def mantissa(x):
    """A float64 without its exponent: 1 to 2, with its sign; 0, infinity and NaN as they are."""
    return mantissa_narrow(_magnified(x))


@exact_inline
def exponent(x):
    """The exponent that `mantissa` leaves out."""
    shift = select((fabs(x) < SMALLEST_NORMAL) & (x != 0.0), np.int64(54), np.int64(0))
    return exponent_narrow(_magnified(x)) - shift


@exact_inline
def mantissa_narrow(x):
    """`mantissa` of a float64 that was a float32, and so is not below the least normal number."""
    one = f64_of_bits(bits_of_f64(x) & -0x7FF0000000000001 | 0x3FF0000000000000)
    return select((fabs(x) > 0.0) & (fabs(x) < np.inf), one, x)


@exact_inline
def exponent_narrow(x):
    """The exponent that `mantissa_narrow` leaves out."""
    place = np.int64((bits_of_f64(fabs(x)) >> 52) - 1023)
    return select((fabs(x) > 0.0) & (fabs(x) < np.inf), place, np.int64(0))


@exact_inline
def half_power(power):
    """2 to half of a power; beyond the powers that make 0 or infinity of every number, of those."""
    half = _bounded(power) >> 1
    return f64_of_bits((half + 1023) << 52)


@exact_inline
def other_half(power):
    """2 to the other half of a power."""
    whole = _bounded(power)
    return f64_of_bits((whole - (whole >> 1) + 1023) << 52)


@exact_inline
def _bounded(power):
    low = select(power < -2044, np.int64(-2044), power)
    return select(low > 2046, np.int64(2046), low)


@exact_inline
def scaled(factor, power):
    """`factor`, of at least 1, times 2 to a power, by halves that a float64 has."""
    return factor * half_power(power) * other_half(power)


@exact_inline
def kept(carry):
    """What was lost on the way to a total; nothing where the total is not finite."""
    return select(carry == carry, carry, 0.0)


@inline
def summed(total, other, local):
    """A total with the sum of a chunk, and what it has lost so far."""
    joint = total + local
    return joint, kept(other + lost(total, local, joint))


@inline
def levelled(total, other):
    """The exponent of a mantissa joins the other one."""
    return mantissa(total), other + exponent(total)
