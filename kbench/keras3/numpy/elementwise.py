"""Arithmetic, comparisons and curves that the engine compiles and fuses."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype

from kbench import backend as K
from kbench.api import operations as engine
from kbench.api.operations import ArgumentError
from kbench.keras3.calls.host import MAX_RULES, common_dtype, dtype_of, operand
from kbench.keras3.calls.planned import planned
from kbench.keras3.complex_numbers.parts import by_parts, cast_held
from kbench.keras3.complex_numbers.refusal import is_complex, real_only, refused, spec_of
from kbench.keras3.complex_numbers.whole import How, linear, product, smooth, told, whole
from kbench.keras3.tensor import (
    PARTS,
    WIDE,
    NotTracedError,
    SparseTraced,
    Traced,
    array_as,
    converted,
    finish,
    in_dtype,
    is_traced,
    node_as,
    to_wide,
)


def float_type(*operands: Any) -> str:
    """The float dtype of a result: integers of 64 bits become `floatx()`."""
    if len(operands) == 1 and dtype_of(operands[0]) == "int64":
        return str(config.floatx())
    return common_dtype(*operands, 0.0)


def floating(x: Any) -> Any:
    """An operand whose numbers are no integers: those become floats."""
    x = operand(x)
    is_float = is_complex(x) or "float" in str(dtype_of(x))
    return x if is_float else cast(x, float_type(x))


def of_floats(operands: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A function whose result is no integer, whatever its first operands are.

    Keras' rules keep the dtype of some operands, and what is found would be cut to integers.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        names = tuple(inspect.signature(function).parameters)[:operands]

        @functools.wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            given = map(floating, arguments[:operands])
            options.update({one: floating(options[one]) for one in names if one in options})
            return function(*given, *arguments[operands:], **options)

        return call

    return declare


def array_in(x: Any, dtype: str) -> np.ndarray:
    """An operand as an array of a dtype, or of the wider one in which it is computed."""
    with np.errstate(all="ignore"):
        return to_wide(converted(np.asarray(x), dtype))


def _kept(found: Any, dtype: str) -> np.ndarray:
    return converted(np.asarray(found), dtype)


def _dtypes(kind: str, *operands: Any) -> tuple[str, str]:
    """The dtype in which operands of a kind of function meet, and that of the result."""
    if kind == "float":
        dtype = float_type(*operands)
        return dtype, dtype
    if kind == "logic":
        return "bool", "bool"
    dtype = common_dtype(*operands)
    if kind == "compare":
        return dtype, "bool"
    if kind == "number" and dtype == "bool":
        dtype = "int32"
    return dtype, dtype


_QUICK = {int, float, bool, *map(np.dtype, np.typecodes["AllInteger"] + "?efd")}
"""What NumPy may take as it is: numbers of Python, and arrays of its own dtypes."""


@functools.lru_cache(MAX_RULES)
def _met(kind: str, floatx: str, *given: np.dtype | type) -> tuple[np.dtype, np.dtype] | None:
    """`_dtypes` of arrays that are in that dtype already, and of numbers of Python beside floats;
    None where one is to be converted."""
    dtypes = [one for one in given if isinstance(one, np.dtype)]
    if any(one.kind == "c" for one in dtypes):
        return None
    if kind == "logic" and len(dtypes) == len(given) and not WIDE.keys() & {x.name for x in dtypes}:
        return np.dtype(bool), np.dtype(bool)  # NumPy takes what is not 0 for true, too
    if not dtypes or (len(dtypes) < len(given) and dtypes[0].kind != "f"):
        return None
    known = [np.empty(0, one) if isinstance(one, np.dtype) else one(0) for one in given]
    dtype, result = _dtypes(kind, *known)
    if dtype in WIDE or any(one.name != dtype for one in dtypes):
        return None
    return np.dtype(dtype), np.dtype(result)


MIN_KEPT_ELEMENTS = 1 << 15
"""Elements from which on a curve is worth a plan, whose kernel runs on all threads. NumPy has no
vectors for some: `log1p` of 262,144 numbers takes 1.3 ms, and compiled 0.1 ms."""


def elementwise(
    name: str,
    build: Callable[..., Any],
    form: Callable[..., Any],
    kind: str,
    count: int,
    of_complex: How = None,
) -> Callable[..., Any]:
    """A function by its form on nodes and its form on arrays.

    `kind` says in which dtype the operands meet: "same", "number" (bool becomes int32), "float",
    "compare" and "logic", whose result is bool. `of_complex` is how it takes complex numbers.
    """

    def at_once(met: tuple[np.dtype, np.dtype] | None, *given: Any) -> Any:
        if met is None:
            return general(*given)
        if is_curve and given[0].size >= MIN_KEPT_ELEMENTS:
            return kept(*given)
        with np.errstate(all="ignore"):
            return np.asarray(form(*given), met[1])

    def general(*given: Any) -> Any:
        operands = [operand(x) for x in given]
        dtype, result = _dtypes(kind, *operands)
        if dtype in PARTS:
            if of_complex is None:
                place = next(i for i, x in enumerate(operands) if is_complex(x))
                raise refused(operands[place], name, f"x{place + 1}" if count == 2 else "x")
            if any(map(is_traced, operands)):
                return of_complex(name, build, form, operands, dtype, result)
        if any(map(is_traced, operands)):
            return finish(build(*[in_dtype(x, dtype) for x in operands]), result)
        arrays = [array_in(x, dtype) for x in operands]
        with np.errstate(all="ignore"):
            return _kept(form(*arrays), result)

    def of_two(x1: Any, x2: Any) -> Any:
        kind1: Any = x1.dtype if type(x1) is np.ndarray else type(x1)
        kind2: Any = x2.dtype if type(x2) is np.ndarray else type(x2)
        if kind1 in _QUICK and kind2 in _QUICK:
            return at_once(_met(kind, config.floatx(), kind1, kind2), x1, x2)
        return general(x1, x2)

    def of_one(x: Any) -> Any:
        if type(x) is np.ndarray:
            return at_once(_met(kind, config.floatx(), x.dtype), x)
        return general(x)

    is_curve = kind == "float" and count == 1
    general.__name__ = name
    kept = planned(general)
    call = of_two if count == 2 else of_one
    call.__name__ = name
    return call


def binary(
    name: str, build: Any, form: Any, kind: str = "same", of_complex: How = None
) -> Callable[..., Any]:
    """A function of two operands, by its forms on nodes and on arrays."""
    return elementwise(name, build, form, kind, 2, of_complex)


def unary(
    name: str, build: Any, form: Any, kind: str = "float", of_complex: How = None
) -> Callable[..., Any]:
    """A function of one operand, by its forms on nodes and on arrays."""
    return elementwise(name, build, form, kind, 1, of_complex)


def _either(x: Any, y: Any) -> Any:
    return engine.logical_or(x, y) if x.dtype == "bool" else x + y


def _both(x: Any, y: Any) -> Any:
    return engine.logical_and(x, y) if x.dtype == "bool" else x * y


def _quotient_or_zero(x: Any, y: Any) -> Any:
    """x / y, 0 where y is 0, and so are its derivatives there."""
    zero = K.equal(y, 0)
    return engine.where(zero, 0.0, x / engine.where(zero, 1.0, y))


def _or_zero(x: Any, there: Any) -> Any:
    """The elements where a condition holds, else 0; what is not taken gets no gradient."""
    return where(there, x, np.asarray(0, x.dtype))


def _to_base(y: Any, x1: Any, x2: Any) -> Any:
    """The derivative of a power to its base; 0 for the exponent 0."""
    there = not_equal(x2, 0)
    return _or_zero(x2 * power(x1, where(there, x2 - 1, x2)), there)


def _to_exponent(y: Any, x1: Any, x2: Any) -> Any:
    """The derivative of a power to its exponent; 0 for the base 0."""
    there = not_equal(x1, 0)
    return _or_zero(y * log(where(there, x1, np.asarray(1, x1.dtype))), there)


def _divisor(x: Any) -> Any:
    return where(equal(x, 0), np.asarray(1, x.dtype), x)


def _safe_quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y == 0, 0, x / np.where(y == 0, 1, y))


add = binary("add", _either, np.add, of_complex=linear)
subtract = binary("subtract", lambda x, y: x - y, np.subtract, of_complex=linear)
multiply = binary("multiply", _both, np.multiply, of_complex=product)
divide = binary(
    "divide",
    lambda x, y: x / y,
    np.true_divide,
    "float",
    smooth(lambda y, x1, x2: 1 / x2, lambda y, x1, x2: -y / x2),
)
true_divide = divide
divide_no_nan = binary(
    "divide_no_nan",
    _quotient_or_zero,
    _safe_quotient,
    "float",
    smooth(
        lambda y, x1, x2: _or_zero(1 / _divisor(x2), not_equal(x2, 0)),
        lambda y, x1, x2: -y / _divisor(x2),
    ),
)


def _whole_error(name: str, x1: Any, x2: Any, words: str) -> ArgumentError:
    told = f"x1 is {spec_of(np.asarray(x1))}, x2 is {spec_of(np.asarray(x2))}; {words}"
    return ArgumentError(f"{told}; cast to a float first", function=name)


def whole_division(name: str, form: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays that divides; ArgumentError where an integer is divided by 0."""

    def function(x1: Any, x2: Any) -> Any:
        found = form(x1, x2)
        if found.dtype.kind in "iu" and not np.all(x2):
            raise _whole_error(name, x1, x2, "integers have no quotient by 0")
        return found

    return function


