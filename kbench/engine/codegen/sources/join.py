"""Library kernel: the sum of rows, by halves, which may be divided."""

from kbench.engine.intrinsics.specialized import (
    element,
    parameters,
    peek_total,
    store_element,
    store_total,
    total_value,
)
from kbench.engine.jit.numba_backend import exact_kernel


@exact_kernel
def run(params, start, stop):
    out, parts, room, count, width, divisor = parameters(params)
    source = parts
    while True:  # as `joined` of `codegen/join_kernels.py`
        half = (count + 1) // 2
        for number in range(half):
            here, there = number * width, (half + number) * width
            if half + number < count:
                for i in range(start, stop):
                    total = peek_total(source, here + i) + peek_total(source, there + i)
                    store_total(room, here + i, total)
            elif source == parts:
                for i in range(start, stop):
                    store_total(room, here + i, peek_total(source, here + i))
        source, count = room, half
        if count == 1:
            break
    for i in range(start, stop):
        total = peek_total(room, i)
        if divisor > 1:
            total = total_value(total / divisor)
        store_element(out, i, element(total))
