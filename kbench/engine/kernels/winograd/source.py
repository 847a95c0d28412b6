"""Sources of Winograd's convolution: the transforms, and the kernel that runs tiles of outputs.

One item transforms some rows of four by four tiles, multiplies the 36 planes by those of the
kernel, and transforms the sums back; all of it stays in the second cache. Filters may come in
groups, each with its own phase of the result's rows and columns: the phases of a convolution with
strides, in the gradient to its input.
"""

from __future__ import annotations

import textwrap

NAMES = ("into", "back", "spread", "weights", "totals")
"""The transforms of `sources/tiles.py`."""

PLACES = """
@inline
def place_of(tile_row, tile_rows, row_apart, column_apart):
    \"\"\"The image of a row of tiles, and its first row and column there.

    Windows that are dilated see pixels of one phase only, so that each phase is an image.
    \"\"\"
    image = tile_row // tile_rows
    phase = image % (row_apart * column_apart)
    row = phase // column_apart + 4 * (tile_row - image * tile_rows) * row_apart
    return image // (row_apart * column_apart), row, phase % column_apart


@inline
def copy_pixels(target, source, count, apart, pixel):
    \"\"\"Copy pixels of which every `apart`th is wanted.\"\"\"
    each = max(count, 1) if apart == 1 else 1
    for n in range(0, count, each):
        copy_bytes(target + n * pixel, source + n * apart * pixel, each * pixel)

"""

ROWS = """        for tile_row in range(tile0, tile1):
            image, row0, column0 = place_of(tile_row, tile_rows, row_apart, column_apart)
            first = min(max((left - column0 + column_apart - 1) // column_apart, 0), across)
            last = (in_columns + left - column0 + column_apart - 1) // column_apart
            last = max(min(last, across), first)
            for tap in range(taps):
                plane = image % out_planes - front + tap * plane_apart
                outside = plane < 0 or plane >= in_planes or last == first
                for i in range(6):
                    target = strip + i * line
                    row = row0 - top + i * row_apart
                    if outside or row < 0 or row >= in_rows:
                        zero_bytes(target, line)
                        continue
                    source = (image // out_planes * in_planes + plane) * in_rows + row
                    source = source * in_columns + column0 - left + first * column_apart
                    zero_bytes(target, first * pixel)
                    copy_pixels(target + first * pixel, x + source * pixel, last - first,
                                column_apart, pixel)
                    zero_bytes(target + last * pixel, line - last * pixel)
                target = values + (tile_row - tile0) * tile_columns * value_bytes + tap * pixel
                for column in range(tile_columns):
                    call_6(into, strip + 4 * column * pixel, target + column * value_bytes, line,
                           pixel, value_plane, channels)
"""

FIELDS = (
    "out", "x", "packed", "strange",                                    # set by each call,
    "flags", "areas", "scratch", "area_bytes",                          # and so are these
    "wide", "narrow", "lanes", "most", "into", "back",
    "values_at", "sums_at", "corner_at", "table_at",
    "images", "in_rows", "in_columns", "channels", "out_rows", "out_columns", "filters",
    "taps", "plane_apart", "front", "in_planes", "out_planes",
    "top", "left", "row_apart", "column_apart", "tile_rows", "tile_columns", "together",
    "row_groups", "column_groups", "value_bytes", "value_plane", "sum_bytes", "sum_plane",
)  # fmt: skip

KERNEL = '''"""Winograd's convolution of float32 with windows of 3x3."""
from kbench.engine.intrinsics.memory import call_6, copy_bytes, give_back, take, zero_bytes
from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.toolkit import field, inline, peek_int32, range_kernel, store_int64

PLACES
@inline
def infinite(values, count):
    """Whether any of some float32 is infinite or not a number, by their exponents."""
    found = False
    for n in range(count):
        found |= (peek_int32(values, n) & 0x7F800000) == 0x7F800000
    return found


@range_kernel
def run(params, start, stop):
FIELDS
    number = take(flags, areas)
    strip = scratch + number * area_bytes
    values = strip + values_at
    sums = strip + sums_at
    corner = strip + corner_at
    table = strip + table_at
    store_int64(table, 0, 0)
    store_int64(table, 1, 0)
    depth = taps * channels
    pixel = channels * SIZE
    across = 4 * tile_columns + 2
    line = across * pixel
    own = filters // (row_groups * column_groups)
    cell = own * SIZE
    row_pace = row_apart * row_groups
    column_pace = column_apart * column_groups
    row_step = row_pace * out_columns * cell
    column_step = column_pace * cell
    for item in range(start, stop):
        tile0 = item * together
        tile1 = min(tile0 + together, images * tile_rows)
        count = (tile1 - tile0) * tile_columns
ROWS
        blocks = (count + most - 1) // most
        share = count // blocks
        longer = count - share * blocks
        for plane in range(36):
            for n in range(0, filters, 2 * lanes):
                some = min(2 * lanes, filters - n)
                tile = wide if some > lanes else narrow
                width = 2 * lanes if some > lanes else lanes
                matrix = packed + (n * 36 + plane * width) * depth * SIZE
                where = 0
                for block in range(blocks):
                    size = share + 1 if block < longer else share
                    call_tile(tile, size, values + plane * value_plane + where * value_bytes, table,
                              1, depth, value_bytes, SIZE, matrix, width * SIZE,
                              sums + plane * sum_plane + where * sum_bytes + n * SIZE, sum_bytes,
                              some, 0)
                    where += size
        # Where a number is not finite the differences of the transforms spread NaN over its tile.
        for tile_row in range(tile0, tile1):
            image, row0, column0 = place_of(tile_row, tile_rows, row_apart, column_apart)
            for group in range(row_groups * column_groups):
                row = row0 * row_groups + group // column_groups
                column = column0 * column_groups + group % column_groups
                rows = min(4, (out_rows - row + row_pace - 1) // row_pace)
                width = (out_columns - column + column_pace - 1) // column_pace
                source = sums + (tile_row - tile0) * tile_columns * sum_bytes + group * cell
                begin = out + ((image * out_rows + row) * out_columns + column) * cell
                target = begin
                for tile_column in range(tile_columns):
                    columns = min(4, width - 4 * tile_column)
                    if rows == 4 and columns == 4:
                        call_6(back, source, target, row_step, column_step, sum_plane, own)
                    else:
                        call_6(back, source, corner, 4 * cell, cell, sum_plane, own)
                        for i in range(rows):
                            for j in range(columns):
                                copy_bytes(target + i * row_step + j * column_step,
                                           corner + (4 * i + j) * cell, cell)
                    source += sum_bytes
                    target += 4 * column_step
                each = max(width, 1) if column_pace == 1 else 1
                for i in range(rows):
                    for j in range(0, width, each):
                        if infinite(begin + i * row_step + j * column_step, each * own):
                            store_int64(strange, 0, 1)
    give_back(flags, number)
'''


