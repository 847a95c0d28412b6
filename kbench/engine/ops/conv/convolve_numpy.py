"""Convolution on arrays, with NumPy: patches of a block are gathered, one product does the rest.

Everything is channels last, and knows nothing of tensors. Work is cut into blocks whose patches
fit the cache, so that the memory beside the result is bounded and a stop is honoured soon.
A window starts at `i * stride + start` along an axis; what lies outside of the array is zero.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from types import EllipsisType

import numpy as np
from numpy.lib.stride_tricks import as_strided

from kbench.engine.core import cancel
from kbench.engine.core.types import Ints
from kbench.engine.ops.conv.windows import reach
from kbench.engine.ops.linear.matmul import multiply_into
from kbench.engine.runtime import blas

Block = tuple[slice, ...]
Phase = tuple[Block, Block, Ints, Ints]
MAX_PHASES = 8
"""Cells of a stride, above which going through them one by one is slower."""
MAX_GATHERED_ELEMENTS = 1 << 20
"""Elements that are gathered at a time."""
MAX_FILTERS_PER_CHANNEL = 8
"""Filters for each channel, above which spreading is cheaper than gathering back."""


def working_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """float16 computes in float32."""
    return np.dtype(np.float32 if dtype == np.float16 else dtype)


class Scratch:
    """Memory that the blocks of one call use one after another."""

    def __init__(self, dtype: np.dtype[np.generic]) -> None:
        self.dtype = dtype
        self.parts: dict[str, np.ndarray] = {}

    def take(self, name: str, shape: Ints) -> np.ndarray:
        """An array of unknown content; it is the caller's until the next of that name."""
        size = math.prod(shape)
        part = self.parts.get(name)
        if part is None or part.size < size:
            part = self.parts[name] = np.empty(size, self.dtype)
        return part[:size].reshape(shape)


