"""Library kernel of kbench: rows by index."""

from kbench.engine.intrinsics.memory import fetch_line
from kbench.engine.intrinsics.nontemporal import store_fence
from kbench.engine.intrinsics.primitives import field, load_int64
from kbench.engine.intrinsics.specialized import WORD_BYTES, load_word, store_word
from kbench.engine.jit.numba_backend import range_kernel
from kbench.engine.kernels.data.copy_tile import copy_bytes, stream_bytes

PREFETCH_ROWS = 8
"""Rows that are asked for before they are needed: the tables are not in the caches."""


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    rows = field(params, 2)
    width = field(params, 3)
    if width == 1:
        for i in range(start, stop):
            store_word(y, i, load_word(x, load_int64(rows, i)))
        return
    if width == 2:
        for i in range(start, stop):
            source = load_int64(rows, i) * 2
            store_word(y, 2 * i, load_word(x, source))
            store_word(y, 2 * i + 1, load_word(x, source + 1))
        return
    way = field(params, 4)
    size = width * WORD_BYTES
    if way > 0:
        for i in range(start, stop):
            ahead = x + load_int64(rows, min(i + PREFETCH_ROWS, stop - 1)) * size
            for line in range(0, min(size, 4096), 64):
                fetch_line(ahead + line)
            source = x + load_int64(rows, i) * size
            if way == 2:
                stream_bytes(y + i * size, source, size)
            else:
                copy_bytes(y + i * size, source, size)
        if way == 2:
            store_fence()
        return
    for i in range(start, stop):
        source = load_int64(rows, i) * width
        target = i * width
        for j in range(width):
            store_word(y, target + j, load_word(x, source + j))
