"""Products of matrices."""

from kbench.engine.intrinsics.fma_tile import ADD, call_tile
from kbench.engine.intrinsics.memory import call_7
from kbench.engine.intrinsics.primitives import call_range, peek_int64
from kbench.engine.intrinsics.specialized import SIZE, parameters
from kbench.engine.jit.numba_backend import part, range_kernel
from kbench.engine.kernels.gemm.packing import claim, count_of

SWEEP = 16  # steps of the depth packed for all strips of a job before the next: they share pages


@part
def pack_bundle(job, b, packed, places, panel, bundle, bundles, deep, deeps, depth, columns, lanes,
                panels, padded, b_direct, b_depth, b_column):  # fmt: skip
    """Panels of the right operand, for all threads."""
    double = 2 * lanes
    rest = job // bundles
    first = b_direct + (job - rest * bundles) * bundle
    stack = rest // deeps
    k0 = (rest - stack * deeps) * deep
    kc = min(deep, depth - k0)
    source = b + peek_int64(places, 3 * stack + 4) + k0 * b_depth
    target = packed + (stack * depth + k0) * padded * SIZE
    for f in range(first, min(first + bundle, panels)):
        count = min(double, columns - f * double)
        call_7(panel, target + (f - b_direct) * double * kc * SIZE,
               source + f * double * b_column, kc, count, b_depth, b_column,
               double if count > lanes else lanes)  # fmt: skip


@part
def pack_own(matrix, right, panel, k0, kc, packed0, panel1, columns, lanes, b_depth, b_column):
    """Panels of the right operand, for one job."""
    double = 2 * lanes
    for k in range(0, kc, SWEEP):
        for f in range(packed0, panel1):
            count = min(double, columns - f * double)
            line = double if count > lanes else lanes
            call_7(panel, matrix + (f - packed0) * double * kc * SIZE + k * line * SIZE,
                   right + (k0 + k) * b_depth + f * double * b_column,
                   min(SWEEP, kc - k), count, b_depth, b_column, line)  # fmt: skip


@part
def pack_rows(area, left, panel, chunk0, k0, kc, tiles, share, longer, tall, a_row, a_depth):
    """Rows of the left operand; where its columns lie together, in sweeps over all tiles."""
    sweep = SWEEP if a_row == SIZE else kc
    for k in range(0, kc, sweep):
        row = chunk0
        target = area + k * tall * SIZE
        for tile_number in range(tiles):
            size = share + 1 if tile_number < longer else share
            call_7(panel, target, left + row * a_row + (k0 + k) * a_depth, min(sweep, kc - k), size,
                   a_depth, a_row, tall)  # fmt: skip
            target += tall * kc * SIZE
            row += size


@part
def multiply(to, area, left, right, matrix, places, wide, narrow, lanes, tall, columns, chunk0, k0,
             kc, tiles, share, longer, panel0, panel1, packed0, more, a_direct, a_row, a_depth,
             b_direct, b_depth, step_out):  # fmt: skip
    """Some rows of the result, panel by panel."""
    double = 2 * lanes
    for f in range(panel0, panel1):
        count = min(double, columns - f * double)
        line = double if count > lanes else lanes
        tile = wide if count > lanes else narrow
        if f < b_direct:
            strip = right + k0 * b_depth + f * double * SIZE
            step = b_depth
        else:
            strip = matrix + (f - packed0) * double * kc * SIZE
            step = line * SIZE
        row = chunk0
        source = area
        for tile_number in range(tiles):
            size = share + 1 if tile_number < longer else share
            target = to + row * step_out + f * double * SIZE
            if a_direct != 0:
                source = left + row * a_row + k0 * a_depth
                call_tile(tile, size, source, places, 1, kc, a_row, a_depth,
                          strip, step, target, step_out, count, more)  # fmt: skip
            else:
                call_tile(tile, size, source, places, 1, kc, SIZE, tall * SIZE,
                          strip, step, target, step_out, count, more)  # fmt: skip
                source += tall * kc * SIZE
            row += size


@range_kernel
def run(params, start, stop):
    (out, a, b, packed, scratch, claims, limit, after, after_params,  # by each run
     area_bytes, b_at, places,                     # scratch of a thread, offsets of the stacks
     wide, narrow, panel, lanes, most, tall,
     rows, columns, depth, deep, add,
     step_out, a_row, a_depth, b_depth, b_column,
     a_direct, b_direct,                 # whether A, and how many panels of B, are read in place
     packs, bundles, bundle, deeps, own,       # jobs that pack B, or each job for itself
     blocks, block, groups, group, chunk,      # jobs that multiply
    ) = parameters(params)  # fmt: skip
    area = scratch + start * area_bytes
    double = 2 * lanes
    panels = (columns + double - 1) // double
    padded = (columns + lanes - 1) // lanes * lanes - b_direct * double
    waiting = packs > 0
    while True:
        job = claim(claims)
        if job >= limit:
            break
        if job < packs:
            pack_bundle(job, b, packed, places, panel, bundle, bundles, deep, deeps, depth, columns,
                        lanes, panels, padded, b_direct, b_depth, b_column)  # fmt: skip
            claim(claims + 64)
            continue
        if waiting:
            while count_of(claims + 64) < packs:
                pass
            waiting = False
        rest = (job - packs) // blocks
        row0 = (job - packs - rest * blocks) * block
        row1 = min(row0 + block, rows)
        stack = rest // groups
        panel0 = (rest - stack * groups) * group
        panel1 = min(panel0 + group, panels)
        to = out + peek_int64(places, 3 * stack + 2)
        left = a + peek_int64(places, 3 * stack + 3)
        right = b + peek_int64(places, 3 * stack + 4)
        packed0 = max(b_direct, panel0) if own != 0 else b_direct
        for k0 in range(0, depth, deep):
            kc = min(deep, depth - k0)
            more = ADD if add + k0 > 0 else 0
            matrix = packed + (stack * depth + k0) * padded * SIZE
            if own != 0:
                matrix = area + b_at
                pack_own(matrix, right, panel, k0, kc, packed0, panel1, columns, lanes, b_depth,
                         b_column)  # fmt: skip
            for chunk0 in range(row0, row1, chunk):
                chunk1 = min(chunk0 + chunk, row1)
                tiles = (chunk1 - chunk0 + most - 1) // most
                share = (chunk1 - chunk0) // tiles
                longer = chunk1 - chunk0 - share * tiles
                if a_direct == 0:
                    pack_rows(area, left, panel, chunk0, k0, kc, tiles, share, longer, tall, a_row,
                              a_depth)  # fmt: skip
                multiply(to, area, left, right, matrix, places, wide, narrow, lanes, tall, columns,
                         chunk0, k0, kc, tiles, share, longer, panel0, panel1, packed0, more,
                         a_direct, a_row, a_depth, b_direct, b_depth, step_out)  # fmt: skip
        if after != 0:
            call_range(after, after_params, stack * rows + row0, stack * rows + row1)
