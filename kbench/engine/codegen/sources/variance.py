"""Library kernel: the variance of all, from means of parts and the squares about these."""

from kbench.engine.intrinsics.primitives import load_float64, peek_float64, store_float64
from kbench.engine.intrinsics.specialized import element, parameters, store_element
from kbench.engine.jit.numba_backend import exact_kernel


@exact_kernel
def run(params, start, stop):
    out, means, squares, counts, room, count, width = parameters(params)
    moved, within, between = room, room + width * 8, room + width * 16
    many = 0.0
    for number in range(count):
        many += load_float64(counts, number)
    for i in range(start, stop):
        store_float64(moved, i, 0.0)
        store_float64(within, i, 0.0)
        store_float64(between, i, 0.0)
    for number in range(count):
        weight, here = load_float64(counts, number), number * width
        for i in range(start, stop):
            away = load_float64(means, here + i) - load_float64(means, i)
            store_float64(moved, i, peek_float64(moved, i) + away * weight)
            found = peek_float64(within, i) + load_float64(squares, here + i)
            store_float64(within, i, found)
    for i in range(start, stop):
        store_float64(moved, i, load_float64(means, i) + peek_float64(moved, i) / many)
    for number in range(count):
        weight, here = load_float64(counts, number), number * width
        for i in range(start, stop):
            apart = load_float64(means, here + i) - peek_float64(moved, i)
            store_float64(between, i, peek_float64(between, i) + apart * apart * weight)
    for i in range(start, stop):
        whole = peek_float64(within, i) + peek_float64(between, i)
        store_element(out, i, element(whole / many))
