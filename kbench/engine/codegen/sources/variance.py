"""Library kernel: the variance of all, from means of parts and the squares about these."""

from kbench.engine.intrinsics.primitives import load_float64
from kbench.engine.intrinsics.specialized import element, parameters, store_element
from kbench.engine.jit.numba_backend import exact_kernel


@exact_kernel
def run(params, start, stop):
    out, means, squares, counts, count, width = parameters(params)
    many = 0.0
    for number in range(count):
        many += load_float64(counts, number)
    for i in range(start, stop):
        first, within, moved = load_float64(means, i), 0.0, 0.0
        for number in range(count):
            away = load_float64(means, number * width + i) - first
            moved += away * load_float64(counts, number)
            within += load_float64(squares, number * width + i)
        middle, between = first + moved / many, 0.0
        for number in range(count):
            apart = load_float64(means, number * width + i) - middle
            between += apart * apart * load_float64(counts, number)
        store_element(out, i, element((within + between) / many))
