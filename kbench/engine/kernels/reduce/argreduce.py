"""Library kernels that find where the largest or smallest value stands; the first one, NaN first.

Along the last axis the largest value of each chunk is found with SIMD, and only the winning chunk
is searched for its place. Across rows, value and place of each column are kept side by side.
"""

from __future__ import annotations

from kbench.engine.codegen.writers.typed_expr import computed
from kbench.engine.codegen.writers.writer import bits_of
from kbench.engine.jit import kernel_file


def source(name: str, dtype: str, last: bool) -> str:
    """The module that defines `run`; bool arrays are read as uint8."""
    value = computed(dtype)
    names = {
        "load_element": f"load_{dtype}",
        "store_value": f"store_{value}",
        "FINDS_LARGEST": name == "argmax",
    }
    if last:
        side = "maximum" if name == "argmax" else "minimum"
        better = f"{side}_{'float' if value[0] == 'f' else 'int'}"
        return kernel_file.specialized(
            "kernels/reduce/sources/argreduce_last", **names, better_of=better, value=value
        )
    return kernel_file.specialized(
        "kernels/reduce/sources/argreduce_across",
        **names,
        peek_value=f"peek_{value}",
        scratch_values=f"scratch_{bits_of(value)}",
    )
