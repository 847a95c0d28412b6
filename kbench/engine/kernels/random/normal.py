"""Normal numbers from uniform ones, by texts that NumPy and the compiled kernels share.

`pair` makes two of two: Box and Muller, "A note on the generation of random normal deviates"
(1958). `within` makes one of one that lies within two deviations, by the inverse of the
distribution, a quotient of two polynomials (own fits, right to 7e-8 and 4e-16). The numbers must
be the same whichever tier draws them and on every machine, so no logarithm or sine of a library is
called: all is additions, products, quotients and roots, each rounded on its own, which is what
NumPy does and what the kernels are compiled to do. A text is valid for arrays and for single
numbers. It reads names that `_names` gives, and that a kernel imports.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

PAIR = '''
def pair(u, v):
    """radius * cos, radius * sin of the angle 2 pi v; the radius is sqrt(-2 log(1 - u))."""
    w = FLOAT(1) - u
    bits = bits_of_END(w)
    exponent = INT(INT(bits - INT(ROOT)) >> INT(FRACTION))
    t = END_of_bits(INT(bits - INT(exponent << INT(FRACTION)))) - FLOAT(1)
    e = FLOAT(exponent)
LOGARITHM
    radius = square_root(FLOAT(-2) * log)
    turn = v * FLOAT(4) + FLOAT(MAGIC)
    quadrant = INT(bits_of_END(turn) & INT(3))
    turn -= FLOAT(MAGIC)
    x = (v - turn * FLOAT(0.25)) * FLOAT(6.283185307179586)
    z = x * x
SINE
    sine *= z
    sine *= x
    sine += x
COSINE
    cosine *= z
    cosine -= FLOAT(0.5)
    cosine *= z
    cosine += FLOAT(1)
    odd = (quadrant & INT(1)) != INT(0)
    below = INT(INT(quadrant & INT(2)) << INT(SHIFT))
    left = INT(INT(INT(quadrant + INT(1)) & INT(2)) << INT(SHIFT))
    first = END_of_bits(INT(bits_of_END(select(odd, sine, cosine)) ^ left))
    second = END_of_bits(INT(bits_of_END(select(odd, cosine, sine)) ^ below))
    return radius * first, radius * second
'''

WITHIN = '''
def within(u):
    """The normal number below which lies the share u of those between -2 and 2."""
    t = (u + u - FLOAT(1)) * FLOAT(0.9544997361036416)
    y = FLOAT(0.9110697462219214) - t * t
TOP
BOTTOM
    x = t * top / bottom
    x = select(x > FLOAT(2), FLOAT(2), x)
    return select(x < FLOAT(-2), FLOAT(-2), x)
'''

# 1 - u = 2^e (1 + t) with 1 + t from sqrt(1/2), whose bits are ROOT, to below sqrt(2).
# log(1 + t) = t - z / 2 + t z P(t) for float32, with z = t t
LOG_32 = """HORNER
    z = t * t
    log *= z
    log *= t
    log += e * FLOAT(-2.12194440e-4)
    z *= FLOAT(0.5)
    log -= z
    log += t
    log += e * FLOAT(0.693359375)
"""

# for float64 with s = t / (2 + t) and h = z / 2: t - (h - s (h + Q(s s)))
LOG_64 = """    s = t / (FLOAT(2) + t)
    z = s * s
HORNER
    log *= z
    h = t * t
    h *= FLOAT(0.5)
    log += h
    log *= s
    log += e * FLOAT(1.90821492927058770002e-10)
    log -= h
    log += t
    log += e * FLOAT(6.93147180369123816490e-01)
