"""The gradient of a convolution to an input with few channels, which would leave vectors idle.

The product of a row of gradients and the whole kernel is a matrix with a row for each window; these
are added where the windows lie. One or two spatial axes; columns without dilation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kbench.engine.core.types import Array, Ints
from kbench.engine.jit import kernel_file
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import Prepared
from kbench.engine.kernels.conv.launch import (
    MAX_PLANS,
    Plan,
    Tiles,
    plan,
    starts,
)
from kbench.engine.kernels.conv.packing import packed_bytes, packing
from kbench.engine.kernels.family import Family, Sources
from kbench.engine.runtime.workspace import Workspace

MIN_ITEMS = 32
"""Items that keep any number of threads busy."""

SPREAD = "kernels/conv/sources/spread"


class Loops(Struct, frozen=True, eq=False):
    """The compiled inner loop and the kernel around it."""

    add: int
    spread: Job


def _sources(dtype: str) -> Sources:
    return {
        "conv_add": lambda: kernel_file.specialized("kernels/conv/sources/add", DTYPE=dtype),
        "conv_spread": lambda: kernel_file.specialized(SPREAD, SIZE=np.dtype(dtype).itemsize),
    }


def _loops(_dtype: str, jobs: dict[str, Job]) -> Loops:
    return Loops(int(jobs["conv_add"].loaded.add.address), jobs["conv_spread"])


find_loops = Family(_sources, _loops).find
"""The loops of float32 or float64, or None while they are not ready."""


def is_profitable(tiles: Tiles, out: Ints, kernel: Ints, geometry: Sequence[Sequence[int]]) -> bool:
    """Whether this form can be taken, and fills vectors better than the direct one."""
    strides, pads, dilation = geometry
    flat = (kernel[0], out[1], strides[0], dilation[0], dilation[2]) == (1,) * 5 and pads[0] == 0
    return flat and 2 * kernel[3] <= tiles.lanes <= 2 * kernel[4] and min(pads) >= 0


class _Spread(NamedTuple):
    """The gradient to the input for some sizes."""

    packed_bytes: int
    pack: Plan
    run: Plan

    def prepare(self, out: Array, g: Array, kernel: Array, workspace: Workspace) -> Prepared:
        """The call for arrays of these sizes."""
        packed = workspace.take(self.packed_bytes)
        pack = self.pack.launch(workspace, packed, address_of(kernel))
        return Prepared((pack, self.run.launch(workspace, address_of(out), address_of(g), packed)))


def way(
    tiles: Tiles, out: Ints, g: Ints, kernel: Ints, strides: Ints, pads: Ints, dilation: Ints
) -> _Spread | None:
    """The gradient to the input, `out`, of a convolution whose result has the gradient `g`.

    None while it is not ready.
    """
    loops = find_loops(tiles.dtype)
    if loops is None:
        return None
    return _planned(tiles, loops, out, g, kernel, strides, pads, dilation)


@functools.lru_cache(MAX_PLANS)
def _planned(
    tiles: Tiles, loops: Loops, out: Ints, g: Ints, kernel: Ints, strides: Ints, pads: Ints,
    dilation: Ints,
) -> _Spread:  # fmt: skip
    filters, width = kernel[4], math.prod(kernel[:4])
    (row_taps, taps), (stride, step), (row_pad, pad) = kernel[1:3], strides[1:], pads[1:]
    pack = packing(tiles, np.zeros(1, np.int64), filters, width, 1, filters)
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
    fields = kernel_file.parameters_of(SPREAD)
    run = plan(loops.spread, tiles.dtype, fields, values, items, work, areas)
    return _Spread(packed_bytes(tiles, 1, filters, width), pack, run)
