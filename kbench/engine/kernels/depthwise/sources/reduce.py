"""Gradient of a depthwise convolution to its weights."""

from kbench.engine.intrinsics.memory import call_8, give_back, take, zero_bytes
from kbench.engine.intrinsics.primitives import store_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import range_kernel
from kbench.engine.kernels.depthwise.tap_table import tabulate

MOST_ROWS = 4
"""Rows that are summed together: what taps see in one, others see in the next."""
CHUNK_PIXELS = 56
"""Pixels added up in registers before the sums go to memory: few, so that what the taps see there
stays in the first cache from one group of channels, or of taps, to the next."""


@range_kernel
def run(params, start, stop):
    (out, x, g, flags, areas, scratch, area_bytes,                 # set by each call
     products, sizes_at, lines, each, rows, columns, in_rows, in_columns,
     channels, row_stride, column_stride, row_taps, column_taps,
     row_offsets, column_offsets, row_index, column_index,
     top, bottom, left, right,                      # where all taps are inside
     across, slices,
    ) = parameters(params)  # fmt: skip
    number = take(flags, areas)
    table = scratch + number * area_bytes
    sizes = table + sizes_at
    pixel = channels * SIZE
    line_bytes = in_columns * pixel
    store_int64(sizes, 0, column_stride * pixel)
    store_int64(sizes, 1, row_stride * line_bytes)
    store_int64(sizes, 2, pixel)
    store_int64(sizes, 3, columns * pixel)
    store_int64(sizes, 4, channels)
    for item in range(start, stop):
        totals = out + item * row_taps * column_taps * pixel
        zero_bytes(totals, row_taps * column_taps * pixel)
        piece = item * each
        end_piece = min(lines * slices, piece + each)
        while piece < end_piece:
            line = piece // slices
            column = (piece - line * slices) * across
            column1 = min(column + across, columns)
            image = line // rows
            row = line - image * rows
            high = 1
            if slices == 1 and row >= top:
                high = max(1, min(MOST_ROWS, min(bottom - row, end_piece - piece)))
            source = x + (image * in_rows + row * row_stride) * line_bytes
            while column < column1:
                count = tabulate(table, column * column_stride, row * row_stride, in_rows,
                                 in_columns, pixel, row_taps, column_taps, row_offsets,
                                 column_offsets, row_index, column_index, column_taps
                )  # fmt: skip
                wide = 1
                if column >= left and column < right:
                    wide = min(CHUNK_PIXELS // high, min(right, column1) - column)
                tap = 0
                while tap < count:
                    some = count - tap
                    some = 9 if some >= 9 else (6 if some >= 6 else min(some, 4))
                    call_8(products, some, high, wide, source + column * column_stride * pixel,
                           g + (line * columns + column) * pixel, table + 16 * tap, totals, sizes
                    )  # fmt: skip
                    tap += some
                column += wide
            piece += high
    give_back(flags, number)
