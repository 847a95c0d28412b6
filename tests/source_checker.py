"""Checks the source that is written for a program: what it reads and stores, and where.

A source is run as plain Python over memory that is only told of: each element remembers whether
it was stored and read since, and each access has to lie inside its array. Values are numbers of a
finite field: sums and products are exact there in any order, and every other function gives a
number that depends on all of its arguments. So what a kernel stores equals what its program says,
or the source is wrong; there is nothing to round.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import math
import re
import types
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np

from kbench.engine.kernels import binding, nest, rowwise_run, rowwise_source
from kbench.engine.kernels.binding import Binding
from kbench.engine.kernels.program import Program, is_direct, may_stream
from kbench.engine.kernels.rowwise import RowProgram
from kbench.engine.kernels.rowwise_run import RowBinding
from kbench.engine.kernels.translate import translate
from kbench.engine.kernels.writing import CHUNK

PRIME = 2**61 - 1
SCRATCH = 4096
"""Elements of a kernel's scratch memory (`primitives.SCRATCH`)."""


class SourceError(AssertionError):
    """A source that does not do what its program says."""


class Number:
    """An element of the field. It is ordered as an integer is, and can be an index."""

    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value % PRIME

    def __add__(self, other: Any) -> Number:
        return Number(self.value + _plain(other))

    def __sub__(self, other: Any) -> Number:
        return Number(self.value - _plain(other))

    def __rsub__(self, other: Any) -> Number:
        return Number(_plain(other) - self.value)

    def __mul__(self, other: Any) -> Number:
        return Number(self.value * _plain(other))

    def __truediv__(self, other: Any) -> Number:
        return Number(self.value * _inverse(_plain(other)))

    def __rtruediv__(self, other: Any) -> Number:
        return Number(_plain(other) * _inverse(self.value))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Number:
        return Number(-self.value)

    def __or__(self, other: Any) -> Number:
        return Number(self.value | _plain(other))

    def __and__(self, other: Any) -> Number:
        return Number(self.value & _plain(other))

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


def _plain(value: Any) -> int:
    """A value as an integer: numbers that are none become some number of the field."""
    if isinstance(value, Number):
        return value.value
    if isinstance(value, bool | int | np.bool_ | np.integer):
        return int(value)
    return _mixed("constant", repr(float(value)))


def _compared(value: Any) -> Any:
    return value.value if isinstance(value, Number) else value


def _inverse(value: int) -> int:
    return pow(value, -1, PRIME) if value % PRIME else 0


def _mixed(name: str, *values: object) -> int:
    """A number that depends on all of these."""
    found = zlib.crc32(name.encode())
    for value in values:
        number = value if isinstance(value, int) else zlib.crc32(str(value).encode())
        found = (found * 0x9E3779B97F4A7C15 + number * number + 3 * number + 7) % PRIME
    return found


def converted(value: Any) -> Any:
    """A value as any dtype: the field has but one. Infinities stay, as folds begin with them."""
    if isinstance(value, float) and math.isinf(value):
        return value
    return value if isinstance(value, Number) else Number(_plain(value))


def _function(name: str) -> Callable[..., Number]:
    return lambda *values: Number(_mixed(name, *[_plain(value) for value in values]))


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
            scratch = area.name == "scratch"
            if not scratch and area.value is None and place in area.unread:
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
        found |= {"stream_out": self.stream_out, "settle": lambda: None}
        found |= {"field": lambda params, index: int(params[index]), "range_kernel": lambda f: f}
        return found


_DTYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_DTYPES += ["bool", "float16", "float32", "float64"]