def _power(x1: Any, x2: Any) -> Any:
    try:
        return np.power(x1, x2)
    except ValueError:
        raise _whole_error("power", x1, x2, "integers have no negative powers") from None


floor_divide = binary(
    "floor_divide", lambda x, y: x // y, whole_division("floor_divide", np.floor_divide), "number"
)
mod = binary("mod", lambda x, y: x % y, whole_division("mod", np.mod), "number")
power = binary("power", K.pow, _power, "number", smooth(_to_base, _to_exponent))
maximum = binary("maximum", K.maximum, np.maximum)
minimum = binary("minimum", K.minimum, np.minimum)
equal = binary("equal", K.equal, np.equal, "compare", told)
not_equal: Callable[..., Any] = binary("not_equal", K.not_equal, np.not_equal, "compare", told)
less = binary("less", K.less, np.less, "compare")
less_equal = binary("less_equal", K.less_equal, np.less_equal, "compare")
greater = binary("greater", K.greater, np.greater, "compare")
greater_equal = binary("greater_equal", K.greater_equal, np.greater_equal, "compare")
logical_and = binary("logical_and", engine.logical_and, np.logical_and, "logic")
logical_or = binary("logical_or", engine.logical_or, np.logical_or, "logic")
logical_xor = binary("logical_xor", engine.logical_xor, np.logical_xor, "logic")
logical_not = unary("logical_not", lambda x: ~x, np.logical_not, "logic")

