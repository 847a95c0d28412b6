"""Gradient of a convolution to an input with few channels."""

from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.memory import call_6, give_back, take, zero_bytes
from kbench.engine.intrinsics.primitives import store_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import part, range_kernel


@part
def add_row(add, begin, line, inner_first, inner_last, apart, sum_bytes, columns, column_stride,
            column_pad, column_taps, channels, out_columns, pixel):  # fmt: skip
    """Add the products of one row of windows where these lie in a row of the result."""
    # Windows that overlap are not added one after the other: each would wait.
    for o in range(inner_first, min(inner_first + apart, inner_last)):
        call_6(add, (inner_last - o + apart - 1) // apart, begin + o * sum_bytes,
               apart * sum_bytes, line + (o * column_stride - column_pad) * pixel,
               apart * column_stride * pixel, column_taps * channels)  # fmt: skip
    for o in range(columns):
        if o >= inner_first and o < inner_last:
            continue
        left = o * column_stride - column_pad
        b0 = max(0, -left)
        b1 = min(column_taps, out_columns - left)
        if b0 < b1:
            call_6(add, 1, begin + o * sum_bytes + b0 * pixel, 0,
                   line + (left + b0) * pixel, 0, (b1 - b0) * channels)  # fmt: skip


@range_kernel
def run(params, start, stop):
    (out, g, packed, flags, areas, scratch, area_bytes,    # set by each call
     wide, narrow, lanes, most, add, sums_at,
     rows, columns, filters, out_rows, out_columns, channels,
     row_taps, column_taps, row_stride, column_stride, row_pad, column_pad,
     row_dilation, inner_first, inner_last, apart, height, chunks, length,
    ) = parameters(params)  # fmt: skip
    number = take(flags, areas)
    table = scratch + number * area_bytes
    sums = table + sums_at
    store_int64(table, 0, 0)
    store_int64(table, 1, 0)
    pixel = channels * SIZE
    sum_bytes = length * SIZE
    width = row_taps * column_taps * channels
    blocks = (columns + most - 1) // most
    share = columns // blocks
    longer = columns - share * blocks
    reach = (row_taps - 1) * row_dilation
    for item in range(start, stop):
        image = item // chunks
        top = (item - image * chunks) * height
        bottom = min(top + height, out_rows)
        zero_bytes(out + (image * out_rows + top) * out_columns * pixel,
                   (bottom - top) * out_columns * pixel)  # fmt: skip
        first = max(0, (top + row_pad - reach + row_stride - 1) // row_stride)
        last = min(rows, (bottom - 1 + row_pad) // row_stride + 1)
        for row in range(first, last):
            source = g + (image * rows + row) * columns * filters * SIZE
            for n in range(0, width, 2 * lanes):
                count = min(2 * lanes, width - n)
                tile = wide if count > lanes else narrow
                panel_row = (2 * lanes if count > lanes else lanes) * SIZE
                where = 0
                for block in range(blocks):
                    size = share + 1 if block < longer else share
                    call_tile(tile, size, source + where * filters * SIZE, table, 1, filters,
                              filters * SIZE, SIZE, packed + n * filters * SIZE, panel_row,
                              sums + where * sum_bytes + n * SIZE, sum_bytes, count, 0)  # fmt: skip
                    where += size
            for a in range(row_taps):
                to_row = row * row_stride + a * row_dilation - row_pad
                if to_row < top or to_row >= bottom:
                    continue
                line = out + (image * out_rows + to_row) * out_columns * pixel
                begin = sums + a * column_taps * pixel
                add_row(add, begin, line, inner_first, inner_last, apart, sum_bytes, columns,
                        column_stride, column_pad, column_taps, channels, out_columns, pixel
                )  # fmt: skip
    give_back(flags, number)
