"""What arrived at windows, given to their cells; lanes are channels."""

from kbench.engine.intrinsics.memory import call_8, give_back, take, zero_bytes
from kbench.engine.intrinsics.nontemporal import store_fence
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import range_kernel
from kbench.engine.kernels.data.copy_tile import stream_bytes
from kbench.engine.kernels.pool.window_table import tabulate


@range_kernel
def run(params, start, stop):
    (y, x, g, flags, areas, scratch, area_bytes, tile, past, images, rows, columns,
     in_rows, in_columns, channels, row_window, column_window, row_stride, column_stride,
     row_pad, column_pad, inner_first, inner_last, height, strips, adds, strip_at,
    ) = parameters(params)  # fmt: skip
    number = take(flags, areas)
    table = scratch + number * area_bytes
    pixel = channels * SIZE
    step = column_stride * pixel
    loop = past if y % 64 == 0 and pixel % 64 == 0 else tile
    for item in range(start, stop):
        image = item // strips
        top = (item - image * strips) * height
        bottom = min(top + height, in_rows)
        source = x + image * in_rows * in_columns * pixel
        begin = y + (image * in_rows + top) * in_columns * pixel
        size = (bottom - top) * in_columns * pixel
        target = table + strip_at if strip_at != 0 else begin
        if adds != 0:
            zero_bytes(target, size)
        away = target - (source + top * in_columns * pixel)
        first = max((top + row_pad - row_window + row_stride) // row_stride, 0)
        last = min((bottom + row_pad + row_stride - 1) // row_stride, rows)
        for row in range(first, last):
            line = (image * rows + row) * columns
            column = 0
            while column < columns:
                count = tabulate(table, source, row * row_stride - row_pad,
                                 column * column_stride - column_pad, row_window, column_window,
                                 in_rows, in_columns, pixel, top, bottom)  # fmt: skip
                end = column + 1
                if column >= inner_first and column < inner_last:
                    end = inner_last
                call_8(loop, end - column, table, count, step, g + (line + column) * pixel, pixel,
                       away, channels)  # fmt: skip
                column = end
        if strip_at != 0:
            stream_bytes(begin, target, size)
    store_fence()
    give_back(flags, number)
