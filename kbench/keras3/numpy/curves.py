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
from kbench.keras3.calls.host import BY_PARTS, REAL, flat, host, node_call, operand
from kbench.keras3.complex_numbers.parts import parts_of
from kbench.keras3.complex_numbers.refusal import is_complex
from kbench.keras3.complex_numbers.whole import conjugated, smooth
from kbench.keras3.numpy import elementwise, layout, reduce
from kbench.keras3.numpy.elementwise import float_type, of_floats, unary, whole_division
from kbench.keras3.tensor import PARTS, WIDE, Traced, is_traced

NARROW = ("float16", *WIDE)
"""The dtypes that are computed in float32: what depends on their limits asks for them."""
LN2, LN10 = math.log(2), math.log(10)


def _unary(name: str, form: Any, rule: Any = None, of_complex: Any = REAL) -> Any:
    """A function of one operand; `rule(g, y, x)` is its gradient.

    `of_complex(y, x)` is its derivative at complex numbers, on symbols.
    """
    passed = None if rule is None else lambda g, y, x: (rule(g, y, x),)

    def back(g: Any, y: Any, x: Any) -> Any:
        return [g * conjugate(of_complex(y, x))]

    def function(x: Any) -> Any:
        return form(x)

    function.__name__ = name
    has_slope = callable(of_complex) and of_complex is not flat
    return host(1, passed, of_complex=back if has_slope else of_complex)(function)


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


ceil = unary("ceil", engine.ceil, np.ceil)
expm1 = unary("expm1", engine.expm1, np.expm1, of_complex=smooth(lambda y, x: y + 1))
floor = unary("floor", engine.floor, np.floor)
log1p = unary("log1p", engine.log1p, np.log1p, of_complex=smooth(lambda y, x: 1 / (1 + x)))


def _root(x: Any) -> Any:
    return elementwise.sqrt(x)


arccos = _unary(
    "arccos",
    np.arccos,
    lambda g, y, x: -g / K.sqrt(1 - x * x),
    lambda y, x: -1 / (_root(1 - x) * _root(1 + x)),
)
arccosh = _unary(
    "arccosh",
    np.arccosh,
    lambda g, y, x: g / K.sqrt(x * x - 1),
    lambda y, x: 1 / (_root(x - 1) * _root(x + 1)),
)
arcsin = _unary(
    "arcsin",
    np.arcsin,
    lambda g, y, x: g / K.sqrt(1 - x * x),
    lambda y, x: 1 / (_root(1 - x) * _root(1 + x)),
)
arcsinh = _unary(
    "arcsinh",
    np.arcsinh,
    lambda g, y, x: g / K.sqrt(x * x + 1),
    lambda y, x: 1 / (_root(1 - 1j * x) * _root(1 + 1j * x)),
)
arctan = _unary("arctan", np.arctan, lambda g, y, x: g / (1 + x * x), lambda y, x: 1 / (1 + x * x))
arctanh = _unary(
    "arctanh", np.arctanh, lambda g, y, x: g / (1 - x * x), lambda y, x: 1 / (1 - x * x)
)
cbrt = _unary("cbrt", np.cbrt, lambda g, y, x: g / (3 * y * y))
trunc = _unary("trunc", np.trunc, _flat)
cosh = _unary(
    "cosh",
    np.cosh,
    lambda g, y, x: g * (K.exp(x) - K.exp(-x)) * 0.5,
    lambda y, x: sinh(x),
)
sinh: Any = _unary(
    "sinh",
    np.sinh,
    lambda g, y, x: g * (K.exp(x) + K.exp(-x)) * 0.5,
    lambda y, x: cosh(x),
)
tan = _unary("tan", np.tan, lambda g, y, x: g * (1 + y * y), lambda y, x: 1 + y * y)
deg2rad = _unary("deg2rad", np.deg2rad, lambda g, y, x: g * (math.pi / 180))
rad2deg = _unary("rad2deg", np.rad2deg, lambda g, y, x: g * (180 / math.pi))
exp2 = _unary("exp2", np.exp2, lambda g, y, x: g * y * LN2, lambda y, x: y * LN2)
fabs = _unary("fabs", np.fabs, lambda g, y, x: g * K.sign(x))
i0 = _unary("i0", lambda x: scipy.special.i0(x), lambda g, y, x: g * _i1_node(x))
log10 = _unary("log10", np.log10, lambda g, y, x: g / (x * LN10), lambda y, x: 1 / (x * LN10))
log2 = _unary("log2", np.log2, lambda g, y, x: g / (x * LN2), lambda y, x: 1 / (x * LN2))
reciprocal = of_floats(1)(
    _unary("reciprocal", np.reciprocal, lambda g, y, x: -g * y * y, lambda y, x: -y * y)
)
sinc = _unary(
    "sinc", np.sinc, lambda g, y, x: g * _sinc_slope(x, y), lambda y, x: _complex_sinc_slope(x, y)
)
signbit = _unary("signbit", np.signbit)
isneginf = _unary("isneginf", lambda x: x == -np.inf)
isposinf = _unary("isposinf", lambda x: x == np.inf)
isreal = _unary("isreal", np.isreal, of_complex=flat)


