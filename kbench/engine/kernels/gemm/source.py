"""Sources of the matrix-product kernels, built around the tile (see `intrinsics/fma_tile`).

`panel` brings a strip of an operand into the order in which the tile reads it. `run` is called
once for each thread: all of them claim jobs from one counter until none is left, first those that
pack the right operand for everybody, then blocks of the result. A thread that comes late, or whose
core is busy with something else, takes fewer.

Names say rows, columns and depth of the product; every step is in bytes.
"""

from __future__ import annotations

from kbench.engine.jit import kernel_file


def panel(dtype: str) -> str:
    """The source of `panel`."""
    return kernel_file.specialized(
        "kernels/gemm/sources/panel",
        DTYPE=dtype,
        SIZE=4 if dtype == "float32" else 8,
        peek_element=f"peek_{dtype}",
        store_element=f"store_{dtype}",
    )


FIELDS = (
    "out", "a", "b", "packed", "scratch", "claims", "limit", "after", "after_params",  # by each run
    "area_bytes", "b_at", "places",                     # scratch of a thread, offsets of the stacks
    "wide", "narrow", "panel", "lanes", "most", "tall",
    "rows", "columns", "depth", "deep", "add",
    "step_out", "a_row", "a_depth", "b_depth", "b_column",
    "a_direct", "b_direct",                 # whether A, and how many panels of B, are read in place
    "packs", "bundles", "bundle", "deeps", "own",       # jobs that pack B, or each job for itself
    "blocks", "block", "groups", "group", "chunk",      # jobs that multiply
)  # fmt: skip

RUN = '''"""Products of matrices of DTYPE."""
from kbench.engine.intrinsics.memory import call_7
from kbench.engine.intrinsics.fma_tile import ADD, call_tile
from kbench.engine.kernels.gemm.packing import claim, count_of
from kbench.engine.intrinsics.toolkit import call_range, field, peek_int64, range_kernel


SWEEP = 16  # rows that are packed for all panels of a job before the next: they share pages


@range_kernel
def run(params, start, stop):
FIELDS
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
                       double if count > lanes else lanes)
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
                for k in range(0, kc, SWEEP):
                    for f in range(packed0, panel1):
                        count = min(double, columns - f * double)
                        line = double if count > lanes else lanes
                        call_7(panel, matrix + (f - packed0) * double * kc * SIZE + k * line * SIZE,
                               right + (k0 + k) * b_depth + f * double * b_column,
                               min(SWEEP, kc - k), count, b_depth, b_column, line)
            for chunk0 in range(row0, row1, chunk):
                chunk1 = min(chunk0 + chunk, row1)
                tiles = (chunk1 - chunk0 + most - 1) // most
                share = (chunk1 - chunk0) // tiles
                longer = chunk1 - chunk0 - share * tiles
                if a_direct == 0:
                    row = chunk0
                    target = area
                    for tile_number in range(tiles):
                        size = share + 1 if tile_number < longer else share
                        call_7(panel, target, left + row * a_row + k0 * a_depth, kc, size,
                               a_depth, a_row, tall)
                        target += tall * kc * SIZE
                        row += size
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
                                      strip, step, target, step_out, count, more)
                        else:
                            call_tile(tile, size, source, places, 1, kc, SIZE, tall * SIZE,
                                      strip, step, target, step_out, count, more)
                            source += tall * kc * SIZE
                        row += size
        if after != 0:
            call_range(after, after_params, stack * rows + row0, stack * rows + row1)
'''


def filled(text: str, dtype: str) -> str:
    """A kernel's source for a dtype, with the names of its parameters."""
    lines = "\n".join(f"    {name} = field(params, {n})" for n, name in enumerate(FIELDS))
    text = text.replace("FIELDS", lines).replace("DTYPE", dtype)
    return text.replace("SIZE", "4" if dtype == "float32" else "8")
