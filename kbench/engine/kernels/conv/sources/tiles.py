"""The tiles of convolutions: two vectors wide, and one."""

from kbench.engine.intrinsics.fma_tile import geometry, tiles
from kbench.engine.intrinsics.specialized import DTYPE
from kbench.engine.jit.numba_backend import entry

LANES, ROWS = geometry(DTYPE)
_two = tiles(DTYPE, LANES, ROWS, 2)
_one = tiles(DTYPE, LANES, ROWS, 1)


@entry(2)
def wide(m, block):
    _two(m, block)


@entry(2)
def narrow(m, block):
    _one(m, block)
