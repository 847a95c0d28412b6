"""The gradient of a convolution to an input with few channels, which would leave vectors idle.

The product of a row of gradients and the whole kernel is a matrix with a row for each window; these
are added where the windows lie. One or two spatial axes; columns without dilation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbench.engine.core.types import Array, Ints
from kbench.engine.jit import kernel_file
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.service import Job
from kbench.engine.kernels.conv.direct_source import PACK, filled
from kbench.engine.kernels.conv.launch import (
    MAX_PLANS,
    PRODUCTS_PER_ELEMENT,
    Run,
    Tiles,
    compiled,
    made_run,
    starts,
)
from kbench.engine.kernels.conv.variants import Memory, Stage, Way

MIN_ITEMS = 32
"""Items that keep any number of threads busy."""

FIELDS = (
    "out", "g", "packed", "flags", "areas", "scratch", "area_bytes",    # set by each call
    "wide", "narrow", "lanes", "most", "add", "sums_at",
    "rows", "columns", "filters", "out_rows", "out_columns", "channels",
    "row_taps", "column_taps", "row_stride", "column_stride", "row_pad", "column_pad",
    "row_dilation", "inner_first", "inner_last", "apart", "height", "chunks", "length",
)  # fmt: skip

SPREAD = '''"""Gradient of a convolution of DTYPE to an input with few channels."""
from kbench.engine.intrinsics.memory import call_6, give_back, take, zero_bytes
from kbench.engine.intrinsics.fma_tile import call_tile
from kbench.engine.intrinsics.toolkit import field, range_kernel, store_int64


@range_kernel
def run(params, start, stop):
FIELDS
    number = take(flags, areas)
    table = scratch + number * area_bytes
    sums = table + sums_at
    store_int64(table, 0, 0)
    store_int64(table, 1, 0)
    pixel = channels * SIZE
    sum_bytes = length * SIZE
    width = row_taps * column_taps * channels
    blocks = (columns + most - 1) // most
    share = columns // blocks
    longer = columns - share * blocks
    reach = (row_taps - 1) * row_dilation
    for item in range(start, stop):
        image = item // chunks
        top = (item - image * chunks) * height
        bottom = min(top + height, out_rows)
        zero_bytes(out + (image * out_rows + top) * out_columns * pixel,
                   (bottom - top) * out_columns * pixel)
        first = max(0, (top + row_pad - reach + row_stride - 1) // row_stride)
        last = min(rows, (bottom - 1 + row_pad) // row_stride + 1)
        for row in range(first, last):
            source = g + (image * rows + row) * columns * filters * SIZE
            for n in range(0, width, 2 * lanes):
                count = min(2 * lanes, width - n)
                tile = wide if count > lanes else narrow
                panel_row = (2 * lanes if count > lanes else lanes) * SIZE
                where = 0
                for block in range(blocks):
                    size = share + 1 if block < longer else share
                    call_tile(tile, size, source + where * filters * SIZE, table, 1, filters,
                              filters * SIZE, SIZE, packed + n * filters * SIZE, panel_row,
                              sums + where * sum_bytes + n * SIZE, sum_bytes, count, 0)
                    where += size
            for a in range(row_taps):
                to_row = row * row_stride + a * row_dilation - row_pad
                if to_row < top or to_row >= bottom:
                    continue
                line = out + (image * out_rows + to_row) * out_columns * pixel
                begin = sums + a * column_taps * pixel
                # Windows that overlap are not added one after the other: each would wait.
                for o in range(inner_first, min(inner_first + apart, inner_last)):
                    call_6(add, (inner_last - o + apart - 1) // apart, begin + o * sum_bytes,
                           apart * sum_bytes, line + (o * column_stride - column_pad) * pixel,
                           apart * column_stride * pixel, column_taps * channels)
                for o in range(columns):
                    if o >= inner_first and o < inner_last:
                        continue
                    left = o * column_stride - column_pad
                    b0 = max(0, -left)
                    b1 = min(column_taps, out_columns - left)
                    if b0 < b1:
                        call_6(add, 1, begin + o * sum_bytes + b0 * pixel, 0,
                               line + (left + b0) * pixel, 0, (b1 - b0) * channels)
    give_back(flags, number)
'''


@dataclass(frozen=True, eq=False)
class Loops:
    """The compiled inner loop and the kernel around it."""

    add: int
    spread: Job


_ready: dict[str, Loops] = {}


def find_loops(dtype: str) -> Loops | None:
    """The loops of float32 or float64, or None while they are not ready."""
    if dtype in _ready:
        return _ready[dtype]
    texts = {
        "add": lambda: kernel_file.specialized("kernels/conv/sources/add", DTYPE=dtype),
        "spread": lambda: filled(SPREAD, dtype, FIELDS),
    }
    done = compiled("conv", dtype, texts)
    if done is None:
        return None
    _ready[dtype] = Loops(int(done["add"].loaded.add.address), done["spread"])
    return _ready[dtype]


def is_profitable(tiles: Tiles, out: Ints, kernel: Ints, geometry: Sequence[Sequence[int]]) -> bool:
    """Whether this form can be taken, and fills vectors better than the direct one."""
    strides, pads, dilation = geometry
    flat = (kernel[0], out[1], strides[0], dilation[0], dilation[2]) == (1,) * 5 and pads[0] == 0
    return flat and 2 * kernel[3] <= tiles.lanes <= 2 * kernel[4] and min(pads) >= 0


def way(
    tiles: Tiles, loops: Loops, out: Array, g: Array, kernel: Array,
    geometry: Sequence[Sequence[int]], memory: Memory,
) -> Way:  # fmt: skip
    """The gradient to the input, `out`, of a convolution whose result has the gradient `g`."""
    pack, plan = _planned(tiles, loops, out.shape, g.shape, kernel.shape, *map(tuple, geometry))
    lanes, (filters, width) = tiles.lanes, (kernel.shape[4], math.prod(kernel.shape[:4]))
    packed = memory.array((filters * -(-width // lanes) * lanes,), tiles.dtype)
    addresses = address_of(out), address_of(g), address_of(packed)
    stages = (
        Stage(pack, tiles.pack, (address_of(packed), address_of(kernel))),
        Stage(plan, loops.spread, addresses),
    )
    return Way("", tiles.dtype, stages, memory)


@functools.lru_cache(MAX_PLANS)
def _planned(
    tiles: Tiles, loops: Loops, out: Ints, g: Ints, kernel: Ints, strides: Ints, pads: Ints,
    dilation: Ints,
) -> tuple[Run, Run]:  # fmt: skip
    filters, width = kernel[4], math.prod(kernel[:4])
    (row_taps, taps), (stride, step), (row_pad, pad) = kernel[1:3], strides[1:], pads[1:]
    place = np.zeros(1, np.int64)
    pack = made_run(
        kernel_file.parameters_of(PACK),
        {
            "places": address_of(place), "taps": 1, "rows": filters, "columns": width,
            "lanes": tiles.lanes, "row_step": 1, "column_step": filters,
        },
        1, 4 * PRODUCTS_PER_ELEMENT * filters * width, kept=[place],
    )  # fmt: skip
    # Rows of windows that reach into two chunks are computed twice: chunks are high.
    chunks = min(-(-MIN_ITEMS // out[0]), max(1, out[2] // (8 * row_taps * dilation[1])))
    height = -(-out[2] // chunks)
    chunks = -(-out[2] // height)
    length = -(-width // tiles.lanes) * tiles.lanes
    areas = (16, g[3] * length * tiles.size)
    values = {
        "wide": tiles.wide, "narrow": tiles.narrow, "lanes": tiles.lanes, "most": tiles.most,
        "add": loops.add, "sums_at": starts(areas)[1],
        "rows": g[2], "columns": g[3], "filters": filters,
        "out_rows": out[2], "out_columns": out[3], "channels": out[4],
        "row_taps": row_taps, "column_taps": taps, "row_stride": stride, "column_stride": step,
        "row_pad": row_pad, "column_pad": pad, "row_dilation": dilation[1],
        "inner_first": -(-pad // step), "inner_last": min(g[3], (out[3] - taps + pad) // step + 1),
        "apart": -(-taps // step), "height": height, "chunks": chunks, "length": length,
    }  # fmt: skip
    items = out[0] * chunks
    work = math.prod(g[:4]) * filters * length // items
    return pack, made_run(FIELDS, values, items, work, areas)
