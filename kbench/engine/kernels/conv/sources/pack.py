"""Kernels of convolutions in panels of two vectors, the rest zeros."""

from kbench.engine.intrinsics.primitives import load_int64
from kbench.engine.intrinsics.specialized import element, load_element, parameters, store_element
from kbench.engine.jit.numba_backend import range_kernel


@range_kernel
def run(params, start, stop):
    (packed, kernel, places, taps, rows, columns, row_step, column_step,
     lanes
    ) = parameters(params)  # fmt: skip
    for tap in range(start, stop):
        source = load_int64(places, tap)
        for first in range(0, columns, 2 * lanes):
            count = min(2 * lanes, columns - first)
            width = 2 * lanes if count > lanes else lanes
            target = first * taps * rows + tap * rows * width
            for k in range(rows):
                place = source + k * row_step + first * column_step
                for n in range(count):
                    value = load_element(kernel, place + n * column_step)
                    store_element(packed, target + n, value)
                for n in range(count, width):
                    store_element(packed, target + n, element(0))
                target += width
