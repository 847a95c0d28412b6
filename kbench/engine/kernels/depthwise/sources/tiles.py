"""The inner loops of depthwise convolution."""

from kbench.engine.intrinsics.fma_tile import geometry
from kbench.engine.intrinsics.specialized import DTYPE
from kbench.engine.jit.numba_backend import entry
from kbench.engine.kernels.depthwise.tile import MOST_ROWS, dots, most_pixels, sums

LANES = geometry(DTYPE)[0]
ROWS, PIXELS = MOST_ROWS, most_pixels(DTYPE, LANES)
_sums = sums(DTYPE, LANES)
_dots = dots(DTYPE, LANES)


@entry(7)
def pixels(shape, blocks, x, out, table, taps, sizes):
    _sums(shape, blocks, x, out, table, taps, sizes)


@entry(8)
def products(taps, rows, pixels, x, g, table, totals, sizes):
    _dots(taps, rows, pixels, x, g, table, totals, sizes)
