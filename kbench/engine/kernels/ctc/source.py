"""The sources of the CTC kernels: the cost of rows, and its slope.

A probability is kept as m 2^e, two float64 numbers of which e is whole: it can be as small as the
logarithm of it could say, and sums and products take no exponential and no logarithm. What cannot
be is e = minus infinity, whatever m; what is not known is e = NaN. The m of a state grows or
shrinks by less than a factor of ten in a step, and is set back to [1, 2) after every few.
"""

from __future__ import annotations

from kbench.engine.jit import kernel_file

PADDED_LANES = 8
"""Numbers to which states and classes are filled up: the rest of a loop is slow."""


def source(name: str, dtype: str) -> str:
    """The module that defines `run(params, first row, end row)`; see `ctc.find` for its fields."""
    return kernel_file.specialized(
        "kernels/ctc/sources/ctc",
        FORM=name,
        element=dtype,
        load_element=f"load_{dtype}",
        store_element=f"store_{dtype}",
    )


def scratch(name: str, time: int, classes: int, states: int) -> int:
    """float64 numbers that one row works in."""
    many = -(-classes // PADDED_LANES) * PADDED_LANES
    size = 2 * (states + 2) + 3 * many
    if name == "cost":
        return size + 4 * (states + 2)
    return size + (4 + 2 * (time + 1)) * (states + 2) + many + 3 * time + 2
