"""From a scalar expression to the typed source that a generated loop computes it with.

Types follow NumPy: Python numbers adopt the dtype they meet, integers wrap, float16 is computed in
float32. Whatever this refuses with a ValueError stays on NumPy.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kbench.engine.core import syntax
from kbench.engine.graph import expr as scalars

EXACT_POWERS = {1: "{0}", 2: "square({0})", 3: "cube({0})"}


class Typed(NamedTuple):
    """Source of a value and its dtype name; `weak` values are Python numbers."""

    source: str
    dtype: str
    weak: bool = False
    value: object = None


class Translation(NamedTuple):
    """Source of an expression, the helpers it names, and the angles of its sines and cosines."""

    source: str
    used: set[str]
    angles: list[str]


def translate(expr: str, types: Mapping[str, str], result: str) -> Translation:
    """Source that computes `expr`, over names of these dtypes, as dtype `result`."""
    writer = _Writer({name: computed(dtype) for name, dtype in types.items()})
    value = writer.write(scalars.parse(expr, list(types)))
    source = writer.convert(value, computed(result))
    tidy = ast.unparse(syntax.parse_expression(source))
    return Translation(tidy, writer.used, writer.angles)


def computed(dtype: str) -> str:
    """The dtype in which values of a dtype are computed."""
    return "float32" if dtype == "float16" else dtype


def suffix(dtype: str) -> str:
    """How helper names end for a dtype that has its own form."""
    return {"float32": "f32", "float64": "f64"}.get(dtype, "uint" if dtype[0] == "u" else "int")


class _Writer:
    def __init__(self, types: Mapping[str, str]) -> None:
        self.types = types
        self.used: set[str] = set()
        self.angles: list[str] = []

    def write(self, node: ast.expr) -> Typed:
        if scalars.is_literal(node):
            return self._literal(node)
        if isinstance(node, ast.Name):
            return Typed(node.id, self.types[node.id])
        if isinstance(node, ast.BinOp):
            left, right = self.write(node.left), self.write(node.right)
            return self._binary(scalars.BINARY[type(node.op)][0], left, right)
        if isinstance(node, ast.Compare):
            left, right = self.write(node.left), self.write(node.comparators[0])
            return self._compare(scalars.COMPARE[type(node.ops[0])][0], left, right)
        if isinstance(node, ast.UnaryOp):
            value = self.write(node.operand)
            if value.dtype == "bool":
                raise ValueError("a bool has no sign")
            minus = isinstance(node.op, ast.USub)
            return self._wrapped(f"-{value.source}", value.dtype) if minus else value
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        return self._call(node.func.id, node.args)

    def _literal(self, node: ast.expr) -> Typed:
        value = scalars.literal_value(node)
        kind = {bool: "bool", int: "int64", float: "float64"}[type(value)]
        return Typed(repr(value), kind, weak=True, value=value)

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

    def _constant(self, value: object, dtype: str) -> str:
        assert isinstance(value, bool | int | float)
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
        weak = {"bool": True, "int64": 1, "float64": 1.0}
        parts: list[float | np.dtype[np.generic]] = [
            weak[value.dtype] if value.weak else np.dtype(value.dtype) for value in values
        ]
        return computed(np.result_type(*parts).name)

    def _binary(self, symbol: str, left: Typed, right: Typed) -> Typed:
        dtype = self._common(left, right)
        if symbol == "/" and dtype[0] != "f":
            dtype = "float64"
        if symbol == "**":
            return self._power(left, right, dtype)
        if symbol in ("//", "%"):
            return self._apply("floordiv" if symbol == "//" else "mod", dtype, left, right)
        a, b = self.convert(left, dtype), self.convert(right, dtype)
        if dtype == "bool":
            if symbol == "-":
                raise ValueError("bools cannot be subtracted")
            return Typed(f"({a} {'|' if symbol == '+' else '&'} {b})", dtype)
        return self._wrapped(f"({a} {symbol} {b})", dtype)

    def _power(self, left: Typed, right: Typed, dtype: str) -> Typed:
        if right.weak and right.value in EXACT_POWERS:
            form = EXACT_POWERS[right.value]
            self.used.update({"square", "cube"})
            return self._wrapped(form.format(self.convert(left, dtype)), dtype)
        if right.weak and right.value == 0.5 and dtype[0] == "f":
            return self._apply("sqrt", dtype, left)
        return self._apply("power", dtype, left, right)

    def _compare(self, symbol: str, left: Typed, right: Typed) -> Typed:
        dtype = self._common(left, right)
        if dtype == "float64" and "uint64" in (left.dtype, right.dtype):
            raise ValueError("int64 against uint64 has no common dtype")
        dtype = "int8" if dtype == "bool" else dtype
        return Typed(f"({self.convert(left, dtype)} {symbol} {self.convert(right, dtype)})", "bool")

    def _apply(self, name: str, dtype: str, *values: Typed) -> Typed:
        """A helper of the table on values brought to one dtype."""
        if dtype == "bool":
            symbol = {"maximum": "|", "minimum": "&"}.get(name)
            if symbol is None:
                raise ValueError(f"{name} of bool")
            return Typed(f"({symbol.join(self.convert(value, dtype) for value in values)})", dtype)
        plain = name in ("absolute", "maximum", "minimum", "floor", "ceil", "rint")
        plain = plain or name in ("floordiv", "mod")
        end = "float" if plain and dtype[0] == "f" else suffix(dtype)
        if name in ("absolute", "maximum", "minimum") and end == "uint":
            end = "int"
        if name == "absolute" and dtype[0] == "u":
            return Typed(self.convert(values[0], dtype), dtype)
        arguments = ", ".join(self.convert(value, dtype) for value in values)
        if name in ("sin", "cos"):
            self.angles.append(arguments)
        return self._wrapped(f"{self._use(f'{name}_{end}')}({arguments})", dtype)

    def _call(self, name: str, arguments: list[ast.expr]) -> Typed:
        if name == "cast":
            target = ast.literal_eval(arguments[1])
            return self._cast(self.write(arguments[0]), target)
        values = [self.write(argument) for argument in arguments]
        if name == "where":
            return self._where(values[0], values[1], values[2])
        if name in ("logical_and", "logical_or", "logical_not"):
            return self._logical(name, [self.convert(value, "bool") for value in values])
        dtype = self._common(*values)
        if name in ("isnan", "isinf"):
            return self._special(name, values[0], dtype)
        row = scalars.SCALARS[name]
        if row.result == "float" and dtype[0] != "f":
            dtype = "float64"
        if name == "pow":
            return self._power(values[0], values[1], dtype)
        if name == "square":
            self._use("square")
            return self._wrapped(f"square({self.convert(values[0], dtype)})", dtype)
        if name in ("floor", "ceil", "rint") and dtype[0] != "f":
            return Typed(self.convert(values[0], dtype), dtype)
        return self._apply(row.source, dtype, *values)

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
