"""Winograd's convolution: float32, windows of 3x3, no strides; forward, and both gradients.

A window that is dilated sees every second pixel, or every third, and those are an image of their
own: it is computed phase by phase. A window of several planes, as of a convolution over three axes,
has as many times the channels.

A quarter of the products, for rounding errors several times those of the direct form: some 2e-6 of
the largest sum of absolute products. Of one number d among zeros and weights of w at most, a result
is made of terms up to 300 d w (the row sums of the transforms, by lines and columns), each rounded
some ten times: that bounds the error by 2e-4 of d w, and what tests find stays below 1e-4.
KBENCH_EXACT forbids the form. `kernels/conv/direct` takes the direct one elsewhere.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kbench.engine.codegen.join_kernels import Joined
from kbench.engine.core.types import Array, CancelCheck, Ints
from kbench.engine.jit import fast_call, kernel_file
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.launch import HostStep, Part, Prepared
from kbench.engine.kernels.conv.launch import MAX_PLANS, Plan, Tiles, plan, starts
from kbench.engine.kernels.conv.packing import packed_bytes, packing
from kbench.engine.kernels.conv.tiling import WindowAxis, backward_axes
from kbench.engine.kernels.family import Family, Sources
from kbench.engine.kernels.winograd import source as sources
from kbench.engine.runtime import config
from kbench.engine.runtime.workspace import Workspace

MIN_CHANNELS = 16
"""Channels and filters from which on the transforms are worth it."""
MAX_MATRIX_ENTRIES = 256 * 256
"""Channels times filters: beyond, the 36 matrices are too large to be read by every item."""
ITEM_COLUMNS = 256
"""Columns of an item's tiles that still stay in the second cache."""
MIN_PLACES = 512
"""Output places that make up for the transform of the kernel; large kernels need more."""
MIN_PARTS, MAX_PARTS = 4, 8
"""Parts with sums of their own in the gradient to the kernel."""
PART_TILES = 32
"""Tiles of a part, where there are more than `MIN_PARTS`: with fewer, its sums take longer to
clear, write and join than the products. So many are added up at once, too, as each time all sums
are read and written; longer chains of float32 would err more."""
ITEM_WEIGHTS = 1024
"""Channels times filters of one item of the transforms of kernels."""
MIN_DIRECT_PRODUCTS = 3.8
"""Products of the direct form for each phase of the strides, from which on 2.25 and the transforms
take less time."""
ITEM_TILES = 28
"""Tiles of one item: two rows of fourteen, the height of a register tile."""


class Loops(Struct, frozen=True, eq=False):
    """The compiled transforms and the kernel around them."""

    transforms: dict[str, int]
    """Addresses by name."""
    gather: Job
    reduce: Job
    weights: Job


def _sources(_dtype: str) -> Sources:
    return {
        "winograd_tiles": lambda: kernel_file.specialized(sources.TILES),
        "winograd_gather": lambda: kernel_file.specialized(sources.GATHER, SIZE=4),
        "winograd_reduce": lambda: kernel_file.specialized(sources.REDUCE, SIZE=4),
        "winograd_weights": lambda: kernel_file.specialized(sources.WEIGHTS, SIZE=4),
    }


def _loops(_dtype: str, jobs: dict[str, Job]) -> Loops:
    tiles, *others = jobs.values()
    return Loops(
        {name: int(getattr(tiles.loaded, name).address) for name in sources.NAMES}, *others
    )


find_loops = partial(Family(_sources, _loops).find, "float32")
"""The compiled loops, or None while they are not ready."""


def is_profitable(
    tiles: Tiles, out: Ints, kernel: Ints, strides: Sequence[int], dilation: Sequence[int],
    sums: bool = False,
) -> bool:  # fmt: skip
    """Whether this form can be taken, and is faster than the direct one.

    `sums` asks for the gradient to the kernel, whose 36 totals are to stay in the second cache.
    """
    return not config.exact() and _suits(tiles, out, kernel, strides, dilation, sums)


