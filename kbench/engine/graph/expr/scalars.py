"""The scalar functions that an elementwise expression may use: one record for each.

A record has all that the engine knows of a function but its gradient, which is the operation's: how
it is written, its NumPy form (the reference of every tier), the helper that compiled loops call,
and what it costs. This file must not know Numba or the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
from msgspec import Struct

from kbench.engine.core.special import erf
from kbench.engine.core.types import Array


class Cost(IntEnum):
    """How long compiled code takes for an element, as far as choices depend on it."""

    CHEAP = 0
    """Sums, products, comparisons: memory takes longer."""
    QUOTIENT = 1
    """A division or a root: dear to compute again, and still faster than memory."""
    CURVE = 2
    """A polynomial or more: takes longer than to move the element."""
    SERIAL = 3
    """What SIMD does not do: one element after the other."""


class Helpers(IntEnum):
    """Which forms a compiled helper has; its name ends in `_f32`, `_f64`, `_int` or `_uint`."""

    NONE = 0
    """The writer spells the function out."""
    EACH = 1
    """One for each of the four."""
    ONE_FLOAT = 2
    """`_float` serves both floats."""
    ONE_OF_EACH_KIND = 3
    """`_float` serves both floats, `_int` all integers."""


class Scalar(Struct, frozen=True):
    """One scalar function.

    `result` is the dtype rule: "same", "float" (integers become float64) or "bool". `numpy` has an
    argument `out`. An operator is written with `symbol`. `compiled` names the helper, without
    its ending, where `name` does not. `near` says that it has a faster form for arguments
    of a moderate size, called `<compiled>_near`.
    """

    name: str
    arity: int
    result: str
    numpy: Callable[..., object]
    cost: Cost = Cost.CHEAP
    compiled: str = ""
    helpers: Helpers = Helpers.EACH
    symbol: str = ""
    near: bool = False

    def helper(self, ending: str, near: bool = False) -> str:
        """The name of the compiled helper for values of a kind: "f32", "f64", "int" or "uint"."""
        if self.helpers is not Helpers.EACH and ending[0] == "f":
            ending = "float"
        if self.helpers is Helpers.ONE_OF_EACH_KIND and ending == "uint":
            ending = "int"
        return f"{self.compiled or self.name}{'_near' if near and self.near else ''}_{ending}"


def _rsqrt(x: Array, out: Array | None = None) -> object:
    return np.divide(1, np.sqrt(x), out=out)


def _sigmoid(x: Array, out: Array | None = None) -> object:
    # exp(-|x|) never overflows, so the far negative tail keeps its denormal values.
    # The larger of it and `x >= 0` is 1 for those and the tail for others, NaN for NaN; a mask of
    # random elements costs `np.where` ten times as much.
    tail = np.exp(-np.abs(x))
    return np.divide(np.maximum(tail, np.greater_equal(x, 0)), tail + 1, out=out)


def _softplus(x: Array, out: Array | None = None) -> object:
    return np.add(np.log1p(np.exp(-np.abs(x))), np.maximum(x, 0), out=out)


def _pow(x: Array, y: Array, out: Array | None = None) -> object:
    """C's power: NumPy takes the square root for one exponent of 0.5, and so gives NaN for -inf."""
    if np.size(y) != 1 or np.asarray(y).reshape(-1)[0] != 0.5:
        return np.power(x, y, out=out)
    endless = np.equal(x, -np.inf)
    root = np.sqrt(np.add(x, 0 * y), out=out)  # and -0.0 for -0.0
    return np.where(endless, np.inf, root) if out is None else _filled(root, endless)


def _filled(root: Array, endless: Array) -> Array:
    np.copyto(root, np.inf, where=endless)
    return root


MIN_SELECTED_BY_BITS = 4096
"""Elements from which on `where` selects by bits: each unforeseen choice costs `np.where` 4 ns."""
_BITS: dict[str, type[np.signedinteger[Any]]] = {"f": np.int32, "d": np.int64}


def _where(condition: Array, x: Array, y: Array, out: Array | None = None) -> object:
    if out is None:
        return np.where(condition, x, y)
    bits = _BITS.get(out.dtype.char)
    if bits is not None and out.size >= MIN_SELECTED_BY_BITS and condition.dtype == np.bool_:
        one, other = (np.asarray(side, out.dtype).view(bits) for side in (x, y))
        _select(condition, one, other, out)
    else:
        np.copyto(out, np.where(condition, x, y))
    return out


def _select(condition: Array, x: Array, y: Array, out: Array) -> None:
    """Fill `out` with the bits of `x` where the condition holds, with those of `y` elsewhere."""
    chosen = np.negative(condition.view(np.int8), dtype=x.dtype)  # all bits or none
    if y.ndim == 0 and y == 0:
        np.bitwise_and(x, chosen, out=out.view(x.dtype))
    else:
        chosen = np.bitwise_and(x ^ y, chosen)
        np.bitwise_xor(chosen, y, out=out.view(x.dtype))


