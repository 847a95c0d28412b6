"""Library kernel of kbench: rows added up by index, column by column.

Some rows may have totals in float64: those whose number in `slots` is `FIRST_SLOT` or more.
"""

from kbench.engine.intrinsics.primitives import (
    field,
    load_int64,
    peek_float64,
    peek_int32,
    store_float64,
)
from kbench.engine.intrinsics.specialized import (
    FIRST_SLOT,
    HAS_SLOTS,
    load_element,
    peek_total,
    store_total,
    total_value,
)
from kbench.engine.jit.numba_backend import range_kernel


@range_kernel
def run(params, start, stop):
    y = field(params, 0)
    g = field(params, 1)
    rows = field(params, 2)
    width = field(params, 3)
    count = field(params, 4)
    span = field(params, 5)
    if HAS_SLOTS:
        slots = field(params, 6)
        exact = field(params, 7)
    for item in range(start, stop):
        low = item * span
        high = min(low + span, width)
        for i in range(count):
            row = load_int64(rows, i)
            source = i * width
            if HAS_SLOTS:
                slot = peek_int32(slots, row) - FIRST_SLOT
                if slot >= 0:
                    for j in range(low, high):
                        place = slot * width + j
                        total = peek_float64(exact, place) + load_element(g, source + j)
                        store_float64(exact, place, total)
                    continue
            for j in range(low, high):
                place = row * width + j
                total = peek_total(y, place) + load_element(g, source + j)
                store_total(y, place, total_value(total))