@functools.lru_cache(MAX_PLANS)
def _suits(
    tiles: Tiles,
    out: Ints,
    kernel: Ints,
    strides: Sequence[int],
    dilation: Sequence[int],
    sums: bool,
) -> bool:
    if tiles.dtype != "float32" or kernel[1:3] != (3, 3) or any(step != 1 for step in strides):
        return False
    images = out[0] * out[1] * math.prod(dilation[1:])
    most, share = (MAX_MATRIX_ENTRIES // 4, 3) if sums else (MAX_MATRIX_ENTRIES, 48)
    matrix = kernel[0] * kernel[3] * kernel[4]
    return (
        min(kernel[3:]) >= MIN_CHANNELS
        and matrix <= most
        and _fits(images, out, dilation, matrix // share)
    )


def suits_spread(
    tiles: Tiles, out: Ints, kernel: Ints, strides: Sequence[int], pads: Sequence[int],
    dilation: Sequence[int],
) -> bool:  # fmt: skip
    """Whether the gradient to the input of a convolution with strides can be had by this form, and
    faster: where all phases of the strides together look at three places along each axis."""
    if tiles.dtype != "float32" or kernel[0] != 1 or strides[0] != 1 or config.exact():
        return False
    if any(step != 1 for step in dilation) or pads[0] != 0 or min(out) == 0:
        return False
    phases = math.prod(strides[1:])
    matrix = phases * kernel[3] * kernel[4]
    if (
        kernel[1] * kernel[2] < MIN_DIRECT_PRODUCTS * phases
        or min(kernel[3:]) < MIN_CHANNELS
        or matrix > MAX_MATRIX_ENTRIES
    ):
        return False
    if any(_reach(axes) > 3 for axes in _axes(out, kernel, strides, pads)):
        return False
    return _fits(out[0] * out[1], out, strides, matrix // 48)


def _fits(images: int, out: Ints, apart: Sequence[int], least: int) -> bool:
    """Whether tiles cover images, of every so many rows and columns of `out`, with little left
    over, and there are enough places."""
    rows, columns = _tiles_of(out, apart)
    places = images * out[2] * out[3] // math.prod(apart[1:])
    covered = places > 0.6 * 16 * images * rows * columns
    return covered and places >= max(MIN_PLACES, least) and 4 * columns <= ITEM_COLUMNS


def _axes(
    out: Ints, kernel: Ints, strides: Sequence[int], pads: Sequence[int]
) -> list[tuple[WindowAxis, ...]]:
    """The phases of rows and of columns."""
    sides = zip(kernel[1:3], strides[1:], pads[1:], out[2:4], strict=True)
    return [backward_axes(size, stride, pad, 1, count) for size, stride, pad, count in sides]


def _reach(axes: Sequence[WindowAxis]) -> int:
    """Places from the first to the last that any of the phases looks at."""
    return max(axis.low + axis.reach for axis in axes) - min(axis.low for axis in axes)


class _Spread(NamedTuple):
    """The gradient to the input of a convolution with strides, right where it is finite.

    What each phase sees of the gradient are some weights of a window of 3x3, the rest zeros: the
    phases are groups of filters of one convolution.
    """

    rows: tuple[WindowAxis, ...]
    columns: tuple[WindowAxis, ...]
    top: int
    left: int
    form: _Convolution

    def prepare(self, out: Array, g: Array, kernel: Array, workspace: Workspace) -> Prepared:
        """The call for arrays of these sizes."""
        filters, channels = kernel.shape[3:]
        count = len(self.rows) * len(self.columns)
        whole = workspace.array((1, 3, 3, channels, count * filters), g.dtype)
        grouped = whole.reshape(3, 3, channels, count, filters)

        def fill(_check: CancelCheck | None) -> None:
            grouped[...] = 0
            for number, (row, column) in enumerate(itertools.product(self.rows, self.columns)):
                for i, a in zip(row.offsets, row.index, strict=True):
                    for j, b in zip(column.offsets, column.index, strict=True):
                        grouped[self.top + i, self.left + j, :, number] = kernel[0, a, b].T

        prepared = self.form.prepare(out, g, whole, workspace)
        return prepared._replace(parts=(HostStep(fill), *prepared.parts))


def spread(
    tiles: Tiles, out: Ints, g: Ints, kernel: Ints, strides: Ints, pads: Ints
) -> _Spread | None:
    """The gradient to the input of a convolution with strides, None while it is not ready."""
    rows, columns = _axes(out, kernel, strides, pads)
    top, left = (-min(axis.low for axis in axes) for axes in (rows, columns))
    filters, channels = kernel[3:]
    groups = len(rows), len(columns)
    whole = 1, 3, 3, channels, math.prod(groups) * filters
    way = (0, top, left), (1, 1, 1), groups, False
    form = _planned(tiles, loops, out, g, whole, *way) if (loops := find_loops()) else None
    return None if form is None else _Spread(rows, columns, top, left, form)


def _tiles_of(out: Ints, apart: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of tiles of the largest phase: pixels that are `apart`, one after another
    in the eyes of a window that is dilated."""
    rows, columns = (-(-size // (4 * step)) for size, step in zip(out[2:4], apart[1:], strict=True))
    return rows, columns


def convolution(
    tiles: Tiles, out: Ints, x: Ints, kernel: Ints, back: bool, pads: Ints, dilation: Ints
) -> _Convolution | None:
    """The convolution of `x`, or when `back` the gradient to the input for the gradient `x`.

    It is not valid where a result is not finite: the direct form has to say which ones are. None
    while it is not ready.
    """
    sides = zip(kernel[:3], pads, dilation, strict=True)
    before = tuple((size - 1) * step - pad if back else pad for size, pad, step in sides)
    loops = find_loops()
    if loops is None:
        return None
    return _planned(tiles, loops, out, x, kernel, before, dilation, (1, 1), back)


class _Convolution(Struct, frozen=True, eq=False):
    """The form for some sizes: the windows are transformed, packed, and meet the images."""

    back: bool
    taps: int
    cell: int
    """Bytes of one place of the window."""
    packed_bytes: int
    weights: Plan
    pack: Plan
    gather: Plan

    def prepare(self, out: Array, x: Array, kernel: Array, workspace: Workspace) -> Prepared:
        """The call for arrays of these sizes."""
        # Backwards the window is turned around: from the last weight on, in steps to the left.
        begin, step = fast_call.address(kernel), 9 * self.cell
        if self.back:
            begin, step = begin + kernel.nbytes - self.cell, -step
        spread = workspace.take(36 * self.taps * self.cell)
        packed = workspace.take(self.packed_bytes)
        strange = np.zeros(1, np.int64)
        parts = [
            self.weights.launch(workspace, begin + tap * step, spread + tap * self.cell)
            for tap in range(self.taps)
        ]
        places = fast_call.address(out), fast_call.address(x), packed, fast_call.address(strange)
        parts.append(self.pack.launch(workspace, packed, spread))
        parts.append(self.gather.launch(workspace, *places))

        def is_valid() -> bool:
            found, strange[0] = strange[0], 0
            return not found

        return Prepared(parts, "winograd", is_valid)


@functools.lru_cache(MAX_PLANS)
def _planned(
    tiles: Tiles, loops: Loops, out: Ints, x: Ints, kernel: Ints, before: Ints, apart: Ints,
    groups: Ints, back: bool,
) -> _Convolution:  # fmt: skip
    taps, channels, filters = kernel[0], x[4], out[4] * math.prod(groups)
    count = kernel[3] * kernel[4]
    places = np.arange(36 * taps, dtype=np.int64) * (channels * filters)
    steps = (1, channels) if back else (filters, 1)
    pack = packing(tiles, places, channels, filters, *steps)
    values, areas, work = _shared(tiles, loops, out, x, taps, before, apart, groups)
    areas = (*areas, 64 * filters, 64)
    _, values_at, sums_at, corner_at, table_at, _ = starts(areas)
    values |= {
        "values_at": values_at, "sums_at": sums_at, "corner_at": corner_at, "table_at": table_at,
        "back": loops.transforms["back"], "row_groups": groups[0], "column_groups": groups[1],
    }  # fmt: skip
    items = -(-values["images"] * values["tile_rows"] // values["together"])
    fields = kernel_file.parameters_of(sources.GATHER)
    work *= values["together"]
    gather = plan(loops.gather, "float32", fields, values, items, work, areas)
    weights = _planned_weights(loops, "weights", taps, count, -4 * count if back else 4 * count)
    packed = packed_bytes(tiles, 36 * taps, channels, filters)
    return _Convolution(back, taps, 4 * count, packed, weights, pack, gather)


def _shared(
    tiles: Tiles, loops: Loops, out: Ints, x: Ints, taps: int, before: Ints, apart: Ints,
    groups: Ints = (1, 1), together: int = 0,
) -> tuple[dict[str, int], tuple[int, ...], int]:  # fmt: skip
    """What both kernels know, the sizes of a strip and of the planes of both sides, and the work
    of a row of tiles. So many of these rows are `together`, by default those of an item."""
    channels, filters = x[4], out[4] * math.prod(groups)
    tile_rows, tile_columns = _tiles_of(out, (1, apart[1] * groups[0], apart[2] * groups[1]))
    together = together or max(1, ITEM_TILES // tile_columns)
    count = together * tile_columns
    # Odd steps from row to row and plane to plane, or all 36 would share their places in a cache.
    value_bytes, sum_bytes = 4 * taps * channels + 64, 4 * filters + 64
    value_plane, sum_plane = count * value_bytes + 192, count * sum_bytes + 192
    values = {
        "wide": tiles.wide, "narrow": tiles.narrow, "lanes": tiles.lanes, "most": tiles.most,
        "into": loops.transforms["into"], "images": out[0] * out[1] * math.prod(apart[1:]),
        "in_rows": x[2], "in_columns": x[3], "channels": channels,
        "out_rows": out[2], "out_columns": out[3], "filters": filters,
        "taps": taps, "in_planes": x[1], "out_planes": out[1],
        "front": before[0], "top": before[1], "left": before[2],
        "plane_apart": apart[0], "row_apart": apart[1], "column_apart": apart[2],
        "tile_rows": tile_rows, "tile_columns": tile_columns, "together": together,
        "value_bytes": value_bytes, "value_plane": value_plane,
        "sum_bytes": sum_bytes, "sum_plane": sum_plane,
    }  # fmt: skip
    strip = 6 * (4 * tile_columns + 2) * channels * 4
    products = taps * channels * filters + 40 * (taps * channels + filters)
    return values, (strip, 36 * value_plane, 36 * sum_plane), 36 * tile_columns * products


class _Sums(NamedTuple):
    """The gradient to the kernel, right where it is finite: the direct form says why it is not."""

    parts: int
    sums: Plan
    back: Plan

    def prepare(self, out: Array, g: Array, x: Array, workspace: Workspace) -> Prepared:
        """The call for arrays of these sizes."""
        taps, cell = len(out), out[0, 0, 0].nbytes
        partials = workspace.array((self.parts, 36, out.size // 9), out.dtype)
        total = partials[0]
        parts: list[Part] = [
            self.sums.launch(
                workspace, fast_call.address(partials), fast_call.address(x), fast_call.address(g)
            )
        ]
        if self.parts > 1:
            total = workspace.array(partials.shape[1:], out.dtype)
            parts.append(Joined(total, partials))
        begin, target = fast_call.address(total), fast_call.address(out)
        for tap in range(taps):
            places = begin + tap * cell, target + 9 * tap * cell
            parts.append(self.back.launch(workspace, *places))
        return Prepared(parts, "winograd", lambda: bool(np.isfinite(out).all()))


def to_kernel(
    tiles: Tiles, out: Ints, g: Ints, x: Ints, pads: Ints, dilation: Ints
) -> _Sums | None:
    """The gradient to the kernel, None while it is not ready."""
    loops, taps, count = find_loops(), out[0], out[3] * out[4]
    if loops is None:
        return None
    parts, sums = _planned_sums(tiles, loops, g, x, taps, pads, dilation)
    return _Sums(parts, sums, _planned_weights(loops, "totals", taps, count, 4 * count))


@functools.lru_cache(MAX_PLANS)
def _planned_weights(loops: Loops, name: str, taps: int, count: int, step: int) -> Plan:
    """The transform of one of `taps` windows of `count` channels times filters, `step` bytes
    between weights."""
    values = {
        "transform": loops.transforms[name], "row": 3 * step, "column": step,
        "plane": 4 * taps * count, "count": count, "chunk": ITEM_WEIGHTS,
    }  # fmt: skip
    items = -(-count // ITEM_WEIGHTS)
    fields, work = kernel_file.parameters_of(sources.WEIGHTS), 100 * min(count, ITEM_WEIGHTS)
    return plan(loops.weights, "float32", fields, values, items, work)


@functools.lru_cache(MAX_PLANS)
def _planned_sums(
    tiles: Tiles, loops: Loops, g: Ints, x: Ints, taps: int, before: Ints, apart: Ints
) -> tuple[int, Plan]:
    tile_rows, tile_columns = _tiles_of(g, (1, *apart[1:]))
    lines = g[0] * g[1] * math.prod(apart[1:]) * tile_rows
    parts = min(MAX_PARTS, max(MIN_PARTS, lines * tile_columns // PART_TILES), lines)
    each = -(-lines // parts)
    parts = -(-lines // each)
    most = max(1, PART_TILES // tile_columns)
    together = -(-each // -(-each // most))  # all about as many
    values, areas, work = _shared(tiles, loops, g, x, taps, before, apart, (1, 1), together)
    areas = (max(areas[0], 16 * 4 * values["tile_columns"] * g[4]), *areas[1:3], 64)
    _, values_at, sums_at, table_at, _ = starts(areas)
    values |= {
        "each": each, "spread": loops.transforms["spread"],
        "values_at": values_at, "sums_at": sums_at, "table_at": table_at,
    }  # fmt: skip
    fields = kernel_file.parameters_of(sources.REDUCE)
    return parts, plan(loops.reduce, "float32", fields, values, parts, each * work, areas)
