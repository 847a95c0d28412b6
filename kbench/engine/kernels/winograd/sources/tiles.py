"""The transforms of Winograd's convolution in float32."""

from kbench.engine.intrinsics.fma_tile import geometry
from kbench.engine.jit.numba_backend import entry
from kbench.engine.kernels.winograd.tile import transform

LANES = geometry("float32")[0]
_into = transform("into", "float32", LANES)
_back = transform("back", "float32", LANES)
_spread = transform("spread", "float32", LANES)
_weights = transform("weights", "float32", LANES)
_totals = transform("totals", "float32", LANES)


@entry(6)
def into(source, target, row, column, plane, channels):
    _into(source, target, row, column, plane, channels)


@entry(6)
def back(source, target, row, column, plane, channels):
    _back(source, target, row, column, plane, channels)


@entry(6)
def spread(source, target, row, column, plane, channels):
    _spread(source, target, row, column, plane, channels)


@entry(6)
def weights(source, target, row, column, plane, channels):
    _weights(source, target, row, column, plane, channels)


@entry(6)
def totals(source, target, row, column, plane, channels):
    _totals(source, target, row, column, plane, channels)
