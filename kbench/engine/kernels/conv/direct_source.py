"""Sources of the convolution kernels, built around the tile (see `intrinsics/fma_tile`).

`gather` computes a convolution, or its gradient to the input, which is one too: each output row is
the sum over taps of shifted input rows times the tap's matrix. Rows are read through a table, so
that window rows outside of the image are left out; columns outside are zeros in a strip, a copy
of the few input rows that an item needs. `reduce` computes the gradient to the kernel. `pack`
brings the kernel into panels as wide as a tile.

Every size in the parameter block is in elements unless its name says bytes.
"""

from __future__ import annotations

TILES, PACK = "kernels/conv/sources/tiles", "kernels/conv/sources/pack"

GATHER_FIELDS = (
    "out", "x", "packed", "flags", "areas", "scratch", "area_bytes",    # set by each call
    "wide", "narrow", "lanes", "most", "seen_at", "table_at", "row_at",
    "planes", "rows", "columns",                        # of the output, within its phase
    "plane_step", "row_step", "column_step",            # how far one of them is from the next
    "plane_phase", "row_phase", "column_phase",
    "out_planes", "out_rows", "out_columns", "filters",
    "in_planes", "in_rows", "in_columns", "channels",
    "plane_stride", "row_stride", "column_stride",
    "plane_taps", "row_taps", "column_taps", "plane_offsets", "row_offsets", "column_offsets",
    "low", "width", "direct", "depth", "lowest", "span",
    "images", "height", "chunks", "together", "groups", "bundle", "beside", "across",
    "slices", "past",
)  # fmt: skip

MAX_DEPTH = 1024
"""Products that are added one after the other, as in a product of matrices."""

