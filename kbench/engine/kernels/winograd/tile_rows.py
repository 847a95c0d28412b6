"""Rows of tiles, as both of Winograd's kernels read them.

Only what compiles imports this.
"""

from __future__ import annotations

from kbench.engine.intrinsics.memory import call_6, copy_bytes, zero_bytes
from kbench.engine.jit.numba_backend import inline, part


@inline
def place_of(tile_row, tile_rows, row_apart, column_apart):
    """The image of a row of tiles, and its first row and column there.

    Windows that are dilated see pixels of one phase only, so that each phase is an image.
    """
    image = tile_row // tile_rows
    phase = image % (row_apart * column_apart)
    row = phase // column_apart + 4 * (tile_row - image * tile_rows) * row_apart
    return image // (row_apart * column_apart), row, phase % column_apart


@inline
def copy_pixels(target, source, count, apart, pixel):
    """Copy pixels of which every `apart`th is wanted."""
    each = max(count, 1) if apart == 1 else 1
    for n in range(0, count, each):
        copy_bytes(target + n * pixel, source + n * apart * pixel, each * pixel)


@part
def transform_rows(x, strip, values, into, tile0, tile1, tile_rows, tile_columns, row_apart,
                   column_apart, top, left, across, line, in_rows, in_columns, in_planes,
                   out_planes, front, taps, plane_apart, channels, pixel, value_bytes,
                   value_plane):  # fmt: skip
    """Bring the pixels of some rows of tiles into a strip, and transform them."""
    for tile_row in range(tile0, tile1):
        image, row0, column0 = place_of(tile_row, tile_rows, row_apart, column_apart)
        first = min(max((left - column0 + column_apart - 1) // column_apart, 0), across)
        last = (in_columns + left - column0 + column_apart - 1) // column_apart
        last = max(min(last, across), first)
        for tap in range(taps):
            plane = image % out_planes - front + tap * plane_apart
            outside = plane < 0 or plane >= in_planes or last == first
            for i in range(6):
                target = strip + i * line
                row = row0 - top + i * row_apart
                if outside or row < 0 or row >= in_rows:
                    zero_bytes(target, line)
                    continue
                source = (image // out_planes * in_planes + plane) * in_rows + row
                source = source * in_columns + column0 - left + first * column_apart
                zero_bytes(target, first * pixel)
                copy_pixels(target + first * pixel, x + source * pixel, last - first,
                            column_apart, pixel)  # fmt: skip
                zero_bytes(target + last * pixel, line - last * pixel)
            target = values + (tile_row - tile0) * tile_columns * value_bytes + tap * pixel
            for column in range(tile_columns):
                call_6(into, strip + 4 * column * pixel, target + column * value_bytes, line,
                       pixel, value_plane, channels)  # fmt: skip
