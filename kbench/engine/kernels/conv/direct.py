"""The ways of the compiled convolutions on checked arrays: plans for their sizes, partial sums.

Arrays here are contiguous, of the tiles' dtype, and have three spatial axes. Whatever the numbers
say, compiled code stays inside: input rows and columns outside of the array are never read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from kbench.engine.codegen.join_kernels import Joined
from kbench.engine.core.types import Array, Ints
from kbench.engine.jit import kernel_file
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import Part, Prepared
from kbench.engine.kernels.conv import col2im
from kbench.engine.kernels.conv.launch import (
    GATHER,
    MAX_PLANS,
    MIN_STREAMED_BYTES,
    REDUCE,
    Plan,
    Tiles,
    Way,
    cleared,
    plan,
    starts,
)
from kbench.engine.kernels.conv.packing import packed_bytes, packing
from kbench.engine.kernels.conv.tiling import (
    Cut,
    Sums,
    WindowAxis,
    backward_axes,
    cut_gather,
    cut_sums,
    forward_axis,
    phases,
)
from kbench.engine.kernels.winograd import api as winograd
from kbench.engine.runtime.workspace import Workspace

FIRST_CACHE_WEIGHT_BYTES = 1 << 15
"""Weights that stay in the first cache while a tile's pixels meet them, panel by panel."""


def forward(
    tiles: Tiles, out: Ints, x: Ints, kernel: Ints, strides: Ints, pads: Ints, dilation: Ints
) -> Iterator[Way | None]:
    """The convolution itself; what `pads` and the size of `out` reach over is zero."""
    if x[0] != out[0] or (x[4], out[4]) != kernel[3:]:
        raise ValueError(f"x {x}, kernel {kernel} and result {out} disagree")
    if winograd.is_profitable(tiles, out, kernel, strides, dilation):
        yield winograd.convolution(tiles, out, x, kernel, False, pads, dilation)
    out, x = _in_one_row(out, x, kernel, strides, pads)
    axes = tuple(map(forward_axis, kernel[:3], strides, pads, dilation, out[1:4]))
    yield _Direct((_gather(tiles, out, x, kernel, False, axes),))


def to_input(
    tiles: Tiles, out: Ints, g: Ints, kernel: Ints, strides: Ints, pads: Ints, dilation: Ints
) -> Iterator[Way | None]:
    """The gradient to the input of a convolution whose result has the gradient `g`."""
    if g[0] != out[0] or (out[4], g[4]) != kernel[3:]:
        raise ValueError(f"g {g}, kernel {kernel} and result {out} disagree")
    sizes, geometry = (tiles, out, kernel), (strides, pads, dilation)
    if winograd.is_profitable(*sizes, strides, dilation):
        yield winograd.convolution(tiles, out, g, kernel, True, pads, dilation)
    elif winograd.suits_spread(*sizes, *geometry):
        yield winograd.spread(tiles, out, g, kernel, strides, pads)
    if math.prod(out) * math.prod(g) > 0 and col2im.is_profitable(*sizes, geometry):
        yield col2im.way(tiles, out, g, kernel, *geometry)
    out, g = _in_one_row(out, g, kernel, strides, pads)
    axes = map(backward_axes, kernel[:3], strides, pads, dilation, out[1:4])
    yield _Direct(
        tuple(_gather(tiles, out, g, kernel, True, phase) for phase in phases(list(axes)))
    )


# ------------------------------------------------------------------ forward, and back to the input


def _in_one_row(out: Ints, x: Ints, kernel: Ints, strides: Ints, pads: Ints) -> tuple[Ints, Ints]:
    """The same sizes; where each result needs one place of the input and all places are used, they
    are those of a single row, which is cut without regard to the images' rows."""
    if kernel[:3] == strides == (1, 1, 1) and pads == (0, 0, 0) and out[:4] == x[:4]:
        places = math.prod(x[:4])
        return (1, 1, 1, places, out[4]), (1, 1, 1, places, x[4])
    return out, x


class _Gather(Struct, frozen=True, eq=False):
    """One phase of a convolution for some sizes."""

    pack: Plan
    packed_bytes: int
    """Bytes of the packed kernel."""
    run: Plan


Places = tuple[slice, ...]
"""Where no tap reaches: zeros."""


