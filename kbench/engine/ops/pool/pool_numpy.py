"""The NumPy forms of pooling: windows one axis after the other, in blocks that stay in the cache.

Arrays are seen as [outer, *space, inner]. The last spatial axis goes first, so that the first
winner of every row and then the first row with a winner is the first one in row-major order; its
gradient walks the same way back.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from kbench.engine.core import cancel
from kbench.engine.core.types import Ints
from kbench.engine.ops.conv.windows import pads_of, window_count

BLOCK_ELEMENTS = 1 << 18
"""Elements of the input that are pooled at a time."""


class Line(NamedTuple):
    """Windows along one axis of an array of rank `rank`."""

    axis: int
    rank: int
    size: int
    steps: int
    window: int
    stride: int
    before: int

    def at(self, where: slice) -> tuple[slice, ...]:
        """The index of a part along this axis."""
        return (*(slice(None),) * self.axis, where, *(slice(None),) * (self.rank - self.axis - 1))

    def taps(self) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
        """For each place in the window: the cells that stand there, and whose windows they are."""
        low = max(0, self.before - (self.steps - 1) * self.stride)
        for offset in range(low, min(self.window, self.before + self.size)):
            shift = offset - self.before
            first = max(0, -(shift // self.stride))
            last = min(self.steps, (self.size - 1 - shift) // self.stride + 1)
            if first < last:
                begin = first * self.stride + shift
                end = begin + (last - first - 1) * self.stride + 1
                yield self.at(slice(begin, end, self.stride)), self.at(slice(first, last))

    def cells(self) -> np.ndarray:
        """How many real cells each window holds, to be broadcast along this axis."""
        begin = np.arange(self.steps) * self.stride - self.before
        found = np.minimum(begin + self.window, self.size) - np.maximum(begin, 0)
        return found.reshape([-1 if i == self.axis else 1 for i in range(self.rank)])

    def part(self, first: int, last: int) -> tuple[slice, Line]:
        """The cells that the windows from `first` to `last` cover, and those windows on them."""
        begin = first * self.stride - self.before
        low, high = (
            max(begin, 0),
            min((last - 1) * self.stride - self.before + self.window, self.size),
        )
        line = self._replace(size=high - low, steps=last - first, before=low - begin)
        return slice(low, high), line


class PoolAttrs(TypedDict):
    """The attributes of every op that pools."""

    first: int
    window: Ints
    strides: Ints
    padding: str


class WindowGeometry(NamedTuple):
    """How windows lie on an array: the spatial axes begin at `first`."""

    first: int
    window: Ints
    strides: Ints
    padding: str

    def lines(self, shape: Ints) -> tuple[Line, ...]:
        """The windows along each spatial axis of [outer, *space, inner]."""
        return _lines(self, shape)

    def seen(self, array: np.ndarray) -> np.ndarray:
        """An array as [outer, *space, inner]."""
        stop = self.first + len(self.window)
        shape = array.shape
        outer, inner = math.prod(shape[: self.first]), math.prod(shape[stop:])
        return array.reshape(outer, *shape[self.first : stop], inner)

    def pooled(self, shape: Ints) -> Ints:
        """The shape of the result of pooling an array of `shape`."""
        counts = [line.steps for line in self.lines(shape)]
        return (*shape[: self.first], *counts, *shape[self.first + len(counts) :])


@functools.lru_cache(maxsize=256)
def _lines(form: WindowGeometry, shape: Ints) -> tuple[Line, ...]:
    rank = len(form.window)
    sizes = shape[form.first : form.first + rank]
    # A larger window covers the same cells, and a single one has no next: so ends what is huge.
    windows = tuple(min(window, 2 * n + 1) for window, n in zip(form.window, sizes, strict=True))
    pads = pads_of(sizes, windows, form.strides, form.padding)
    found = []
    for i, size in enumerate(sizes):
        stride = form.strides[i]
        steps = window_count(size, windows[i], stride, form.padding) or 0
        line = (i + 1, rank + 2, size, steps, windows[i], stride if steps > 1 else 1)
        found.append(Line(*line, pads[i][0]))
    return tuple(found)


PoolBlock = tuple[tuple[slice, ...], tuple[slice, ...], Sequence[Line]]


def _blocks(form: WindowGeometry, shape: Ints) -> Iterator[PoolBlock]:
    """Parts of the input, the part of the result that each gives, and the windows on it."""
    lines = form.lines(shape)
    outer = math.prod(shape[: form.first])
    inner = math.prod(shape[form.first + len(lines) :])
    image = max(1, math.prod(line.size for line in lines) * inner)
    rows = max(1, lines[0].steps)
    if image > 2 * BLOCK_ELEMENTS:
        each = max(1, image // max(1, lines[0].size)) * lines[0].stride
        rows = max(1, min(rows, BLOCK_ELEMENTS // each))
    step = max(1, BLOCK_ELEMENTS // image)
    for begin in range(0, outer, step):
        images = slice(begin, begin + step)
        for first in range(0, lines[0].steps, rows):
            last = min(first + rows, lines[0].steps)
            cells, line = lines[0].part(first, last)
            yield (images, cells), (images, slice(first, last)), [line, *lines[1:]]
            cancel.check()


# ------------------------------------------------------------------ along one axis


def _lowest(dtype: np.dtype[np.generic]) -> float:
    if dtype.kind == "b":
        return False
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype.name).min


def _pass(x: np.ndarray, line: Line, join: np.ufunc, start: float) -> np.ndarray:
    """Every window along one axis folded to one cell."""
    shape = (*x.shape[: line.axis], line.steps, *x.shape[line.axis + 1 :])
    out = np.full(shape, start, x.dtype)
    for source, target in line.taps():
        join(out[target], x[source], out=out[target])
    return out


def _masks(
    x: np.ndarray, y: np.ndarray, line: Line, width: int
) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...], np.ndarray]]:
    """For each place in the window: all bits set where it is the first of the window's value.

    A NaN is the largest cell, and then the window's value, too. Masks of whole integers, because
    choosing by a bool is an unforeseeable branch, ten times slower than these few passes.
    """
    integer = np.dtype(f"int{8 * width}")
    open_ = np.full(y.shape, -1, integer)
    with_nan = y.dtype.kind == "f" and bool(np.isnan(y).any())
    for source, target in line.taps():
        cell = x[source]
        hit: np.ndarray = cell == y[target]
        if with_nan:
            hit |= cell != cell
        mask = np.negative(hit.view(np.int8), dtype=integer)
        mask &= open_[target]
        open_[target] ^= mask
        yield source, target, mask


def _route(g: np.ndarray, x: np.ndarray, y: np.ndarray, line: Line) -> np.ndarray:
    """`g` of each window handed to its first cell of value `y`."""
    total = np.zeros(x.shape, g.dtype)
    bits = np.ascontiguousarray(g).view(f"int{8 * g.itemsize}")
    for source, target, mask in _masks(x, y, line, g.itemsize):
        mask &= bits[target]
        total[source] += mask.view(g.dtype)
    return total


def _winners(h: np.ndarray, x: np.ndarray, y: np.ndarray, line: Line) -> np.ndarray:
    """What stands in `h` where each window has its first cell of value `y`."""
    bits = np.ascontiguousarray(h).view(f"int{8 * h.itemsize}")
    out = np.zeros(y.shape, bits.dtype)
    for source, target, mask in _masks(x, y, line, h.itemsize):
        mask &= bits[source]
        out[target] |= mask
    return out.view(h.dtype)


def _maxima(x: np.ndarray, lines: Sequence[Line]) -> list[np.ndarray]:
    """`x`, then the largest values after each axis, the last axis first; float16 as float32."""
    stages = [x.astype(_wide(x.dtype), copy=False)]
    for line in reversed(lines):
        stages.append(_pass(stages[-1], line, np.maximum, _lowest(x.dtype)))
    return stages


def _cells(lines: Sequence[Line], dtype: np.dtype[np.generic]) -> np.ndarray:
    if all((line.steps - 1) * line.stride + line.window <= line.size for line in lines):
        return np.array(math.prod(line.window for line in lines), dtype)  # no border anywhere
    total = lines[0].cells()
    for line in lines[1:]:
        total = total * line.cells()
    return total.astype(dtype)


def _wide(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """float16 adds up in float32."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


