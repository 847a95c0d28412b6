"""How a convolution is cut into items: taps along each axis, strips, and sizes of scratch areas.

Plain arithmetic on sizes; knows no arrays and no compiler. Cuts never depend on the number of
threads, so neither do results.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from msgspec import Struct

from kbench.engine.core.types import Ints

STRIP_BYTES = 384 * 1024
"""Rows copied for one item: with the panel that meets them they stay in the second cache."""
ITEM_PRODUCTS = 8_000_000
"""Products of one item, about 0.1 ms: many items to share out, and little time to start each."""
LARGE_WEIGHT_BYTES = 128 * 1024
"""Weights from which on a kernel leaves no room for anything else in the second cache."""
MAX_ITEM_COLUMNS = 1024
"""Columns of one item at most."""
MIN_ITEMS = 32
"""Items that keep any number of threads busy."""


class WindowAxis(Struct, frozen=True):
    """One axis of a gather: output place o = number * step + phase, for number < count, adds up
    the input at number * stride + offsets[t] times the kernel's entry index[t]."""

    offsets: Ints
    index: Ints
    count: int
    stride: int = 1
    step: int = 1
    phase: int = 0

    @property
    def low(self) -> int:
        return min(self.offsets, default=0)

    @property
    def reach(self) -> int:
        """Input places from the first to the last tap of one output."""
        return max(self.offsets, default=0) - self.low + 1

    @property
    def width(self) -> int:
        """Input places that `count` outputs reach over, from `low` on."""
        return max(self.count - 1, 0) * self.stride + self.reach

    @property
    def dense(self) -> bool:
        """Whether the taps stand side by side, in order."""
        return all(b - a == 1 for a, b in itertools.pairwise(self.offsets))


@functools.lru_cache(1024)
def forward_axis(window: int, stride: int, pad: int, dilation: int, count: int) -> WindowAxis:
    """The axis of a convolution with `count` outputs."""
    index = tuple(range(window))
    return WindowAxis(tuple(i * dilation - pad for i in index), index, count, stride)