class _Direct(NamedTuple):
    """All phases of a convolution: every output of it is written."""

    phases: tuple[_Gather | Places | None, ...]

    def prepare(self, out: Array, x: Array, kernel: Array, workspace: Workspace) -> Prepared:
        """The launches at these addresses."""
        parts: list[Part] = []
        empty = [phase for phase in self.phases if isinstance(phase, tuple)]
        if empty:  # all of it is cleared faster than some phases are
            parts.append(cleared(out, empty[0] if len(self.phases) == 1 else ()))
        for phase in self.phases:
            if isinstance(phase, _Gather):
                packed = workspace.take(phase.packed_bytes)
                parts.append(phase.pack.launch(workspace, packed, address_of(kernel)))
                places = address_of(out), address_of(x), packed
                parts.append(phase.run.launch(workspace, *places))
        return Prepared(parts)


def _gather(
    tiles: Tiles, out: Ints, x: Ints, kernel: Ints, back: bool, axes: tuple[WindowAxis, ...]
) -> _Gather | Places | None:
    """One phase of a convolution; None where it has no outputs."""
    if min(out) == 0 or min(axis.count for axis in axes) == 0:
        return None
    if min(*x, *kernel) == 0 or min(len(axis.offsets) for axis in axes) == 0:
        places = tuple(slice(axis.phase, None, axis.step) for axis in axes)
        return (slice(None), *places)
    return _planned(tiles, out, x, kernel, back, axes)


@functools.lru_cache(MAX_PLANS)
def _planned(
    tiles: Tiles, out: Ints, x: Ints, kernel: Ints, back: bool, axes: tuple[WindowAxis, ...]
) -> _Gather:
    planes, rows, columns = axes
    taps = math.prod(len(axis.offsets) for axis in axes)
    channels, filters = x[4], out[4]
    direct = columns.low >= 0 and columns.low + columns.width <= x[3]
    pixel = 0 if direct else channels * tiles.size
    cut = cut_gather(planes, rows, columns, x[0], taps * channels, filters, tiles.lanes, pixel)
    most_rows = cut.together * cut.height
    areas = (
        cut.strip_bytes,
        8 * cut.together * len(planes.offsets) * cut.span,
        16 * most_rows * taps,
        16 * most_rows,
    )
    offsets = [np.array(axis.offsets, np.int64) for axis in axes]
    _, seen_at, table_at, row_at, _ = starts(areas)
    values = {
        "wide": tiles.wide, "narrow": tiles.narrow, "lanes": tiles.lanes, "most": tiles.most,
        "whole": tiles.whole, "seen_at": seen_at, "table_at": table_at, "row_at": row_at,
        "filters": filters, "channels": channels, "images": x[0],
        "depth": len(columns.offsets) * channels if columns.dense else channels,
        "low": columns.low, "width": columns.width, "direct": int(direct), "lowest": rows.low,
        "past": int(math.prod(out) * tiles.size >= MIN_STREAMED_BYTES),
        "beside": max(
            1, FIRST_CACHE_WEIGHT_BYTES // (taps * channels * 2 * tiles.lanes * tiles.size)
        ),
        **_axis_fields(axes, x, out, offsets, columns.dense), **_cut_fields(cut),
    }  # fmt: skip
    fields = kernel_file.parameters_of(GATHER)
    run = plan(tiles.gather, tiles.dtype, fields, values, cut.items, cut.work, areas, offsets)
    return _Gather(*_packing(tiles, kernel, back, axes), run)


def _packing(
    tiles: Tiles, kernel: Ints, back: bool, axes: tuple[WindowAxis, ...]
) -> tuple[Plan, int]:
    """How the matrices of the axes' taps go into panels, transposed when going `back`; and the
    bytes of these."""
    channels, filters = kernel[3:]
    index = np.ix_(*(np.array(axis.index, np.int64) for axis in axes))
    places = np.ravel_multi_index(index, kernel[:3]).reshape(-1) * (channels * filters)
    if back:
        pack = packing(tiles, places, filters, channels, 1, filters)
        return pack, packed_bytes(tiles, places.size, filters, channels)
    pack = packing(tiles, places, channels, filters, filters, 1)
    return pack, packed_bytes(tiles, places.size, channels, filters)


