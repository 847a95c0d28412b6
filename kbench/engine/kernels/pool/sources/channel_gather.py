"""The largest or the mean of windows, whose lanes are channels."""

from kbench.engine.intrinsics.memory import call_8, give_back, take
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import range_kernel
from kbench.engine.kernels.pool.window_table import tabulate


@range_kernel
def run(params, start, stop):
    (y, x, flags, areas, scratch, area_bytes, tile, past, images, rows, columns, in_rows,
     in_columns, channels, row_window, column_window, row_stride, column_stride, row_pad,
     column_pad, inner_first, inner_last, height, strips, divides,
    ) = parameters(params)  # fmt: skip
    number = take(flags, areas)
    table = scratch + number * area_bytes
    pixel = channels * SIZE
    step = column_stride * pixel
    loop = past if y % 64 == 0 and pixel % 64 == 0 else tile
    for item in range(start, stop):
        image = item // strips
        first = (item - image * strips) * height
        source = x + image * in_rows * in_columns * pixel
        for row in range(first, min(first + height, rows)):
            line = (image * rows + row) * columns
            column = 0
            while column < columns:
                count = tabulate(table, source, row * row_stride - row_pad,
                                 column * column_stride - column_pad, row_window, column_window,
                                 in_rows, in_columns, pixel, 0, in_rows)  # fmt: skip
                end = column + 1
                if column >= inner_first and column < inner_last:
                    end = inner_last
                call_8(loop, end - column, table, count, step, y + (line + column) * pixel, pixel,
                       divides, channels)  # fmt: skip
                column = end
    give_back(flags, number)
