"""Gradient of a convolution to its kernel: sums over the places of the result, tap by tap.

Rows of the input are read through a table, and copied into a strip where columns outside of the
image have to be zeros, or an item has only some of the channels. Every size in the parameter block
is in elements unless its name says bytes.
"""

from kbench.engine.intrinsics.fma_tile import ADD, FAR, call_tile
from kbench.engine.intrinsics.memory import copy_bytes, give_back, take, zero_bytes
from kbench.engine.intrinsics.primitives import peek_int64, store_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import part, range_kernel
from kbench.engine.kernels.conv.input_row import columns_of, copy_row


@part
def pack(panels, source, count_places, filters, lanes, panel_places):
    """Bring rows of filters into panels as wide as a tile; what is beside them is zeros."""
    for n in range(0, filters, 2 * lanes):
        count = min(2 * lanes, filters - n)
        panel_row = (2 * lanes if count > lanes else lanes) * SIZE
        target = panels + n * panel_places * SIZE
        begin = source + n * SIZE
        for _place in range(count_places):
            copy_bytes(target, begin, count * SIZE)
            if count * SIZE < panel_row:
                zero_bytes(target + count * SIZE, panel_row - count * SIZE)
            target += panel_row
            begin += filters * SIZE


@part
def multiply(target, shift, table, used, places, length, most, tile, count, matrix, panel_row,
             step_in, step_out, mode):  # fmt: skip
    """Add the products of one tap's rows, for up to two vectors of filters."""
    tiles = (length + most - 1) // most
    share = length // tiles
    longer = length - share * tiles
    where = 0
    for tile_number in range(tiles):
        size = share + 1 if tile_number < longer else share
        call_tile(tile, size, shift + where * SIZE, table, used, places, SIZE, step_in, matrix,
                  panel_row, target + where * step_out, step_out, count, mode)  # fmt: skip
        where += size


@part
def tabulate_rows(table, strip, source, row0, row1, slices, places, lines, planes, tap, row_taps,
                  row_offsets, plane_offsets, row_stride, plane_stride, in_rows, in_planes, line,
                  left, first, last, extent, pixel, stride, direct):  # fmt: skip
    """Write where the input's row for each of the result's rows stands; gives how many are inside
    of the image. `line` is the bytes of a row of the input, of which `source` is the first."""
    across_planes = tap // row_taps
    plane_shift = peek_int64(plane_offsets, across_planes)
    row_shift = peek_int64(row_offsets, tap - across_planes * row_taps)
    used = 0
    for row in range(row0, row1):
        whole = row // slices
        plane = whole // lines
        from_row = (whole - plane * lines) * row_stride + row_shift
        image = plane // planes
        from_plane = (plane - image * planes) * plane_stride + plane_shift
        if from_row < 0 or from_row >= in_rows or from_plane < 0 or from_plane >= in_planes:
            continue
        from_line = source + ((image * in_planes + from_plane) * in_rows + from_row) * line
        begin = from_line + left * pixel
        if direct == 0:
            begin = strip + used * extent * stride
            if last <= first:
                continue
            copy_row(begin, from_line, left, first, last, extent, pixel, stride)
        store_int64(table, 2 * used, begin)
        store_int64(table, 2 * used + 1, (row - row0) * places)
        used += 1
    return used


@part
def multiply_tap(sums, table, used, places, length, most, wide, narrow, lanes, filters, source_g,
                 panels, panel_places, packs, runs, column_offsets, low, stride, step_in, channels,
                 mode):  # fmt: skip
    """Add the products of the rows in `table` with all filters, for each tap of their columns."""
    cell = filters * SIZE
    for n in range(0, filters, 2 * lanes):
        count = min(2 * lanes, filters - n)
        tile = wide if count > lanes else narrow
        matrix = source_g + n * SIZE
        panel_row = cell
        if packs != 0:
            matrix = panels + n * panel_places * SIZE
            panel_row = (2 * lanes if count > lanes else lanes) * SIZE
        for c in range(runs):
            shift = (peek_int64(column_offsets, c) - low) * stride
            multiply(sums + c * channels * cell + n * SIZE, shift, table, used, places, length,
                     most, tile, count, matrix, panel_row, step_in, cell, mode)  # fmt: skip


@range_kernel
def run(params, start, stop):
    (out, x, g, flags, areas, scratch, area_bytes,    # set by each call
     wide, narrow, lanes, most, table_at, panels_at,
     rows, each, together,                         # pieces: all, of a part, of a chunk
     slices, across,                               # pieces of a row, columns of one
     planes, lines, columns, filters,
     in_planes, in_rows, in_columns, channels,
     plane_stride, row_stride, column_stride,
     row_taps, column_taps, plane_offsets, row_offsets, column_offsets,
     low, width, direct, packs, joined,
     taps, bundle, bundles, block, blocks,
    ) = parameters(params)  # fmt: skip
    number = take(flags, areas)
    strip = scratch + number * area_bytes
    table = strip + table_at
    panels = strip + panels_at
    pixel = channels * SIZE
    cell = filters * SIZE
    reach = width - (columns - 1) * column_stride
    mode = ADD + FAR if taps * column_taps == 1 else ADD  # further taps find the rows in a cache
    for item in range(start, stop):
        rest = item // blocks
        channel = (item - rest * blocks) * block
        some = min(block, channels - channel)
        part_number = rest // bundles
        tap0 = (rest - part_number * bundles) * bundle
        tap1 = min(tap0 + bundle, taps)
        sums = out + part_number * taps * column_taps * channels * cell
        for tap in range(tap0 * column_taps, tap1 * column_taps):
            zero_bytes(sums + (tap * channels + channel) * cell, some * cell)
        stride = pixel if direct != 0 else some * SIZE
        length = column_taps * channels if joined != 0 else some
        runs = 1 if joined != 0 else column_taps
        end = min(rows, (part_number + 1) * each)
        for row0 in range(part_number * each, end, together):
            row1 = min(end, row0 + together)
            # Rows are cut only where a chunk is one piece, so all pieces of a chunk are alike.
            column0 = (row0 - row0 // slices * slices) * across
            places, left, extent, first, last = columns_of(
                column0, across, columns, low, column_stride, reach, in_columns
            )
            source_g = g + (row0 // slices * columns + column0) * cell
            if packs != 0:
                pack(panels, source_g, (row1 - row0) * places, filters, lanes, together * across)
            for tap in range(tap0, tap1):
                used = tabulate_rows(table, strip, x + channel * SIZE, row0, row1, slices, places,
                                     lines, planes, tap, row_taps, row_offsets, plane_offsets,
                                     row_stride, plane_stride, in_rows, in_planes,
                                     in_columns * pixel, left, first, last, extent, pixel, stride,
                                     direct)  # fmt: skip
                if used == 0:
                    continue
                place = tap * column_taps * channels + channel
                multiply_tap(sums + place * cell, table, used, places, length, most, wide, narrow,
                             lanes, filters, source_g, panels, together * across, packs, runs,
                             column_offsets, low, stride, column_stride * stride, channels,
                             mode)  # fmt: skip
    give_back(flags, number)
