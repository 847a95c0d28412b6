"""Products of windows with the weights of their places."""

from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import range_kernel


@range_kernel
def run(params, start, stop):
    (out, x, weights,                                              # set by each call
     wide, narrow, lanes, most, table, taps, depth, images, image_bytes, share,
     places, columns, row_bytes, column_bytes, filters,
    ) = parameters(params)  # fmt: skip
    row = filters * SIZE
    for item in range(start, stop):
        part = item // places
        place = item - part * places
        begin = x + place // columns * row_bytes + place % columns * column_bytes
        matrix = weights + place * taps * depth * row
        last = min((part + 1) * share, images)
        for n in range(0, filters, 2 * lanes):
            count = min(2 * lanes, filters - n)
            tile = wide if count > lanes else narrow
            for image in range(part * share, last, most):
                call_tile(tile, min(most, last - image), begin + image * image_bytes, table, taps,
                          depth, image_bytes, SIZE, matrix + n * SIZE, row,
                          out + (image * places + place) * row + n * SIZE, places * row, count, 0
                )  # fmt: skip
