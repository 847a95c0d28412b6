"""Sources of the pooling kernels, over arrays seen as [outer, depth, rows, cols, inner].

The kernels that gather own a row of the result; those that scatter own a strip of the input's
rows and visit every window that reaches into it, so that no two threads write to one cell and
each cell adds up in the same order on any number of threads. Lanes are the innermost cells of
one window, or, where these are few, the same cell of neighbouring windows.
"""

from __future__ import annotations

from kbench.engine.jit import kernel_file

GATHER, SCATTER = "kernels/pool/sources/gather", "kernels/pool/sources/scatter"

SCRATCH_LANES = 4096
"""Lanes whose running values fit the scratch of one item."""


def source(name: str, dtype: str, wide: bool) -> str:
    """The module that defines `run(params, first item, end item)`.

    Arguments:
        name: "max", "average", "max_gradient" or "spread".
        wide: whether lanes are neighbouring windows, or rows and columns go one after the other.
    """
    bits = int(dtype[-2:])
    names = {
        "IN_ROWS": wide,
        "load_element": f"load_{dtype}",
        "peek_element": f"peek_{dtype}",
        "scratch_values": f"scratch_{bits}",
        "store_element": f"store_{dtype}",
        "value": dtype,
    }
    if name in ("max_gradient", "spread"):
        to_largest = name == "max_gradient"
        return kernel_file.specialized(
            SCATTER, **names, SCRATCH_LANES=SCRATCH_LANES, SIZE=bits // 8, TO_LARGEST=to_largest
        )
    join = "largest" if name == "max" else "plus"
    return kernel_file.specialized(GATHER, **names, MAY_DIVIDE=name == "average", join=join)


def fields() -> tuple[str, ...]:
    """The parameter block of both: `y` is written, `h` has the largest values of the windows."""
    return kernel_file.parameters_of(GATHER)