def _real_as_it_is(x: Any) -> Any:
    """An operand of real numbers; Keras' functions of parts keep its dtype."""
    x = layout.known(x)
    return x if is_traced(x) else np.array(x)


def conjugate(x: Any) -> Any:
    """The same real parts, the imaginary parts with the other sign."""
    x = layout.known(x)
    if not is_complex(x):
        return _real_as_it_is(x)
    return conjugated(x) if is_traced(x) else np.conjugate(x)


conj = conjugate


def real(x: Any) -> Any:
    """The real parts; real numbers as they are."""
    x = layout.known(x)
    if not is_complex(x):
        return _real_as_it_is(x)
    return Traced(parts_of(x, PARTS[x.dtype])[0]) if is_traced(x) else np.array(x.real)


def imag(x: Any) -> Any:
    """The imaginary parts; zeros for real numbers."""
    x = layout.known(x)
    if not is_complex(x):
        return np.zeros(x.shape, x.dtype)
    return Traced(parts_of(x, PARTS[x.dtype])[1]) if is_traced(x) else np.array(x.imag)


def angle(x: Any) -> Any:
    """The angles of complex numbers, in radians; of real numbers 0 or pi."""
    x = layout.known(x)
    return arctan2(imag(x), real(x)) if is_complex(x) else _angle(x)


_angle = _unary("angle", np.angle, _flat)


def _i1_node(x: Any) -> Any:
    from kbench.api.operations import Spec, numpy_call

    def i1(array: np.ndarray) -> np.ndarray:
        return np.asarray(scipy.special.i1(array), array.dtype)

    return numpy_call(i1, [x], Spec(x.spec.shape, x.spec.dtype))


def _sinc_slope(x: Any, y: Any) -> Any:
    """(cos(pi x) - sinc(x)) / x, and 0 at 0."""
    zero = K.equal(x, 0)
    return choose(zero, 0.0, (K.cos(x * math.pi) - y) / choose(zero, 1.0, x))


def _complex_sinc_slope(x: Any, y: Any) -> Any:
    zero = elementwise.equal(x, 0)
    one, none = np.asarray(1, x.dtype), np.asarray(0, x.dtype)
    slope = (elementwise.cos(x * math.pi) - y) / elementwise.where(zero, one, x)
    return elementwise.where(zero, none, slope)


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
_hypot = _binary("hypot", np.hypot, _hypot_rule)
_heaviside = _binary("heaviside", np.heaviside, _flats)


