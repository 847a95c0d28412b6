"""Library kernel of kbench: positions sorted by what they hold, in order."""

import numpy as np

from kbench.engine.intrinsics.primitives import (
    field,
    load_int64,
    peek_int32,
    store_int32,
    store_int64,
)
from kbench.engine.jit.numba_backend import range_kernel


@range_kernel
def run(params, start, stop):
    rows = field(params, 0)
    count = field(params, 1)
    ends = field(params, 2)
    order = field(params, 3)
    height = field(params, 4)
    most = np.int32(0)
    for i in range(count):
        row = load_int64(rows, i)
        store_int32(ends, row, np.int32(peek_int32(ends, row) + 1))
    total = np.int32(0)
    for row in range(height):
        here = peek_int32(ends, row)
        most = max(most, here)
        store_int32(ends, row, total)
        total = np.int32(total + here)
    for i in range(count):
        row = load_int64(rows, i)
        place = peek_int32(ends, row)
        store_int32(order, place, np.int32(i))
        store_int32(ends, row, np.int32(place + 1))
    store_int64(field(params, 5), 0, np.int64(most))