exp = unary("exp", K.exp, np.exp, of_complex=smooth(lambda y, x: y))
log = unary("log", K.log, np.log, of_complex=smooth(lambda y, x: 1 / x))
# K.sqrt gives 0 for negatives, Keras 3 NaN.
sqrt = unary(
    "sqrt",
    lambda x: engine.where(x < 0, np.nan, K.sqrt(x)),
    np.sqrt,
    of_complex=smooth(lambda y, x: 0.5 / y),
)
sin = unary("sin", K.sin, np.sin, of_complex=smooth(lambda y, x: cos(x)))
cos: Callable[..., Any] = unary("cos", K.cos, np.cos, of_complex=smooth(lambda y, x: -sin(x)))
tanh = unary("tanh", K.tanh, np.tanh, of_complex=smooth(lambda y, x: 1 - y * y))
square = unary("square", K.square, np.square, "number", smooth(lambda y, x: 2 * x))
negative = unary("negative", lambda x: -x, np.negative, "same", linear)
_sign = unary("sign", K.sign, np.sign, "same")


def sign(x: Any) -> Any:
    """1 and -1 for positive and negative elements; complex ones as parts of their size."""
    if type(x) is not np.ndarray or x.dtype.kind == "c":
        x = operand(x)
        if is_complex(x):
            return divide_no_nan(x, absolute(x))
    return _sign(x)


def absolute(x: Any) -> Any:
    """The absolute value of every element, of complex ones the size; bool stays as it is."""
    if type(x) is np.ndarray and x.dtype.kind == "f":
        return _absolute(x)
    x = operand(x)
    if is_complex(x):
        return _size(x)
    return x if dtype_of(x) == "bool" else _absolute(x)


def _size(x: Any) -> Any:
    """The size of complex numbers. Its gradient is 0 where it is 0, as on JAX."""
    dtype = common_dtype(x)
    if not is_traced(x):
        return np.abs(np.asarray(x).astype(dtype))

    def rule(g: Any, y: Any, z: Any) -> Any:
        return [g * divide_no_nan(z, y)]

    given = cast_held(x, dtype)
    return whole("absolute", np.abs, [given], [(given.shape, PARTS[dtype])], rule)