# ------------------------------------------------------------------ whole arrays


def pool_max(out: np.ndarray | None, x: np.ndarray, **attrs: Unpack[PoolAttrs]) -> np.ndarray:
    """The largest value in each window."""
    form = WindowGeometry(**attrs)
    out = np.empty(form.pooled(x.shape), x.dtype) if out is None else out
    source, target = form.seen(x), form.seen(out)
    for taken, given, lines in _blocks(form, x.shape):
        target[given] = _maxima(source[taken], lines)[-1]
    return out


def pool_average(out: np.ndarray | None, x: np.ndarray, **attrs: Unpack[PoolAttrs]) -> np.ndarray:
    """The mean of the real cells in each window."""
    form = WindowGeometry(**attrs)
    out = np.empty(form.pooled(x.shape), x.dtype) if out is None else out
    source, target = form.seen(x), form.seen(out)
    wide = _wide(x.dtype)
    with np.errstate(all="ignore"):
        for taken, given, lines in _blocks(form, x.shape):
            total = source[taken].astype(wide, copy=False)
            for line in reversed(lines):
                total = _pass(total, line, np.add, 0)
            target[given] = total / _cells(lines, wide)
    return out


def pool_max_gradient(
    out: np.ndarray | None,
    g: np.ndarray,
    x: np.ndarray,
    y: np.ndarray | None = None,
    **attrs: Unpack[PoolAttrs],
) -> np.ndarray:
    """`g` handed to the first largest cell of each window, zero elsewhere; found without `y`."""
    form = WindowGeometry(**attrs)
    wide = _wide(g.dtype)
    total = np.empty(x.shape, wide) if out is None or wide != g.dtype else out
    total.fill(0)
    target, source, given_g = form.seen(total), form.seen(x), form.seen(g)
    with np.errstate(all="ignore"):
        for taken, given, lines in _blocks(form, x.shape):
            stages = _maxima(source[taken], lines)
            part = given_g[given].astype(wide, copy=False)
            for line, before, after in zip(lines, stages[-2::-1], stages[:0:-1], strict=True):
                part = _route(part, before, after, line)
            target[taken] += part
    return _stored(out, total, g.dtype)


