"""Library kernels over the last axis of a matrix: softmax, log_softmax, logsumexp.

Each row is swept two or three times while it stays in the cache: the largest value, the sum of
exponentials against it, the result.
"""

from __future__ import annotations

from kbench.engine.codegen.typed_expr import computed, ending
from kbench.engine.jit import kernel_file


def source(name: str, dtype: str) -> str:
    """The module that defines `run(params, first row, end row)`; params are y, x, columns."""
    value = computed(dtype)
    return kernel_file.specialized(
        "kernels/reduce/sources/softmax",
        FORM=name,
        IS_WIDENED=value != dtype,
        exp_value=f"exp_{ending(value)}",
        load_element=f"load_{dtype}",
        peek_element=f"peek_{dtype}",
        store_element=f"store_{dtype}",
        value=value,
    )
