"""Matrices in panels of two vectors of columns, the rest zeros.

An item is some rows of a matrix: they are read from one end to the other, whatever the panels.
"""

from kbench.engine.intrinsics.memory import copy_bytes, zero_bytes
from kbench.engine.intrinsics.primitives import load_int64
from kbench.engine.intrinsics.specialized import (
    SIZE,
    element,
    load_element,
    parameters,
    store_element,
)
from kbench.engine.jit.numba_backend import part, range_kernel


@part
def copy_rows(target, source, rows, row_step, count, width):
    """Rows that stand side by side in the source."""
    for k in range(rows):
        to = target + k * width * SIZE
        copy_bytes(to, source + k * row_step * SIZE, count * SIZE)
        if count < width:
            zero_bytes(to + count * SIZE, (width - count) * SIZE)


@part
def turn_rows(target, source, rows, row_step, column_step, count, width):
    """Rows with steps between their elements: column by column, as these are often side by side."""
    for n in range(count):
        for k in range(rows):
            value = load_element(source, n * column_step + k * row_step)
            store_element(target, k * width + n, value)
    for k in range(rows):
        for n in range(count, width):
            store_element(target, k * width + n, element(0))


@range_kernel
def run(params, start, stop):
    (packed, matrices, places, taps, rows, columns, row_step, column_step,
     lanes, together, blocks
    ) = parameters(params)  # fmt: skip
    for item in range(start, stop):
        tap = item // blocks
        row = (item - tap * blocks) * together
        some = min(together, rows - row)
        source = matrices + (load_int64(places, tap) + row * row_step) * SIZE
        for first in range(0, columns, 2 * lanes):
            count = min(2 * lanes, columns - first)
            width = 2 * lanes if count > lanes else lanes
            target = packed + (first * taps * rows + (tap * rows + row) * width) * SIZE
            begin = source + first * column_step * SIZE
            if column_step == 1:
                copy_rows(target, begin, some, row_step, count, width)
            else:
                turn_rows(target, begin, some, row_step, column_step, count, width)
