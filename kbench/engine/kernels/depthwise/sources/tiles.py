"""The inner loops of depthwise convolution."""

from kbench.engine.intrinsics.fma_tile import geometry
from kbench.engine.intrinsics.specialized import DTYPE
from kbench.engine.jit.numba_backend import entry
from kbench.engine.kernels.depthwise.tile import dots, sums

LANES = geometry(DTYPE)[0]
_sums = sums(DTYPE, LANES)
_dots = dots(DTYPE, LANES)


@entry(9)
def pixels(count, blocks, table, taps, step_x, weights, out, step_out, channels):
    _sums(count, blocks, table, taps, step_x, weights, out, step_out, channels)


@entry(7)
def products(x, step_x, g, step_g, count, totals, channels):
    _dots(x, step_x, g, step_g, count, totals, channels)
