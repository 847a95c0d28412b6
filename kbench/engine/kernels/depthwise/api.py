"""Tier 1: compiled depthwise convolutions, channels last, over two axes.

`find_kernel` gives a call for x[n, rows, columns, channels], kernel[height, width, channels,
multiplier] and out[n, new_rows, new_columns, channels * multiplier]. Sizes are checked before
compiled code sees an address. float16 is computed in float32.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kbench.engine.codegen.join_kernels import Joined
from kbench.engine.core.types import Array, CancelCheck, Ints
from kbench.engine.jit import kernel_file
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import HostStep, Launch, Part, Prepared
from kbench.engine.kernels.conv import launch as conv_launch
from kbench.engine.kernels.conv.api import (
    FLOATS,
    IMAGE_BY_IMAGE,
    IMAGE_BY_KERNEL,
    Convolution,
)
from kbench.engine.kernels.conv.launch import Way
from kbench.engine.kernels.conv.tiling import (
    WindowAxis,
    backward_axes,
    cut_columns,
    forward_axis,
    phases,
)
from kbench.engine.kernels.family import Family, Sources
from kbench.engine.runtime import config, cpu_caches
from kbench.engine.runtime.workspace import Workspace

TILES, GATHER, REDUCE = (
    f"kernels/depthwise/sources/{name}" for name in ("tiles", "gather", "reduce")
)
MAX_COPY_BYTES = 32 * 2**20
"""Copies of the input, one for each of several filters of a channel, are made in such blocks."""
ITEM_PRODUCTS = 1_000_000
"""Products of one item."""
PRODUCT_COST = 4
"""A product here takes as long as so many of the tile's: memory is the limit."""
SIZES = 7
"""Numbers that the kernels keep beside the table of taps, at most."""
MAX_PARTS = 32
"""Parts with sums of their own in the gradient to the weights; the threads share them out."""


class Loops(Struct, frozen=True, eq=False):
    """The compiled inner loops of a dtype and the kernels around them."""

    dtype: str
    rows: int
    columns: int
    """Pixels that are computed together."""
    pixels: int
    products: int
    gather: Job
    reduce: Job


def _sources(dtype: str) -> Sources:
    size = np.dtype(dtype).itemsize
    return {
        "depthwise_tiles": lambda: kernel_file.specialized(TILES, DTYPE=dtype),
        "depthwise_gather": lambda: kernel_file.specialized(GATHER, SIZE=size),
        "depthwise_reduce": lambda: kernel_file.specialized(REDUCE, SIZE=size),
    }


def _loops(dtype: str, jobs: dict[str, Job]) -> Loops:
    tiles, gather, reduce = jobs.values()
    pixels, products = int(tiles.loaded.pixels.address), int(tiles.loaded.products.address)
    return Loops(dtype, tiles.loaded.ROWS, tiles.loaded.PIXELS, pixels, products, gather, reduce)


find_loops = Family(_sources, _loops).find


Geometry = tuple[Ints, Ints, Ints]
"""Strides, zeros before, and dilation, along each axis."""


class _Way(NamedTuple):
    """A form whose plans are looked for with each call."""

    form: Callable[..., Prepared]
    loops: Loops
    geometry: Geometry

    def prepare(self, out: Array, first: Array, second: Array, workspace: Workspace) -> Prepared:
        """The call for these arrays."""
        return self.form(self.loops, self.geometry, out, first, second, workspace)


def find_kernel(product: str, dtype: str, rank: int = 2) -> Convolution | None:
    """A product as those of `conv/api.py`, over one axis or two; None while it is not ready, when
    it cannot be had or JIT is off."""
    if dtype not in FLOATS or rank > 2 or config.jit_mode() == "off":
        return None
    loops = find_loops("float32" if dtype == "float16" else dtype)
    if loops is None:
        return None
    forms = {"forward": _forward, "to_input": _to_input, "to_kernel": _to_kernel}
    kinds = IMAGE_BY_IMAGE if product == "to_kernel" else IMAGE_BY_KERNEL

    def ways(
        _out: Ints, _first: Ints, _second: Ints, strides: Ints, pads: Ints, dilation: Ints
    ) -> Iterator[Way]:
        yield _Way(forms[product], loops, (strides, pads, dilation))

    return Convolution(dtype, loops.dtype, rank, 2, kinds, ways)


find = find_kernel


