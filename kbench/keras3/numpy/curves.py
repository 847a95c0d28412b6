"""Functions of every element that NumPy or SciPy computes; each with its derivative."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np
import scipy  # whose parts are loaded on first use

from kbench import backend as K
from kbench.api import operations as engine
from kbench.api.operations import where as choose
from kbench.keras3.calls.host import common_dtype, dtype_of, host
from kbench.keras3.numpy import layout
from kbench.keras3.numpy.elementwise import unary
from kbench.keras3.tensor import WIDE, Traced, is_traced

NARROW = ("float16", *WIDE)
"""The dtypes that are computed in float32: what depends on their limits asks for them."""
LN2, LN10 = math.log(2), math.log(10)


def _unary(name: str, form: Any, rule: Any = None) -> Any:
    """A function of one operand; `rule(g, y, x)` is its gradient."""
    passed = None if rule is None else lambda g, y, x: (rule(g, y, x),)

    def function(x: Any) -> Any:
        return form(x)

    function.__name__ = name
    return host(1, passed)(function)


def _binary(name: str, form: Any, rule: Any = None) -> Any:
    def function(x1: Any, x2: Any) -> Any:
        return form(x1, x2)

    function.__name__ = name
    return host(2, rule)(function)


def _bits(name: str, form: Any, shifts: bool = False) -> Any:
    """A function of the bits of two integers, one of which may be a number of Python.

    Keras' rule asks both for a dtype, and tells the shape of the first operand alone. A number of
    places to shift by leaves the dtype as it is.
    """

    def function(x: Any, y: Any) -> Any:
        return form(x, y)

    function.__name__ = name
    called = host(2)(function)

    @functools.wraps(called)
    def call(x: Any, y: Any) -> Any:
        if shifts and isinstance(y, int):
            x = layout.known(x)
            y = np.asarray(y, "int32" if str(x.dtype) == "bool" else str(x.dtype))
        x, y = layout.known(x), layout.known(y)
        if is_traced(x) or is_traced(y):
            x = layout.broadcast_to(x, np.broadcast_shapes(x.shape, y.shape))
        return called(x, y)

    return call


def _flat(g: Any, y: Any, x: Any) -> None:
    """The rule of functions that are constant in pieces."""


def _flats(g: Any, y: Any, x1: Any, x2: Any) -> tuple[None, None]:
    return None, None


def _part(name: str, form: Any, rule: Any) -> Any:
    """A part of complex numbers, whose dtype is that of their parts; floats are real."""

    def function(x: Any) -> Any:
        return form(x)

    function.__name__ = name
    halves = {"complex64": "float32", "complex128": "float64"}

    def dtype(x: Any) -> list[str]:
        kind = str(dtype_of(x))
        return [halves.get(kind, kind)]

    return host(1, rule, dtype=dtype)(function)


ceil = unary("ceil", engine.ceil, np.ceil)
expm1 = unary("expm1", engine.expm1, np.expm1)
floor = unary("floor", engine.floor, np.floor)
log1p = unary("log1p", engine.log1p, np.log1p)

arccos = _unary("arccos", np.arccos, lambda g, y, x: -g / K.sqrt(1 - x * x))
arccosh = _unary("arccosh", np.arccosh, lambda g, y, x: g / K.sqrt(x * x - 1))
arcsin = _unary("arcsin", np.arcsin, lambda g, y, x: g / K.sqrt(1 - x * x))
arcsinh = _unary("arcsinh", np.arcsinh, lambda g, y, x: g / K.sqrt(x * x + 1))
arctan = _unary("arctan", np.arctan, lambda g, y, x: g / (1 + x * x))
arctanh = _unary("arctanh", np.arctanh, lambda g, y, x: g / (1 - x * x))
cbrt = _unary("cbrt", np.cbrt, lambda g, y, x: g / (3 * y * y))
trunc = _unary("trunc", np.trunc, _flat)
cosh = _unary("cosh", np.cosh, lambda g, y, x: g * (K.exp(x) - K.exp(-x)) * 0.5)
sinh = _unary("sinh", np.sinh, lambda g, y, x: g * (K.exp(x) + K.exp(-x)) * 0.5)
tan = _unary("tan", np.tan, lambda g, y, x: g * (1 + y * y))
deg2rad = _unary("deg2rad", np.deg2rad, lambda g, y, x: g * (math.pi / 180))
rad2deg = _unary("rad2deg", np.rad2deg, lambda g, y, x: g * (180 / math.pi))
exp2 = _unary("exp2", np.exp2, lambda g, y, x: g * y * LN2)
fabs = _unary("fabs", np.fabs, lambda g, y, x: g * K.sign(x))
i0 = _unary("i0", lambda x: scipy.special.i0(x), lambda g, y, x: g * _i1_node(x))
log10 = _unary("log10", np.log10, lambda g, y, x: g / (x * LN10))
log2 = _unary("log2", np.log2, lambda g, y, x: g / (x * LN2))
reciprocal = _unary("reciprocal", np.reciprocal, lambda g, y, x: -g * y * y)
sinc = _unary("sinc", np.sinc, lambda g, y, x: g * _sinc_slope(x, y))
signbit = _unary("signbit", np.signbit)
isneginf = _unary("isneginf", lambda x: x == -np.inf)
isposinf = _unary("isposinf", lambda x: x == np.inf)
isreal = _unary("isreal", np.isreal)
conjugate = _unary("conjugate", np.conjugate, lambda g, y, x: g)
conj = _unary("conj", np.conjugate, lambda g, y, x: g)
real = _part("real", np.real, lambda g, y, x: (g,))
imag = _part("imag", np.imag, lambda g, y, x: (None,))
angle = _unary("angle", np.angle, _flat)


def _i1_node(x: Any) -> Any:
    from kbench.api.operations import Spec, numpy_call

    def i1(array: np.ndarray) -> np.ndarray:
        return np.asarray(scipy.special.i1(array), array.dtype)

    return numpy_call(i1, [x], Spec(x.spec.shape, x.spec.dtype))


def _sinc_slope(x: Any, y: Any) -> Any:
    """(cos(pi x) - sinc(x)) / x, and 0 at 0."""
    zero = K.equal(x, 0)
    return choose(zero, 0.0, (K.cos(x * math.pi) - y) / choose(zero, 1.0, x))


def _arctan2_rule(g: Any, y: Any, x1: Any, x2: Any) -> Any:
    square = x1 * x1 + x2 * x2
    return g * x2 / square, -g * x1 / square


def _hypot_rule(g: Any, y: Any, x1: Any, x2: Any) -> Any:
    length = choose(K.equal(y, 0), 1.0, y)
    return g * x1 / length, g * x2 / length


def _logaddexp_rule(g: Any, y: Any, x1: Any, x2: Any) -> Any:
    return g * K.sigmoid(x1 - x2), g * K.sigmoid(x2 - x1)


def _logaddexp2_rule(g: Any, y: Any, x1: Any, x2: Any) -> Any:
    return g * K.sigmoid((x1 - x2) * LN2), g * K.sigmoid((x2 - x1) * LN2)


def _first_rule(pick: Any) -> Any:
    def rule(g: Any, y: Any, x1: Any, x2: Any) -> Any:
        first = K.cast(pick(x1, x2), g.spec.dtype)
        return g * first, g * (1 - first)

    return rule


arctan2 = _binary("arctan2", np.arctan2, _arctan2_rule)
hypot = _binary("hypot", np.hypot, _hypot_rule)
heaviside = _binary("heaviside", np.heaviside, _flats)
logaddexp = _binary("logaddexp", np.logaddexp, _logaddexp_rule)
logaddexp2 = _binary("logaddexp2", np.logaddexp2, _logaddexp2_rule)
fmax = _binary("fmax", np.fmax, _first_rule(K.greater_equal))
fmin = _binary("fmin", np.fmin, _first_rule(K.less_equal))
fmod = _binary("fmod", np.fmod, lambda g, y, x1, x2: (g, -g * (x1 - y) / x2))
gcd = _binary("gcd", np.gcd)
lcm = _binary("lcm", np.lcm)


@functools.cache
def _next_in(kind: str) -> Any:
    """The function `nextafter` of numbers of a dtype that is computed in a wider one."""

    def form(x1: Any, x2: Any) -> Any:
        ends = [np.asarray(x).astype(kind) for x in (x1, x2)]
        return np.nextafter(*ends) if kind in NARROW else np.nextafter(x1, x2)

    return _binary("nextafter", form, lambda g, y, x1, x2: (g, None))


def nextafter(x1: Any, x2: Any) -> Any:
    """The number of the dtype that follows `x1` on the way to `x2`."""
    x1, x2 = layout.known(x1), layout.known(x2)
    return _next_in(common_dtype(x1, x2))(x1, x2)


@host(2, lambda g, y, x1, x2: (g * K.exp(K.cast(x2, g.spec.dtype) * LN2), None))
def ldexp(x1: Any, x2: Any) -> Any:
    """`x1` times two to the power of `x2`."""
    return np.ldexp(x1, np.asarray(x2).astype(np.int32))


@host(2)
def isclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether elements differ by no more than a tolerance."""
    return np.isclose(x1, x2, rtol, atol, equal_nan)


