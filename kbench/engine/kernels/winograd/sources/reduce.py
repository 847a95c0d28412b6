"""Gradient to the kernel of a float32 convolution with windows of 3x3, before G."""

from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.memory import call_6, give_back, take, zero_bytes
from kbench.engine.intrinsics.primitives import store_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import part, range_kernel
from kbench.engine.kernels.winograd.tile_rows import copy_pixels, place_of, transform_rows


@part
def spread_row(g, strip, sums, spread, tile_row, tile0, tile_rows, tile_columns, row_apart,
               column_apart, out_rows, out_columns, cell, sum_bytes, sum_plane,
               filters):  # fmt: skip
    """Transform the gradients of one row of tiles."""
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
               4 * tile_columns * cell, cell, sum_plane, filters)  # fmt: skip


@part
def multiply(values, sums, totals, table, wide, narrow, lanes, filters, depth, blocks, share,
             longer, count, cell, value_plane, value_bytes, sum_plane, sum_bytes):  # fmt: skip
    """Add the products of the 36 planes to the totals."""
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
                          cell, some, 1)  # fmt: skip
                where += size


@range_kernel
def run(params, start, stop):
    (out, x, g, flags, areas, scratch, area_bytes,         # set by each call
     wide, narrow, lanes, most, into, spread,
     values_at, sums_at, table_at,
     images, in_rows, in_columns, channels, out_rows, out_columns, filters,
     taps, plane_apart, front, in_planes, out_planes,
     top, left, row_apart, column_apart, tile_rows, tile_columns, together, each,
     value_bytes, value_plane, sum_bytes, sum_plane,
    ) = parameters(params)  # fmt: skip
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
            transform_rows(x, strip, values, into, tile0, tile1, tile_rows, tile_columns,
                           row_apart, column_apart, top, left, across, line, in_rows,
                           in_columns, in_planes, out_planes, front, taps, plane_apart,
                           channels, pixel, value_bytes, value_plane)  # fmt: skip
            for tile_row in range(tile0, tile1):
                spread_row(g, strip, sums, spread, tile_row, tile0, tile_rows, tile_columns,
                           row_apart, column_apart, out_rows, out_columns, cell, sum_bytes,
                           sum_plane, filters)  # fmt: skip
            multiply(values, sums, totals, table, wide, narrow, lanes, filters, depth, blocks,
                     share, longer, count, cell, value_plane, value_bytes, sum_plane, sum_bytes
            )  # fmt: skip
    give_back(flags, number)
