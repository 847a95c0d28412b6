"""From a scalar expression to the typed source that a generated loop computes it with.

Types follow NumPy: Python numbers adopt the dtype they meet, integers wrap, float16 is computed in
float32. Whatever this refuses with a ValueError stays on NumPy.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from kbench.engine.core import syntax
from kbench.engine.graph.expr.expression import Expr, Number
from kbench.engine.graph.expr.scalars import SCALARS, Helpers, Scalar

EXACT_POWERS = {1: "", 2: "square", 3: "cube"}
"""Exponents that are multiplied out, and the helpers that do so."""


class Typed(NamedTuple):
    """Source of a value and its dtype name; `weak` values are Python numbers."""

    source: str
    dtype: str
    weak: bool = False
    value: Number = 0


class Translation(NamedTuple):
    """Source of an expression, and the helpers it names.

    `angles` are the arguments of functions that have a faster form for moderate ones.
    """

    source: str
    used: set[str]
    angles: list[str]


def translate(
    expr: Expr,
    types: Mapping[Expr, str],
    result: str,
    named: Callable[[Expr], str] = str,
    near: bool = False,
) -> Translation:
    """Source that computes `expr` as dtype `result`, over leaves of these dtypes and names.

    `near` takes the faster forms for moderate angles.
    """
    writer = _Writer(types, named, near)
    return Translation(writer.whole(expr, result), writer.used, writer.angles)


def computed(dtype: str) -> str:
    """The dtype in which values of a dtype are computed."""
    return "float32" if dtype == "float16" else dtype


def ending(dtype: str) -> str:
    """How helper names end for a dtype that has its own form."""
    return {"float32": "f32", "float64": "f64"}.get(dtype, "uint" if dtype[0] == "u" else "int")


class _Writer:
    def __init__(self, types: Mapping[Expr, str], named: Callable[[Expr], str], near: bool) -> None:
        self.types, self.named, self.near = types, named, near
        self.used: set[str] = set()
        self.angles: list[str] = []

    def whole(self, expr: Expr, result: str) -> str:
        """The outermost value, without parentheses that are not needed."""
        source = self.convert(self.write(expr), computed(result))
        return ast.unparse(syntax.parse_expression(source))

    def write(self, expr: Expr) -> Typed:
        if expr.kind == "number":
            value = expr.value
            assert not isinstance(value, str)
            kind = {bool: "bool", int: "int64", float: "float64"}[type(value)]
            return Typed(repr(value), kind, weak=True, value=value)
        if expr.is_leaf:
            return Typed(self.named(expr), computed(self.types[expr]))
        values = [self.write(arg) for arg in expr.args]
        if expr.dtype:
            return self._cast(values[0], expr.dtype)
        return self._call(expr.scalar, values)

    def convert(self, value: Typed, dtype: str) -> str:
        """The source of a value as another dtype."""
        if value.weak:
            return self._constant(value.value, dtype)
        if value.dtype == dtype:
            return value.source
        if dtype == "bool":
            return f"({value.source} != 0)"
        if value.dtype[0] == "f" and dtype[0] in "iu":
            return f"{self._use(f'{value.dtype}_to_{dtype}')}({value.source})"
        return f"np.{dtype}({value.source})"

    def _constant(self, value: Number, dtype: str) -> str:
        if dtype == "bool":
            return str(bool(value))
        if dtype[0] == "f":
            text = repr(float(value)).replace("inf", "np.inf").replace("nan", "np.nan")
            return f"np.{dtype}({text})"
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise ValueError(f"{value} does not fit {dtype}")
        return f"np.{dtype}({int(value)})"

    def _use(self, name: str) -> str:
        self.used.add(name)
        return name

    def _wrapped(self, source: str, dtype: str) -> Typed:
        """Numba widens small integers; cast back so that they wrap."""
        return Typed(f"np.{dtype}({source})" if dtype[0] in "iu" else f"({source})", dtype)

    def _common(self, *values: Typed) -> str:
        """The dtype NumPy gives to an operation on these values."""
        one: dict[str, Number] = {"bool": True, "int64": 1, "float64": 1.0}
        parts = [one[value.dtype] if value.weak else np.dtype(value.dtype) for value in values]
        return computed(np.result_type(*parts).name)

    def _call(self, scalar: Scalar, values: list[Typed]) -> Typed:
        name = scalar.name
        if name == "where":
            return self._where(*values)
        if name.startswith("logical"):
            return self._logical(name, [self.convert(value, "bool") for value in values])
        dtype = self._common(*values)
        if name in ("isnan", "isinf"):
            return self._special(name, values[0], dtype)
        if scalar.result == "bool":
            return self._compare(scalar.symbol, values[0], values[1], dtype)
        if (scalar.result == "float" or name == "divide") and dtype[0] != "f":
            dtype = "float64"
        if name == "negative":
            return self._negative(values[0])
        if name == "pow":
            return self._power(values[0], values[1], dtype)
        if name == "square":
            return self._wrapped(f"{self._use('square')}({self.convert(values[0], dtype)})", dtype)
        if name in ("floor", "ceil", "rint") and dtype[0] != "f":
            return Typed(self.convert(values[0], dtype), dtype)
        if scalar.helpers is Helpers.NONE:
            return self._infix(scalar.symbol, values[0], values[1], dtype)
        return self._apply(scalar, dtype, *values)

    def _negative(self, value: Typed) -> Typed:
        if value.dtype == "bool":
            raise ValueError("a bool has no sign")
        return self._wrapped(f"-{value.source}", value.dtype)

    def _infix(self, symbol: str, left: Typed, right: Typed, dtype: str) -> Typed:
        a, b = self.convert(left, dtype), self.convert(right, dtype)
        if dtype == "bool":
            if symbol == "-":
                raise ValueError("bools cannot be subtracted")
            return Typed(f"({a} {'|' if symbol == '+' else '&'} {b})", dtype)
        return self._wrapped(f"{a} {symbol} {b}", dtype)

    def _power(self, left: Typed, right: Typed, dtype: str) -> Typed:
        if right.weak and right.value in EXACT_POWERS:
            power = EXACT_POWERS[int(right.value)]
            source = self.convert(left, dtype)
            return self._wrapped(f"{self._use(power)}({source})" if power else source, dtype)
        if right.weak and right.value == 0.5 and dtype[0] == "f":
            return self._apply(SCALARS["sqrt"], dtype, left)
        return self._apply(SCALARS["pow"], dtype, left, right)

    def _compare(self, symbol: str, left: Typed, right: Typed, dtype: str) -> Typed:
        if dtype == "float64" and "uint64" in (left.dtype, right.dtype):
            raise ValueError("int64 against uint64 has no common dtype")
        dtype = "int8" if dtype == "bool" else dtype
        return Typed(f"({self.convert(left, dtype)} {symbol} {self.convert(right, dtype)})", "bool")

    def _apply(self, scalar: Scalar, dtype: str, *values: Typed) -> Typed:
        """A compiled helper on values brought to one dtype."""
        given = [self.convert(value, dtype) for value in values]
        if dtype == "bool":
            symbol = {"maximum": "|", "minimum": "&"}.get(scalar.name)
            if symbol is None:
                raise ValueError(f"{scalar.name} of bool")
            return Typed(f"({symbol.join(given)})", dtype)
        if scalar.name == "abs" and dtype[0] == "u":
            return Typed(given[0], dtype)
        helper = scalar.helper(ending(dtype), self.near)
        if scalar.near:
            self.angles += given
        return self._wrapped(f"{self._use(helper)}({', '.join(given)})", dtype)

    def _cast(self, value: Typed, target: str) -> Typed:
        source = self.convert(value, computed(target))
        if target == "float16":
            source = f"{self._use('rounded_to_float16')}({source})"
        return Typed(source, computed(target))

    def _where(self, condition: Typed, x: Typed, y: Typed) -> Typed:
        dtype = self._common(x, y)
        chosen = f"({self.convert(condition, 'bool')}, {self.convert(x, dtype)}, "
        return Typed(f"{self._use('select')}{chosen}{self.convert(y, dtype)})", dtype)

    def _logical(self, name: str, values: list[str]) -> Typed:
        if name == "logical_not":
            return Typed(f"(not {values[0]})", "bool")
        return Typed(f"({values[0]} {'&' if name == 'logical_and' else '|'} {values[1]})", "bool")

    def _special(self, name: str, value: Typed, dtype: str) -> Typed:
        if dtype[0] != "f":
            return Typed("False", "bool")
        source = self.convert(value, dtype)
        if name == "isnan":
            return Typed(f"({source} != {source})", "bool")
        return Typed(f"({self._use('absolute_float')}({source}) == np.{dtype}(np.inf))", "bool")
