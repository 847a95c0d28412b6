"""Special functions that NumPy lacks, written with NumPy only (tier 0); here the error function.

Loading scipy.special for it would cost a first evaluation more than 100 ms. The two approximations
are the ones the compiled form uses: a polynomial in x^2 below 1, and beyond it
`1 - exp(-x^2) Q(t) / (1 + 2x)` with `t = (x - 2.5) / (x + 2.5)`, both Chebyshev fits in 50 digits.
These take 60 passes over float64. For float32 a table does with a third of them: the nearest of 64
points a unit, and from there three terms of Taylor's series.
"""

import functools

import numpy as np

ERF_NEAR = (
    1.1283791670955126,
    -0.37612638903183543,
    0.11283791670945006,
    -0.02686617064323777,
    0.0052239776071164225,
    -0.0008548325975389692,
    0.00012055294904839707,
    -1.492473690741966e-05,
    1.6447424703317362e-06,
    -1.6208483801871705e-07,
    1.3720064546777686e-08,
    -7.795898827002142e-10,
)
ERF_FAR = (
    1.2648381843668615,
    -0.12235676308240442,
    -0.09902453957360156,
    0.15762991902325107,
    -0.10296705603860934,
    0.032760893266092744,
    0.0009318928190560251,
    -0.004382078248348745,
    0.0004918657861704021,
    0.0006321225819860732,
    -8.84792810981807e-05,
    -0.00011350320292983643,
    6.2715966287190965e-06,
    2.2580541464941125e-05,
    2.546661967565363e-06,
    -3.825259791058066e-06,
    -1.2945520583159156e-06,
)


def _horner(coefficients: tuple[float, ...], z: np.ndarray) -> np.ndarray:
    value = np.full_like(z, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value *= z
        value += coefficient
    return value


POINTS = 64
"""Points of the table in a unit: what the fourth term of the series would add is 2e-9 at most."""
LARGEST = 4.0
"""Beyond it the error function is 1 in float32."""


PIECE = 1 << 14
"""Elements at a time: what is made of more than that is memory that the system fills with zeros
first, which takes longer than the error function."""


@functools.cache
def _table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The error function at the points as float32, what that leaves, and the derivative there."""
    points = np.arange(int(LARGEST * POINTS) + 1) / POINTS
    values, slopes = _wide_erf(points), 2 / np.sqrt(np.pi) * np.exp(-points * points)
    near = values.astype(np.float32)
    return near, (values - near).astype(np.float32), slopes.astype(np.float32)


def _single_erf(x: np.ndarray) -> np.ndarray:
    """The error function of some float32 without its sign, within 1.9 ULP."""
    near, rest, slopes = _table()
    step = np.abs(x)
    np.minimum(step, np.float32(LARGEST), out=step)
    point = step * np.float32(POINTS)
    np.rint(point, out=point)
    with np.errstate(invalid="ignore"):
        place = point.astype(np.intp)  # of NaN whatever: the step stays NaN
    point *= np.float32(1 / POINTS)
    step -= point
    # near + (rest + slope * (step - step^2 * (point - step * (2 point^2 - 1) / 3)))
    found: np.ndarray = point * point
    found *= np.float32(2 / 3)
    found -= np.float32(1 / 3)
    found *= step
    np.subtract(point, found, out=found)
    found *= step
    found *= step
    np.subtract(step, found, out=found)
    found *= slopes.take(place, mode="clip")
    found += rest.take(place, mode="clip")
    found += near.take(place, mode="clip")
    return found


def _wide_erf(x: np.ndarray) -> np.ndarray:
    """The error function of float64."""
    size = np.minimum(np.abs(x), 6.0)
    near = x * _horner(ERF_NEAR, size * size)
    tail = np.exp(-size * size) * _horner(ERF_FAR, (size - 2.5) / (size + 2.5)) / (1.0 + 2.0 * size)
    result: np.ndarray = np.where(size < 1.0, near, np.copysign(1.0 - tail, x))
    return result


def erf(x: np.ndarray | float, out: np.ndarray | None = None) -> np.ndarray:
    """The error function of every element, in the dtype of `x`."""
    x = np.asarray(x)
    dtype = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    if out is None:
        out = np.empty(x.shape, dtype)
    if dtype != np.float32:
        wide = np.atleast_1d(x).astype(np.float64)
        np.copyto(out, _wide_erf(wide).reshape(x.shape), casting="same_kind")
        return out
    flat, in_place = x.reshape(-1), out.flags.c_contiguous
    target = out.reshape(-1) if in_place else np.empty(x.size, np.float32)
    for start in range(0, x.size, PIECE):
        part = flat[start : start + PIECE]
        np.copysign(_single_erf(part), part, out=target[start : start + PIECE])
    if not in_place:
        np.copyto(out, target.reshape(x.shape))
    return out
