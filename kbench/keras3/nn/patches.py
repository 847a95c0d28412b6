"""Patches of images as columns and back, and channels exchanged for pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend import config

from kbench.keras3 import scatter
from kbench.keras3.nn.conv import sizes
from kbench.keras3.numpy import index, layout


def _places(shape: Any, kernel: Any, dilation: Any, stride: Any) -> np.ndarray:
    """For every cell of the kernel and every patch, the pixel of a flat image."""
    rows, columns = shape
    counts = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, d, s in zip(shape, kernel, dilation, stride, strict=True)
    ]
    down = np.arange(kernel[0])[:, None] * dilation[0] + np.arange(counts[0]) * stride[0]
    right = np.arange(kernel[1])[:, None] * dilation[1] + np.arange(counts[1]) * stride[1]
    grid = down[:, None, :, None] * columns + right[None, :, None, :]
    return np.asarray(grid).reshape(kernel[0] * kernel[1], counts[0] * counts[1])


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The patches of images [batch, channels, rows, columns], as columns of a matrix."""
    kernel, spacing, border, steps = (
        sizes(one, 2) for one in (kernel_size, dilation, padding, stride)
    )
    x = layout.pad(input, ((0, 0), (0, 0), (border[0],) * 2, (border[1],) * 2))
    batch, channels, rows, columns = x.shape
    places = _places((rows, columns), kernel, spacing, steps)
    flat = layout.reshape(x, (batch, channels, rows * columns))
    found = index.take(flat, places, axis=2)
    return layout.reshape(found, (batch, channels * places.shape[0], places.shape[1]))


def fold(
    x: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """The sum of patches, each where it was taken."""
    x = layout.known(x)
    kernel, spacing, border, steps = (
        sizes(one, 2) for one in (kernel_size, dilation, padding, stride)
    )
    goal = sizes(output_size, 2)
    rows, columns = goal[0] + 2 * border[0], goal[1] + 2 * border[1]
    places = _places((rows, columns), kernel, spacing, steps)
    batch, channels = x.shape[0], x.shape[1] // places.shape[0]
    flat = layout.reshape(x, (batch * channels, places.size))
    turned = layout.transpose(flat)
    shape = (rows * columns, batch * channels)
    summed = scatter.scatter(places.reshape(-1, 1), turned, shape)
    whole = layout.reshape(layout.transpose(summed), (batch, channels, rows, columns))
    return whole[:, :, border[0] : border[0] + goal[0], border[1] : border[1] + goal[1]]


def depth_to_space(x: Any, block_size: int, data_format: str = "channels_last") -> Any:
    """Channels laid out as blocks of pixels."""
    x, n = layout.known(x), block_size
    if config.standardize_data_format(data_format) == "channels_last":
        batch, rows, columns, depth = x.shape
        parts = layout.reshape(x, (batch, rows, columns, n, n, depth // n**2))
        turned = layout.transpose(parts, (0, 1, 3, 2, 4, 5))
        return layout.reshape(turned, (batch, rows * n, columns * n, depth // n**2))
    batch, depth, rows, columns = x.shape
    parts = layout.reshape(x, (batch, n, n, depth // n**2, rows, columns))
    turned = layout.transpose(parts, (0, 3, 4, 1, 5, 2))
    return layout.reshape(turned, (batch, depth // n**2, rows * n, columns * n))


def space_to_depth(x: Any, block_size: int, data_format: str = "channels_last") -> Any:
    """Blocks of pixels laid out as channels."""
    x, n = layout.known(x), block_size
    if config.standardize_data_format(data_format) == "channels_last":
        batch, rows, columns, depth = x.shape
        parts = layout.reshape(x, (batch, rows // n, n, columns // n, n, depth))
        turned = layout.transpose(parts, (0, 1, 3, 2, 4, 5))
        return layout.reshape(turned, (batch, rows // n, columns // n, depth * n**2))
    batch, depth, rows, columns = x.shape
    parts = layout.reshape(x, (batch, depth, rows // n, n, columns // n, n))
    turned = layout.transpose(parts, (0, 3, 5, 1, 2, 4))
    return layout.reshape(turned, (batch, depth * n**2, rows // n, columns // n))
