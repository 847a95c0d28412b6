"""Strips of matrices, turned and padded to the width of a tile."""

from kbench.engine.intrinsics.fma_tile import geometry
from kbench.engine.intrinsics.memory import zero_bytes
from kbench.engine.intrinsics.specialized import DTYPE, SIZE, peek_element, store_element
from kbench.engine.jit.numba_backend import entry
from kbench.engine.kernels.gemm.packing import row_copier, turner

LANES = geometry(DTYPE)[0]
_turn = turner(DTYPE, LANES)
_copy_one = row_copier(DTYPE, LANES, 1)
_copy_two = row_copier(DTYPE, LANES, 2)


@entry(7)
def panel(target, source, depth, count, step_k, step_n, width):
    line = width * SIZE
    done = 0
    if step_n == SIZE and width == LANES:
        _copy_one(target, source, depth, step_k, count)
        return
    if step_n == SIZE and width == 2 * LANES:
        _copy_two(target, source, depth, step_k, count)
        return
    if step_k == SIZE:
        done = depth // LANES * LANES
        for n in range(0, width, LANES):
            for k in range(0, done, LANES):
                if n < count:
                    _turn(target + k * line + n * SIZE, line,
                          source + n * step_n + k * SIZE, step_n, count - n)  # fmt: skip
    for k in range(done, depth):
        for n in range(count):
            value = peek_element(source + n * step_n + k * step_k, 0)
            store_element(target + k * line, n, value)
        zero_bytes(target + k * line + count * SIZE, line - count * SIZE)
