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
from kbench.engine.kernels.toolkit import field, load_DTYPE, range_kernel, store_DTYPE


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    n = field(params, 2)
    width = field(params, 3)
    blocks = field(params, 4)
    starts = np.int64(field(params, 5))
    for item in range(start, stop):
        row = item // blocks
        first = (item - row * blocks) * width
        last = min(first + width, n)
        total = load_TOTAL(starts, item)
        for j in range(row * n + first, row * n + last):
            total = np.TOTAL(total OP np.TOTAL(load_DTYPE(x, j)))
            store_DTYPE(y, j, np.VALUE(total))
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
