"""The library kernel of one_hot: rows of zeros with a one, written in one pass."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.kernels.data.gather import checked_result, ready_job
from kbench.engine.kernels.data.strided_copy import MIN_STREAMED_BYTES

ELEMENT_SECONDS = 3e-10
"""Seconds for an element that is written: a guess, for the distance between cancel checks."""

SOURCE = '''"""Library kernel of kbench: one_hot, words of BITS bits."""
import numpy as np
from kbench.engine.kernels.data.copy_tile import copy_bytes, stream_bytes
from kbench.engine.intrinsics.nontemporal import store_fence
from kbench.engine.intrinsics.toolkit import (
    field,
    load_int64,
    range_kernel,
    scratch_64,
    store_uintBITS,
)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    classes = field(params, 1)
    width = field(params, 2)
    one = np.uintBITS(field(params, 3))
    stream = field(params, 4)
    row = scratch_64()
    for j in range(min(width, 4096)):
        store_uintBITS(row, j, np.uintBITS(0))
    for i in range(start, stop):
        place = np.int64(load_int64(classes, i))
        for low in range(0, width, 4096):
            size = min(4096, width - low)
            here = (place >= low) & (place < low + size)
            if here:
                store_uintBITS(row, place - low, one)
            target = y + (i * width + low) * (BITS // 8)
            if stream:
                stream_bytes(target, row, size * (BITS // 8))
            else:
                copy_bytes(target, row, size * (BITS // 8))
            if here:
                store_uintBITS(row, place - low, np.uintBITS(0))
    if stream:
        store_fence()
'''


def find(kind: str, dtype: str) -> KernelCall | None:
    """The kernel `(out, indices, cancel_check)`: `out[i]` is 0 but for a 1 at `indices[i]`; or
    None.

    `out` is [..., classes] and contiguous; an index that is no class gives a row of zeros.
    """
    size = np.dtype(dtype).itemsize
    job = ready_job(f"one_hot_{8 * size}", SOURCE.replace("BITS", str(8 * size)))
    if job is None:
        return None

    def call(out: Array, indices: Array, cancel_check: CancelCheck | None = None) -> None:
        own = np.array(indices, np.int64).ravel()
        width = out.shape[-1]
        checked_result(out, dtype, own.size * width)
        if not out.size:
            return
        one = int.from_bytes(np.ones(1, dtype).tobytes(), "little")
        stream = int(out.nbytes >= MIN_STREAMED_BYTES and width * size % 64 == 0)
        params = np.array([address_of(out), address_of(own), width, one, stream], np.int64)
        drive(job, params, own.size, width, cancel_check, ELEMENT_SECONDS)

    return call
