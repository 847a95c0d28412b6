"""Depthwise convolution, and its gradient to the input."""

from kbench.engine.intrinsics.memory import call_9, give_back, take
from kbench.engine.intrinsics.primitives import peek_int64, store_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import inline, range_kernel


@inline
def tabulate(table, source, column, row, in_rows, in_columns, pixel, row_taps, column_taps,
             row_offsets, column_offsets, row_index, column_index, window):  # fmt: skip
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
    (out, x, kernel, flags, areas, scratch, area_bytes,    # set by each call
     pixels, past, images, rows, columns,
     row_step, column_step, row_phase, column_phase,
     out_rows, out_columns, in_rows, in_columns, channels,
     row_stride, column_stride, row_taps, column_taps,
     row_offsets, column_offsets, row_index, column_index, window,
     inner_first, inner_last, height, chunks, across, slices,
    ) = parameters(params)  # fmt: skip
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
                                 row_offsets, column_offsets, row_index, column_index, window
                )  # fmt: skip
                end = column + 1
                if column >= inner_first and column < inner_last:
                    end = min(inner_last, column1)
                while column < end:
                    some = min(8, end - column)
                    blocks = (end - column) // some
                    way = whole if some == 8 else some
                    call_9(pixels, way, blocks, table, count, column_stride * pixel, kernel,
                           target + column * column_step * pixel, column_step * pixel, channels
                    )  # fmt: skip
                    column += blocks * some
                    if column < end:
                        step = blocks * some * column_stride * pixel
                        for t in range(count):
                            store_int64(table, 2 * t, peek_int64(table, 2 * t) + step)
    give_back(flags, number)
