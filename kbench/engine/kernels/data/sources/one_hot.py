"""Library kernel of kbench: one_hot, rows of zeros with a one."""

from kbench.engine.intrinsics.nontemporal import store_fence
from kbench.engine.intrinsics.primitives import field, load_int64, scratch_64
from kbench.engine.intrinsics.specialized import WORD_BYTES, store_word, word
from kbench.engine.jit.numba_backend import range_kernel
from kbench.engine.kernels.data.copy_tile import copy_bytes, stream_bytes


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    classes = field(params, 1)
    width = field(params, 2)
    one = word(field(params, 3))
    stream = field(params, 4)
    row = scratch_64()
    for j in range(min(width, 4096)):
        store_word(row, j, word(0))
    for i in range(start, stop):
        place = load_int64(classes, i)
        for low in range(0, width, 4096):
            size = min(4096, width - low)
            here = (place >= low) & (place < low + size)
            if here:
                store_word(row, place - low, one)
            target = y + (i * width + low) * WORD_BYTES
            if stream:
                stream_bytes(target, row, size * WORD_BYTES)
            else:
                copy_bytes(target, row, size * WORD_BYTES)
            if here:
                store_word(row, place - low, word(0))
    if stream:
        store_fence()