def _cast(x: Array, dtype: str, out: Array | None = None) -> object:
    """Convert; floats to integers by truncation, clamped to the range, NaN to 0, everywhere."""
    source = np.asarray(x)
    target = np.dtype(dtype)
    if source.dtype.kind == "f" and target.kind in "iu":
        source = _to_integer(source, target)
    if out is None:
        return source.astype(target)
    np.copyto(out, source.astype(target))
    return out


def _to_integer(x: Array, target: np.dtype[np.integer]) -> Array:
    limits = np.iinfo(target)
    low, high = float(limits.min), float(limits.max)
    if ((x >= low) & (x < high)).all():  # as nearly always: no NaN either
        return x.astype(target)
    whole = np.trunc(x)
    inside = (whole >= low) & (whole < high)
    result = np.where(inside, whole, 0).astype(target)
    return np.where(whole >= high, limits.max, np.where(whole < low, limits.min, result)).astype(
        target
    )


_CURVE, _SERIAL, _QUOTIENT = Cost.CURVE, Cost.SERIAL, Cost.QUOTIENT
_NONE, _KINDS, _FLOATS = Helpers.NONE, Helpers.ONE_OF_EACH_KIND, Helpers.ONE_FLOAT

_TABLE = (
    Scalar("abs", 1, "same", np.absolute, compiled="absolute", helpers=_KINDS),
    Scalar("sign", 1, "same", np.sign),
    Scalar("square", 1, "same", np.square, helpers=_NONE),
    Scalar("exp", 1, "float", np.exp, _CURVE),
    Scalar("expm1", 1, "float", np.expm1, _CURVE),
    Scalar("log", 1, "float", np.log, _CURVE),
    Scalar("log1p", 1, "float", np.log1p, _CURVE),
    Scalar("sqrt", 1, "float", np.sqrt, _QUOTIENT),
    Scalar("rsqrt", 1, "float", _rsqrt, _QUOTIENT),
    Scalar("sin", 1, "float", np.sin, _CURVE, near=True),
    Scalar("cos", 1, "float", np.cos, _CURVE, near=True),
    Scalar("tanh", 1, "float", np.tanh, _CURVE),
    Scalar("sigmoid", 1, "float", _sigmoid, _CURVE),
    Scalar("softplus", 1, "float", _softplus, _CURVE),
    Scalar("erf", 1, "float", erf, _CURVE),
    Scalar("floor", 1, "same", np.floor, helpers=_FLOATS),
    Scalar("ceil", 1, "same", np.ceil, helpers=_FLOATS),
    Scalar("rint", 1, "same", np.rint, helpers=_FLOATS),
    Scalar("pow", 2, "same", _pow, _SERIAL, compiled="power", symbol="**"),
    Scalar("minimum", 2, "same", np.minimum, helpers=_KINDS),
    Scalar("maximum", 2, "same", np.maximum, helpers=_KINDS),
    Scalar("floordiv", 2, "same", np.floor_divide, _SERIAL, helpers=_FLOATS, symbol="//"),
    Scalar("mod", 2, "same", np.remainder, _SERIAL, helpers=_FLOATS, symbol="%"),
    Scalar("isnan", 1, "bool", np.isnan, helpers=_NONE),
    Scalar("isinf", 1, "bool", np.isinf, helpers=_NONE),
    Scalar("logical_and", 2, "bool", np.logical_and, helpers=_NONE),
    Scalar("logical_or", 2, "bool", np.logical_or, helpers=_NONE),
    Scalar("logical_not", 1, "bool", np.logical_not, helpers=_NONE),
    Scalar("where", 3, "same", _where, helpers=_NONE),
    Scalar("cast", 2, "same", _cast, helpers=_NONE),
    Scalar("negative", 1, "same", np.negative, helpers=_NONE, symbol="-"),
    Scalar("add", 2, "same", np.add, helpers=_NONE, symbol="+"),
    Scalar("subtract", 2, "same", np.subtract, helpers=_NONE, symbol="-"),
    Scalar("multiply", 2, "same", np.multiply, helpers=_NONE, symbol="*"),
    Scalar("divide", 2, "same", np.true_divide, _QUOTIENT, helpers=_NONE, symbol="/"),
    Scalar("less", 2, "bool", np.less, helpers=_NONE, symbol="<"),
    Scalar("less_equal", 2, "bool", np.less_equal, helpers=_NONE, symbol="<="),
    Scalar("greater", 2, "bool", np.greater, helpers=_NONE, symbol=">"),
    Scalar("greater_equal", 2, "bool", np.greater_equal, helpers=_NONE, symbol=">="),
    Scalar("equal", 2, "bool", np.equal, helpers=_NONE, symbol="=="),
    Scalar("not_equal", 2, "bool", np.not_equal, helpers=_NONE, symbol="!="),
)

SCALARS: dict[str, Scalar] = {scalar.name: scalar for scalar in _TABLE}
"""Every function by its name. The second argument of `cast` is a dtype, not a value."""
