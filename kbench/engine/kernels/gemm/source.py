"""Sources of the matrix-product kernels, built around the tile (see `intrinsics/fma_tile`).

`panel` brings a strip of an operand into the order in which the tile reads it. `run` is called
once for each thread: all of them claim jobs from one counter until none is left, first those that
pack the right operand for everybody, then blocks of the result. A thread that comes late, or whose
core is busy with something else, takes fewer.

Names say rows, columns and depth of the product; every step is in bytes.
"""

from __future__ import annotations

from kbench.engine.jit import kernel_file

RUN = "kernels/gemm/sources/run"


def panel(dtype: str) -> str:
    """The source of `panel`."""
    return kernel_file.specialized(
        "kernels/gemm/sources/panel",
        DTYPE=dtype,
        SIZE=4 if dtype == "float32" else 8,
        peek_element=f"peek_{dtype}",
        store_element=f"store_{dtype}",
    )


def run(dtype: str) -> str:
    """The source of `run`."""
    return kernel_file.specialized(RUN, SIZE=4 if dtype == "float32" else 8)


def fields() -> tuple[str, ...]:
    """The parameters of `run`."""
    return kernel_file.parameters_of(RUN)
