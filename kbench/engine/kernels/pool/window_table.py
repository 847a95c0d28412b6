"""The cells of a window as a table, for the loops over channels.

Only what compiles imports this.
"""

from __future__ import annotations

from kbench.engine.intrinsics.primitives import store_int64
from kbench.engine.jit.numba_backend import inline


@inline
def tabulate(table, source, row, column, row_window, column_window, in_rows, in_columns, pixel,
             top, bottom):  # fmt: skip
    """Write the cells of a window that are real, and whether they are in the strip."""
    count = 0
    for from_row in range(max(row, 0), min(row + row_window, in_rows)):
        line = source + from_row * in_columns * pixel
        own = 1 if from_row >= top and from_row < bottom else 0
        for from_column in range(max(column, 0), min(column + column_window, in_columns)):
            store_int64(table, 2 * count, line + from_column * pixel)
            store_int64(table, 2 * count + 1, own)
            count += 1
    return count
