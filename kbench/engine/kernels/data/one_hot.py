"""The library kernel of one_hot: rows of zeros with a one, written in one pass."""

from __future__ import annotations

from functools import partial

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.jit import kernel_file
from kbench.engine.jit.array_memory import check_result
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import service
from kbench.engine.kernels.data.strided_copy import MIN_STREAMED_BYTES

ELEMENT_SECONDS = 3e-10
"""Seconds for an element that is written: a guess."""


def source(bits: int) -> str:
    """The module that defines `run`, for rows of words of so many bits."""
    return kernel_file.specialized(
        "kernels/data/sources/one_hot",
        word=f"uint{bits}",
        store_word=f"store_uint{bits}",
        WORD_BYTES=bits // 8,
    )


def find(kind: str, dtype: str) -> KernelCall | None:
    """The kernel `(out, indices, cancel_check)`: `out[i]` is 0 but for a 1 at `indices[i]`; or
    None.

    `out` is [..., classes] and contiguous; an index that is no class gives a row of zeros.
    """
    size = np.dtype(dtype).itemsize
    job = service.find(f"one_hot_{8 * size}", partial(source, 8 * size))
    if job is None:
        return None

    def call(out: Array, indices: Array, cancel_check: CancelCheck | None = None) -> None:
        own = np.array(indices, np.int64).ravel()
        width = out.shape[-1]
        check_result(out, dtype, own.size * width)
        if not out.size:
            return
        one = int.from_bytes(np.ones(1, dtype).tobytes(), "little")
        stream = int(out.nbytes >= MIN_STREAMED_BYTES and width * size % 64 == 0)
        params = np.array([address_of(out), address_of(own), width, one, stream], np.int64)
        drive(job, params, own.size, width, cancel_check, ELEMENT_SECONDS)

    return call
