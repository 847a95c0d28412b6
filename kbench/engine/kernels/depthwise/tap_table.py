"""The taps of a place as a table, for the loops over channels.

Only what compiles imports this.
"""

from __future__ import annotations

from kbench.engine.intrinsics.primitives import peek_int64, store_int64
from kbench.engine.jit.numba_backend import inline


@inline
def tabulate(table, column, row, in_rows, in_columns, pixel, row_taps, column_taps, row_offsets,
             column_offsets, row_index, column_index, window):  # fmt: skip
    """Write the taps of an output place that lie inside, as seen from it; gives their number."""
    count = 0
    for a in range(row_taps):
        down = peek_int64(row_offsets, a)
        if row + down < 0 or row + down >= in_rows:
            continue
        first = peek_int64(row_index, a) * window
        for b in range(column_taps):
            along = peek_int64(column_offsets, b)
            if column + along < 0 or column + along >= in_columns:
                continue
            store_int64(table, 2 * count, (down * in_columns + along) * pixel)
            tap = first + peek_int64(column_index, b)
            store_int64(table, 2 * count + 1, tap * pixel)
            count += 1
    return count