def _axis_fields(
    axes: Sequence[WindowAxis], x: Ints, out: Ints, offsets: Sequence[Array], joined: bool
) -> dict[str, int]:
    """What a kernel knows of each axis; joined columns are one tap."""
    fields: dict[str, int] = {}
    for number, name in enumerate(("plane", "row", "column")):
        axis = axes[number]
        fields |= {
            f"{name}s": axis.count, f"{name}_step": axis.step, f"{name}_phase": axis.phase,
            f"{name}_stride": axis.stride, f"{name}_offsets": address_of(offsets[number]),
            f"{name}_taps": 1 if joined and number == 2 else len(axis.offsets),
            f"in_{name}s": x[1 + number], f"out_{name}s": out[1 + number],
        }  # fmt: skip
    return fields


def _cut_fields(cut: Cut) -> dict[str, int]:
    names = ("height", "together", "bundle", "across", "slices", "chunks", "groups", "span")
    return {name: getattr(cut, name) for name in names}


# ------------------------------------------------------------------ back to the kernel


class _Sums(NamedTuple):
    """Sums of parts of the images, which are joined."""

    dtype: np.dtype[np.generic]
    parts: int
    run: Plan

    def prepare(self, out: Array, g: Array, x: Array, workspace: Workspace) -> Prepared:
        """The launches at these addresses."""
        several = self.parts > 1
        partials = workspace.array((self.parts, *out.shape), self.dtype) if several else out
        launch = self.run.launch(workspace, *map(address_of, (partials, x, g)))
        return Prepared((launch, Joined(out, partials)) if several else (launch,))


def to_kernel(
    tiles: Tiles, out: Ints, g: Ints, x: Ints, strides: Ints, pads: Ints, dilation: Ints
) -> Iterator[Way | None]:
    """The gradient to the kernel, `out`, of a convolution of `x` whose result has gradient `g`."""
    if x[0] != g[0] or (x[4], g[4]) != out[3:]:
        raise ValueError(f"g {g}, x {x} and result {out} disagree")
    if min(*g, *x, *out) == 0:
        yield _Direct(((),))
        return
    if winograd.is_profitable(tiles, g, out, strides, dilation, sums=True):
        yield winograd.to_kernel(tiles, out, g, x, pads, dilation)
    parts, run = _planned_sums(tiles, out, g, x, strides, pads, dilation)
    yield _Sums(np.dtype(tiles.dtype), parts, run)


@functools.lru_cache(MAX_PLANS)
def _planned_sums(
    tiles: Tiles, out: Ints, g: Ints, x: Ints, strides: Ints, pads: Ints, dilation: Ints
) -> tuple[int, Plan]:
    axes = tuple(map(forward_axis, out[:3], strides, pads, dilation, g[1:4]))
    planes, rows, columns = axes
    taps = len(planes.offsets) * len(rows.offsets)
    channels, filters = x[4], g[4]
    height = math.prod(g[:3])
    packs = filters % tiles.lanes != 0 or filters >= 256
    cut = cut_sums(height, columns, taps, channels, filters, tiles.size, packs)
    direct = columns.low >= 0 and columns.low + columns.width <= x[3]
    wide = -(-filters // tiles.lanes) * tiles.lanes
    extent = (cut.across - 1) * columns.stride + columns.reach
    areas = (
        0 if direct else cut.together * extent * cut.block * tiles.size,
        16 * cut.together,
        cut.together * cut.across * wide * tiles.size if packs else 0,
    )
    offsets = [np.array(axis.offsets, np.int64) for axis in axes]
    _, table_at, panels_at, _ = starts(areas)
    values = {
        "wide": tiles.wide, "narrow": tiles.narrow, "lanes": tiles.lanes, "most": tiles.most,
        "table_at": table_at, "panels_at": panels_at,
        "filters": filters, "channels": channels, **_axis_fields(axes, x, g, offsets, False),
        "rows": height * cut.slices, "lines": rows.count,
        "low": columns.low, "width": columns.width, "direct": int(direct),
        "packs": int(packs), "taps": taps,
        "joined": int(columns.dense and cut.block == channels), **_sum_fields(cut, taps, channels),
    }  # fmt: skip
    fields = kernel_file.parameters_of(REDUCE)
    run = plan(tiles.reduce, tiles.dtype, fields, values, cut.items, cut.work, areas, offsets)
    return cut.parts, run


def _sum_fields(cut: Sums, taps: int, channels: int) -> dict[str, int]:
    return {
        "each": cut.each, "together": cut.together, "across": cut.across, "slices": cut.slices,
        "bundle": cut.bundle, "block": cut.block,
        "bundles": -(-taps // cut.bundle), "blocks": -(-channels // cut.block),
    }  # fmt: skip
