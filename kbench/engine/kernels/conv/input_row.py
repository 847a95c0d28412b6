"""The columns of the input that a piece of a row of the result needs, and a copy of them.

Only what compiles imports this.
"""

from __future__ import annotations

from kbench.engine.intrinsics.memory import copy_bytes, zero_bytes
from kbench.engine.jit.numba_backend import part


@part
def columns_of(column, across, columns, low, stride, reach, in_columns):
    """What a piece that begins at `column` has: its places, the column of the input where it
    begins, how many it needs, and the first one and the end of those inside of the image."""
    places = min(across, columns - column)
    left = low + column * stride
    extent = (places - 1) * stride + reach
    first = max(left, 0)
    last = min(left + extent, in_columns)
    return places, left, extent, first, last


@part
def copy_row(target, source, left, first, last, extent, pixel, stride):
    """Copy `stride` bytes of each pixel of a row; pixels outside of the image are zeros."""
    if last <= first:
        zero_bytes(target, extent * stride)
    else:
        zero_bytes(target, (first - left) * stride)
        inside = target + (first - left) * stride
        if stride == pixel:
            copy_bytes(inside, source + first * pixel, (last - first) * pixel)
        else:
            for column in range(first, last):
                copy_bytes(inside + (column - first) * stride, source + column * pixel, stride)
        zero_bytes(inside + (last - first) * stride, (left + extent - last) * stride)