def _forward(
    loops: Loops, geometry: Geometry, out: Array, x: Array, kernel: Array, workspace: Workspace
) -> Prepared:
    channels, multiplier = kernel.shape[2:]
    if (x.shape[0], x.shape[3], out.shape[3]) != (out.shape[0], channels, channels * multiplier):
        raise ValueError(f"x {x.shape}, kernel {kernel.shape} and result {out.shape} disagree")
    axes = tuple(map(forward_axis, kernel.shape[:2], *geometry, out.shape[1:3]))
    weights = kernel.reshape(*kernel.shape[:2], -1)

    def block(first: int, last: int, cancel_check: CancelCheck | None) -> None:
        spread = np.repeat(x[first:last], multiplier, axis=-1)
        parts = _gather(loops, out[first:last], spread, weights, axes, workspace)
        Prepared(parts).run(cancel_check)

    parts: Sequence[Part] = [
        HostStep(partial(block, *images)) for images in _image_blocks(x, multiplier)
    ]
    if multiplier == 1:
        parts = _gather(loops, out, x, weights, axes, workspace)
    return Prepared(parts)


def _to_input(
    loops: Loops, geometry: Geometry, out: Array, g: Array, kernel: Array, workspace: Workspace
) -> Prepared:
    channels, multiplier = kernel.shape[2:]
    if (g.shape[0], out.shape[3], g.shape[3]) != (out.shape[0], channels, channels * multiplier):
        raise ValueError(f"g {g.shape}, kernel {kernel.shape} and result {out.shape} disagree")
    if kernel.size == 0:
        return Prepared([conv_launch.cleared(out, ())])
    axes = list(map(backward_axes, kernel.shape[:2], *geometry, out.shape[1:3]))
    weights = kernel.reshape(*kernel.shape[:2], -1)

    def all_phases(out: Array, g: Array) -> list[Part]:
        found = [_gather(loops, out, g, weights, phase, workspace) for phase in phases(axes)]
        return list(itertools.chain(*found))

    def block(first: int, last: int, cancel_check: CancelCheck | None) -> None:
        part = out[first:last]
        whole = np.empty((*part.shape[:3], g.shape[3]), out.dtype)
        Prepared(all_phases(whole, g[first:last])).run(cancel_check)
        np.add.reduce(whole.reshape(*part.shape, multiplier), axis=-1, out=part)

    parts: Sequence[Part] = [
        HostStep(partial(block, *images)) for images in _image_blocks(out, multiplier)
    ]
    if multiplier == 1:
        parts = all_phases(out, g)
    return Prepared(parts)


