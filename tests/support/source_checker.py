"""Checks the source that is written for a program: what it reads and stores, and where.

What a kernel stores in the memory of an `abstract_machine` equals what its program says, or the
source is wrong; there is nothing to round.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import scan_checker
from abstract_machine import (
    Area,
    Machine,
    Number,
    SourceError,
    compiled,
    converted,
    formula,
    mixed,
    plain,
)

from kbench.engine.codegen import loop_kernel
from kbench.engine.codegen.arguments import ITEM_SIZES, Binding, ItemSizes
from kbench.engine.codegen.loop_program import LoopProgram, Schedule
from kbench.engine.codegen.row_kernel import ROW_ITEM_SIZES, RowBinding, RowItemSizes
from kbench.engine.codegen.writers import (
    kernel_source,
    loop_fold_source,
    loop_source,
    row_source,
    running_folds,
)
from kbench.engine.codegen.writers.running_folds import CHUNK_ELEMENTS, SHORT_CHUNK_ELEMENTS
from kbench.engine.core import syntax
from kbench.engine.graph.expr.expression import COLUMN, Expr, input_leaf, local_leaf
from kbench.engine.kernels import scan_kernel

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
            return lambda index: Number(mixed(f"x{number}", index) % self.dims[-1])
        if dtype == "bool":
            return lambda index: Number(mixed(f"x{number}", index) % 2)
        return lambda index: Number(mixed(f"x{number}", index))

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
        return Number(sum(plain(one) for one in values)) / (count if kind == "mean" else 1)
    if kind == "prod":
        return Number(math.prod(plain(one) for one in values))
    if kind in ("any", "all"):
        return Number((any if kind == "any" else all)(values))
    return (max if kind == "max" else min)(converted(one) for one in values)


def _expect(area: Area, index: int, value: Any) -> None:
    if index not in area.stored:
        raise SourceError(f"{area.name}[{index}] of {area.size} is never stored")
    if area.stored[index] != value:
        raise SourceError(f"{area.name}[{index}] is {area.stored[index]}, not {value}")


def check_nest(
    program: LoopProgram,
    dims: Sequence[int],
    text: str,
    in_place: bool = False,
    other: bool = False,
    item_sizes: ItemSizes = ITEM_SIZES,
) -> None:
    """SourceError unless the source of a loop nest does what the program says, over these dims.

    With `in_place` the first output lies where the first input does that is read element for
    element and has its dtype. With `other`, results go past the caches, and a fold that may stores
    its result by itself.
    """
    machine = Machine()
    inputs = _Inputs(machine, program.inputs, dims)
    bound = Binding(program, dims, item_sizes)
    params = bound._template.copy()
    outs = []
    for number, stored in enumerate(program.outputs):
        dtype = program.values[stored].dtype
        shared = _place_for(program, inputs, dtype) if in_place and number == 0 else None
        size, each = math.prod(dims), np.dtype(dtype).itemsize
        outs.append(shared or machine.area(f"y{number}", size, each))
        params[number] = outs[-1].start
    for number, area in enumerate(inputs.areas):
        params[bound._slots[f"x{number}"]] = area.start
    result, direct = None, other and bound.parts == 1 and program.is_direct
    if program.fold is not None:
        dtype = program.value_dtype if direct else program.partial_dtype(-1)
        size, each = bound.parts * bound.kept, np.dtype(dtype).itemsize
        result = machine.area("result" if direct else "partials", size, each)
        params[bound._slots["direct" if direct else "partials"]] = result.start
        if program.has_exponents:
            params[bound._slots["exponents"]] = machine.area("exponents", size, 8).start
    elif program.may_stream:
        params[bound._slots["streamed"]] = other
    compiled(text, machine)([int(one) for one in params], 0, bound.items)
    values = list(_nest_values(program, inputs, dims))
    for area, statement in zip(outs, program.outputs, strict=True):
        for index, row in enumerate(values):
            _expect(area, index, row[local_leaf(statement)])
    if result is not None:
        _check_fold(program, dims, bound, values, result)


def _place_for(program: LoopProgram, inputs: _Inputs, dtype: str) -> Area | None:
    for number, one in enumerate(program.inputs):
        if one.dtype == dtype and all(inputs.patterns[number]):
            return inputs.areas[number]
    return None


def _nest_values(
    program: LoopProgram, inputs: _Inputs, dims: Sequence[int]
) -> Iterator[dict[Expr, Any]]:
    kinds = {input_leaf(n): one.dtype for n, one in enumerate(program.inputs)}
    formulas = []
    for number, statement in enumerate(program.values):
        formulas.append(formula(statement.expr, dict(kinds), statement.dtype))
        kinds[local_leaf(number)] = statement.dtype
    for index in itertools.product(*[range(n) for n in dims]):
        row = {input_leaf(n): inputs.at(n, index) for n in range(len(program.inputs))}
        for number, one in enumerate(formulas):
            row[local_leaf(number)] = one(row)
        yield row


def _check_fold(
    program: LoopProgram, dims: Sequence[int], bound: Binding, values: list[Any], result: Area
) -> None:
    fold = program.fold
    assert fold is not None
    folded = program.values[-1].expr
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


def check_rows(
    program: LoopProgram,
    dims: Sequence[int],
    text: str,
    item_sizes: RowItemSizes = ROW_ITEM_SIZES,
) -> None:
    """SourceError unless the source of a row program does what it says, over these dims."""
    machine = Machine()
    inputs = _Inputs(machine, program.inputs, dims, program.places)
    bound = RowBinding(program, dims, item_sizes)
    rows, columns = math.prod(dims[:-1]), dims[-1]
    params = bound._template.copy()
    outs = {}
    for place, number in enumerate(program.outputs):
        node = program.values[number]
        size = rows * columns if program.full[number] else rows
        outs[number] = machine.area(f"y{place}", size, np.dtype(node.dtype).itemsize)
        params[place] = outs[number].start
    folded: dict[str, Area] = {}
    for name, slot in bound._slots.items():
        if re.fullmatch(r"(partials|squares|means)\d+", name):
            folded[name] = machine.area(name, bound.parts * columns, 8)
            params[slot] = folded[name].start
    for number, area in enumerate(inputs.areas):
        params[bound._slots[f"x{number}"]] = area.start
    compiled(text, machine)([int(one) for one in params], 0, bound.items)
    values = list(_row_values(program, inputs, dims))
    for number, area in outs.items():
        for row, found in enumerate(values):
            if not program.full[number]:
                _expect(area, row, found[number])
                continue
            for column in range(columns):
                _expect(area, row * columns + column, found[number][column])
    for number in program.final_folds:
        if program.twin(number) is None:
            _check_down(program, number, bound, values, folded)


def _row_values(program: LoopProgram, inputs: _Inputs, dims: Sequence[int]) -> Iterator[list[Any]]:
    """For each row what every node is: a list of its columns, or one value."""
    kinds = {input_leaf(n): one.dtype for n, one in enumerate(program.inputs)}
    kinds |= {local_leaf(n): one.dtype for n, one in enumerate(program.values)}
    kinds[COLUMN] = "int64"
    formulas = [
        None if node.fold is not None else formula(node.expr, kinds, node.dtype)
        for node in program.values
    ]
    for head in itertools.product(*[range(n) for n in dims[:-1]]):
        found: list[Any] = []

        def value(leaf: Expr, column: int, head: Any = head, found: Any = found) -> Any:
            number = leaf.index
            if leaf.kind == "input":
                return inputs.at(number, (*head, column))
            return found[number][column] if isinstance(found[number], list) else found[number]

        for number, node in enumerate(program.values):
            form = formulas[number]
            if form is not None:
                wide = range(dims[-1]) if program.full[number] else range(1)
                made = [form({n: value(n, j) for n in node.reads} | {COLUMN: j}) for j in wide]
                found.append(made if program.full[number] else made[0])
            elif program.kind_of(number) == "pick":
                picked, place = node.reads
                found.append(value(picked, int(value(place, 0))))
            elif program.kind_of(number) == "first":
                found.append(value(node.reads[0], 0))
            elif number in program.along_folds:
                row = [value(node.expr, j) for j in range(dims[-1])]
                found.append(_joined(program.kind_of(number), row))
            else:
                found.append([value(node.expr, j) for j in range(dims[-1])])
        yield found


def _check_down(
    program: LoopProgram,
    number: int,
    bound: RowBinding,
    values: list[list[Any]],
    folded: dict[str, Area],
) -> None:
    """Hold the sums of each part, its mean and the squares about it against its rows."""
    each = int(bound._template[bound._slots["rows"]])
    columns = bound.columns
    for part in range(bound.parts):
        some = values[part * each : (part + 1) * each]
        for column in range(columns):
            rows = [one[number][column] for one in some]
            total = _joined("sum", rows)
            _expect(folded[f"partials{number}"], part * columns + column, total)
            if program.kind_of(number) == "var":
                squares = _joined("sum", [converted(one) * one for one in rows])
                about = squares - total * total / len(rows)
                _expect(folded[f"squares{number}"], part * columns + column, about)
                _expect(folded[f"means{number}"], part * columns + column, total / len(rows))


# ------------------------------------------------------------------ every source that is written


def _cut_small(text: str) -> str:
    """The source with blocks of a few elements in place of hundreds, so that few show its edges."""
    sizes = dict.fromkeys(
        (CHUNK_ELEMENTS, *SHORT_CHUNK_ELEMENTS.values(), loop_source.ANGLE_ELEMENTS), 3
    )
    sizes |= {loop_fold_source.COMPENSATED_ROWS: 9, row_source.FLUSH_ROWS: 9}
    block = re.compile(rf"(?<=[,+] )({'|'.join(map(str, sizes))})(?=[,)])")
    lines = _short_stretches(text).split("\n")
    for number, line in enumerate(lines):
        if "range(" in line or "min(" in line:
            lines[number] = block.sub(lambda found: str(sizes[int(found.group())]), line)
    text = "\n".join(lines)
    return text.replace(f"size = {loop_source.STAGE_ELEMENTS} if", "size = 2 if")


def _short_stretches(text: str) -> str:
    """The source with rows that are long from 5 elements on, and stretches of two elements."""
    length = running_folds.STRETCH
    text = text.replace(f">= {running_folds.LONG_ROW} else left", ">= 5 else left")
    text = text.replace(f"range(low, low + {length})", "range(low, low + 2)")
    text = text.replace(f" * {length}\n", " * 2\n")
    text = text.replace(f"& -{running_folds.SHORT_STRETCH})", "& -2)")
    for count in range(2, running_folds.STRETCHES + 1):
        for before, after in (("% ", " if"), ("range(left, whole, ", ")")):
            text = text.replace(f"{before}{count * length}{after}", f"{before}{count * 2}{after}")
    return text


def _other_angles(text: str) -> str:
    """The source with the choice between forms of sine and cosine turned around."""
    return text.replace(
        f"if widest <= {loop_source.MAX_FAST_ANGLE}:", f"if widest > {loop_source.MAX_FAST_ANGLE}:"
    )


def _leading(rank: int, seed: int) -> list[int]:
    """Sizes of the loop dims before the last one, none of them 1."""
    sizes = [3, 2, 5, 4, 2, 3]
    return [sizes[(seed + k) % len(sizes)] for k in range(rank - 1)]


def check(program: LoopProgram, text: str, seed: int = 0) -> None:
    """Hold a source against its program over a few dims, cut in pieces of different sizes."""
    if program.schedule is not Schedule.NEST:
        for rows, columns, cut in ((1, 1, text), (11, 3, text), (71, 2, _cut_small(text))):
            head = _leading(program.rank, seed)
            head[0] = rows if program.rank == 2 else head[0]
            small = RowItemSizes(elements=7, parts=2, columns=2)
            check_rows(program, [*head, columns], cut, small)
        return
    fold = program.fold
    small_nest = ItemSizes(columns=2, fold_elements=3, scratch_columns=3, fold_rows=11)
    head = _leading(program.rank, seed)
    check_nest(program, [*head, 1], text)
    check_nest(program, [*head, 5], _other_angles(text), other=True)
    cut = _cut_small(text)
    check_nest(program, [*head, 7], cut, item_sizes=small_nest)
    check_nest(program, [*head, 4], cut, in_place=True, other=True, item_sizes=small_nest)
    if fold is not None and fold.start == 0 and fold.stop < program.rank:
        check_nest(program, [19, *head[1:], 4], cut, item_sizes=small_nest)


def check_names(text: str) -> None:
    """SourceError if a helper is imported, or a field read, that no line uses."""
    tree = syntax.parse_module(text)
    named = {
        alias.name for one in tree.body if isinstance(one, ast.ImportFrom) for alias in one.names
    }
    used = set()
    for one in ast.walk(tree):
        if isinstance(one, ast.Assign) and ast.unparse(one.value).startswith("field("):
            named.add(ast.unparse(one.targets[0]))
        elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            used.add(one.id)
    if named - used:
        raise SourceError(f"{sorted(named - used)} are named, and used by no line")


_checked: set[str] = set()


def _checking(
    write: Callable[[Any], str], checks: Callable[[Any, str], None], found: list[str]
) -> Callable[[Any], str]:
    def written(program: Any) -> str:
        text = write(program)
        if program.name not in _checked:
            _checked.add(program.name)
            try:
                check_names(text)
                checks(program, text)
            except Exception as error:
                found.append(f"{type(error).__name__}: {error}\n{program}\n{text}")
        return text

    return written


@contextlib.contextmanager
def watching(found: list[str]) -> Iterator[None]:
    """Meanwhile check each source when it is first written; what is wrong goes to `found`."""

    def of_loop(program: LoopProgram, text: str) -> None:
        check(program, text, len(_checked))

    with contextlib.ExitStack() as stack:
        for module, checks in (
            (kernel_source, of_loop),
            (scan_kernel, scan_checker.check),
        ):
            write = _checking(module.source, checks, found)
            stack.enter_context(mock.patch.object(module, "source", write))
        # Nothing is read that was written before: it is the writing that is watched.
        anew = mock.patch.object(loop_kernel, "source_of", lambda one: kernel_source.source(one))
        stack.enter_context(anew)
        yield
