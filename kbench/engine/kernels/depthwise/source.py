"""Sources of the depthwise kernels: mode `gather` (forward, and back to the input), and `reduce`.

Pixels whose taps all lie inside are computed eight at a time, the others one by one with the taps
that do. Every size is in elements.
"""

from __future__ import annotations

TILES = '''"""The inner loops of depthwise convolution in DTYPE."""
from kbench.engine.jit.numba_backend import entry
from kbench.engine.intrinsics.fma_tile import geometry
from kbench.engine.kernels.depthwise.tile import dots, sums

LANES = SHAPE
_sums = sums("DTYPE", LANES)
_dots = dots("DTYPE", LANES)


@entry(9)
def pixels(count, blocks, table, taps, step_x, weights, out, step_out, channels):
    _sums(count, blocks, table, taps, step_x, weights, out, step_out, channels)


@entry(7)
def products(x, step_x, g, step_g, count, totals, channels):
    _dots(x, step_x, g, step_g, count, totals, channels)
'''

GATHER_FIELDS = (
    "out", "x", "kernel", "flags", "areas", "scratch", "area_bytes",    # set by each call
    "pixels", "past", "images", "rows", "columns",
    "row_step", "column_step", "row_phase", "column_phase",
    "out_rows", "out_columns", "in_rows", "in_columns", "channels",
    "row_stride", "column_stride", "row_taps", "column_taps",
    "row_offsets", "column_offsets", "row_index", "column_index", "window",
    "inner_first", "inner_last", "height", "chunks", "across", "slices",
)  # fmt: skip

GATHER = '''"""Depthwise convolution of DTYPE."""
from kbench.engine.intrinsics.memory import call_9, give_back, take
from kbench.engine.intrinsics.toolkit import field, inline, peek_int64, range_kernel, store_int64


@inline
def tabulate(table, source, column, row, in_rows, in_columns, pixel, row_taps, column_taps,
             row_offsets, column_offsets, row_index, column_index, window):
    """Write the taps of one output place that lie inside; gives their number."""
    count = 0
    for a in range(row_taps):
        from_row = row + peek_int64(row_offsets, a)
        if from_row < 0 or from_row >= in_rows:
            continue
        line = source + from_row * in_columns * pixel
        first = peek_int64(row_index, a) * window
        for b in range(column_taps):
            from_column = column + peek_int64(column_offsets, b)
            if from_column < 0 or from_column >= in_columns:
                continue
            store_int64(table, 2 * count, line + from_column * pixel)
            tap = first + peek_int64(column_index, b)
            store_int64(table, 2 * count + 1, tap * pixel)
            count += 1
    return count


@range_kernel
def run(params, start, stop):
FIELDS
    number = take(flags, areas)
    table = scratch + number * area_bytes
    pixel = channels * SIZE
    whole = 9 if past != 0 and out % 64 == 0 and pixel % 64 == 0 else 8
    for item in range(start, stop):
        piece = item // slices
        column0 = (item - piece * slices) * across
        column1 = min(column0 + across, columns)
        image = piece // chunks
        first = (piece - image * chunks) * height
        source = x + image * in_rows * in_columns * pixel
        for row in range(first, min(first + height, rows)):
            target = (image * out_rows + row * row_step + row_phase) * out_columns + column_phase
            target = out + target * pixel
            column = column0
            while column < column1:
                count = tabulate(table, source, column * column_stride, row * row_stride,
                                 in_rows, in_columns, pixel, row_taps, column_taps,
                                 row_offsets, column_offsets, row_index, column_index, window)
                end = column + 1
                if column >= inner_first and column < inner_last:
                    end = min(inner_last, column1)
                while column < end:
                    some = min(8, end - column)
                    blocks = (end - column) // some
                    way = whole if some == 8 else some
                    call_9(pixels, way, blocks, table, count, column_stride * pixel, kernel,
                           target + column * column_step * pixel, column_step * pixel, channels)
                    column += blocks * some
                    if column < end:
                        step = blocks * some * column_stride * pixel
                        for t in range(count):
                            store_int64(table, 2 * t, peek_int64(table, 2 * t) + step)
    give_back(flags, number)
'''

REDUCE_FIELDS = (
    "out", "x", "g",                                                    # set by each call
    "products", "lines", "each", "rows", "columns", "in_rows", "in_columns",
    "channels", "row_stride", "column_stride", "row_taps", "column_taps",
    "row_offsets", "column_offsets", "across", "slices",
)  # fmt: skip

REDUCE = '''"""Gradient of a depthwise convolution of DTYPE to its weights."""
from kbench.engine.intrinsics.memory import call_7, zero_bytes
from kbench.engine.intrinsics.toolkit import field, peek_int64, range_kernel


@range_kernel
def run(params, start, stop):
FIELDS
    pixel = channels * SIZE
    for part in range(start, stop):
        totals = out + part * row_taps * column_taps * pixel
        zero_bytes(totals, row_taps * column_taps * pixel)
        for piece in range(part * each, min(lines * slices, (part + 1) * each)):
            line = piece // slices
            column0 = (piece - line * slices) * across
            column1 = min(column0 + across, columns)
            image = line // rows
            row = (line - image * rows) * row_stride
            for a in range(row_taps):
                from_row = row + peek_int64(row_offsets, a)
                if from_row < 0 or from_row >= in_rows:
                    continue
                source = x + (image * in_rows + from_row) * in_columns * pixel
                for b in range(column_taps):
                    shift = peek_int64(column_offsets, b)
                    first = column0
                    if shift < 0:
                        first = max(first, (column_stride - 1 - shift) // column_stride)
                    last = 0
                    if shift < in_columns:
                        inside = (in_columns - 1 - shift) // column_stride + 1
                        last = min(column1, inside)
                    if first >= last:
                        continue
                    begin = source + (first * column_stride + shift) * pixel
                    call_7(products, begin, column_stride * pixel,
                           g + (line * columns + first) * pixel, pixel, last - first,
                           totals + (a * column_taps + b) * pixel, channels)
'''
