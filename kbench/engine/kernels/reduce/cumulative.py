"""Library kernels of running sums and products, along the last axis or along any other.

float32 runs in float64 totals. Along the last axis a long row is cut into blocks of fixed length;
each block starts from the total of those before it, so results do not depend on threads. Four
rows run side by side, because one running total waits for itself in every step.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.codegen.typed_expr import computed

MAX_COLUMNS = 2048
"""Columns that run side by side at most."""
MIN_COLUMNS = 512
"""Columns that run side by side at least, where there are that many."""
MIN_ITEMS = 16
"""Items that are worth narrower blocks: threads get one each."""
STAGE_ELEMENTS = 512
"""Elements of each of four rows made in scratch before they are streamed past the caches."""

LAST = '''"""Library kernel of kbench: NAME of DTYPE along rows."""
import numpy as np
from kbench.engine.intrinsics.toolkit import field, inline, load_DTYPE, range_kernel, store_DTYPE
from kbench.engine.intrinsics.toolkit import scratch_64, store_fence, stream_out


@inline
def part(item, n, width, blocks):
    """Where a block of a row begins, and its length."""
    row = item // blocks
    begin = (item - row * blocks) * width
    return row * n + begin, min(width, n - begin)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    n = field(params, 2)
    width = field(params, 3)
    blocks = field(params, 4)
    starts = np.int64(field(params, 5))
    streamed = field(params, 6)
    stage = scratch_64()
    item = start
    while item < stop:
        first, size = part(item, n, width, blocks)
        if item + 4 <= stop:
            first1, size1 = part(item + 1, n, width, blocks)
            first2, size2 = part(item + 2, n, width, blocks)
            first3, size3 = part(item + 3, n, width, blocks)
            if (size == size1) & (size == size2) & (size == size3):
                total = load_TOTAL(starts, item)
                total1 = load_TOTAL(starts, item + 1)
                total2 = load_TOTAL(starts, item + 2)
                total3 = load_TOTAL(starts, item + 3)
                low = 0
                step = STAGE if streamed != 0 else size
                while low < size:
                    high = min(low + step, size)
                    w = stage - (first + low) * EACH if streamed != 0 else y
                    w1 = stage + (STAGE - first1 - low) * EACH if streamed != 0 else y
                    w2 = stage + (2 * STAGE - first2 - low) * EACH if streamed != 0 else y
                    w3 = stage + (3 * STAGE - first3 - low) * EACH if streamed != 0 else y
                    for j in range(low, high):
                        total = np.TOTAL(total OP np.TOTAL(load_DTYPE(x, first + j)))
                        total1 = np.TOTAL(total1 OP np.TOTAL(load_DTYPE(x, first1 + j)))
                        total2 = np.TOTAL(total2 OP np.TOTAL(load_DTYPE(x, first2 + j)))
                        total3 = np.TOTAL(total3 OP np.TOTAL(load_DTYPE(x, first3 + j)))
                        store_DTYPE(w, first + j, np.VALUE(total))
                        store_DTYPE(w1, first1 + j, np.VALUE(total1))
                        store_DTYPE(w2, first2 + j, np.VALUE(total2))
                        store_DTYPE(w3, first3 + j, np.VALUE(total3))
                    if streamed != 0:
                        written = (high - low) * EACH
                        stream_out(y + (first + low) * EACH, stage, written)
                        stream_out(y + (first1 + low) * EACH, stage + STAGE * EACH, written)
                        stream_out(y + (first2 + low) * EACH, stage + 2 * STAGE * EACH, written)
                        stream_out(y + (first3 + low) * EACH, stage + 3 * STAGE * EACH, written)
                    low = high
                item += 4
                continue
        total = load_TOTAL(starts, item)
        for j in range(first, first + size):
            total = np.TOTAL(total OP np.TOTAL(load_DTYPE(x, j)))
            store_DTYPE(y, j, np.VALUE(total))
        item += 1
    if streamed != 0:
        store_fence()
'''

ACROSS = '''"""Library kernel of kbench: NAME of DTYPE across rows."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    field,
    load_DTYPE,
    peek_TOTAL,
    range_kernel,
    scratch_64,
    store_fence,
    store_DTYPE,
    store_TOTAL,
    stream_out,
)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    rows = field(params, 2)
    inner = field(params, 3)
    width = field(params, 4)
    blocks = field(params, 5)
    streamed = field(params, 6)
    totals = scratch_64()
    stage = scratch_64()
    for item in range(start, stop):
        outer = item // blocks
        first = (item - outer * blocks) * width
        last = min(first + width, inner)
        for j in range(last - first):
            store_TOTAL(totals, j, np.TOTAL(IDENTITY))
        for row in range(rows):
            base = (outer * rows + row) * inner + first
            w = stage - base * EACH if streamed != 0 else y
            for j in range(last - first):
                part = np.TOTAL(load_DTYPE(x, base + j))
                total = np.TOTAL(peek_TOTAL(totals, j) OP part)
                store_TOTAL(totals, j, total)
                store_DTYPE(w, base + j, np.VALUE(total))
            if streamed != 0:
                stream_out(y + base * EACH, stage, (last - first) * EACH)
    if streamed != 0:
        store_fence()
'''


def total_dtype(dtype: str) -> str:
    """Dtype of the running total."""
    return {"f": "float64", "u": "uint64"}.get(np.dtype(dtype).kind, "int64")


def columns(outer: int, inner: int) -> int:
    """How many columns run side by side, in whole lines of a cache."""
    each = -(-outer * inner // MIN_ITEMS)
    return min(MAX_COLUMNS, max(MIN_COLUMNS, -(-each // 64) * 64))


def source(name: str, dtype: str, last: bool) -> str:
    """The module that defines `run`; `last` when the axis is the innermost one."""
    text = (LAST if last else ACROSS).replace("NAME", name)
    text = text.replace("STAGE", str(STAGE_ELEMENTS)).replace("EACH", str(np.dtype(dtype).itemsize))
    text = text.replace("OP", "+" if name == "cumsum" else "*")
    text = text.replace("IDENTITY", "0" if name == "cumsum" else "1")
    total = total_dtype(dtype)
    imports = f"load_{dtype}, " if total != dtype else ""
    text = text.replace("load_DTYPE, range", f"{imports}load_{total}, range")
    text = text.replace("TOTAL", total).replace("VALUE", computed(dtype))
    return text.replace("DTYPE", dtype)
