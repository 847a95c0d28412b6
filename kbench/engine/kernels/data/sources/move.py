"""Library kernel of kbench: arrays moved between any strides, in blocks, cells or squares."""

from kbench.engine.intrinsics.nontemporal import before_line, store_fence
from kbench.engine.intrinsics.primitives import (
    field,
    peek_int64,
    scratch_64,
    store_int64,
)
from kbench.engine.intrinsics.specialized import (
    FORM,
    SQUARE_SIDE,
    WORD_BYTES,
    halve_words,
    load_word,
    store_word,
    turn_square,
    turn_square_past,
)
from kbench.engine.jit.numba_backend import part, range_kernel
from kbench.engine.kernels.data.copy_tile import copy_bytes, stream_bytes
from kbench.engine.runtime.cpu_caches import CACHE_LINE_BYTES


@part
def move_rows(target, source, target_row, source_row, tall, wide, stream):
    """Rows that are contiguous on both sides."""
    if stream:
        for i in range(tall):
            stream_bytes(target + i * target_row, source + i * source_row, wide)
    else:
        for i in range(tall):
            copy_bytes(target + i * target_row, source + i * source_row, wide)


@part
def move_cells(target, source, target_row, source_row, target_step, source_step, tall, wide):
    """Cells one by one, with loops of their own for the steps that are often met."""
    for i in range(tall):
        to = target + i * target_row
        origin = source + i * source_row
        if (target_step == WORD_BYTES) & (source_step == WORD_BYTES):
            for j in range(wide):
                store_word(to, j, load_word(origin, j))
        elif (target_step == WORD_BYTES) & (source_step == -WORD_BYTES):
            for j in range(wide):
                store_word(to, j, load_word(origin, -j))
        elif (target_step == WORD_BYTES) & (source_step == 0):
            value = load_word(origin, 0)
            for j in range(wide):
                store_word(to, j, value)
        elif (target_step == WORD_BYTES) & (source_step == 2 * WORD_BYTES):
            whole = (wide - 1) // SQUARE_SIDE * SQUARE_SIDE
            halve_words(to, origin, whole)
            for j in range(whole, wide):
                store_word(to, j, load_word(origin, 2 * j))
        elif target_step == WORD_BYTES:
            for j in range(wide):
                store_word(to, j, load_word(origin + j * source_step, 0))
        elif source_step == WORD_BYTES:
            for j in range(wide):
                store_word(to + j * target_step, 0, load_word(origin, j))
        else:
            for _j in range(wide):
                store_word(to, 0, load_word(origin, 0))
                to += target_step
                origin += source_step


@part
def move_tiles(target, source, target_row, source_step, index, axes, rows, columns, height, width,
               stream):  # fmt: skip
    """Squares turned over in registers, and what is left around them."""
    # Beyond the caches, squares begin where lines do: no two touch the same line.
    top = before_line(source, source_step, WORD_BYTES) if stream else 0
    left = before_line(target, target_row, WORD_BYTES) if stream else 0
    above = height * peek_int64(index, axes - 2)
    before = width * peek_int64(index, axes - 1)
    tall = min(height + top, rows - above)
    wide = min(width + left, columns - before)
    full = top + max(0, tall - top) // SQUARE_SIDE * SQUARE_SIDE
    whole = left + max(0, wide - left) // SQUARE_SIDE * SQUARE_SIDE
    past = stream and (target + left * WORD_BYTES | target_row) & (CACHE_LINE_BYTES - 1) == 0
    for i in range(top, full, SQUARE_SIDE):
        for j in range(left, whole, SQUARE_SIDE):
            origin = source + i * WORD_BYTES + j * source_step
            to = target + i * target_row + j * WORD_BYTES
            if past:
                turn_square_past(origin, source_step, to, target_row)
            else:
                turn_square(origin, source_step, to, target_row)
    first = left if before > 0 else 0
    for i in range(top if above > 0 else 0, tall):
        to = target + i * target_row
        origin = source + i * WORD_BYTES
        turned = i >= top and i < full
        for j in range(first, min(left, wide) if turned else wide):
            store_word(to, j, load_word(origin + j * source_step, 0))
        for j in range(whole if turned else wide, wide):
            store_word(to, j, load_word(origin + j * source_step, 0))


@range_kernel
def run(params, start, stop):
    target = field(params, 0)
    source = field(params, 1)
    axes = field(params, 2)
    stream = field(params, 3)
    rows = field(params, 4)
    height = field(params, 5)
    target_row = field(params, 6)
    source_row = field(params, 7)
    columns = field(params, 8)
    width = field(params, 9)
    target_step = field(params, 10)
    source_step = field(params, 11)
    table = params + 12 * 8
    index = scratch_64()
    rest = start
    for axis in range(axes - 1, -1, -1):
        size = field(table, 3 * axis)
        place = rest % size
        rest = rest // size
        store_int64(index, axis, place)
        target += place * field(table, 3 * axis + 1)
        source += place * field(table, 3 * axis + 2)
    for _item in range(start, stop):
        tall = min(height, rows - height * peek_int64(index, axes - 2))
        wide = min(width, columns - width * peek_int64(index, axes - 1))
        if FORM == "rows":
            move_rows(target, source, target_row, source_row, tall, wide, stream)
        elif FORM == "cells":
            move_cells(target, source, target_row, source_row, target_step, source_step, tall, wide)
        else:
            move_tiles(target, source, target_row, source_step, index, axes, rows, columns, height,
                       width, stream)  # fmt: skip
        axis = axes - 1
        while axis >= 0:
            size = field(table, 3 * axis)
            place = peek_int64(index, axis) + 1
            target += field(table, 3 * axis + 1)
            source += field(table, 3 * axis + 2)
            if place < size:
                store_int64(index, axis, place)
                break
            target -= size * field(table, 3 * axis + 1)
            source -= size * field(table, 3 * axis + 2)
            store_int64(index, axis, 0)
            axis -= 1
    if stream:
        store_fence()
