"""The tiles of convolutions: two vectors wide, and one."""

from kbench.engine.intrinsics.fma_tile import geometry, tiles
from kbench.engine.intrinsics.specialized import DTYPE
from kbench.engine.jit.numba_backend import entry
from kbench.engine.kernels.conv.block_tile import blocks

LANES, ROWS = geometry(DTYPE)
_two = tiles(DTYPE, LANES, ROWS, 2)
_one = tiles(DTYPE, LANES, ROWS, 1)
_blocks = blocks(DTYPE, LANES, ROWS)


@entry(2)
def wide(m, block):
    _two(m, block)


@entry(2)
def narrow(m, block):
    _one(m, block)


@entry(8)
def whole(count, a, step_m, depth, b, c, step_c, past):
    _blocks(count, a, step_m, depth, b, c, step_c, past)