SUM_FIELDS = (
    "out", "x", "g", "flags", "areas", "scratch", "area_bytes",         # set by each call
    "wide", "narrow", "lanes", "most", "into", "spread",
    "values_at", "sums_at", "table_at",
    "images", "in_rows", "in_columns", "channels", "out_rows", "out_columns", "filters",
    "taps", "plane_apart", "front", "in_planes", "out_planes",
    "top", "left", "row_apart", "column_apart", "tile_rows", "tile_columns", "together", "each",
    "value_bytes", "value_plane", "sum_bytes", "sum_plane",
)  # fmt: skip

SUM = '''"""Gradient to the kernel of a float32 convolution with windows of 3x3, before G."""
from kbench.engine.intrinsics.memory import call_6, copy_bytes, give_back, take, zero_bytes
from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.toolkit import field, inline, range_kernel, store_int64

PLACES
@range_kernel
def run(params, start, stop):
FIELDS
    number = take(flags, areas)
    strip = scratch + number * area_bytes
    values = strip + values_at
    sums = strip + sums_at
    table = strip + table_at
    store_int64(table, 0, 0)
    store_int64(table, 1, 0)
    depth = taps * channels
    pixel = channels * SIZE
    across = 4 * tile_columns + 2
    line = across * pixel
    blocks = (depth + most - 1) // most
    share = depth // blocks
    longer = depth - share * blocks
    cell = filters * SIZE
    for item in range(start, stop):
        totals = out + item * 36 * depth * cell
        zero_bytes(totals, 36 * depth * cell)
        end = min((item + 1) * each, images * tile_rows)
        for tile0 in range(item * each, end, together):
            tile1 = min(tile0 + together, end)
            count = (tile1 - tile0) * tile_columns
ROWS
            for tile_row in range(tile0, tile1):
                image, row0, column0 = place_of(tile_row, tile_rows, row_apart, column_apart)
                width = max((out_columns - column0 + column_apart - 1) // column_apart, 0)
                for i in range(4):
                    target = strip + i * 4 * tile_columns * cell
                    row = row0 + i * row_apart
                    if row >= out_rows:
                        zero_bytes(target, 4 * tile_columns * cell)
                        continue
                    source = g + ((image * out_rows + row) * out_columns + column0) * cell
                    copy_pixels(target, source, width, column_apart, cell)
                    zero_bytes(target + width * cell, (4 * tile_columns - width) * cell)
                target = sums + (tile_row - tile0) * tile_columns * sum_bytes
                for column in range(tile_columns):
                    call_6(spread, strip + 4 * column * cell, target + column * sum_bytes,
                           4 * tile_columns * cell, cell, sum_plane, filters)
            for plane in range(36):
                for n in range(0, filters, 2 * lanes):
                    some = min(2 * lanes, filters - n)
                    tile = wide if some > lanes else narrow
                    where = 0
                    for block in range(blocks):
                        size = share + 1 if block < longer else share
                        call_tile(tile, size, values + plane * value_plane + where * SIZE, table,
                                  1, count, SIZE, value_bytes,
                                  sums + plane * sum_plane + n * SIZE, sum_bytes,
                                  totals + ((plane * depth + where) * filters + n) * SIZE,
                                  cell, some, 1)
                        where += size
    give_back(flags, number)
'''

KERNEL = KERNEL.replace("PLACES\n", PLACES).replace("ROWS\n", ROWS)
SUM = SUM.replace("PLACES\n", PLACES).replace("ROWS\n", textwrap.indent(ROWS, "    "))