_absolute = unary("absolute", K.abs, np.abs, "same")
abs = absolute
isnan = unary("isnan", lambda x: K.not_equal(x, x), np.isnan, "compare", told)
isinf = unary("isinf", lambda x: K.equal(K.abs(x), np.inf), np.isinf, "compare", told)
isfinite = unary("isfinite", lambda x: K.less(K.abs(x), np.inf), np.isfinite, "compare", told)


@planned
def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    """`x1` where the condition holds, else `x2`; with the condition alone, the places."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    if x1 is None or x2 is None:
        raise ValueError("where: x1 and x2 are needed both, or neither of them")
    x1, x2 = operand(x1), operand(x2)
    dtype = common_dtype(x1, x2)
    mask = in_dtype(operand(condition), "bool")
    return by_parts(lambda one, two: engine.where(mask, one, two), [x1, x2], dtype)


def nonzero(x: Any) -> Any:
    """The places of what is not zero, an array for each axis; not in a traced step."""
    x = operand(x)
    if is_traced(x):
        raise NotTracedError("nonzero: how many there are is not known in a traced step")
    return tuple(place.astype("int32") for place in np.nonzero(x))


@planned
def clip(x: Any, x_min: Any, x_max: Any) -> Any:
    """Every element brought between two bounds."""
    x = operand(x)
    real_only("clip", x=x, x_min=x_min, x_max=x_max)
    dtype = common_dtype(x, *(one for one in (x_min, x_max) if one is not None))
    dtype = "int32" if dtype == "bool" else dtype
    node = in_dtype(x, dtype)
    if x_min is not None:
        node = K.maximum(node, in_dtype(operand(x_min), dtype))
    if x_max is not None:
        node = K.minimum(node, in_dtype(operand(x_max), dtype))
    return Traced(node, dtype)


def round(x: Any, decimals: int = 0) -> Any:
    """The nearest number of so many decimals, ties to even; integers stay as they are."""
    x = operand(x)
    dtype = "int32" if dtype_of(x) == "bool" else standardize_dtype(dtype_of(x))
    if "int" in dtype and decimals >= 0:
        return x if dtype_of(x) == dtype else cast(x, dtype)
    if decimals == 0:
        return _round(x)
    scale = 10.0**decimals
    return cast(divide(_round(multiply(cast(x, float_type(x)), scale)), scale), dtype)


_round = unary("round", K.round, np.rint, "same", linear)


def cast(x: Any, dtype: str) -> Any:
    """Every element in another dtype; floats beyond an integer dtype become its ends, NaN 0."""
    x = operand(x)
    if not is_traced(x):
        return array_as(np.asarray(x), dtype)
    if x.dtype == dtype:
        return x
    if dtype in PARTS:
        return cast_held(x, dtype)
    if x.dtype in PARTS:
        return Traced(in_dtype(x, dtype), dtype)
    if isinstance(x, SparseTraced) and "float" in dtype:
        return x.cast(dtype)
    node = in_dtype(x, x.dtype)
    return finish(node_as(node, dtype) if np.dtype(dtype).kind in "iu" else node, dtype)


_REFLECTED = {"add": add, "sub": subtract, "mul": multiply, "truediv": divide, "pow": power}
_REFLECTED |= {"floordiv": floor_divide, "mod": mod}
_COMPARED = {"eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater}
_COMPARED |= {"ge": greater_equal}


def _set_operators() -> None:
    """Give traced values the operators of Python."""
    for word, function in {**_REFLECTED, **_COMPARED}.items():
        setattr(Traced, f"__{word}__", lambda x, y, f=function: f(x, y))
    for word, function in _REFLECTED.items():
        setattr(Traced, f"__r{word}__", lambda x, y, f=function: f(y, x))
    setattr(Traced, "__divmod__", lambda x, y: (floor_divide(x, y), mod(x, y)))  # noqa: B010
    setattr(Traced, "__rdivmod__", lambda x, y: (floor_divide(y, x), mod(y, x)))  # noqa: B010
    for name, one in (("neg", negative), ("abs", absolute)):
        setattr(Traced, f"__{name}__", lambda x, f=one: f(x))


_set_operators()