@host(2, dtype="bool")
def allclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether no elements differ by more than a tolerance."""
    return np.allclose(x1, x2, rtol, atol, equal_nan)


def _nan_rule(g: Any, y: Any, x: Any, *_options: Any, **_more: Any) -> Any:
    return (choose(K.less(K.abs(x), np.inf), g, 0.0),)


@host(1, _nan_rule, name="nan_to_num")
def _nan_to_num(x: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def nan_to_num(x: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Every element, numbers in place of NaN and infinities: the largest that its dtype holds."""
    x = layout.known(x)
    if str(x.dtype) in NARROW:
        largest = float(ml_dtypes.finfo(str(x.dtype)).max)
        posinf = largest if posinf is None else posinf
        neginf = -largest if neginf is None else neginf
    return _nan_to_num(x, nan, posinf, neginf)


bitwise_and = _bits("bitwise_and", np.bitwise_and)
bitwise_or = _bits("bitwise_or", np.bitwise_or)
bitwise_xor = _bits("bitwise_xor", np.bitwise_xor)
bitwise_not = _unary("bitwise_not", np.bitwise_not)
bitwise_invert = _unary("bitwise_invert", np.bitwise_not)
bitwise_left_shift = _bits("bitwise_left_shift", np.left_shift, shifts=True)
bitwise_right_shift = _bits("bitwise_right_shift", np.right_shift, shifts=True)
left_shift = _bits("left_shift", np.left_shift, shifts=True)
right_shift = _bits("right_shift", np.right_shift, shifts=True)


def _set_operators() -> None:
    """Give traced values the operators of bits; their arithmetic is in `elementwise`."""
    logic = {"and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor}
    for word, function in logic.items():
        setattr(Traced, f"__{word}__", lambda x, y, f=function: f(x, y))
        setattr(Traced, f"__r{word}__", lambda x, y, f=function: f(y, x))
    for word, function in (("lshift", left_shift), ("rshift", right_shift)):
        setattr(Traced, f"__{word}__", lambda x, y, f=function: f(x, y))
        setattr(Traced, f"__r{word}__", lambda x, y, f=function: f(y, x))
    setattr(Traced, "__invert__", lambda x: bitwise_not(x))  # noqa: B010


_set_operators()
