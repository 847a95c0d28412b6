"""Convolution, pooling and resizing, as slowly and clearly as NumPy can say them.

Arrays are (batch, *spatial, channels). Every window is visited one after the other; a tap that
falls outside of the input counts as zero, or not at all in pooling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

Sizes = tuple[int, ...]


def geometry(size: int, kernel: int, stride: int, dilation: int, padding: str) -> tuple[int, int]:
    """How many windows there are along one axis, and how far the first one sticks out before."""
    reach = (kernel - 1) * dilation + 1
    if padding == "valid":
        return (size - reach) // stride + 1, 0
    if padding == "causal":
        return (size - 1) // stride + 1, reach - 1
    count = -(-size // stride)
    return count, max((count - 1) * stride + reach - size, 0) // 2


def windows(
    sizes: Sizes, kernel: Sizes, strides: Sizes, padding: str, dilation: Sizes | None = None
) -> tuple[Sizes, Iterator[tuple[Sizes, Sizes, Sizes]]]:
    """The output's sizes, and every (place of output, tap of kernel, place of input) inside."""
    dilation = dilation or (1,) * len(kernel)
    lines = [
        geometry(*axis, padding) for axis in zip(sizes, kernel, strides, dilation, strict=True)
    ]
    counts = tuple(count for count, _ in lines)

    def every() -> Iterator[tuple[Sizes, Sizes, Sizes]]:
        for place in np.ndindex(*counts):
            for tap in np.ndindex(*kernel):
                source = tuple(
                    p * s + t * d - before
                    for p, s, t, d, (_, before) in zip(
                        place, strides, tap, dilation, lines, strict=True
                    )
                )
                if all(0 <= one < size for one, size in zip(source, sizes, strict=True)):
                    yield place, tap, source

    return counts, every()


def at(place: Sizes) -> tuple[slice | int, ...]:
    """The index of a place in all samples."""
    return (slice(None), *place)


def convolve(x, kernel, strides, padding="valid", dilation=None):
    """Correlation, as Keras means by convolution: kernel (*window, channels, filters)."""
    counts, every = windows(x.shape[1:-1], kernel.shape[:-2], strides, padding, dilation)
    y = np.zeros((len(x), *counts, kernel.shape[-1]))
    for place, tap, source in every:
        y[at(place)] += x[at(source)] @ kernel[tap]
    return y


def deconvolve(x, kernel, sizes, strides, padding="valid", dilation=None):
    """The transpose of the above, to spatial `sizes`: kernel (*window, filters, channels)."""
    counts, every = windows(sizes, kernel.shape[:-2], strides, padding, dilation)
    assert counts == x.shape[1:-1]
    y = np.zeros((len(x), *sizes, kernel.shape[-2]))
    for place, tap, source in every:
        y[at(source)] += x[at(place)] @ kernel[tap].T
    return y


def depthwise(x, kernel, strides, padding="valid", dilation=None):
    """Every channel by itself: kernel (*window, channels, multiples)."""
    counts, every = windows(x.shape[1:-1], kernel.shape[:-2], strides, padding, dilation)
    y = np.zeros((len(x), *counts, *kernel.shape[-2:]))
    for place, tap, source in every:
        y[at(place)] += x[at(source)][..., None] * kernel[tap]
    return y.reshape(*y.shape[:-2], -1)


def separable(x, kernel, mixing, strides, padding="valid", dilation=None):
    """Every channel by itself, then a mix of them at every place."""
    return convolve(depthwise(x, kernel, strides, padding, dilation), mixing, (1,) * (x.ndim - 2))


def unshared(x, kernel, bias, window, strides, channels_first=False):
    """A kernel of its own for every place: kernel (places, window * channels, filters)."""
    counts, _ = windows(x.shape[1:-1], window, strides, "valid")
    y = np.zeros((len(x), *counts, kernel.shape[-1]))
    for number, place in enumerate(np.ndindex(*counts)):
        area = tuple(
            slice(p * s, p * s + size) for p, s, size in zip(place, strides, window, strict=True)
        )
        patch = x[(slice(None), *area)]
        if channels_first:  # the kernel's rows follow the layout of the input
            patch = np.moveaxis(patch, -1, 1)
        y[at(place)] = patch.reshape(len(x), -1) @ kernel[number]
    return y + bias


def pool(x, window, strides, padding, reduce: Callable[..., np.ndarray]):
    """`reduce` over the real cells of every window."""
    counts, every = windows(x.shape[1:-1], window, strides, padding)
    cells: dict[Sizes, list[np.ndarray]] = {}
    for place, _, source in every:
        cells.setdefault(place, []).append(x[at(source)])
    y = np.empty((len(x), *counts, x.shape[-1]))
    for place, found in cells.items():
        y[at(place)] = reduce(found, axis=0)
    return y


def repeat(x, factors):
    """Every cell, as often as `factors` say along each spatial axis."""
    for axis, factor in enumerate(factors, start=1):
        x = np.repeat(x, factor, axis=axis)
    return x


def bilinear(x, factors):
    """Between the centres of cells in straight lines, constant beyond the outermost centres."""
    for axis, factor in enumerate(factors, start=1):
        size = x.shape[axis]
        centres = np.clip((np.arange(size * factor) + 0.5) / factor - 0.5, 0, size - 1)
        low = np.floor(centres).astype(int)
        high = np.minimum(low + 1, size - 1)
        share = (centres - low).reshape([-1 if one == axis else 1 for one in range(x.ndim)])
        x = np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share
    return x


def pad(x, widths):
    """Zeros around the spatial axes."""
    return np.pad(x, [(0, 0), *widths, (0, 0)])


def crop(x, widths):
    """The spatial axes without their ends."""
    ends = [
        slice(before, size - after)
        for (before, after), size in zip(widths, x.shape[1:-1], strict=True)
    ]
    return x[(slice(None), *ends)]