@functools.lru_cache(1024)
def backward_axes(
    window: int, stride: int, pad: int, dilation: int, size: int
) -> tuple[WindowAxis, ...]:
    """The axes of the gradient to an input of `size`, one for each phase of the stride.

    Input h was read by output o with tap i where o * stride = h + pad - i * dilation, so inputs of
    one phase, h mod stride, share their taps, and no zeros need to be put between outputs.
    """
    axes = []
    for phase in range(min(stride, size)):
        taps = [i for i in range(window) if (phase + pad - i * dilation) % stride == 0]
        taps = taps[::-1] if dilation > 0 else taps
        offsets = tuple((phase + pad - i * dilation) // stride for i in taps)
        count = -(-(size - phase) // stride)
        axes.append(WindowAxis(offsets, tuple(taps), count, 1, stride, phase))
    return tuple(axes)


def phases(axes: Sequence[tuple[WindowAxis, ...]]) -> Iterator[tuple[WindowAxis, ...]]:
    """Every combination of the phases of the axes."""
    return itertools.product(*axes)


class Cut(Struct, frozen=True):
    """Items of a gather: `together` planes, `height` rows, `across` columns, `bundle` panels."""

    height: int
    together: int
    bundle: int
    across: int
    slices: int
    chunks: int
    groups: int
    items: int
    strip_bytes: int
    span: int
    work: int
    """Products of one item."""


def cut_gather(
    planes: WindowAxis, rows: WindowAxis, columns: WindowAxis, images: int, depth: int,
    filters: int, lanes: int, pixel: int,
) -> Cut:  # fmt: skip
    """Cut a gather; `depth` is products per output, `pixel` bytes in a strip, 0 for none."""
    panels = -(-filters // (2 * lanes))
    across, slices = cut_columns(columns)
    row_work = max(1, across * depth * panels * 2 * lanes)
    line = 0 if not pixel else ((across - 1) * columns.stride + columns.reach) * pixel
    # A kernel larger than the second cache is read anew by every item, so items are larger.
    item_work = ITEM_PRODUCTS if depth * filters < LARGE_WEIGHT_BYTES else 8 * ITEM_PRODUCTS
    height = max(1, min(rows.count, 8, item_work // row_work))
    while height > 1 and _strip(planes, rows, height, 1) * line > STRIP_BYTES:
        height = (height + 1) // 2
    height = -(-rows.count // -(-rows.count // height))  # chunks of like size
    total = images * planes.count
    together = 1
    if height == rows.count:
        wanted = item_work // (row_work * height)
        room = STRIP_BYTES // max(1, _strip(planes, rows, height, 1) * line)
        together = max(1, min(wanted, room, 16, -(-total // MIN_ITEMS)))
    chunks, groups = -(-rows.count // height), -(-total // together)
    whole = chunks * groups * slices
    bundle = panels
    if whole < MIN_ITEMS or height * row_work > 16 * ITEM_PRODUCTS:
        parts = max(-(-MIN_ITEMS // whole), height * row_work // (16 * ITEM_PRODUCTS))
        bundle = -(-panels // min(panels, parts))
    parts = -(-panels // bundle)
    strip_rows = _strip(planes, rows, height, together)
    span = (height - 1) * rows.stride + rows.reach
    work = together * height * row_work // parts
    return Cut(
        height, together, bundle, across, slices, chunks, groups, whole * parts,
        strip_rows * line, span, work,
    )  # fmt: skip


def cut_columns(columns: WindowAxis, most: int = MAX_ITEM_COLUMNS) -> tuple[int, int]:
    """Columns of a piece of a row, and the pieces: a long row is not one item's alone."""
    slices = max(1, -(-columns.count // most))
    across = -(-columns.count // slices)
    return across, -(-columns.count // across)


def _strip(planes: WindowAxis, rows: WindowAxis, height: int, together: int) -> int:
    """Most input rows that an item reads."""
    span = (height - 1) * rows.stride + rows.reach
    return together * len(planes.offsets) * min(span, height * len(rows.offsets))


class Sums(Struct, frozen=True):
    """Items of a gradient to the kernel: `each` output rows, `bundle` taps, `block` channels.

    Rows, or pieces of long ones, are added up in chunks of `together`; each of `parts` has totals
    of its own.
    """

    each: int
    together: int
    across: int
    slices: int
    parts: int
    block: int
    bundle: int
    items: int
    work: int


MAX_PARTIAL_BYTES = 32 * 2**20
"""Memory of all partial sums of a gradient to a kernel."""
PARTIAL_SHARE = 4
"""Partial sums may have the bytes of both images divided by this; more, where there are few items.
Each is cleared, added to and joined: for a large kernel that takes longer than its products."""
MIN_BLOCK = 32
"""Channels of an item, where partial sums are dear."""
CHUNK_PIXELS = 448
"""Pixels added up in registers before the sums go back to memory."""


def cut_sums(
    rows: int,
    columns: WindowAxis,
    taps: int,
    channels: int,
    filters: int,
    itemsize: int,
    packs: bool,
) -> Sums:
    """Cut the gradient to a kernel of taps rows of columns, channels and filters.

    Where every item `packs` the gradient of its rows, few blocks of channels share a row.
    """
    column_taps = len(columns.offsets)
    block = channels
    if channels > 128:
        block = -(-channels // -(-channels // 64))
    blocks = -(-channels // block)
    bundle = 1 if column_taps * block >= 64 else min(taps, max(1, 64 // (column_taps * block)))
    bundles = -(-taps // bundle)
    across, slices = cut_columns(columns, 2 * CHUNK_PIXELS)
    pieces = rows * slices
    together = max(1, min(rows, CHUNK_PIXELS // across)) if slices == 1 else 1
    size = taps * column_taps * channels * filters * itemsize
    work = rows * columns.count * taps * column_taps * channels * filters
    wanted = max(
        -(-2 * MIN_ITEMS // (blocks * bundles)), work // (8 * ITEM_PRODUCTS * blocks * bundles)
    )
    images = rows * columns.count * (channels + filters) * itemsize
    cheap = images // (PARTIAL_SHARE * max(1, size))
    if wanted > cheap and not packs:
        more = min(-(-MIN_ITEMS // (max(1, cheap) * bundles)), channels // MIN_BLOCK)
        block = -(-channels // max(blocks, more))
        blocks = -(-channels // block)
    room = min(max(cheap, -(-MIN_ITEMS // (blocks * bundles))), MAX_PARTIAL_BYTES // max(1, size))
    parts = max(1, min(wanted, room, -(-pieces // together)))
    each = -(-pieces // parts)
    parts = -(-pieces // each)
    items = parts * blocks * bundles
    work = -(-work // items)
    return Sums(each, together, across, slices, parts, block, bundle, items, work)
