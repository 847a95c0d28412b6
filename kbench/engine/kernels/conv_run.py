"""Runs the compiled convolutions on checked arrays: parameter blocks, scratch areas, partial sums.

Arrays here are contiguous, of the tiles' dtype, and have three spatial axes. Whatever the numbers
say, compiled code stays inside: input rows and columns outside of the array are never read.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kbench.engine import threads
from kbench.engine.kernels import conv_sources as sources
from kbench.engine.kernels.background import Job
from kbench.engine.kernels.binding import address_of
from kbench.engine.kernels.conv_plan import (
    Axis,
    Cut,
    Sums,
    backward_axes,
    cut_gather,
    cut_sums,
    forward_axis,
    phases,
)
from kbench.engine.kernels.loops import drive

Array = np.ndarray[Any, Any]
Check = Callable[[], object] | None
Ints = Sequence[int]

PRODUCTS = 32
"""Products that count as one element of work when `drive` decides on threads and tiles."""

_pace = {"float32": 1.5e-9, "float64": 3e-9}
"""Seconds of 32 products: a guess at first, then twice what the last large run took."""


@dataclass(frozen=True)
class Tiles:
    """The compiled tiles of a dtype and the kernels around them."""

    dtype: str
    lanes: int
    most: int
    wide: int
    narrow: int
    pack: Job
    gather: Job
    reduce: Job

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return 4 if self.dtype == "float32" else 8


def forward(
    tiles: Tiles, out: Array, x: Array, kernel: Array, strides: Ints, pads: Ints, dilation: Ints,
    check: Check,
) -> None:  # fmt: skip
    """The convolution itself; what `pads` and the size of `out` reach over is zero."""
    if x.shape[0] != out.shape[0] or (x.shape[4], out.shape[4]) != kernel.shape[3:]:
        raise ValueError(f"x {x.shape}, kernel {kernel.shape} and result {out.shape} disagree")
    axes = tuple(map(forward_axis, kernel.shape[:3], strides, pads, dilation, out.shape[1:4]))
    _gather(tiles, out, x, kernel, False, axes, check)


def to_input(
    tiles: Tiles, out: Array, g: Array, kernel: Array, strides: Ints, pads: Ints, dilation: Ints,
    check: Check,
) -> None:  # fmt: skip
    """The gradient to the input of a convolution whose result has the gradient `g`."""
    if g.shape[0] != out.shape[0] or (out.shape[4], g.shape[4]) != kernel.shape[3:]:
        raise ValueError(f"g {g.shape}, kernel {kernel.shape} and result {out.shape} disagree")
    axes = map(backward_axes, kernel.shape[:3], strides, pads, dilation, out.shape[1:4])
    for phase in phases(list(axes)):
        _gather(tiles, out, g, kernel, True, phase, check)


def run_job(
    job: Job, fields: Sequence[str], values: dict[str, int], items: int, work: int, dtype: str,
    check: Check,
) -> None:  # fmt: skip
    """Drive a kernel whose items take `work` products each."""
    params = np.array([values[name] for name in fields], np.int64)
    each = -(-work // PRODUCTS)
    begun = time.perf_counter()
    drive(job, params, items, each, check, _pace[dtype])
    if items * each > 20 * threads.PARALLEL_FROM:
        _pace[dtype] = 2 * max(1e-11, (time.perf_counter() - begun) / (items * each))


class Areas:
    """Scratch areas, one for each thread, and the flags that say which are taken."""

    def __init__(self, *parts: int) -> None:
        starts, self.bytes = [], 0
        for part in parts:
            starts.append(self.bytes)
            self.bytes += -(-part // 64) * 64 + 64
        self.starts = starts
        self.count = max(1, threads.count())
        self._block = np.empty(self.count * self.bytes + 64, np.uint8)
        self._flags = np.zeros(self.count, np.int64)

    @property
    def fields(self) -> dict[str, int]:
        """What a kernel needs to know."""
        start = -(-address_of(self._block) // 64) * 64
        flags = address_of(self._flags)
        return {"flags": flags, "areas": self.count, "scratch": start, "area_bytes": self.bytes}


def _packed(
    tiles: Tiles, kernel: Array, back: bool, axes: Sequence[Axis], check: Check
) -> Array:  # fmt: skip
    """The kernel's matrices for the taps of the axes, in panels; transposed when going `back`."""
    window, channels, filters = kernel.shape[:3], kernel.shape[3], kernel.shape[4]
    places = np.ravel_multi_index(np.ix_(*(np.array(a.index, np.int64) for a in axes)), window)
    places = np.ascontiguousarray(places.reshape(-1) * (channels * filters))
    rows, columns = (filters, channels) if back else (channels, filters)
    width = -(-columns // tiles.lanes) * tiles.lanes
    packed = np.empty(places.size * rows * width, tiles.dtype)
    values = {
        "packed": address_of(packed), "kernel": address_of(kernel), "places": address_of(places),
        "taps": places.size, "rows": rows, "columns": columns, "lanes": tiles.lanes,
        "row_step": 1 if back else filters, "column_step": filters if back else 1,
    }  # fmt: skip
    work = 4 * PRODUCTS * rows * columns
    params = np.array([values[name] for name in sources.PACK_FIELDS], np.int64)
    drive(tiles.pack, params, places.size, work // PRODUCTS, check)
    return packed


def _gather(
    tiles: Tiles, out: Array, x: Array, kernel: Array, back: bool, axes: Sequence[Axis],
    check: Check,
) -> None:  # fmt: skip
    """One phase of a convolution: every output of it is written."""
    planes, rows, columns = axes
    if out.size == 0 or min(axis.count for axis in axes) == 0:
        return
    places = tuple(slice(axis.phase, None, axis.step) for axis in axes)
    taps = math.prod(len(axis.offsets) for axis in axes)
    if taps == 0 or x.size == 0:
        out[:, *places] = 0
        return
    packed = _packed(tiles, kernel, back, axes, check)
    channels, filters = x.shape[4], out.shape[4]
    joined = columns.dense
    depth = len(columns.offsets) * channels if joined else channels
    direct = columns.low >= 0 and columns.low + columns.width <= x.shape[3]
    line = 0 if direct else columns.width * channels * tiles.size
    cut = cut_gather(planes, rows, columns, x.shape[0], taps * channels, filters, tiles.lanes, line)
    most_rows = cut.together * cut.height
    areas = Areas(
        cut.strip_rows * line,
        8 * cut.together * len(planes.offsets) * cut.span,
        16 * most_rows * taps,
        16 * most_rows,
    )
    offsets = [np.array(axis.offsets, np.int64) for axis in axes]
    values = {
        "wide": tiles.wide, "narrow": tiles.narrow, "lanes": tiles.lanes, "most": tiles.most,
        "out": address_of(out), "x": address_of(x), "packed": address_of(packed), **areas.fields,
        "seen_at": areas.starts[1], "table_at": areas.starts[2], "row_at": areas.starts[3],
        "filters": filters, "channels": channels, "images": x.shape[0], "depth": depth,
        "low": columns.low, "width": columns.width, "direct": int(direct), "lowest": rows.low,
        **_axis_fields(axes, x, out, offsets, joined), **_cut_fields(cut),
    }  # fmt: skip
    run_job(tiles.gather, sources.GATHER_FIELDS, values, cut.items, cut.work, tiles.dtype, check)


def _axis_fields(
    axes: Sequence[Axis], x: Array, out: Array, offsets: Sequence[Array], joined: bool
) -> dict[str, int]:
    """What a gather knows of each axis; joined columns are one tap."""
    fields: dict[str, int] = {}
    for number, name in enumerate(("plane", "row", "column")):
        axis = axes[number]
        fields |= {
            f"{name}s": axis.count, f"{name}_step": axis.step, f"{name}_phase": axis.phase,
            f"{name}_stride": axis.stride, f"{name}_offsets": address_of(offsets[number]),
            f"{name}_taps": 1 if joined and number == 2 else len(axis.offsets),
            f"in_{name}s": x.shape[1 + number], f"out_{name}s": out.shape[1 + number],
        }  # fmt: skip
    return fields


def _cut_fields(cut: Cut) -> dict[str, int]:
    names = ("height", "together", "bundle", "chunks", "groups", "span")
    return {name: getattr(cut, name) for name in names}


def to_kernel(
    tiles: Tiles, out: Array, g: Array, x: Array, strides: Ints, pads: Ints, dilation: Ints,
    check: Check,
) -> None:  # fmt: skip
    """The gradient to the kernel, `out`, of a convolution of `x` whose result has gradient `g`."""
    if x.shape[0] != g.shape[0] or (x.shape[4], g.shape[4]) != out.shape[3:]:
        raise ValueError(f"g {g.shape}, x {x.shape} and result {out.shape} disagree")
    if out.size == 0:
        return
    if g.size == 0 or x.size == 0:
        out.fill(0)
        return
    axes = tuple(map(forward_axis, out.shape[:3], strides, pads, dilation, g.shape[1:4]))
    planes, rows, columns = axes
    taps = len(planes.offsets) * len(rows.offsets)
    window, channels, filters = len(columns.offsets), x.shape[4], g.shape[4]
    height = math.prod(g.shape[:3])
    cut = cut_sums(height, columns.count, taps, window, channels, filters, tiles.size)
    direct = columns.low >= 0 and columns.low + columns.width <= x.shape[3]
    joined = columns.dense and cut.block == channels
    packs = filters % tiles.lanes != 0 or filters >= 256
    wide = -(-filters // tiles.lanes) * tiles.lanes
    areas = Areas(
        0 if direct else cut.together * columns.width * cut.block * tiles.size,
        16 * cut.together,
        cut.together * columns.count * wide * tiles.size if packs else 0,
    )
    partials = out if cut.parts == 1 else np.empty((cut.parts, *out.shape), tiles.dtype)
    offsets = [np.array(axis.offsets, np.int64) for axis in axes]
    values = {
        "wide": tiles.wide, "narrow": tiles.narrow, "lanes": tiles.lanes, "most": tiles.most,
        "out": address_of(partials), "x": address_of(x), "g": address_of(g), **areas.fields,
        "table_at": areas.starts[1], "panels_at": areas.starts[2],
        "filters": filters, "channels": channels, **_axis_fields(axes, x, g, offsets, False),
        "rows": height, "lines": rows.count, "low": columns.low, "width": columns.width,
        "direct": int(direct), "packs": int(packs), "taps": taps,
        "joined": int(joined),
        **_sum_fields(cut, taps, channels),
    }  # fmt: skip
    run_job(tiles.reduce, sources.REDUCE_FIELDS, values, cut.items, cut.work, tiles.dtype, check)
    if cut.parts > 1:
        np.add.reduce(partials, axis=0, out=out)


def _sum_fields(cut: Sums, taps: int, channels: int) -> dict[str, int]:
    return {
        "each": cut.each, "together": cut.together, "bundle": cut.bundle, "block": cut.block,
        "bundles": -(-taps // cut.bundle), "blocks": -(-channels // cut.block),
    }  # fmt: skip
