"""Convolution, or its gradient to the input, which is one too.

Each row of the result is the sum over taps of shifted rows of the input times the tap's matrix.
Rows are read through a table, so that those outside of the image are left out. Columns outside are
zeros in a strip, a copy of the few rows that an item needs. Every size in the parameter block is in
elements unless its name says bytes.
"""

from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.memory import call_8, give_back, take, zero_bytes
from kbench.engine.intrinsics.primitives import peek_int64, store_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import part, range_kernel
from kbench.engine.kernels.conv.input_row import columns_of, copy_row

MAX_DEPTH = 1024
"""Products that are added one after the other, as in a product of matrices."""
NEAR_BYTES = 1 << 14
"""Input that stays in the first cache while the panels of weights meet it."""
BLOCK_STEPS = 4
"""Depths that blocks of places are computed for are multiples of this: see `conv/block_tile`."""


@part
def multiply_blocks(target, table, taps, n0, n1, places, most, whole, wide, narrow, lanes, filters,
                    packed, depth, mode, step_in, step_out):  # fmt: skip
    """Some filters of the full blocks of places of a row, if one tap is all; gives their places."""
    done = 0
    if taps == 1 and depth % BLOCK_STEPS == 0 and n1 - n0 >= 2 * lanes:
        done = places - places % most
    source = peek_int64(table, 0)
    near = most * max(1, NEAR_BYTES // (most * step_in))
    for begin in range(0, done, near):
        end = min(begin + near, done)
        for n in range(n0, n1, 2 * lanes):
            count = min(2 * lanes, filters - n)
            panel = packed + n * depth * SIZE
            goal = target + n * SIZE
            if count == 2 * lanes:
                call_8(whole, (end - begin) // most, source + begin * step_in, step_in, depth,
                       panel, goal + begin * step_out, step_out, mode)  # fmt: skip
                continue
            tile = wide if count > lanes else narrow
            panel_row = (2 * lanes if count > lanes else lanes) * SIZE
            for where in range(begin, end, most):
                call_tile(tile, most, where * step_in, table, 1, depth, step_in, SIZE, panel,
                          panel_row, goal + where * step_out, step_out, count, mode)  # fmt: skip
    return done


@part
def forget_rows(seen, count):
    """The strip holds no row yet."""
    for place in range(count):
        store_int64(seen, place, -1)


@part
def keep_row(seen, key, used, strip, source, left, first, last, extent, pixel):
    """Where a row stands in the strip, and how many do: it is copied when it is first needed."""
    slot = peek_int64(seen, key)
    if slot < 0:
        slot = used
        used += 1
        store_int64(seen, key, slot)
        begin = strip + slot * extent * pixel
        copy_row(begin, source, left, first, last, extent, pixel, pixel)
    return strip + slot * extent * pixel, used


@part
def tabulate(table, place, begin, tap, column_taps, column_offsets, low, pixel, depth):
    """Write the taps of a row, which begins where its `low` column stands."""
    for c in range(column_taps):
        shift = (peek_int64(column_offsets, c) - low) * pixel
        store_int64(table, 2 * (place + c), begin + shift)
        store_int64(table, 2 * (place + c) + 1, (tap + c) * depth)


@part
def clear(target, n0, n1, places, step_out):
    """Zeros for some filters of a row of the result."""
    for place in range(places):
        zero_bytes(target + place * step_out + n0 * SIZE, (n1 - n0) * SIZE)


@part
def multiply(target, table, count_taps, taps, n0, n1, where, places, most, wide, narrow, lanes,
             filters, packed, depth, mode, step_in, step_out):  # fmt: skip
    """Some filters of a row of the result from place `where` on.

    A sum is made in blocks of taps, for its error.
    """
    together_taps = max(1, MAX_DEPTH // depth)
    blocks = (places - where + most - 1) // most
    share = (places - where) // max(1, blocks)
    longer = places - where - share * blocks
    for block in range(blocks):
        size = share + 1 if block < longer else share
        for n in range(n0, n1, 2 * lanes):
            count = min(2 * lanes, filters - n)
            tile = wide if count > lanes else narrow
            panel_row = (2 * lanes if count > lanes else lanes) * SIZE
            for tap0 in range(0, count_taps, together_taps):
                some = min(together_taps, count_taps - tap0)
                way = mode if some == count_taps else (1 if tap0 > 0 else 0)
                call_tile(tile, size, where * step_in, table + 16 * tap0, some, depth, step_in,
                          SIZE, packed + n * taps * depth * SIZE, panel_row,
                          target + where * step_out + n * SIZE, step_out, count, way)  # fmt: skip
        where += size


@part
def tabulate_row(table, strip, seen, used, image_planes, plane, row, left, first, last, extent,
                 plane_taps, row_taps, column_taps, plane_offsets, row_offsets, column_offsets,
                 in_planes, in_rows, line, span, low, pixel, depth, direct):  # fmt: skip
    """Write the taps that a row of the result has inside of the image; gives their number, and how
    many rows the strip then holds. `plane` and `row` are those of the input that offsets are added
    to, `image_planes` is where the planes of the image begin, and `seen` has `span` rows of each
    tap of a plane."""
    count = 0
    for a in range(plane_taps):
        from_plane = plane + peek_int64(plane_offsets, a)
        if from_plane < 0 or from_plane >= in_planes:
            continue
        for b in range(row_taps):
            row_shift = peek_int64(row_offsets, b)
            from_row = row + row_shift
            if from_row < 0 or from_row >= in_rows:
                continue
            source = image_planes + (from_plane * in_rows + from_row) * line
            if direct != 0:
                begin = source + left * pixel
            else:
                begin, used = keep_row(seen, a * span + row_shift, used, strip, source, left, first,
                                       last, extent, pixel)  # fmt: skip
            tabulate(table, count, begin, (a * row_taps + b) * column_taps, column_taps,
                     column_offsets, low, pixel, depth)  # fmt: skip
            count += column_taps
    return count, used


@part
def multiply_rows(lines, done, table, taps, begin, end, beside, places, most, whole, wide, narrow,
                  lanes, filters, packed, depth, mode, step_in, step_out):  # fmt: skip
    """Filters of all rows of an item, `beside` of them at a time, from `begin` to `end`.

    `lines` says how many taps each row has, and its place.
    """
    for n0 in range(begin, end, beside):
        n1 = min(n0 + beside, end)
        for row in range(done):
            count_taps = peek_int64(lines, 2 * row)
            target = peek_int64(lines, 2 * row + 1)
            if count_taps == 0:
                clear(target, n0, n1, places, step_out)
                continue
            own = table + 16 * row * taps
            where = multiply_blocks(target, own, taps, n0, n1, places, most, whole, wide, narrow,
                                    lanes, filters, packed, depth, mode, step_in,
                                    step_out)  # fmt: skip
            multiply(target, own, count_taps, taps, n0, n1, where, places, most, wide, narrow,
                     lanes, filters, packed, depth, mode, step_in, step_out)  # fmt: skip


@range_kernel
def run(params, start, stop):
    (out, x, packed, flags, areas, scratch, area_bytes,    # set by each call
     wide, narrow, lanes, most, whole, seen_at, table_at, row_at,
     planes, rows, columns,                        # of the output, within its phase
     plane_step, row_step, column_step,            # how far one of them is from the next
     plane_phase, row_phase, column_phase,
     out_planes, out_rows, out_columns, filters, in_planes, in_rows, in_columns, channels,
     plane_stride, row_stride, column_stride,
     plane_taps, row_taps, column_taps, plane_offsets, row_offsets, column_offsets,
     low, width, direct, depth, lowest, span,
     images, height, chunks, together, groups, bundle, beside, across, slices, past,
    ) = parameters(params)  # fmt: skip
    number = take(flags, areas)
    strip = scratch + number * area_bytes
    seen = strip + seen_at
    table = strip + table_at
    lines = strip + row_at
    taps = plane_taps * row_taps * column_taps
    pixel = channels * SIZE
    cell = filters * SIZE
    reach = width - (columns - 1) * column_stride
    mode = 2 if past != 0 and out % 64 == 0 and cell % 64 == 0 else 0
    for item in range(start, stop):
        rest = item // slices
        column0 = (item - rest * slices) * across
        places, left, extent, first, last = columns_of(
            column0, across, columns, low, column_stride, reach, in_columns
        )
        piece = rest // chunks
        row0 = (rest - piece * chunks) * height
        row1 = min(row0 + height, rows)
        bundle_number = piece // groups
        plane0 = (piece - bundle_number * groups) * together
        plane1 = min(plane0 + together, images * planes)
        used = done = 0
        forget_rows(seen, (plane1 - plane0) * plane_taps * span)
        for plane in range(plane0, plane1):
            image = plane // planes
            z = plane - image * planes
            for row in range(row0, row1):
                key = (plane - plane0) * plane_taps * span + (row - row0) * row_stride - lowest
                count, used = tabulate_row(
                    table + 16 * done * taps, strip, seen + 8 * key, used,
                    x + image * in_planes * in_rows * in_columns * pixel, z * plane_stride,
                    row * row_stride, left, first, last, extent, plane_taps, row_taps, column_taps,
                    plane_offsets, row_offsets, column_offsets, in_planes, in_rows,
                    in_columns * pixel, span, low, pixel, depth, direct,
                )  # fmt: skip
                to_plane = image * out_planes + z * plane_step + plane_phase
                to_row = to_plane * out_rows + row * row_step + row_phase
                to_column = column0 * column_step + column_phase
                store_int64(lines, 2 * done, count)
                store_int64(lines, 2 * done + 1, out + (to_row * out_columns + to_column) * cell)
                done += 1
        begin = bundle_number * bundle * 2 * lanes
        end = min(begin + bundle * 2 * lanes, filters)
        multiply_rows(lines, done, table, taps, begin, end, beside * 2 * lanes, places, most, whole,
                      wide, narrow, lanes, filters, packed, depth, mode, column_stride * pixel,
                      column_step * cell)  # fmt: skip
    give_back(flags, number)