def pool_winners(
    out: np.ndarray | None, h: np.ndarray, x: np.ndarray, y: np.ndarray, **attrs: Unpack[PoolAttrs]
) -> np.ndarray:
    """What stands in `h` at the first largest cell of `x` in each window."""
    form = WindowGeometry(**attrs)
    out = np.empty(y.shape, h.dtype) if out is None else out
    target, source, values = form.seen(out), form.seen(x), form.seen(h)
    for taken, given, lines in _blocks(form, x.shape):
        stages = _maxima(source[taken], lines)
        part = values[taken]
        for line, before, after in zip(reversed(lines), stages[:-1], stages[1:], strict=True):
            part = _winners(part, before, after, line)
        target[given] = part
    return out


def pool_spread(
    out: np.ndarray | None, g: np.ndarray, x: np.ndarray, **attrs: Unpack[PoolAttrs]
) -> np.ndarray:
    """`g` shared equally by the real cells of each window: the transpose of the mean."""
    form = WindowGeometry(**attrs)
    wide = _wide(g.dtype)
    total = np.empty(x.shape, wide) if out is None or wide != g.dtype else out
    total.fill(0)
    target, source = form.seen(total), form.seen(g)
    with np.errstate(all="ignore"):
        for taken, given, lines in _blocks(form, x.shape):
            part = source[given] / _cells(lines, wide)
            for line in lines:
                part = _spread(part, line)
            target[taken] += part
    return _stored(out, total, g.dtype)


def _spread(g: np.ndarray, line: Line) -> np.ndarray:
    shape = (*g.shape[: line.axis], line.size, *g.shape[line.axis + 1 :])
    total = np.zeros(shape, g.dtype)
    for source, target in line.taps():
        total[source] += g[target]
    return total


def _stored(out: np.ndarray | None, total: np.ndarray, dtype: np.dtype[np.generic]) -> np.ndarray:
    """`total` in the dtype of the result, in `out` where that is given."""
    if out is None:
        return total.astype(dtype, copy=False)
    if out is not total:
        with np.errstate(all="ignore"):
            out[...] = total
    return out
