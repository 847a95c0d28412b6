"""Two normal numbers of two uniform ones.

Box and Muller, "A note on the generation of random normal deviates" (1958). The angle's sine and
cosine and the logarithm are polynomials (own fits, right to 7e-8 and 4e-16).
"""

from kbench.engine.intrinsics.specialized import (
    DTYPE,
    bits_of,
    formula,
    integer,
    of_bits,
    select,
    square_root,
    value,
)


@formula
def logarithm_beside_one(t, e):
    """log(2^e (1 + t)) for t from sqrt(1/2) - 1 to sqrt(2) - 1."""
    if DTYPE == "float32":
        # log(1 + t) = t - z / 2 + t z P(t) with z = t t
        log = t * value(0.06746587037787882)
        log += value(-0.11675632206145395)
        log *= t
        log += value(0.11888176364292163)
        log *= t
        log += value(-0.12405593250074122)
        log *= t
        log += value(0.1421955092252033)
        log *= t
        log += value(-0.16667995547598752)
        log *= t
        log += value(0.20002118724507467)
        log *= t
        log += value(-0.25000009606138884)
        log *= t
        log += value(0.33333312603015874)
        z = t * t
        log *= z
        log *= t
        log += e * value(-2.12194440e-4)
        z *= value(0.5)
        log -= z
        log += t
        log += e * value(0.693359375)
    else:
        # log(1 + t) = t - (h - s (h + Q(s s))) with s = t / (2 + t) and h = t t / 2
        s = t / (value(2) + t)
        z = s * s
        log = z * value(0.15010467883846484)
        log += value(0.1529230337294952)
        log *= z
        log += value(0.18184428142883738)
        log *= z
        log += value(0.22222181709410319)
        log *= z
        log += value(0.28571428907357455)
        log *= z
        log += value(0.3999999999869192)
        log *= z
        log += value(0.6666666666666838)
        log *= z
        h = t * t
        h *= value(0.5)
        log += h
        log *= s
        log += e * value(1.90821492927058770002e-10)
        log -= h
        log += t
        log += e * value(6.93147180369123816490e-01)
    return log


@formula
def logarithm(w):
    """The natural logarithm of a number that is neither 0 nor subnormal."""
    bits = bits_of(w)
    # w = 2^e (1 + t) with 1 + t from sqrt(1/2), whose bits are `root`, to below sqrt(2).
    if DTYPE == "float32":
        root = integer(0x3F3504F3)
        fraction = integer(23)
    else:
        root = integer(0x3FE6A09E667F3BCD)
        fraction = integer(52)
    exponent = integer(integer(bits - root) >> fraction)
    t = of_bits(integer(bits - integer(exponent << fraction))) - value(1)
    return logarithm_beside_one(t, value(exponent))


@formula
def circle(v):
    """Sine and cosine of the distance to the nearest of four directions; which of them it is."""
    # What is added, and taken away again, rounds to a whole quarter turn.
    if DTYPE == "float32":
        rounding = value(12582912.0)
    else:
        rounding = value(6755399441055744.0)
    turn = v * value(4) + rounding
    quadrant = integer(bits_of(turn) & integer(3))
    turn -= rounding
    x = (v - turn * value(0.25)) * value(6.283185307179586)
    z = x * x
    if DTYPE == "float32":
        sine = z * value(2.7181627689480837e-06)
        sine += value(-0.000198393193903012)
        sine *= z
        sine += value(0.00833332933847535)
        sine *= z
        sine += value(-0.16666666641224354)
        sine *= z
        cosine = z * value(2.443700695261224e-05)
        cosine += value(-0.0013887355357155172)
        cosine *= z
        cosine += value(0.04166664662829168)
        cosine *= z
    else:
        sine = z * value(1.59175674789068e-10)
        sine += value(-2.505112403138208e-08)
        sine *= z
        sine += value(2.7557316064986773e-06)
        sine *= z
        sine += value(-0.00019841269836686008)
        sine *= z
        sine += value(0.008333333333330901)
        sine *= z
        sine += value(-0.16666666666666666)
        sine *= z
        cosine = z * value(-1.1382280957702634e-11)
        cosine += value(2.0876141380294955e-09)
        cosine *= z
        cosine += value(-2.7557317248229367e-07)
        cosine *= z
        cosine += value(2.480158729872029e-05)
        cosine *= z
        cosine += value(-0.0013888888888887367)
        cosine *= z
        cosine += value(0.041666666666666664)
        cosine *= z
    sine *= x
    sine += x
    cosine -= value(0.5)
    cosine *= z
    cosine += value(1)
    return sine, cosine, quadrant


@formula
def pair(u, v):
    """radius * cos, radius * sin of the angle 2 pi v; the radius is sqrt(-2 log(1 - u))."""
    radius = square_root(value(-2) * logarithm(value(1) - u))
    sine, cosine, quadrant = circle(v)
    if DTYPE == "float32":
        sign = integer(30)
    else:
        sign = integer(62)
    odd = (quadrant & integer(1)) != integer(0)
    below = integer(integer(quadrant & integer(2)) << sign)
    left = integer(integer(integer(quadrant + integer(1)) & integer(2)) << sign)
    first = of_bits(integer(bits_of(select(odd, sine, cosine)) ^ left))
    second = of_bits(integer(bits_of(select(odd, cosine, sine)) ^ below))
    return radius * first, radius * second
