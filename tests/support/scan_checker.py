"""Checks the source of a whole loop: what each step reads and stores, for each row and column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from abstract_machine import Machine, Number, SourceError, compiled, converted, formula, mixed

from kbench.engine.codegen.scan_program import Loop, Recurrence
from kbench.engine.graph.expr.expression import input_leaf, local_leaf

STEPS = 3
ROWS = 5
WIDTH = 4

Memory = dict[tuple[int, int, int, int], Any]
"""Values by access, place, row and column."""


class _Sizes:
    """How large each access is: its places, and its columns."""

    def __init__(self, program: Recurrence) -> None:
        self.program = program
        places = {"fixed": 1, "moving": STEPS, "state": 2, "next": 2}
        self.places = [places[one.kind] for one in program.accesses]
        wide = {n for loop in program.loops for n in loop.wide}
        wide |= {n for one in program.products for n in (one.left, one.target)}
        count = len(program.accesses)
        self.columns = [WIDTH if number in wide else 1 for number in range(count)]

    def place(self, number: int, step: int) -> int:
        """The place of an access in a step."""
        kind = self.program.accesses[number].kind
        return {"fixed": 0, "moving": step, "state": step & 1, "next": 1 - (step & 1)}[kind]


def check_scan(program: Recurrence, text: str, block: int, across: int) -> None:
    """SourceError unless the source does what a step says; `block` rows and columns an item."""
    sizes, machine = _Sizes(program), Machine()
    written = {n for loop in program.loops for n in loop.writes}
    written |= {one.target for one in program.products}
    params: dict[str, int] = {"begin": 0, "end": STEPS, "rows": ROWS, "block": block}
    pieces = -(-WIDTH // across) if program.split else 1
    params |= {"across": across, "pieces": pieces}
    areas = []
    for number, access in enumerate(program.accesses):
        each, columns = np.dtype(access.dtype).itemsize, sizes.columns[number]
        count = sizes.places[number] * ROWS * columns
        value = None if number in written else _given(number)
        areas.append(machine.area(f"p{number}", count, each, value))
        row = columns * each
        params |= {f"p{number}": areas[-1].start, f"s{number}": ROWS * row, f"q{number}": row}
    params |= {f"n{number}": WIDTH for number in range(len(program.loops))}
    for number in range(len(program.products)):
        params |= {f"packed{number}": number, f"depth{number}": WIDTH, f"columns{number}": WIDTH}
    for access, area in zip(program.accesses, areas, strict=True):
        area.again |= access.kind != "moving"  # other places come back, read or not
    run = compiled(text, machine, {"multiply_rows": _multiplied(machine)})
    items = -(-ROWS // block) * pieces
    run([params.get(name, 0) for name in program.fields], 0, items)
    wanted = _simulated(program, sizes, written)
    for (number, place, row, column), value in wanted.items():
        index = (place * ROWS + row) * sizes.columns[number] + column
        found = areas[number].stored.get(index)
        if found != value:
            raise SourceError(f"p{number}[{place}, {row}, {column}] is {found}, not {value}")


def _given(number: int) -> Callable[[int], Any]:
    return lambda index: Number(mixed(f"p{number}", index))


def _multiplied(machine: Machine) -> Callable[..., None]:
    """Rows times a matrix whose entries are numbers that only its own number decides."""

    def multiply_rows(*given: int) -> None:
        size, left, left_row, rows, depth, packed, columns, target, target_row = given[5:]
        load, store = machine.load(size), machine.store(size)
        for row in range(rows):
            values = [load(left + row * left_row, k) for k in range(depth)]
            for column in range(columns):
                store(target + row * target_row, column, _product(values, packed, column))

    return multiply_rows


def _product(values: Sequence[Any], matrix: int, column: int) -> Number:
    total = Number(0)
    for k, value in enumerate(values):
        total = total + converted(value) * mixed("matrix", matrix, k, column)
    return total


def _simulated(program: Recurrence, sizes: _Sizes, written: set[int]) -> Memory:
    """What all steps store, row by row."""
    memory: Memory = {}

    def read(number: int, step: int, row: int, column: int) -> Any:
        place = sizes.place(number, step)
        if number in written:
            return memory[number, place, row, column]
        return _given(number)((place * ROWS + row) * sizes.columns[number] + column)

    for row in range(ROWS):
        for step in range(STEPS):
            matrix = 0
            for phase in program.phases:
                for one in phase.products:
                    values = [read(one.left, step, row, k) for k in range(WIDTH)]
                    for column in range(WIDTH):
                        place = (one.target, sizes.place(one.target, step), row, column)
                        memory[place] = _product(values, matrix, column)
                    matrix += 1
                for loop in phase.loops:
                    for column in range(WIDTH):
                        found = _column(loop, lambda n, k: read(n, step, row, k), column)  # noqa: B023
                        for number, value in found:
                            memory[number, sizes.place(number, step), row, column] = value
    return memory


def _column(loop: Loop, read: Callable[[int, int], Any], column: int) -> list[tuple[int, Any]]:
    """What a loop stores in a column: accesses and values."""
    program = loop.program
    values = {}
    for number, (access, (wide,)) in enumerate(zip(loop.reads, program.patterns, strict=True)):
        values[input_leaf(number)] = read(access, column if wide else 0)
    for number, one in enumerate(program.values):
        values[local_leaf(number)] = formula(one.expr, program.types, one.dtype)(values)
    stored = zip(loop.writes, program.stores, strict=True)
    return [(n, converted(values[local_leaf(number)])) for n, number in stored]


def check(program: Recurrence, text: str) -> None:
    """Hold a source against its step, with items of all rows and columns, and of a few."""
    for block, across in ((ROWS, WIDTH), (2, 3)):
        check_scan(program, text, block, across)
