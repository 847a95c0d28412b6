"""Winograd's convolution of float32 with windows of 3x3."""

from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.memory import call_6, copy_bytes, give_back, take
from kbench.engine.intrinsics.primitives import peek_int32, store_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import inline, part, range_kernel
from kbench.engine.kernels.winograd.tile_rows import place_of, transform_rows


@inline
def infinite(values, count):
    """Whether any of some float32 is infinite or not a number, by their exponents."""
    found = False
    for n in range(count):
        found |= (peek_int32(values, n) & 0x7F800000) == 0x7F800000
    return found


@part
def multiply(values, sums, packed, table, wide, narrow, lanes, filters, depth, blocks, share,
             longer, value_plane, value_bytes, sum_plane, sum_bytes):  # fmt: skip
    """The products of the 36 planes with those of the kernel."""
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
                          some, 0)  # fmt: skip
                where += size


@part
def transform_back(out, sums, corner, strange, back, tile_row, tile0, tile_rows, tile_columns,
                   row_apart, column_apart, row_groups, column_groups, row_pace, column_pace,
                   row_step, column_step, out_rows, out_columns, cell, own, sum_bytes,
                   sum_plane):  # fmt: skip
    """The results of one row of tiles, for each group of filters.

    Where a number is not finite the differences of the transforms spread NaN over its tile.
    """
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
                                   corner + (4 * i + j) * cell, cell)  # fmt: skip
            source += sum_bytes
            target += 4 * column_step
        each = max(width, 1) if column_pace == 1 else 1
        for i in range(rows):
            for j in range(0, width, each):
                if infinite(begin + i * row_step + j * column_step, each * own):
                    store_int64(strange, 0, 1)


@range_kernel
def run(params, start, stop):
    (out, x, packed, strange,                                    # set by each call,
     flags, areas, scratch, area_bytes,                          # and so are these
     wide, narrow, lanes, most, into, back,
     values_at, sums_at, corner_at, table_at,
     images, in_rows, in_columns, channels, out_rows, out_columns, filters,
     taps, plane_apart, front, in_planes, out_planes,
     top, left, row_apart, column_apart, tile_rows, tile_columns, together,
     row_groups, column_groups, value_bytes, value_plane, sum_bytes, sum_plane,
    ) = parameters(params)  # fmt: skip
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
        transform_rows(x, strip, values, into, tile0, tile1, tile_rows, tile_columns,
                       row_apart, column_apart, top, left, across, line, in_rows,
                       in_columns, in_planes, out_planes, front, taps, plane_apart,
                       channels, pixel, value_bytes, value_plane)  # fmt: skip
        blocks = (count + most - 1) // most
        share = count // blocks
        longer = count - share * blocks
        multiply(values, sums, packed, table, wide, narrow, lanes, filters, depth, blocks, share,
                 longer, value_plane, value_bytes, sum_plane, sum_bytes)  # fmt: skip
        for tile_row in range(tile0, tile1):
            transform_back(out, sums, corner, strange, back, tile_row, tile0, tile_rows,
                           tile_columns, row_apart, column_apart, row_groups, column_groups,
                           row_pace, column_pace, row_step, column_step, out_rows,
                           out_columns, cell, own, sum_bytes, sum_plane)  # fmt: skip
    give_back(flags, number)
