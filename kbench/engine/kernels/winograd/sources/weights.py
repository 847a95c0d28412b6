"""Transforms of all channels and filters of a 3x3 kernel of float32, or back."""

from kbench.engine.intrinsics.memory import call_6
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import range_kernel


@range_kernel
def run(params, start, stop):
    source, target, transform, row, column, plane, count, chunk = parameters(params)
    for item in range(start, stop):
        first = item * chunk
        call_6(transform, source + first * SIZE, target + first * SIZE, row, column, plane,
               min(chunk, count - first))  # fmt: skip
