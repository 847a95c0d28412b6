"""Library kernel of kbench: where the largest or the smallest value of each column stands."""

from kbench.engine.intrinsics.primitives import (
    field,
    peek_int64,
    scratch_64,
    select,
    store_int64,
)
from kbench.engine.intrinsics.specialized import (
    FINDS_LARGEST,
    load_element,
    peek_value,
    scratch_values,
    store_value,
)
from kbench.engine.jit.numba_backend import range_kernel


@range_kernel
def run(params, start, stop):
    values = field(params, 0)
    places = field(params, 1)
    x = field(params, 2)
    n = field(params, 3)
    width = field(params, 4)
    blocks = field(params, 5)
    reduced = field(params, 6)
    rows = field(params, 7)
    pieces = field(params, 8)
    outer = field(params, 9)
    best = scratch_values()
    where = scratch_64()
    for item in range(start, stop):
        rest = item // blocks
        first = (item - rest * blocks) * width
        size = min(first + width, n) - first
        place = rest // pieces
        piece = rest - place * pieces
        begin = piece * rows
        base = (place * reduced + begin) * n + first
        for j in range(size):
            store_value(best, j, load_element(x, base + j))
            store_int64(where, j, begin)
        for row in range(begin + 1, min(begin + rows, reduced)):
            base = (place * reduced + row) * n + first
            for j in range(size):
                old = peek_value(best, j)
                new = load_element(x, base + j)
                if FINDS_LARGEST:
                    wins = (new > old) | ((new != new) & (old == old))
                else:
                    wins = (new < old) | ((new != new) & (old == old))
                store_value(best, j, select(wins, new, old))
                store_int64(where, j, select(wins, row, peek_int64(where, j)))
        base = (piece * outer + place) * n + first
        for j in range(size):
            store_value(values, base + j, peek_value(best, j))
            store_int64(places, base + j, peek_int64(where, j))
