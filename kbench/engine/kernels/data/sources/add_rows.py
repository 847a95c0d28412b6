"""Library kernel of kbench: rows added up by index, row by row.

`order` has the positions sorted by the row they go to, `ends` where those of each row end.
"""

import numpy as np

from kbench.engine.intrinsics.memory import fetch_line
from kbench.engine.intrinsics.nontemporal import store_fence
from kbench.engine.intrinsics.primitives import (
    field,
    load_int32,
    peek_float64,
    scratch_64,
    store_float64,
)
from kbench.engine.intrinsics.specialized import (
    IS_ROUNDED,
    IS_WIDENED,
    MAX_PLAIN_TERMS,
    SIZE,
    load_element,
    peek_total,
    store_element,
    store_total,
    total_value,
    value,
)
from kbench.engine.jit.numba_backend import part, range_kernel
from kbench.engine.kernels.data.copy_tile import copy_bytes, stream_bytes

PREFETCH_ROWS = 8
"""Rows that are asked for before they are needed."""


@part
def add_up(peek, store, kind, total, g, order, begin, end, width, low, size, last):
    """The sum of the rows of `g` at some positions, in a dtype of its own."""
    for j in range(size):
        store(total, j, kind(0))
    for k in range(begin, end):
        following = np.int64(load_int32(order, min(k + PREFETCH_ROWS, last)))
        ahead = g + (following * width + low) * SIZE
        for line in range(0, min(size * SIZE, 4096), 64):
            fetch_line(ahead + line)
        source = np.int64(load_int32(order, k)) * width + low
        for j in range(size):
            here = peek(total, j) + load_element(g, source + j)
            store(total, j, kind(here))


@part
def bring_down(peek, total, rounded, size):
    """Round a sum to the dtype of the result."""
    for j in range(size):
        store_element(rounded, j, value(peek(total, j)))


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    g = field(params, 1)
    order = field(params, 2)
    ends = field(params, 3)
    width = field(params, 4)
    rows = field(params, 5)
    height = field(params, 6)
    stream = field(params, 7)
    last = field(params, 8) - 1
    total = scratch_64()
    rounded = scratch_64() if IS_WIDENED else total
    for row in range(start * height, min(stop * height, rows)):
        end = np.int64(load_int32(ends, row))
        begin = np.int64(load_int32(ends, row - 1)) if row > 0 else 0
        for low in range(0, width, 4096):
            size = min(4096, width - low)
            if IS_ROUNDED and end - begin > MAX_PLAIN_TERMS:
                add_up(peek_float64, store_float64, np.float64,
                       total, g, order, begin, end, width, low, size, last)  # fmt: skip
                bring_down(peek_float64, total, rounded, size)
            else:
                add_up(peek_total, store_total, total_value,
                       total, g, order, begin, end, width, low, size, last)  # fmt: skip
                if IS_WIDENED:
                    bring_down(peek_total, total, rounded, size)
            place = y + (row * width + low) * SIZE
            if stream:
                stream_bytes(place, rounded, size * SIZE)
            else:
                copy_bytes(place, rounded, size * SIZE)
    if stream:
        store_fence()
