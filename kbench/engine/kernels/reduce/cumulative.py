"""Library kernels of running sums and products, along the last axis or along any other.

float32 runs in float64 totals, a sum of float64 keeps what it loses, and a product of floats has an
exponent of its own, so that none overflows on the way. Along the last axis a long row is cut into
blocks of fixed length; each block starts from the total of those before it, so results do not
depend on threads. Four rows run side by side, because one running total waits for itself in every
step.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.codegen.writers.typed_expr import computed
from kbench.engine.core.folds import exact_folds
from kbench.engine.jit import kernel_file

MAX_COLUMNS = 2048
"""Columns that run side by side at most."""
MIN_COLUMNS = 512
"""Columns that run side by side at least, where there are that many."""
MIN_ITEMS = 16
"""Items that are worth narrower blocks: threads get one each."""
CHUNKS = {None: 512, "float64": exact_folds.SUM_CHUNK_ROWS, "int64": 32}
"""Numbers of a chunk, by the dtype of what is kept beside the total. A sum's error grows with it; a
product's numbers are ordinary when as many of the least or largest of them stay within float64."""
MAX_ORDINARY_EXPONENT = 960 // CHUNKS["int64"]


def total_dtype(dtype: str) -> str:
    """Dtype of the running total."""
    return {"f": "float64", "u": "uint64"}.get(np.dtype(dtype).kind, "int64")


def columns(outer: int, inner: int) -> int:
    """How many columns run side by side, in whole lines of a cache."""
    each = -(-outer * inner // MIN_ITEMS)
    return min(MAX_COLUMNS, max(MIN_COLUMNS, -(-each // 64) * 64))


def kept_besides(name: str, dtype: str) -> str | None:
    """Dtype of what is kept beside the running total: what a sum of float64 has lost, and the
    exponent of a product of floats, which has no bound."""
    if name == "cumprod" and np.dtype(dtype).kind == "f":
        return "int64"
    return "float64" if (name, dtype) == ("cumsum", "float64") else None


def source(name: str, dtype: str, last: bool) -> str:
    """The module that defines `run`; `last` when the axis is the innermost one."""
    besides, total = kept_besides(name, dtype), total_dtype(dtype)
    names: dict[str, kernel_file.Meaning] = {
        "ADDS": name == "cumsum",
        "BESIDES": {None: "nothing", "float64": "losses", "int64": "exponents"}[besides],
        "CHUNK_ELEMENTS": CHUNKS[besides],
        "SIZE": np.dtype(dtype).itemsize,
        "load_element": f"load_{dtype}",
        "store_element": f"store_{dtype}",
        "total_value": total,
        "value": computed(dtype),
    }
    if last:
        return kernel_file.specialized(
            "kernels/reduce/sources/cumulative_last",
            **names,
            LEAST_FACTOR=2.0**-MAX_ORDINARY_EXPONENT,
            MOST_FACTOR=2.0**MAX_ORDINARY_EXPONENT,
            load_other=f"load_{besides or total}",
            load_total=f"load_{total}",
        )
    return kernel_file.specialized(
        "kernels/reduce/sources/cumulative_across",
        **names,
        peek_other=f"peek_{besides or total}",
        peek_total=f"peek_{total}",
        store_other=f"store_{besides or total}",
        store_total=f"store_{total}",
    )