def _image_blocks(x: Array, multiplier: int) -> list[tuple[int, int]]:
    """Images whose copies fit into a block; all of them where none is made."""
    images = x.shape[0]
    step = max(images, 1)
    if multiplier > 1 and x.size:
        step = max(1, MAX_COPY_BYTES // (x[0].nbytes * multiplier))
    return [(first, min(first + step, images)) for first in range(0, images, step)]


def _gather(
    loops: Loops,
    out: Array,
    x: Array,
    weights: Array,
    axes: Sequence[WindowAxis],
    workspace: Workspace,
) -> list[Part]:
    rows, columns = axes
    if out.size == 0 or min(rows.count, columns.count) == 0:
        return []
    taps = len(rows.offsets) * len(columns.offsets)
    if taps == 0 or x.size == 0:
        places = slice(rows.phase, None, rows.step), slice(columns.phase, None, columns.step)
        return [conv_launch.cleared(out, (slice(None), *places))]
    planned = _planned(loops, out.shape, x.shape, weights.shape[1], tuple(axes))
    return [planned.launch(workspace, *map(address_of, (out, x, weights)))]


@functools.lru_cache(conv_launch.MAX_PLANS)
def _planned(
    loops: Loops, out: Sequence[int], x: Sequence[int], window: int, axes: tuple[WindowAxis, ...]
) -> conv_launch.Plan:
    rows, columns = axes
    taps = len(rows.offsets) * len(columns.offsets)
    across, slices = cut_columns(columns)
    line_work = across * taps * out[3]
    height = max(1, min(rows.count, ITEM_PRODUCTS // line_work))
    chunks = -(-rows.count // height)
    height = -(-rows.count // chunks)
    (top, bottom), (left, right) = _inside(rows, x[1]), _inside(columns, x[2])
    areas = (16 * taps, 8 * SIZES)
    tables = [np.array(places, np.int64) for axis in axes for places in (axis.offsets, axis.index)]
    size = 4 if loops.dtype == "float32" else 8
    # Past the caches, a result that they could hold takes 1.05 of the time, one of twice that 0.6.
    large = math.prod(out) * size >= cpu_caches.last_level_bytes()
    values = {
        "pixels": loops.pixels, "tile_rows": loops.rows, "tile_pixels": loops.columns,
        "past": int(large), "sizes_at": conv_launch.starts(areas)[1],
        "images": x[0], "rows": rows.count, "columns": columns.count,
        "row_step": rows.step, "column_step": columns.step,
        "row_phase": rows.phase, "column_phase": columns.phase,
        "out_rows": out[1], "out_columns": out[2],
        "in_rows": x[1], "in_columns": x[2], "channels": out[3],
        "row_stride": rows.stride, "column_stride": columns.stride,
        "row_taps": len(rows.offsets), "column_taps": len(columns.offsets),
        "row_offsets": address_of(tables[0]), "row_index": address_of(tables[1]),
        "column_offsets": address_of(tables[2]), "column_index": address_of(tables[3]),
        "window": window, "height": height, "chunks": chunks, "across": across, "slices": slices,
        "top": top, "bottom": bottom, "left": left, "right": right,
        "row_high": rows.low + rows.reach - 1, "column_high": columns.low + columns.reach - 1,
    }  # fmt: skip
    items, work = x[0] * chunks * slices, PRODUCT_COST * height * line_work
    fields = kernel_file.parameters_of(GATHER)
    return conv_launch.plan(loops.gather, loops.dtype, fields, values, items, work, areas, tables)


def _inside(axis: WindowAxis, size: int) -> tuple[int, int]:
    """First and last place, and one more, whose taps all lie inside of an input of that size."""
    high = axis.low + axis.reach - 1
    return max(0, -(axis.low // axis.stride)), min(axis.count, (size - 1 - high) // axis.stride + 1)


def _to_kernel(
    loops: Loops, geometry: Geometry, out: Array, g: Array, x: Array, workspace: Workspace
) -> Prepared:
    channels, multiplier = out.shape[2:]
    if (x.shape[0], x.shape[3], g.shape[3]) != (g.shape[0], channels, channels * multiplier):
        raise ValueError(f"g {g.shape}, x {x.shape} and result {out.shape} disagree")
    if out.size == 0 or x.size == 0 or g.size == 0:
        return Prepared([conv_launch.cleared(out, ())])
    axes = tuple(map(forward_axis, out.shape[:2], *geometry, g.shape[1:3]))
    window, total = tuple(out.shape[:2]), out.reshape(*out.shape[:2], -1)

    def sums(g: Array, x: Array) -> tuple[Launch, Array]:
        """Sums of fixed parts of the rows: [parts, height, width, channels]."""
        parts, planned = _planned_sums(loops, window, g.shape, x.shape, axes)
        totals = workspace.array((parts, *window, x.shape[3]), x.dtype)
        return planned.launch(workspace, *map(address_of, (totals, x, g))), totals

    def blocks(cancel_check: CancelCheck | None) -> None:
        totals = []
        for first, last in _image_blocks(x, multiplier):
            spread = np.repeat(x[first:last], multiplier, axis=-1)
            launch, found = sums(g[first:last], spread)
            launch.run(cancel_check)
            totals.append(found)
        np.add.reduce(np.concatenate(totals), axis=0, out=total)

    parts: Sequence[Part] = [HostStep(blocks)]
    if multiplier == 1:
        launch, totals = sums(g, x)
        parts = [launch, Joined(total, totals)]
    return Prepared(parts)


@functools.lru_cache(conv_launch.MAX_PLANS)
def _planned_sums(
    loops: Loops,
    window: Sequence[int],
    g: Sequence[int],
    x: Sequence[int],
    axes: tuple[WindowAxis, ...],
) -> tuple[int, conv_launch.Plan]:
    rows, columns = axes
    lines = g[0] * rows.count
    across, slices = cut_columns(columns)
    each = -(-lines * slices // MAX_PARTS)
    parts = -(-lines * slices // each)
    (top, bottom), (left, right) = _inside(rows, x[1]), _inside(columns, x[2])
    areas = (16 * window[0] * window[1], 8 * SIZES)
    tables = [np.array(places, np.int64) for axis in axes for places in (axis.offsets, axis.index)]
    values = {
        "products": loops.products, "sizes_at": conv_launch.starts(areas)[1],
        "lines": lines, "each": each, "rows": rows.count,
        "columns": columns.count, "in_rows": x[1], "in_columns": x[2],
        "channels": x[3], "row_stride": rows.stride, "column_stride": columns.stride,
        "row_taps": window[0], "column_taps": window[1],
        "row_offsets": address_of(tables[0]), "row_index": address_of(tables[1]),
        "column_offsets": address_of(tables[2]), "column_index": address_of(tables[3]),
        "top": top, "bottom": bottom, "left": left, "right": right,
        "across": across, "slices": slices,
    }  # fmt: skip
    work = PRODUCT_COST * each * across * window[0] * window[1] * x[3]
    fields = kernel_file.parameters_of(REDUCE)
    return parts, conv_launch.plan(
        loops.reduce, loops.dtype, fields, values, parts, work, areas, tables
    )
