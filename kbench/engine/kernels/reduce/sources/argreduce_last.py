"""Library kernel of kbench: where the largest or the smallest value of each row stands."""

from kbench.engine.intrinsics.primitives import field, store_int64
from kbench.engine.intrinsics.specialized import (
    FINDS_LARGEST,
    better_of,
    load_element,
    store_value,
    value,
)
from kbench.engine.jit.numba_backend import range_kernel

CHUNK_ELEMENTS = 256
"""Elements whose largest is found before it is looked for where it stands."""
SHORT_ROW_ELEMENTS = 48
"""Rows up to this length are searched one by one."""


@range_kernel
def run(params, start, stop):
    values = field(params, 0)
    places = field(params, 1)
    x = field(params, 2)
    n = field(params, 3)
    width = field(params, 4)
    blocks = field(params, 5)
    kept = field(params, 6)
    for item in range(start, stop):
        row = item // blocks
        block = item - row * blocks
        first = row * n + block * width
        last = row * n + min((block + 1) * width, n)
        best = load_element(x, first)
        where = first
        if last - first <= SHORT_ROW_ELEMENTS:
            for j in range(first + 1, last):
                new = load_element(x, j)
                if FINDS_LARGEST:
                    better = (new > best) | ((new != new) & (best == best))
                else:
                    better = (new < best) | ((new != new) & (best == best))
                best = new if better else best
                where = j if better else where
            store_value(values, block * kept + row, best)
            store_int64(places, block * kept + row, where - row * n)
            continue
        for low in range(first, last, CHUNK_ELEMENTS):
            top = load_element(x, low)
            for j in range(low, min(low + CHUNK_ELEMENTS, last)):
                top = value(better_of(top, load_element(x, j)))
            if FINDS_LARGEST:
                better = (top > best) | ((top != top) & (best == best))
            else:
                better = (top < best) | ((top != top) & (best == best))
            if better:
                best = top
                where = low
        for j in range(where, last):
            new = load_element(x, j)
            if (new == best) | (new != new):
                where = j
                break
        store_value(values, block * kept + row, best)
        store_int64(places, block * kept + row, where - row * n)