GATHER = '''"""Convolution of DTYPE through tables of rows."""
from kbench.engine.intrinsics.memory import copy_bytes, give_back, take, zero_bytes
from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.toolkit import field, peek_int64, range_kernel, store_int64


@range_kernel
def run(params, start, stop):
FIELDS
    number = take(flags, areas)
    strip = scratch + number * area_bytes
    seen = strip + seen_at
    table = strip + table_at
    lines = strip + row_at
    taps = plane_taps * row_taps * column_taps
    pixel = channels * SIZE
    reach = width - (columns - 1) * column_stride
    mode = 2 if past != 0 and out % 64 == 0 and filters * SIZE % 64 == 0 else 0
    together_taps = max(1, DEEP // depth)  # a sum is made in blocks, for its error
    for item in range(start, stop):
        rest = item // slices
        column0 = (item - rest * slices) * across
        places = min(across, columns - column0)
        left = low + column0 * column_stride
        extent = (places - 1) * column_stride + reach
        line = extent * pixel
        first = max(left, 0)
        last = min(left + extent, in_columns)
        blocks = (places + most - 1) // most
        share = places // blocks
        longer = places - share * blocks
        piece = rest // chunks
        row0 = (rest - piece * chunks) * height
        row1 = min(row0 + height, rows)
        part = piece // groups
        plane0 = (piece - part * groups) * together
        plane1 = min(plane0 + together, images * planes)
        used = 0
        done = 0
        for place in range((plane1 - plane0) * plane_taps * span):
            store_int64(seen, place, -1)
        for plane in range(plane0, plane1):
            image = plane // planes
            z = plane - image * planes
            for row in range(row0, row1):
                count = 0
                for a in range(plane_taps):
                    from_plane = z * plane_stride + peek_int64(plane_offsets, a)
                    if from_plane < 0 or from_plane >= in_planes:
                        continue
                    for b in range(row_taps):
                        row_shift = peek_int64(row_offsets, b)
                        from_row = row * row_stride + row_shift
                        if from_row < 0 or from_row >= in_rows:
                            continue
                        source = (image * in_planes + from_plane) * in_rows + from_row
                        source = x + source * in_columns * pixel
                        if direct != 0:
                            begin = source + left * pixel
                        else:
                            key = ((plane - plane0) * plane_taps + a) * span
                            key += (row - row0) * row_stride + row_shift - lowest
                            slot = peek_int64(seen, key)
                            if slot < 0:
                                slot = used
                                used += 1
                                store_int64(seen, key, slot)
                                target = strip + slot * line
                                if last <= first:
                                    zero_bytes(target, line)
                                else:
                                    zero_bytes(target, (first - left) * pixel)
                                    inside = target + (first - left) * pixel
                                    copy_bytes(inside, source + first * pixel,
                                               (last - first) * pixel)
                                    zero_bytes(inside + (last - first) * pixel,
                                               (left + extent - last) * pixel)
                            begin = strip + slot * line
                        for c in range(column_taps):
                            where = 2 * (done * taps + count)
                            shift = (peek_int64(column_offsets, c) - low) * pixel
                            store_int64(table, where, begin + shift)
                            tap = (a * row_taps + b) * column_taps + c
                            store_int64(table, where + 1, tap * depth)
                            count += 1
                to_plane = image * out_planes + z * plane_step + plane_phase
                to_row = to_plane * out_rows + row * row_step + row_phase
                to_column = column0 * column_step + column_phase
                target = out + (to_row * out_columns + to_column) * filters * SIZE
                store_int64(lines, 2 * done, count)
                store_int64(lines, 2 * done + 1, target)
                done += 1
        end = min((part + 1) * bundle * 2 * lanes, filters)
        for n0 in range(part * bundle * 2 * lanes, end, beside * 2 * lanes):
            n1 = min(n0 + beside * 2 * lanes, end)
            for row in range(done):
                count_taps = peek_int64(lines, 2 * row)
                target = peek_int64(lines, 2 * row + 1)
                where = 0
                if count_taps == 0:
                    for column in range(places):
                        zero_bytes(target + (column * column_step * filters + n0) * SIZE,
                                   (n1 - n0) * SIZE)
                    continue
                for block in range(blocks):
                    size = share + 1 if block < longer else share
                    for n in range(n0, n1, 2 * lanes):
                        count = min(2 * lanes, filters - n)
                        tile = wide if count > lanes else narrow
                        panel_row = (2 * lanes if count > lanes else lanes) * SIZE
                        for tap0 in range(0, count_taps, together_taps):
                            some = min(together_taps, count_taps - tap0)
                            way = mode if some == count_taps else (1 if tap0 > 0 else 0)
                            call_tile(tile, size, where * column_stride * pixel,
                                      table + 16 * (row * taps + tap0), some, depth,
                                      column_stride * pixel, SIZE,
                                      packed + n * taps * depth * SIZE, panel_row,
                                      target + (where * column_step * filters + n) * SIZE,
                                      column_step * filters * SIZE, count, way)
                    where += size
    give_back(flags, number)
'''

REDUCE_FIELDS = (
    "out", "x", "g", "flags", "areas", "scratch", "area_bytes",         # set by each call
    "wide", "narrow", "lanes", "most", "table_at", "panels_at",
    "rows", "each", "together",                         # pieces: all, of a part, of a chunk
    "slices", "across",                                 # pieces of a row, columns of one
    "planes", "lines", "columns", "filters",
    "in_planes", "in_rows", "in_columns", "channels",
    "plane_stride", "row_stride", "column_stride",
    "row_taps", "column_taps", "plane_offsets", "row_offsets", "column_offsets",
    "low", "width", "direct", "packs", "joined",
    "taps", "bundle", "bundles", "block", "blocks",
)  # fmt: skip

