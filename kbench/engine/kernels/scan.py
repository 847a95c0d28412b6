"""Library kernels of running sums and products, along the last axis or along any other.

float32 runs in float64 totals. Along the last axis a long row is cut into blocks of fixed length;
each block starts from the total of those before it, so results do not depend on threads. Four
rows run side by side, because one running total waits for itself in every step.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.kernels.translate import computed

WIDTH = 2048

LAST = '''"""Library kernel of kbench: NAME of DTYPE along rows."""
import numpy as np
from kbench.engine.kernels.toolkit import field, inline, load_DTYPE, range_kernel, store_DTYPE


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
                for j in range(size):
                    total = np.TOTAL(total OP np.TOTAL(load_DTYPE(x, first + j)))
                    total1 = np.TOTAL(total1 OP np.TOTAL(load_DTYPE(x, first1 + j)))
                    total2 = np.TOTAL(total2 OP np.TOTAL(load_DTYPE(x, first2 + j)))
                    total3 = np.TOTAL(total3 OP np.TOTAL(load_DTYPE(x, first3 + j)))
                    store_DTYPE(y, first + j, np.VALUE(total))
                    store_DTYPE(y, first1 + j, np.VALUE(total1))
                    store_DTYPE(y, first2 + j, np.VALUE(total2))
                    store_DTYPE(y, first3 + j, np.VALUE(total3))
                item += 4
                continue
        total = load_TOTAL(starts, item)
        for j in range(first, first + size):
            total = np.TOTAL(total OP np.TOTAL(load_DTYPE(x, j)))
            store_DTYPE(y, j, np.VALUE(total))
        item += 1
'''

ACROSS = '''"""Library kernel of kbench: NAME of DTYPE across rows."""
import numpy as np
from kbench.engine.kernels.toolkit import (
    field,
    load_DTYPE,
    peek_TOTAL,
    range_kernel,
    scratch_64,
    store_DTYPE,
    store_TOTAL,
)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    rows = field(params, 2)
    inner = field(params, 3)
    blocks = field(params, 4)
    totals = scratch_64()
    for item in range(start, stop):
        outer = item // blocks
        first = (item - outer * blocks) * WIDTH
        last = min(first + WIDTH, inner)
        for j in range(last - first):
            store_TOTAL(totals, j, np.TOTAL(IDENTITY))
        for row in range(rows):
            base = (outer * rows + row) * inner + first
            for j in range(last - first):
                part = np.TOTAL(load_DTYPE(x, base + j))
                total = np.TOTAL(peek_TOTAL(totals, j) OP part)
                store_TOTAL(totals, j, total)
                store_DTYPE(y, base + j, np.VALUE(total))
'''


def total_dtype(dtype: str) -> str:
    """Dtype of the running total."""
    return {"f": "float64", "u": "uint64"}.get(np.dtype(dtype).kind, "int64")


def source(name: str, dtype: str, last: bool) -> str:
    """The module that defines `run`; `last` when the axis is the innermost one."""
    text = (LAST if last else ACROSS).replace("NAME", name).replace("WIDTH", str(WIDTH))
    text = text.replace("OP", "+" if name == "cumsum" else "*")
    text = text.replace("IDENTITY", "0" if name == "cumsum" else "1")
    total = total_dtype(dtype)
    imports = f"load_{dtype}, " if total != dtype else ""
    text = text.replace("load_DTYPE, range", f"{imports}load_{total}, range")
    text = text.replace("TOTAL", total).replace("VALUE", computed(dtype))
    return text.replace("DTYPE", dtype)
