"""Library kernels that take rows from a table by index.

Indices are copied and checked before compiled code sees them, so that no other thread can change
them between. `scatter_add.py` has the way back.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.jit import kernel_file
from kbench.engine.jit.array_memory import check_result, operand
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import service
from kbench.engine.kernels.data.strided_copy import MIN_STREAMED_BYTES
from kbench.engine.runtime.cpu_caches import CACHE_LINE_BYTES

ELEMENT_SECONDS = 1e-9
"""Seconds for an element that is moved: a guess."""
MIN_BLOCK_BYTES = 64
"""Bytes of a row from which on it moves as one block."""


def _bytes_of(*sizes: int) -> int:
    """The largest machine word that divides all these sizes and addresses."""
    return math.gcd(8, *sizes)


def own_indices(indices: Array, rows: int) -> Array:
    """The indices as an array that nobody else holds; IndexError unless all lie in the table."""
    own = np.array(indices, np.int64).ravel()
    if own.size and int(own.view(np.uint64).max()) >= rows:  # a negative one is huge
        raise IndexError(f"an index is out of range for {rows} rows")
    return own


def _source(size: int) -> str:
    return kernel_file.specialized(
        "kernels/data/sources/take",
        load_word=f"load_uint{8 * size}",
        store_word=f"store_uint{8 * size}",
        WORD_BYTES=size,
    )


def find_take(dtype: str, width: int) -> KernelCall | None:
    """The kernel `(out, x, indices, cancel_check)`: `out[i] = x[indices[i]]`, of rows of `width`
    cells.

    None while it is not ready. It raises IndexError, with nothing written, when an index is
    negative or no row of `x`. Rows move in the largest words that fit them.
    """
    size = width * np.dtype(dtype).itemsize
    word = _bytes_of(size)
    job = service.find(f"take_{word}", partial(_source, word))
    if job is None:
        return None

    def call(out: Array, x: Array, indices: Array, cancel_check: CancelCheck | None = None) -> None:
        own = own_indices(indices, len(x))
        check_result(out, dtype, own.size * width)
        x = operand(x, dtype, len(x) * width, out)
        if not out.size:
            return
        if address_of(x) % word:
            x = x.copy()
        streamed = out.nbytes >= MIN_STREAMED_BYTES and not size % CACHE_LINE_BYTES
        way = 0 if size < MIN_BLOCK_BYTES else 2 if streamed else 1
        heads = [address_of(out), address_of(x), address_of(own)]
        params = np.array([*heads, size // word, way], np.int64)
        drive(job, params, own.size, width, cancel_check, ELEMENT_SECONDS)

    return call
