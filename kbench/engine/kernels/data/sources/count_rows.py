"""Library kernel of kbench: how often the most frequent of some rows is named."""

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
    counts = field(params, 2)
    most = np.int32(load_int64(field(params, 3), 0))
    for i in range(field(params, 1)):
        row = load_int64(rows, i)
        here = np.int32(peek_int32(counts, row) + 1)
        store_int32(counts, row, here)
        most = max(most, here)
    store_int64(field(params, 3), 0, np.int64(most))