REDUCE = '''"""Gradient of a convolution of DTYPE to its kernel."""
from kbench.engine.intrinsics.memory import copy_bytes, give_back, take, zero_bytes
from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.toolkit import field, peek_int64, range_kernel, store_int64


@range_kernel
def run(params, start, stop):
FIELDS
    number = take(flags, areas)
    strip = scratch + number * area_bytes
    table = strip + table_at
    panels = strip + panels_at
    pixel = channels * SIZE
    reach = width - (columns - 1) * column_stride
    for item in range(start, stop):
        rest = item // blocks
        channel = (item - rest * blocks) * block
        some = min(block, channels - channel)
        part = rest // bundles
        tap0 = (rest - part * bundles) * bundle
        tap1 = min(tap0 + bundle, taps)
        sums = out + part * taps * column_taps * channels * filters * SIZE
        for tap in range(tap0, tap1):
            for c in range(column_taps):
                place = (tap * column_taps + c) * channels + channel
                zero_bytes(sums + place * filters * SIZE, some * filters * SIZE)
        stride = pixel if direct != 0 else some * SIZE
        length = column_taps * channels if joined != 0 else some
        runs = 1 if joined != 0 else column_taps
        tiles = (length + most - 1) // most
        share = length // tiles
        longer = length - share * tiles
        end = min(rows, (part + 1) * each)
        for row0 in range(part * each, end, together):
            row1 = min(end, row0 + together)
            # Rows are cut only where a chunk is one piece, so all pieces of a chunk are alike.
            column0 = (row0 - row0 // slices * slices) * across
            places = min(across, columns - column0)
            left = low + column0 * column_stride
            extent = (places - 1) * column_stride + reach
            first = max(left, 0)
            last = min(left + extent, in_columns)
            source_g = g + (row0 // slices * columns + column0) * filters * SIZE
            if packs != 0:
                for n in range(0, filters, 2 * lanes):
                    count = min(2 * lanes, filters - n)
                    panel_row = (2 * lanes if count > lanes else lanes) * SIZE
                    target = panels + n * together * across * SIZE
                    source = source_g + n * SIZE
                    for place in range((row1 - row0) * places):
                        copy_bytes(target, source, count * SIZE)
                        if count * SIZE < panel_row:
                            zero_bytes(target + count * SIZE, panel_row - count * SIZE)
                        target += panel_row
                        source += filters * SIZE
            for tap in range(tap0, tap1):
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
                    if from_row < 0 or from_row >= in_rows:
                        continue
                    if from_plane < 0 or from_plane >= in_planes:
                        continue
                    source = (image * in_planes + from_plane) * in_rows + from_row
                    source = x + (source * in_columns * channels + channel) * SIZE
                    begin = source + left * pixel
                    if direct == 0:
                        begin = strip + used * extent * stride
                        if last <= first:
                            continue
                        zero_bytes(begin, (first - left) * stride)
                        inside = begin + (first - left) * stride
                        if some == channels:
                            copy_bytes(inside, source + first * pixel, (last - first) * pixel)
                        else:
                            for column in range(first, last):
                                copy_bytes(inside + (column - first) * stride,
                                           source + column * pixel, stride)
                        zero_bytes(inside + (last - first) * stride,
                                   (left + extent - last) * stride)
                    store_int64(table, 2 * used, begin)
                    store_int64(table, 2 * used + 1, (row - row0) * places)
                    used += 1
                if used == 0:
                    continue
                for n in range(0, filters, 2 * lanes):
                    count = min(2 * lanes, filters - n)
                    tile = wide if count > lanes else narrow
                    matrix = source_g + n * SIZE
                    panel_row = filters * SIZE
                    if packs != 0:
                        matrix = panels + n * together * across * SIZE
                        panel_row = (2 * lanes if count > lanes else lanes) * SIZE
                    for c in range(runs):
                        begin = (peek_int64(column_offsets, c) - low) * stride
                        place = (tap * column_taps + c) * channels + channel
                        target = sums + (place * filters + n) * SIZE
                        where = 0
                        for tile_number in range(tiles):
                            size = share + 1 if tile_number < longer else share
                            call_tile(tile, size, begin + where * SIZE, table, used, places, SIZE,
                                      column_stride * stride, matrix, panel_row,
                                      target + where * filters * SIZE, filters * SIZE, count, 1)
                            where += size
    give_back(flags, number)
'''


def filled(text: str, dtype: str, fields: tuple[str, ...]) -> str:
    """A kernel's source for a dtype, with the names of its parameters."""
    lines = "\n".join(f"    {name} = field(params, {n})" for n, name in enumerate(fields))
    text = text.replace("FIELDS", lines).replace("DTYPE", dtype).replace("DEEP", str(MAX_DEPTH))
    return text.replace("SIZE", "4" if dtype == "float32" else "8")
