"""Gradients of random numbers to the parameters of their distributions.

Source: Figurnov, Mohamed & Mnih (2018), "Implicit reparameterization gradients": the chance F that
a number stays below z is held, so that z moves by -(dF/da) / (dF/dz) with a parameter a. SciPy has
F; its derivative to a parameter is a difference of fourth order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy  # whose parts are loaded on first use

from kbench import backend as K
from kbench.api.operations import Spec, Tensor, numpy_call

STEP = 1e-3
"""How far a parameter is moved, in parts of what changes F by its own size: the error of the
difference is about the fourth power, that of rounding 1e-16 over it."""
EVEN = 0.5
"""Up to this chance F itself is taken, beyond it 1 - F: the smaller one has more digits."""


def _difference(chance: Callable[..., np.ndarray], a: np.ndarray, *rest: np.ndarray) -> np.ndarray:
    """The derivative of a chance to its first parameter, which is positive."""
    step = STEP * np.minimum(a, np.sqrt(a))
    near = chance(a + step, *rest) - chance(a - step, *rest)
    far = chance(a + 2 * step, *rest) - chance(a - 2 * step, *rest)
    found: np.ndarray = (8 * near - far) / (12 * step)
    return found


def _moved(
    below: Callable[..., np.ndarray],
    above: Callable[..., np.ndarray],
    log_density: np.ndarray,
    z: np.ndarray,
    a: np.ndarray,
    *rest: np.ndarray,
) -> np.ndarray:
    """How numbers `z` move with `a`, by the chances below and above them."""
    found = np.zeros(z.shape)
    low = below(a, *rest, z) <= EVEN
    for side, chance, sign in ((low, below, -1.0), (~low, above, 1.0)):
        slope = _difference(chance, a[side], *[one[side] for one in (*rest, z)])
        found[side] = sign * slope * np.exp(-log_density[side])
    return found


def _in_float64(*arrays: np.ndarray) -> list[np.ndarray]:
    return [np.array(one, np.float64) for one in np.broadcast_arrays(*arrays)]


def gamma_slope(z: np.ndarray, a: np.ndarray) -> np.ndarray:
    """How numbers of gamma distributions of scale 1 move with their shape `a`; 0 where z is 0."""
    wide, shape = _in_float64(z, a)
    found, there = np.zeros(wide.shape), wide > 0
    at, of = wide[there], shape[there]
    density = scipy.special.xlogy(of - 1, at) - at - scipy.special.gammaln(of)
    found[there] = _moved(scipy.special.gammainc, scipy.special.gammaincc, density, at, of)
    return found.astype(z.dtype)


def _beta_slope(z: np.ndarray, a: np.ndarray, b: np.ndarray, second: bool) -> np.ndarray:
    wide, *parameters = _in_float64(z, a, b)
    found, there = np.zeros(wide.shape), (wide > 0) & (wide < 1)
    at, (of, other) = wide[there], [one[there] for one in parameters]
    density = scipy.special.xlogy(of - 1, at) + scipy.special.xlog1py(other - 1, -at)
    density -= scipy.special.betaln(of, other)
    below, above = scipy.special.betainc, scipy.special.betaincc
    if second:
        of, other = other, of
        below, above = _exchanged(below), _exchanged(above)
    found[there] = _moved(below, above, density, at, of, other)
    return found.astype(z.dtype)


def _exchanged(chance: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A chance by the second parameter, the first and the number."""
    return lambda b, a, z: chance(a, b, z)


def beta_slope(z: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How numbers of beta distributions move with the first parameter; 0 where z is 0 or 1."""
    return _beta_slope(z, a, b, second=False)


def second_beta_slope(z: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How numbers of beta distributions move with the second parameter; 0 where z is 0 or 1."""
    return _beta_slope(z, a, b, second=True)


def _entry(g: Tensor, y: Tensor, slope: Any, parameter: Tensor, *parameters: Tensor) -> Tensor:
    moved = numpy_call(slope, [y, *parameters], Spec(y.spec.shape, y.spec.dtype))
    return K.cast(g * moved, parameter.spec.dtype)


def gamma_rule(g: Tensor, y: Tensor, _seed: Tensor, a: Tensor) -> list[Tensor | None]:
    """To the shape of the distribution."""
    return [None, _entry(g, y, gamma_slope, a, a)]


def beta_rule(g: Tensor, y: Tensor, _seed: Tensor, a: Tensor, b: Tensor) -> list[Tensor | None]:
    """To both parameters of the distribution."""
    return [None, _entry(g, y, beta_slope, a, a, b), _entry(g, y, second_beta_slope, b, a, b)]