def blocks(sizes: Ints, unit: int, budget: int) -> Iterator[Block]:
    """Boxes that cover `sizes`, of at most `budget` elements at `unit` for each place.

    Each box is contiguous in row-major order: it is longer than one along an axis only when it
    covers all axes behind.
    """
    extents: list[int] = []
    for size in reversed(sizes):
        extents.insert(0, max(1, min(size, budget // max(unit, 1))))
        unit *= extents[0] if extents[0] == size else max(size, 1) * budget
    ranges = [range(0, size, extent) for size, extent in zip(sizes, extents, strict=True)]
    for corner in itertools.product(*ranges):
        yield tuple(
            slice(low, min(low + extent, size))
            for low, extent, size in zip(corner, extents, sizes, strict=True)
        )
        cancel.check()


# ------------------------------------------------------------------ what the windows look at


def strip_of(
    x: np.ndarray,
    box: Block,
    window: Ints,
    strides: Ints,
    starts: Ints,
    dilation: Ints,
    pool: Scratch,
) -> np.ndarray:
    """The part of `x` that the windows of a box look at, with zeros for what is outside.

    A view where that serves; else a copy in the dtype of the scratch memory.
    """
    bounds = [
        (places.start * s + start, (places.stop - 1) * s + start + reach(w, d))
        for places, w, s, start, d in zip(box[1:], window, strides, starts, dilation, strict=True)
    ]
    inside = [
        slice(min(max(low, 0), size), max(min(high, size), 0))
        for (low, high), size in zip(bounds, x.shape[1:-1], strict=True)
    ]
    part = x[(box[0], *inside)]
    shape = (part.shape[0], *[high - low for low, high in bounds], x.shape[-1])
    plain = x.dtype == pool.dtype and (x.strides[-1] == x.itemsize or x.shape[-1] == 1)
    if plain and part.shape == shape:
        return part
    strip = pool.take("strip", shape)
    if part.shape != shape:
        strip.fill(0)
    if part.size:
        places = [
            slice(seen.start - low, seen.stop - low)
            for seen, (low, _) in zip(inside, bounds, strict=True)
        ]
        strip[(slice(None), *places)] = part
    return strip


def useful_taps(
    sizes: Ints, counts: Ints, window: Ints, strides: Ints, starts: Ints, dilation: Ints
) -> tuple[Block, Ints]:
    """Taps that can fall on a cell at all, and where the windows made of these start.

    A window spread far over a small array has taps that see nothing but the border.
    """
    taps, begins = [], []
    facts = zip(sizes, counts, window, strides, starts, dilation, strict=True)
    for size, count, width, stride, start, spacing in facts:
        low = max(0, -((start + (count - 1) * stride) // spacing))
        high = min(width, (size - 1 - start) // spacing + 1)
        taps.append(slice(low, max(high, low)))
        begins.append(start + low * spacing)
    return tuple(taps), tuple(begins)


def windows_of(
    strip: np.ndarray, counts: Ints, window: Ints, strides: Ints, dilation: Ints
) -> np.ndarray:
    """Every window on a strip as a view [images, *counts, *window, channels]."""
    space = strip.strides[1:-1]
    steps = [nbytes * s * (n > 1) for nbytes, s, n in zip(space, strides, counts, strict=True)]
    taps = [nbytes * d * (n > 1) for nbytes, d, n in zip(space, dilation, window, strict=True)]
    return as_strided(
        strip,
        (strip.shape[0], *counts, *window, strip.shape[-1]),
        (strip.strides[0], *steps, *taps, strip.strides[-1]),
        writeable=False,
    )


def patches_of(
    x: np.ndarray,
    box: Block,
    window: Ints,
    strides: Ints,
    starts: Ints,
    dilation: Ints,
    pool: Scratch,
) -> np.ndarray:
    """The windows of a box as rows of a matrix."""
    strip = strip_of(x, box, window, strides, starts, dilation, pool)
    counts = tuple(places.stop - places.start for places in box[1:])
    view = windows_of(strip, counts, window, strides, dilation)
    columns = math.prod(window) * x.shape[-1]
    if view.flags.c_contiguous:
        return view.reshape(-1, columns)
    patches = pool.take("patches", view.shape)
    np.copyto(patches, view)
    return patches.reshape(-1, columns)


# ------------------------------------------------------------------ the three products


@np.errstate(all="ignore")
def correlate(
    out: np.ndarray,
    x: np.ndarray,
    kernel: np.ndarray,
    strides: Ints,
    starts: Ints,
    dilation: Ints,
) -> None:
    """`out[n, *place, f]`: the sum over taps and channels of `x` times `kernel`."""
    if not out.size:
        return
    facts = (x.shape[1:-1], out.shape[1:-1], kernel.shape[:-2], strides, starts, dilation)
    taps, starts = useful_taps(*facts)
    kernel = kernel[taps]
    window, (channels, filters) = kernel.shape[:-2], kernel.shape[-2:]
    columns = math.prod(window) * channels
    if not columns or not x.size:
        out.fill(0)
        return
    pool = Scratch(working_dtype(x.dtype))
    matrix = kernel.reshape(columns, filters).astype(pool.dtype, copy=False)
    for box in blocks(out.shape[:-1], columns, MAX_GATHERED_ELEMENTS):
        patches = patches_of(x, box, window, strides, starts, dilation, pool)
        target = out[box]
        if target.flags.c_contiguous and target.dtype == pool.dtype:
            multiply_into(target.reshape(-1, filters), patches, matrix)
            continue
        product = pool.take("product", target.shape)
        multiply_into(product.reshape(-1, filters), patches, matrix)
        target[...] = product


@np.errstate(all="ignore")
def correlate_to_kernel(
    out: np.ndarray, g: np.ndarray, x: np.ndarray, strides: Ints, starts: Ints, dilation: Ints
) -> None:
    """`out[*tap, c, f]`: the sum over all places of `x`, as the tap sees it, times `g`."""
    facts = (x.shape[1:-1], g.shape[1:-1], out.shape[:-2], strides, starts, dilation)
    taps, starts = useful_taps(*facts)
    target = out[taps]
    window, (channels, filters) = target.shape[:-2], out.shape[-2:]
    columns = math.prod(window) * channels
    if target.size != out.size or not out.size or not g.size or not x.size:
        out.fill(0)
    if not target.size or not g.size or not x.size:
        return
    pool = Scratch(working_dtype(x.dtype))
    total: np.ndarray | None = None
    for box in blocks(g.shape[:-1], columns, max(MAX_GATHERED_ELEMENTS, 2 * columns * filters)):
        patches = patches_of(x, box, window, strides, starts, dilation, pool)
        rows = g[box].reshape(-1, filters).astype(pool.dtype, copy=False)
        part = pool.take("total" if total is None else "part", (columns, filters))
        multiply_into(part, patches.T, rows)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    target[...] = total.reshape(target.shape)


@np.errstate(all="ignore")
def correlate_to_input(
    out: np.ndarray, g: np.ndarray, kernel: np.ndarray, strides: Ints, starts: Ints, dilation: Ints
) -> None:
    """`out[n, *cell, c]`: the sum of `g` over the windows that see the cell, times their taps."""
    facts = (out.shape[1:-1], g.shape[1:-1], kernel.shape[:-2], strides, starts, dilation)
    taps, starts = useful_taps(*facts)
    kernel = kernel[taps]
    skinny = kernel.shape[-1] > MAX_FILTERS_PER_CHANNEL * kernel.shape[-2]
    if skinny or math.prod(strides) > MAX_PHASES or not is_finite(kernel):
        _scatter_to_input(out, g, kernel, strides, starts, dilation)
        return
    flipped = kernel.swapaxes(-1, -2)
    ones = (1,) * len(strides)
    for cells, seen, begins, spacing in phases(
        out.shape[1:-1], kernel.shape[:-2], strides, starts, dilation
    ):
        correlate(out[cells], g, flipped[seen], ones, begins, spacing)


def is_finite(weights: np.ndarray) -> bool:
    """Whether weights are all finite, by one fast pass; False also where they are beyond use."""
    flat = weights.reshape(-1)
    if flat.dtype == np.float16:
        return bool(np.isfinite(flat).all())
    with np.errstate(all="ignore"):
        return math.isfinite(blas.square_sum(flat))


# ------------------------------------------------------------------ back to the input


def _scatter_to_input(
    out: np.ndarray, g: np.ndarray, kernel: np.ndarray, strides: Ints, starts: Ints, dilation: Ints
) -> None:
    """Each window adds to the cells that it sees: one product, then a pass for each tap."""
    window, (channels, filters) = kernel.shape[:-2], kernel.shape[-2:]
    columns = math.prod(window) * channels
    pool = Scratch(working_dtype(g.dtype))
    matrix = kernel.reshape(columns, filters).astype(pool.dtype, copy=False).T

    def added(part: np.ndarray) -> Callable[[Ints], np.ndarray]:
        rows = part.reshape(-1, filters).astype(pool.dtype, copy=False)
        patches = pool.take("patches", (len(rows), columns))
        multiply_into(patches, rows, matrix)
        spread = patches.reshape(*part.shape[:-1], *window, channels)

        def sums_of(tap: Ints) -> np.ndarray:
            cells: tuple[int | slice | EllipsisType, ...] = (..., *tap, slice(None))
            return spread[cells]

        return sums_of

    for images, cells, sums in spread_back(
        out,
        g,
        window,
        channels,
        (columns, MAX_GATHERED_ELEMENTS),
        (strides, starts, dilation),
        added,
        pool,
    ):
        out[(images, *cells)] = sums


def spread_back(
    out: np.ndarray,
    g: np.ndarray,
    window: Ints,
    channels: int,
    block: tuple[int, int],
    sides: tuple[Ints, Ints, Ints],
    added: Callable[[np.ndarray], Callable[[Ints], np.ndarray]],
    pool: Scratch,
) -> Iterator[tuple[slice, Block, np.ndarray]]:
    """The sums over all windows for a few images after another, and which cells these are.

    `added` gives, for a block of `g`, what its windows add by each tap to the cells that the tap
    sees. `block` is elements for each place, and the most for a block. Cells that no window sees
    are set to zero, and nothing is multiplied by a border.
    """
    strides, starts, dilation = sides
    counts = g.shape[1:-1]
    out.fill(0)
    if not (out.size and g.size and math.prod(window) * channels):
        return
    extents = [
        (count - 1) * s + reach(w, d)
        for count, s, w, d in zip(counts, strides, window, dilation, strict=True)
    ]
    cut = [
        (slice(max(start, 0), max(start + extent, 0)), slice(max(-start, 0), max(size - start, 0)))
        for start, extent, size in zip(starts, extents, out.shape[1:-1], strict=True)
    ]
    cells, kept = zip(*cut, strict=True)
    for (images,) in blocks(g.shape[:1], math.prod(counts) * block[0], block[1]):
        part = g[images]
        strip = pool.take("strip", (len(part), *extents, channels))
        strip.fill(0)
        for box in blocks(part.shape[:-1], *block):
            values = added(part[box])
            for tap, seen in taps_of(box, window, strides, dilation):
                strip[seen] += values(tap)
        yield images, cells, strip[(slice(None), *kept)]


def taps_of(
    box: Block, window: Ints, strides: Ints, dilation: Ints
) -> Iterator[tuple[Ints, Block]]:
    """Every tap, with the cells of a strip that it sees from the windows of a box."""
    for tap in itertools.product(*map(range, window)):
        cells = [
            slice(places.start * s + t * d, (places.stop - 1) * s + t * d + 1, s)
            for places, s, t, d in zip(box[1:], strides, tap, dilation, strict=True)
        ]
        yield tap, (box[0], *cells)


def phases(
    sizes: Ints, window: Ints, strides: Ints, starts: Ints, dilation: Ints
) -> Iterator[Phase]:
    """The cells of an input, apart by what is left of their place when divided by the stride.

    Those of a phase see the same taps, as a convolution of stride one: (cells, taps in reverse,
    starts, dilation).
    """
    axes = [
        [_phase(i, *facts) for i in range(min(facts[1], size))]
        for size, *facts in zip(sizes, window, strides, starts, dilation, strict=True)
    ]
    for phase in itertools.product(*axes):
        cells, taps, begins, spacings = zip(*phase, strict=True)
        yield (slice(None), *cells), taps, begins, spacings


def _phase(
    first: int, window: int, stride: int, start: int, dilation: int
) -> tuple[slice, slice, int, int]:
    """(cells, taps in reverse, first window, spacing of windows) for cells from `first` on.

    Window o sees cell i by tap t where `o * stride + start + t * dilation == i`.
    """
    offset = first - start
    seen = [t for t in range(window) if (offset - t * dilation) % stride == 0]
    cells = slice(first, None, stride)
    if not seen:
        return cells, slice(0, 0), 0, 1
    tap, step = seen[0], stride // math.gcd(dilation, stride)
    spacing = dilation * step // stride
    begin = (offset - tap * dilation) // stride - spacing * (len(seen) - 1)
    stop = tap - 1 if tap else None
    return cells, slice(seen[-1], stop, -step), begin, spacing
