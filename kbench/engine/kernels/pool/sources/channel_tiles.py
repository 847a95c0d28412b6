"""The inner loops of pooling, whose lanes are channels."""

from kbench.engine.intrinsics.fma_tile import geometry
from kbench.engine.intrinsics.specialized import DTYPE
from kbench.engine.jit.numba_backend import entry
from kbench.engine.kernels.pool.channel_tile import dealt, gathered, routed

LANES = geometry(DTYPE)[0]
_max = gathered("max", DTYPE, LANES, False)
_max_past = gathered("max", DTYPE, LANES, True)
_average = gathered("average", DTYPE, LANES, False)
_average_past = gathered("average", DTYPE, LANES, True)
_added = routed(DTYPE, LANES, True, False)
_written = routed(DTYPE, LANES, False, False)
_written_past = routed(DTYPE, LANES, False, True)
_shared = dealt(DTYPE, LANES, False)
_shared_past = dealt(DTYPE, LANES, True)


@entry(8)
def max(windows, table, taps, step_x, out, step_out, divides, channels):
    _max(windows, table, taps, step_x, out, step_out, divides, channels)


@entry(8)
def max_past(windows, table, taps, step_x, out, step_out, divides, channels):
    _max_past(windows, table, taps, step_x, out, step_out, divides, channels)


@entry(8)
def average(windows, table, taps, step_x, out, step_out, divides, channels):
    _average(windows, table, taps, step_x, out, step_out, divides, channels)


@entry(8)
def average_past(windows, table, taps, step_x, out, step_out, divides, channels):
    _average_past(windows, table, taps, step_x, out, step_out, divides, channels)


@entry(8)
def added(windows, table, taps, step_x, g, step_g, away, channels):
    _added(windows, table, taps, step_x, g, step_g, away, channels)


@entry(8)
def written(windows, table, taps, step_x, g, step_g, away, channels):
    _written(windows, table, taps, step_x, g, step_g, away, channels)


@entry(8)
def written_past(windows, table, taps, step_x, g, step_g, away, channels):
    _written_past(windows, table, taps, step_x, g, step_g, away, channels)


@entry(8)
def shared(windows, table, taps, step_x, g, step_g, away, channels):
    _shared(windows, table, taps, step_x, g, step_g, channels)


@entry(8)
def shared_past(windows, table, taps, step_x, g, step_g, away, channels):
    _shared_past(windows, table, taps, step_x, g, step_g, channels)