def _as_floats(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Operands in the float dtype where they meet; Keras' rules of some functions ask for one."""
    x1, x2 = operand(x1), operand(x2)
    dtype = float_type(x1, x2)
    return elementwise.cast(x1, dtype), elementwise.cast(x2, dtype)


def hypot(x1: Any, x2: Any) -> Any:
    """The length of the hypotenuse of a right triangle."""
    return _hypot(*_as_floats(x1, x2))


def heaviside(x1: Any, x2: Any) -> Any:
    """0 below zero, 1 above it, and at it the second operand."""
    return _heaviside(*_as_floats(x1, x2))


logaddexp = _binary("logaddexp", np.logaddexp, _logaddexp_rule)
logaddexp2 = _binary("logaddexp2", np.logaddexp2, _logaddexp2_rule)
fmax = _binary("fmax", np.fmax, _first_rule(K.greater_equal))
fmin = _binary("fmin", np.fmin, _first_rule(K.less_equal))
fmod = _binary(
    "fmod", whole_division("fmod", np.fmod), lambda g, y, x1, x2: (g, -g * (x1 - y) / x2)
)
gcd = _binary("gcd", np.gcd)
lcm = _binary("lcm", np.lcm)


@functools.cache
def _next_in(kind: str) -> Any:
    """The function `nextafter` of numbers of a dtype, which may be computed in a wider one."""

    def form(x1: Any, x2: Any) -> Any:
        return np.nextafter(*[np.asarray(x).astype(kind) for x in (x1, x2)])

    return _binary("nextafter", form, lambda g, y, x1, x2: (g, None))


def nextafter(x1: Any, x2: Any) -> Any:
    """The number of the dtype that follows `x1` on the way to `x2`."""
    x1, x2 = layout.known(x1), layout.known(x2)
    return _next_in(float_type(x1, x2))(x1, x2)


@host(2, lambda g, y, x1, x2: (g * K.exp(K.cast(x2, g.spec.dtype) * LN2), None))
def ldexp(x1: Any, x2: Any) -> Any:
    """`x1` times two to the power of `x2`."""
    return np.ldexp(x1, np.asarray(x2).astype(np.int32))


_isclose = host(2, of_complex=flat, name="isclose")(np.isclose)
_allclose = host(2, dtype="bool", of_complex=flat, name="allclose")(np.allclose)


def isclose(x1: Any, x2: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether elements differ by no more than a tolerance."""
    if not (is_traced(rtol) or is_traced(atol)):
        return _isclose(x1, x2, rtol, atol, equal_nan)
    given = tuple(map(operand, (x1, x2, rtol, atol)))
    shape = np.broadcast_shapes(*[np.shape(one) for one in given])
    return node_call("isclose", np.isclose, given, (equal_nan,), {}, None, [(shape, "bool")], None)


def allclose(x1: Any, x2: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Whether no elements differ by more than a tolerance."""
    if not (is_traced(rtol) or is_traced(atol)):
        return _allclose(x1, x2, rtol, atol, equal_nan)
    return reduce.all(isclose(x1, x2, rtol, atol, equal_nan))


def _nan_rule(g: Any, y: Any, x: Any, *_options: Any, **_more: Any) -> Any:
    return (choose(K.less(K.abs(x), np.inf), g, 0.0),)


@host(1, _nan_rule, name="nan_to_num", of_complex=BY_PARTS)
def _nan_to_num(x: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def nan_to_num(x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Every element, numbers in place of NaN and infinities: the largest that its dtype holds."""
    x = layout.known(x)
    dtype = str(x.dtype)
    if not (is_complex(x) or "float" in dtype):
        return _nan_to_num(x)  # which has neither
    has_computed = not is_complex(x) and any(map(is_traced, (nan, posinf, neginf)))
    if has_computed or dtype in NARROW:
        largest = float(ml_dtypes.finfo(dtype).max)
        posinf = largest if posinf is None else posinf
        neginf = -largest if neginf is None else neginf
    if not has_computed:
        return _nan_to_num(x, nan, posinf, neginf)
    found = elementwise.where(elementwise.isnan(x), elementwise.cast(nan, dtype), x)
    for end, number in ((np.inf, posinf), (-np.inf, neginf)):
        found = elementwise.where(elementwise.equal(x, end), elementwise.cast(number, dtype), found)
    return found


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
