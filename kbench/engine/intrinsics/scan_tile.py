"""What compiled loops are made of: rows times a packed matrix, and a fence between their parts.

Only what compiles imports this: it loads LLVM.
"""

from __future__ import annotations

from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.jit.numba_backend import inline, intrinsic, types


@intrinsic
def compiler_fence(typing):
    """What follows reads what was written before; nothing for the machine to do.

    Loads and stores of kernels are declared to be free of each other (see `primitives`), which
    holds within one run over the columns, not from one to the next.
    """

    def codegen(context, builder, signature, arguments):
        builder.fence("seq_cst", "singlethread")
        return context.get_dummy_value()

    return types.void(), codegen


@inline
def multiply_rows(wide, narrow, lanes, most, table, size, a, step_a, rows, depth, packed, columns,
                  c, step_c):  # fmt: skip
    """C = A B for `rows` rows, B packed in panels of two vectors (see
    `kernels/conv/sources/pack`).

    A panel stays in the cache while all rows go over it.
    """
    blocks = (rows + most - 1) // most
    share = rows // blocks
    longer = rows - share * blocks
    for n in range(0, columns, 2 * lanes):
        count = min(2 * lanes, columns - n)
        tile = wide if count > lanes else narrow
        panel_row = (2 * lanes if count > lanes else lanes) * size
        matrix = packed + n * depth * size
        row = 0
        for block in range(blocks):
            some = share + 1 if block < longer else share
            call_tile(tile, some, a + row * step_a, table, 1, depth, step_a, size, matrix,
                      panel_row, c + row * step_c + n * size, step_c, count, 0)  # fmt: skip
            row += some