"""

LOGS = {
    "float32": (
        0.33333312603015874,
        -0.25000009606138884,
        0.20002118724507467,
        -0.16667995547598752,
        0.1421955092252033,
        -0.12405593250074122,
        0.11888176364292163,
        -0.11675632206145395,
        0.06746587037787882,
    ),
    "float64": (
        0.6666666666666838,
        0.3999999999869192,
        0.28571428907357455,
        0.22222181709410319,
        0.18184428142883738,
        0.1529230337294952,
        0.15010467883846484,
    ),
}
SINES = {
    "float32": (
        -0.16666666641224354,
        0.00833332933847535,
        -0.000198393193903012,
        2.7181627689480837e-06,
    ),
    "float64": (
        -0.16666666666666666,
        0.008333333333330901,
        -0.00019841269836686008,
        2.7557316064986773e-06,
        -2.505112403138208e-08,
        1.59175674789068e-10,
    ),
}
COSINES = {
    "float32": (0.04166664662829168, -0.0013887355357155172, 2.443700695261224e-05),
    "float64": (
        0.041666666666666664,
        -0.0013888888888887367,
        2.480158729872029e-05,
        -2.7557317248229367e-07,
        2.0876141380294955e-09,
        -1.1382280957702634e-11,
    ),
}
TOPS = {
    "float32": (
        2.0953383020862586,
        27.88615410527473,
        93.96624602113936,
        75.07581966967214,
        6.6587509683331385,
    ),
    "float64": (
        2.095338452542888,
        70.3823688121628,
        923.8616123241048,
        6049.336237136014,
        21011.147449739336,
        38312.88034585703,
        34411.17425512492,
        13334.47622255301,
        1692.7464994005006,
        31.089434992341126,
    ),
}
BOTTOMS = {
    "float32": (
        1.0,
        15.185377913387937,
        63.127709528521784,
        73.00362935275197,
        15.521211984304257,
    ),
    "float64": (
        1.0,
        35.46673683609767,
        497.25363074000694,
        3531.8587533374002,
        13592.216512483,
        28303.21364893553,
        30376.826253597814,
        15167.562371407217,
        2888.817858571498,
        131.30762732756892,
    ),
}
WORDS = {
    "float32": {
        "FRACTION": "23",
        "ROOT": "0x3F3504F3",
        "MAGIC": "12582912.0",
        "SHIFT": "30",
        "END": "f32",
        "FLOAT": "np.float32",
        "INT": "np.int32",
    },
    "float64": {
        "FRACTION": "52",
        "ROOT": "0x3FE6A09E667F3BCD",
        "MAGIC": "6755399441055744.0",
        "SHIFT": "62",
        "END": "f64",
        "FLOAT": "np.float64",
        "INT": "np.int64",
    },
}


def _horner(name: str, variable: str, coefficients: Sequence[float]) -> str:
    """Statements that leave a polynomial's value in `name`, the highest power first."""
    *rest, highest = coefficients
    lines = [f"    {name} = {variable} * FLOAT({highest!r})"]
    for coefficient in rest[:0:-1]:
        lines += [f"    {name} += FLOAT({coefficient!r})", f"    {name} *= {variable}"]
    return "\n".join([*lines, f"    {name} += FLOAT({rest[0]!r})"])


def form(name: str, dtype: str) -> str:
    """The text of the function `pair` or `within` for float32 or float64."""
    logarithm, along = (LOG_32, "t") if dtype == "float32" else (LOG_64, "z")
    logarithm = logarithm.replace("HORNER", _horner("log", along, LOGS[dtype]))
    text = {"pair": PAIR, "within": WITHIN}[name].replace("LOGARITHM", logarithm.rstrip())
    text = text.replace("COSINE", _horner("cosine", "z", COSINES[dtype]))
    text = text.replace("SINE", _horner("sine", "z", SINES[dtype]))
    text = text.replace("TOP", _horner("top", "y", TOPS[dtype]))
    text = text.replace("BOTTOM", _horner("bottom", "y", BOTTOMS[dtype]))
    for word, meaning in WORDS[dtype].items():
        text = text.replace(word, meaning)
    return text


def _names() -> dict[str, Any]:
    """What the text means for arrays: bit patterns are views, a choice computes both sides."""
    return {
        "np": np,
        "bits_of_f32": lambda x: x.view(np.int32),
        "bits_of_f64": lambda x: x.view(np.int64),
        "f32_of_bits": lambda x: x.view(np.float32),
        "f64_of_bits": lambda x: x.view(np.float64),
        "select": np.where,
        "square_root": np.sqrt,
    }


@functools.cache
def function(name: str, dtype: str) -> Callable[..., np.ndarray]:
    """`pair` or `within` on contiguous arrays of float32 or float64, which are not changed."""
    names = _names()
    exec(compile(form(name, dtype), f"<kbench {name} {dtype}>", "exec"), names)
    found: Callable[..., np.ndarray] = names[name]
    return found
