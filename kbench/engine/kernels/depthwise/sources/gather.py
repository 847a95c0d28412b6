"""Depthwise convolution, and its gradient to the input."""

from kbench.engine.intrinsics.memory import call_7, give_back, take
from kbench.engine.intrinsics.primitives import store_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import range_kernel
from kbench.engine.kernels.depthwise.tap_table import tabulate


@range_kernel
def run(params, start, stop):
    (out, x, kernel, flags, areas, scratch, area_bytes,    # set by each call
     pixels, tile_rows, tile_pixels, past, sizes_at, images, rows, columns,
     row_step, column_step, row_phase, column_phase,
     out_rows, out_columns, in_rows, in_columns, channels,
     row_stride, column_stride, row_taps, column_taps,
     row_offsets, column_offsets, row_index, column_index, window,
     top, bottom, left, right,                      # where all taps are inside
     row_high, column_high, height, chunks, across, slices,
    ) = parameters(params)  # fmt: skip
    number = take(flags, areas)
    table = scratch + number * area_bytes
    sizes = table + sizes_at
    pixel = channels * SIZE
    line = in_columns * pixel
    store_int64(sizes, 0, column_stride * pixel)
    store_int64(sizes, 1, row_stride * line)
    store_int64(sizes, 2, kernel)
    store_int64(sizes, 3, column_step * pixel)
    store_int64(sizes, 4, row_step * out_columns * pixel)
    store_int64(sizes, 5, channels)
    store_int64(sizes, 6, row_high * line + column_high * pixel)
    way = 4 if past != 0 and out % 64 == 0 and pixel % 64 == 0 else 0
    for item in range(start, stop):
        piece = item // slices
        column0 = (item - piece * slices) * across
        column1 = min(column0 + across, columns)
        image = piece // chunks
        row = (piece - image * chunks) * height
        end_row = min(row + height, rows)
        while row < end_row:
            shape, high, wide = way + 2, 1, 2 * tile_pixels
            if row >= top and row + tile_rows <= min(bottom, end_row):
                shape, high, wide = way, tile_rows, tile_pixels
            source = x + (image * in_rows + row * row_stride) * line
            target = (image * out_rows + row * row_step + row_phase) * out_columns + column_phase
            target = out + target * pixel
            column = column0
            while column < column1:
                count = tabulate(table, column * column_stride, row * row_stride, in_rows,
                                 in_columns, pixel, row_taps, column_taps, row_offsets,
                                 column_offsets, row_index, column_index, window)  # fmt: skip
                end = min(right, column1) if left <= column < right else column + 1
                blocks = (end - column) // wide
                if blocks > 0:
                    call_7(pixels, shape, blocks, source + column * column_stride * pixel,
                           target + column * column_step * pixel, table, count, sizes
                    )  # fmt: skip
                    column += blocks * wide
                if column < end:
                    call_7(pixels, shape + 1, end - column, source + column * column_stride * pixel,
                           target + column * column_step * pixel, table, count, sizes
                    )  # fmt: skip
                    column = end
            row += high
    give_back(flags, number)
