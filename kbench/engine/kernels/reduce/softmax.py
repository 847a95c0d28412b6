"""Library kernels over the last axis of a matrix: softmax, log_softmax, logsumexp.

Each row is swept two or three times while it stays in the cache: the largest value, the sum of
exponentials against it, the result. Sources are texts with DTYPE, VALUE (dtype of the arithmetic)
and END (suffix of helpers) filled in.
"""

from __future__ import annotations

from kbench.engine.codegen.typed_expr import computed, ending

HEAD = '''"""Library kernel of kbench: NAME of DTYPE rows."""
import numpy as np
from kbench.engine.intrinsics.toolkit import (
    exp_END,
    field,
    load_DTYPE,
    log_f64,
    maximum_float,
    peek_DTYPE,
    plus,
    range_kernel,
    store_DTYPE,
)


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    x = field(params, 1)
    n = field(params, 2)
    for row in range(start, stop):
        base = row * n
        top = np.VALUE(-np.inf)
        for j in range(n):
            top = maximum_float(top, load_DTYPE(x, base + j))
        total = 0.0
'''

SUM = """        for low in range(0, n, 4096):
            part = np.VALUE(0)
            for j in range(low, min(low + 4096, n)):
                part = plus(part, exp_END(load_DTYPE(x, base + j) - top))
            total += np.float64(part)
"""

SOFTMAX_IN_PLACE = """        for low in range(0, n, 4096):
            part = np.VALUE(0)
            for j in range(low, min(low + 4096, n)):
                grown = exp_END(load_DTYPE(x, base + j) - top)
                store_DTYPE(y, base + j, grown)
                part = plus(part, grown)
            total += np.float64(part)
        scale = np.VALUE(1.0 / total)
        for j in range(n):
            store_DTYPE(y, base + j, peek_DTYPE(y, base + j) * scale)
"""

SOFTMAX_AGAIN = (
    SUM
    + """        scale = np.VALUE(1.0 / total)
        for j in range(n):
            store_DTYPE(y, base + j, exp_END(load_DTYPE(x, base + j) - top) * scale)
"""
)

LOG_SOFTMAX = (
    SUM
    + """        shift = np.VALUE(log_f64(total))
        for j in range(n):
            store_DTYPE(y, base + j, (load_DTYPE(x, base + j) - top) - shift)
"""
)

LOGSUMEXP = (
    SUM
    + """        result = np.VALUE(np.float64(top) + log_f64(total))
        limit = (top == np.VALUE(np.inf)) | (top == np.VALUE(-np.inf))
        store_DTYPE(y, row, top if limit else result)
"""
)


def source(name: str, dtype: str) -> str:
    """The module that defines `run(params, first row, end row)`; params are y, x, columns."""
    softmax = SOFTMAX_AGAIN if dtype == "float16" else SOFTMAX_IN_PLACE
    body = {"softmax": softmax, "log_softmax": LOG_SOFTMAX, "logsumexp": LOGSUMEXP}[name]
    value = computed(dtype)
    text = (HEAD + body).replace("NAME", name).replace("VALUE", value)
    text = text.replace("END", ending(value))
    if dtype == "float16":
        text = text.replace("    peek_DTYPE,\n", "")
    return text.replace("DTYPE", dtype)