_ARITHMETIC: dict[str, Any] = {
    "plus": lambda total, x: total + x,
    "times": lambda total, x: total * x,
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


def _compiled(text: str, machine: Machine) -> Callable[[Sequence[int], int, int], None]:
    """The kernel as Python over this machine's memory."""
    tree = ast.parse(text)
    own = machine.names()
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


def _formula(expr: str, given: dict[str, str], dtype: str) -> Callable[[dict[str, Any]], Any]:
    """What a statement gives for values of the names in it."""
    found = translate(expr, given, dtype)
    own = dict(_ARITHMETIC)
    for name in found.used:
        own.setdefault(name, _function(name))
    code = compile(found.source, "<statement>", "eval")
    scope = _scope(own)

    def formula(values: dict[str, Any]) -> Any:
        return converted(eval(code, scope, values))

    return formula


# ------------------------------------------------------------------ what a program says


class _Inputs:
    """The inputs of a program over loop dims: areas, and the value for each index."""

    def __init__(
        self, machine: Machine, inputs: Any, dims: Sequence[int], places: Sequence[int] = ()
    ) -> None:
        self.dims = list(dims)
        self.patterns = [one.pattern or (False,) for one in inputs]
        self.areas = []
        for number, one in enumerate(inputs):
            size = math.prod(self._shape(number))
            self.areas.append(
                machine.area(
                    f"x{number}",
                    size,
                    np.dtype(one.dtype).itemsize,
                    self._value(number, one.dtype, number in places),
                )
            )

    def _shape(self, number: int) -> list[int]:
        pattern = self.patterns[number]
        return [n if varies else 1 for n, varies in zip(self.dims, pattern, strict=True)]

    def _value(self, number: int, dtype: str, place: bool) -> Callable[[int], Any]:
        if place:
            return lambda index: Number(_mixed(f"x{number}", index) % self.dims[-1])
        if dtype == "bool":
            return lambda index: Number(_mixed(f"x{number}", index) % 2)
        return lambda index: Number(_mixed(f"x{number}", index))

    def at(self, number: int, index: Sequence[int]) -> Any:
        shape = self._shape(number)
        place = 0
        for size, one in zip(shape, index, strict=True):
            place = place * size + (one if size > 1 else 0)
        value = self.areas[number].value
        assert value is not None
        return value(place)


def _joined(kind: str, values: Sequence[Any], count: int = 1) -> Any:
    """A fold of values, or of the parts of one."""
    if kind in ("sum", "mean"):
        return Number(sum(_plain(one) for one in values)) / (count if kind == "mean" else 1)
    if kind == "prod":
        return Number(math.prod(_plain(one) for one in values))
    if kind in ("any", "all"):
        return Number((any if kind == "any" else all)(values))
    return (max if kind == "max" else min)(converted(one) for one in values)


def _expect(area: Area, index: int, value: Any) -> None:
    if index not in area.stored:
        raise SourceError(f"{area.name}[{index}] of {area.size} is never stored")
    if area.stored[index] != value:
        raise SourceError(f"{area.name}[{index}] is {area.stored[index]}, not {value}")


def check_nest(
    program: Program, dims: Sequence[int], text: str, in_place: bool = False, other: bool = False
) -> None:
    """SourceError unless the source of a loop nest does what the program says, over these dims.

    With `in_place` the first output lies where the first input does that is read element for
    element and has its dtype. With `other`, results go past the caches, and a fold that may stores
    its result by itself.
    """
    machine = Machine()
    inputs = _Inputs(machine, program.inputs, dims)
    bound = Binding(program, dims)
    params = bound._template.copy()
    outs = []
    for number, statement in enumerate(program.outputs):
        dtype = program.statements[statement].dtype
        shared = _place_for(program, inputs, dtype) if in_place and number == 0 else None
        size, each = math.prod(dims), np.dtype(dtype).itemsize
        outs.append(shared or machine.area(f"y{number}", size, each))
        params[number] = outs[-1].start
    for number, area in enumerate(inputs.areas):
        params[bound._slots[f"x{number}"]] = area.start
    result, direct = None, other and bound.parts == 1 and is_direct(program)
    if program.fold is not None:
        dtype = program.value_dtype if direct else program.partial_dtype
        size, each = bound.parts * bound.kept, np.dtype(dtype).itemsize
        result = machine.area("result" if direct else "partials", size, each)
        params[bound._slots["direct" if direct else "partials"]] = result.start
    elif may_stream(program):
        params[bound._slots["streamed"]] = other
    _compiled(text, machine)([int(one) for one in params], 0, bound.items)
    values = list(_nest_values(program, inputs, dims))
    for area, statement in zip(outs, program.outputs, strict=True):
        for index, row in enumerate(values):
            _expect(area, index, row[f"t{statement}"])
    if result is not None:
        _check_fold(program, dims, bound, values, result)


def _place_for(program: Program, inputs: _Inputs, dtype: str) -> Area | None:
    for number, one in enumerate(program.inputs):
        if one.dtype == dtype and all(inputs.patterns[number]):
            return inputs.areas[number]
    return None


def _nest_values(
    program: Program, inputs: _Inputs, dims: Sequence[int]
) -> Iterator[dict[str, Any]]:
    kinds = {f"a{n}": one.dtype for n, one in enumerate(program.inputs)}
    formulas = []
    for number, statement in enumerate(program.statements):
        formulas.append(_formula(statement.expr, dict(kinds), statement.dtype))
        kinds[f"t{number}"] = statement.dtype
    for index in itertools.product(*[range(n) for n in dims]):
        row = {f"a{n}": inputs.at(n, index) for n in range(len(program.inputs))}
        for number, formula in enumerate(formulas):
            row[f"t{number}"] = formula(row)
        yield row


def _check_fold(
    program: Program, dims: Sequence[int], bound: Binding, values: list[Any], result: Area
) -> None:
    fold = program.fold
    assert fold is not None
    folded = f"t{len(program.statements) - 1}"
    inner = math.prod(dims[fold.stop :])
    middle = math.prod(dims[fold.start : fold.stop])
    for kept in range(bound.kept):
        outer, along = divmod(kept, inner)
        rows = [values[(outer * middle + m) * inner + along][folded] for m in range(middle)]
        parts = [result.stored.get(part * bound.kept + kept) for part in range(bound.parts)]
        if None in parts:
            raise SourceError(f"part {parts.index(None)} of result {kept} is never stored")
        kind = "sum" if fold.kind == "mean" else fold.kind
        found, wanted = _joined(kind, parts), _joined(kind, rows)
        if result.name == "result":  # no parts to be joined and divided
            found, wanted = parts[0], _joined(fold.kind, rows, len(rows))
        if found != wanted:
            raise SourceError(f"the {fold.kind} of result {kept} is {found}, not {wanted}")


def check_rows(program: RowProgram, dims: Sequence[int], text: str) -> None:
    """SourceError unless the source of a row program does what it says, over these dims."""
    machine = Machine()
    inputs = _Inputs(machine, program.inputs, dims, program.places)
    bound = RowBinding(program, dims)
    rows, columns = math.prod(dims[:-1]), dims[-1]
    params = bound._template.copy()
    outs = {}
    for place, number in enumerate(program.outputs):
        node = program.nodes[number]
        size = rows * columns if program.full[number] else rows
        outs[number] = machine.area(f"y{place}", size, np.dtype(node.dtype).itemsize)
        params[place] = outs[number].start
    folded: dict[str, Area] = {}
    for name, slot in bound._slots.items():
        if re.fullmatch(r"[de]\d+", name):
            folded[name] = machine.area(name, bound.parts * columns, 8)
            params[slot] = folded[name].start
    for number, area in enumerate(inputs.areas):
        params[bound._slots[f"x{number}"]] = area.start
    _compiled(text, machine)([int(one) for one in params], 0, bound.items)
    values = list(_row_values(program, inputs, dims))
    for number, area in outs.items():
        for row, found in enumerate(values):
            if not program.full[number]:
                _expect(area, row, found[number])
                continue
            for column in range(columns):
                _expect(area, row * columns + column, found[number][column])
    for number in program.downs:
        if program.twin(number) is None:
            _check_down(program, number, bound, values, folded)


def _row_values(program: RowProgram, inputs: _Inputs, dims: Sequence[int]) -> Iterator[list[Any]]:
    """For each row what every node is: a list of its columns, or one value."""
    kinds = {f"a{n}": one.dtype for n, one in enumerate(program.inputs)}
    kinds |= {f"t{n}": one.dtype for n, one in enumerate(program.nodes)}
    formulas = [
        None
        if node.along or node.down
        else _formula(
            node.expr, {n: kinds[n] for n in node.reads} | {"column": "int64"}, node.dtype
        )
        for node in program.nodes
    ]
    for head in itertools.product(*[range(n) for n in dims[:-1]]):
        found: list[Any] = []

        def value(name: str, column: int, head: Any = head, found: Any = found) -> Any:
            number = int(name[1:])
            if name[0] == "a":
                return inputs.at(number, (*head, column))
            return found[number][column] if isinstance(found[number], list) else found[number]

        for number, node in enumerate(program.nodes):
            formula = formulas[number]
            if formula is not None:
                wide = range(dims[-1]) if program.full[number] else range(1)
                made = [formula({n: value(n, j) for n in node.reads} | {"column": j}) for j in wide]
                found.append(made if program.full[number] else made[0])
            elif node.along == "pick":
                picked, place = node.reads
                found.append(value(picked, int(value(place, 0))))
            elif node.along:
                row = [value(node.expr, j) for j in range(dims[-1])]
                found.append(_joined(node.along, row))
            else:
                found.append([value(node.expr, j) for j in range(dims[-1])])
        yield found


def _check_down(
    program: RowProgram,
    number: int,
    bound: RowBinding,
    values: list[list[Any]],
    folded: dict[str, Area],
) -> None:
    """Hold the sums of each part, and the squares about its mean, against its rows."""
    each = int(bound._template[bound._slots["rows"]])
    columns = bound.columns
    for part in range(bound.parts):
        some = values[part * each : (part + 1) * each]
        for column in range(columns):
            rows = [one[number][column] for one in some]
            total = _joined("sum", rows)
            _expect(folded[f"d{number}"], part * columns + column, total)
            if program.nodes[number].down == "var":
                squares = _joined("sum", [converted(one) * one for one in rows])
                about = squares - total * total / len(rows)
                _expect(folded[f"e{number}"], part * columns + column, about)


# ------------------------------------------------------------------ every source that is written


def _cut_small(text: str) -> str:
    """The source with blocks of a few elements in place of hundreds, so that few show its edges."""
    sizes = {CHUNK: 3, nest.ROWS: 9, nest.ANGLES: 3, rowwise_source.FLUSH: 9}
    block = re.compile(rf"(?<=[,+] )({'|'.join(map(str, sizes))})(?=[,)])")
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if "range(" in line or "min(" in line:
            lines[number] = block.sub(lambda found: str(sizes[int(found.group())]), line)
    text = "\n".join(lines)
    return text.replace(f"size = {nest.STAGE} if", "size = 2 if")


def _other_angles(text: str) -> str:
    """The source with the choice between forms of sine and cosine turned around."""
    return text.replace(f"if widest <= {nest.NEAR}:", f"if widest > {nest.NEAR}:")


def _leading(rank: int, seed: int) -> list[int]:
    """Sizes of the loop dims before the last one, none of them 1."""
    sizes = [3, 2, 5, 4, 2, 3]
    return [sizes[(seed + k) % len(sizes)] for k in range(rank - 1)]


def check(program: Program | RowProgram, text: str, seed: int = 0) -> None:
    """Hold a source against its program over a few dims, cut in pieces of different sizes."""
    if isinstance(program, RowProgram):
        for rows, columns, cut in ((1, 1, text), (11, 3, text), (71, 2, _cut_small(text))):
            head = _leading(program.rank, seed)
            head[0] = rows if program.rank == 2 else head[0]
            with mock.patch.multiple(rowwise_run, ITEM=7, PARTS=2, WIDTH=2):
                check_rows(program, [*head, columns], cut)
        return
    fold = program.fold
    pieces = {"COLUMNS": 2, "FOLD_COLUMNS": 3, "SCRATCH_COLUMNS": 3, "FOLD_ROWS": 11}
    head = _leading(program.rank, seed)
    check_nest(program, [*head, 1], text)
    check_nest(program, [*head, 5], _other_angles(text), other=True)
    with mock.patch.multiple(binding, **pieces):
        check_nest(program, [*head, 7], _cut_small(text))
        check_nest(program, [*head, 4], _cut_small(text), in_place=True, other=True)
        if fold is not None and fold.start == 0 and fold.stop < program.rank:
            check_nest(program, [19, *head[1:], 4], _cut_small(text))


_checked: set[str] = set()


def _checking(write: Callable[[Any], str], found: list[str]) -> Callable[[Any], str]:
    def written(program: Any) -> str:
        text = write(program)
        if program.name not in _checked:
            _checked.add(program.name)
            try:
                check(program, text, len(_checked))
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}\n{program}\n{text}")
        return text

    return written


@contextlib.contextmanager
def watching(found: list[str]) -> Iterator[None]:
    """Meanwhile check each source when it is first written; what is wrong goes to `found`."""
    with (
        mock.patch.object(nest, "source", _checking(nest.source, found)),
        mock.patch.object(rowwise_source, "source", _checking(rowwise_source.source, found)),
    ):
        yield
