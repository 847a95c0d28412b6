"""A machine for generated sources: memory that is only told of, numbers of a finite field.

A source is run as plain Python over memory in which each element remembers whether it was stored
and read since, and each access has to lie inside its array. Values are numbers of a finite field:
sums and products are exact there in any order, and every other function gives a number that depends
on all of its arguments.
"""

from __future__ import annotations

import ast
import math
import types
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kbench.engine.codegen.writers.typed_expr import translate
from kbench.engine.core import syntax
from kbench.engine.graph.expr.expression import Expr

PRIME = 2**61 - 1
SCRATCH = 4096
"""Elements of a kernel's scratch memory (`primitives.SCRATCH_COLUMNS`)."""


class SourceError(AssertionError):
    """A source that does not do what its program says."""


class Number:
    """An element of the field. It is ordered as an integer is, and can be an index."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value % PRIME

    def __add__(self, other: Any) -> Number:
        return Number(self.value + plain(other))

    def __sub__(self, other: Any) -> Number:
        return Number(self.value - plain(other))

    def __rsub__(self, other: Any) -> Number:
        return Number(plain(other) - self.value)

    def __mul__(self, other: Any) -> Number:
        return Number(self.value * plain(other))

    def __truediv__(self, other: Any) -> Number:
        return Number(self.value * _inverse(plain(other)))

    def __rtruediv__(self, other: Any) -> Number:
        return Number(plain(other) * _inverse(self.value))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Number:
        return Number(-self.value)

    def __or__(self, other: Any) -> Number:
        return Number(self.value | plain(other))

    def __and__(self, other: Any) -> Number:
        return Number(self.value & plain(other))

    __ror__, __rand__ = __or__, __and__

    def __eq__(self, other: object) -> bool:
        return bool(self.value == _compared(other))

    def __lt__(self, other: Any) -> bool:
        return bool(self.value < _compared(other))

    def __le__(self, other: Any) -> bool:
        return bool(self.value <= _compared(other))

    def __gt__(self, other: Any) -> bool:
        return bool(self.value > _compared(other))

    def __ge__(self, other: Any) -> bool:
        return bool(self.value >= _compared(other))

    def __hash__(self) -> int:
        return hash(self.value)

    def __bool__(self) -> bool:
        return self.value != 0

    def __index__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"#{self.value:x}"


def plain(value: Any) -> int:
    """A value as an integer: numbers that are none become some number of the field."""
    if isinstance(value, Number):
        return value.value
    if isinstance(value, bool | int | np.bool_ | np.integer):
        return int(value)
    return mixed("constant", repr(float(value)))


def _compared(value: Any) -> Any:
    return value.value if isinstance(value, Number) else value


def _inverse(value: int) -> int:
    return pow(value, -1, PRIME) if value % PRIME else 0


def mixed(name: str, *values: object) -> int:
    """A number that depends on all of these."""
    found = zlib.crc32(name.encode())
    for value in values:
        number = value if isinstance(value, int) else zlib.crc32(str(value).encode())
        found = (found * 0x9E3779B97F4A7C15 + number * number + 3 * number + 7) % PRIME
    return found


_LIMITS = {-(2 ** (bits - 1)): -math.inf for bits in (8, 16, 32, 64)}
_LIMITS |= {2 ** (bits - signed) - 1: math.inf for bits in (8, 16, 32, 64) for signed in (0, 1)}


def converted(value: Any) -> Any:
    """A value as any dtype: the field has but one. Infinities stay, as folds begin with them, and
    the least and greatest integers are such."""
    if type(value) is int and value in _LIMITS:
        return _LIMITS[value]
    if isinstance(value, float) and math.isinf(value):
        return value
    return value if isinstance(value, Number) else Number(plain(value))


def _function(name: str) -> Callable[..., Number]:
    return lambda *values: Number(mixed(name, *[plain(value) for value in values]))


class Area:
    """An array that a kernel may reach: from where on, its elements, and what it may do there."""

    def __init__(
        self, name: str, start: int, size: int, each: int, value: Callable[[int], Any] | None
    ) -> None:
        """`value` gives what an input holds; None for what has to be stored before it is read."""
        self.name, self.start, self.size, self.each = name, start, size, each
        self.value = value
        self.stored: dict[int, Any] = {}
        self.unread: set[int] = set()
        self.again = value is not None or name == "scratch"
        """Whether an element may be stored anew before it is read."""

    def read(self, index: int) -> Any:
        if index in self.stored:
            self.unread.discard(index)
            return self.stored[index]
        if self.value is None:
            raise SourceError(f"{self.name}[{index}] is read before it is stored")
        return self.value(index)


class Machine:
    """Memory, and the names that a source imports."""

    def __init__(self) -> None:
        self.areas: list[Area] = []
        self._next = 1 << 20

    def area(
        self, name: str, size: int, each: int, value: Callable[[int], Any] | None = None
    ) -> Area:
        """An array anywhere, far from all others."""
        found = Area(name, self._next, size, each, value)
        self._next += size * each + (1 << 16)
        self.areas.append(found)
        return found

    def _find(self, address: int, index: int, each: int, what: str) -> tuple[Area, int]:
        place = int(address) + int(index) * each
        for area in self.areas:
            if area.start <= place < area.start + area.size * area.each:
                if (place - area.start) % area.each or each != area.each:
                    raise SourceError(f"{what} of {each} bytes in {area.name}, of {area.each}")
                return area, (place - area.start) // area.each
        near = min(self.areas, key=lambda one: abs(one.start - place))
        raise SourceError(
            f"{what} outside of arrays, at {(place - near.start) / near.each:g} of {near.name}"
            f"[{near.size}]"
        )

    def load(self, each: int) -> Callable[[int, int], Any]:
        def load(address: int, index: int) -> Any:
            area, place = self._find(address, index, each, "a read")
            return area.read(place)

        return load

    def store(self, each: int) -> Callable[[int, int, Any], None]:
        def store(address: int, index: int, value: Any) -> None:
            area, place = self._find(address, index, each, "a store")
            if not area.again and place in area.unread:
                raise SourceError(f"{area.name}[{place}] is stored twice, and not read between")
            area.stored[place] = converted(value)
            area.unread.add(place)

        return store

    def scratch(self, each: int) -> Callable[[], int]:
        return lambda: self.area("scratch", SCRATCH, each).start

    def stream_out(self, target: int, source: int, size: int) -> None:
        area, first = self._find(source, 0, self._each_at(source), "a read")
        put = self.store(area.each)
        for k in range(int(size) // area.each):
            put(target, k, area.read(first + k))

    def _each_at(self, address: int) -> int:
        for area in self.areas:
            if area.start <= address < area.start + area.size * area.each:
                return area.each
        raise SourceError("a copy from outside of arrays")

    def names(self) -> dict[str, Any]:
        """What sources import, and `np`."""
        found: dict[str, Any] = dict(_ARITHMETIC)
        for dtype in _DTYPES:
            each = np.dtype(dtype).itemsize
            found[f"load_{dtype}"] = found[f"peek_{dtype}"] = self.load(each)
            found[f"store_{dtype}"] = self.store(each)
        for bits in (8, 16, 32, 64):
            found[f"scratch_{bits}"] = self.scratch(bits // 8)
        found |= {"stream_out": self.stream_out, "store_fence": lambda: None}
        found |= {"two_vectors": lambda: None, "masked": lambda: None}
        found["fetch_line"] = lambda address: None
        found |= {"begin_flushing": lambda: 0, "end_flushing": lambda modes: None}
        found |= {"field": lambda params, index: int(params[index])}
        found |= {"range_kernel": lambda f: f, "exact_kernel": lambda f: f}
        return found


_DTYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_DTYPES += ["bool", "float16", "float32", "float64"]

_ARITHMETIC: dict[str, Any] = {
    "plus": lambda total, x: total + x,
    "multiply_add": lambda x, y, z: x * y + z,
    "times": lambda total, x: total * x,
    "lost": lambda total, x, joint: total + x - joint,
    "mantissa": lambda x: x,
    "exponent": lambda x: 0,
    "mantissa_narrow": lambda x: x,
    "exponent_narrow": lambda x: 0,
    "scaled": lambda factor, power: factor,
    "settled": lambda total, carry: total + carry,
    "square": lambda x: x * x,
    "cube": lambda x: x * x * x,
    "select": lambda condition, x, y: x if condition else y,
    "rounded_to_float16": converted,
    "absolute_float": converted,
    "absolute_int": converted,
}
for _kind in ("float", "int"):
    _ARITHMETIC[f"maximum_{_kind}"] = lambda x, y: max(converted(x), converted(y))
    _ARITHMETIC[f"minimum_{_kind}"] = lambda x, y: min(converted(x), converted(y))
for _dtype in _DTYPES:
    _ARITHMETIC |= {f"{_width}_to_{_dtype}": converted for _width in ("float32", "float64")}

_NUMPY = types.SimpleNamespace(inf=math.inf, nan=math.nan, **dict.fromkeys(_DTYPES, converted))
_NUMPY.bool_ = bool


def _scope(own: dict[str, Any]) -> dict[str, Any]:
    return own | {"np": _NUMPY, "min": min, "max": max, "range": range}


def compiled(
    text: str, machine: Machine, more: dict[str, Any] | None = None
) -> Callable[[Sequence[int], int, int], None]:
    """The kernel as Python over this machine's memory; `more` are names that it has besides."""
    tree = syntax.parse_module(text)
    own = machine.names() | (more or {})
    for node in [one for one in tree.body if isinstance(one, ast.ImportFrom)]:
        for alias in node.names:
            near = alias.name.replace("_near_", "_")  # the same function, for small angles
            own.setdefault(alias.name, _function(near))
        tree.body.remove(node)
    tree.body = [one for one in tree.body if not isinstance(one, ast.Import)]
    scope = _scope(own)
    exec(compile(tree, "<source>", "exec"), scope)
    found: Callable[[Sequence[int], int, int], None] = scope["run"]
    return found


def formula(expr: Expr, given: dict[Expr, str], dtype: str) -> Callable[[dict[Expr, Any]], Any]:
    """What a statement gives for values of the leaves in it."""
    found = translate(expr, given, dtype)
    own = dict(_ARITHMETIC)
    for name in found.used:
        own.setdefault(name, _function(name))
    code = compile(found.source, "<statement>", "eval")
    scope = _scope(own)

    def found_for(values: dict[Expr, Any]) -> Any:
        return converted(eval(code, scope, {str(leaf): value for leaf, value in values.items()}))

    return found_for
