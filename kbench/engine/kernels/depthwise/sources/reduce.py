"""Gradient of a depthwise convolution to its weights."""

from kbench.engine.intrinsics.memory import call_7, zero_bytes
from kbench.engine.intrinsics.primitives import peek_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import range_kernel


@range_kernel
def run(params, start, stop):
    (out, x, g,                                                    # set by each call
     products, lines, each, rows, columns, in_rows, in_columns,
     channels, row_stride, column_stride, row_taps, column_taps,
     row_offsets, column_offsets, across, slices,
    ) = parameters(params)  # fmt: skip
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
                           totals + (a * column_taps + b) * pixel, channels)  # fmt: skip
