"""Colours, blur and edges."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from keras.src.backend import config

from kbench.keras3.calls.host import dtype_of
from kbench.keras3.nn.conv import depthwise_conv
from kbench.keras3.numpy import elementwise, layout, reduce

GRAY = (0.2989, 0.5870, 0.1140)
"""How bright red, green and blue are: ITU-R BT.601."""


def _channel_axis(x: Any, data_format: Any) -> int:
    form = config.standardize_data_format(data_format)
    if len(x.shape) not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 (single image) or rank 4 (batch of images). "
            f"Received input with shape: images.shape={tuple(x.shape)}"
        )
    return -1 if form == "channels_last" else -3


def _floating(x: Any) -> Any:
    if "float" not in str(dtype_of(x)):
        raise ValueError(
            f"Invalid images dtype: expected float dtype. Received: images.dtype={dtype_of(x)}"
        )
    return x


def rgb_to_grayscale(images: Any, data_format: Any = None) -> Any:
    """How bright each pixel is."""
    x = layout.known(images)
    axis = _channel_axis(x, data_format)
    if x.shape[axis] not in (1, 3):
        raise ValueError(
            "Invalid channel size: expected 3 (RGB) or 1 (Grayscale). Received input with shape: "
            f"images.shape={tuple(x.shape)}"
        )
    if x.shape[axis] == 1:
        return layout.copy(x)
    dtype = str(dtype_of(x))
    wide = elementwise.float_type(x)
    x = x if wide == dtype else elementwise.cast(x, wide)
    found = reduce.sum(elementwise.multiply(x, _shares(axis, wide)), axis, True)
    return found if wide == dtype else elementwise.cast(found, dtype)


@functools.lru_cache
def _shares(axis: int, dtype: str) -> np.ndarray:
    """How bright each channel is, along an axis that is counted from the end."""
    return np.array(GRAY).astype(dtype).reshape(3, *[1] * (-1 - axis))


def _three(x: Any, axis: int) -> list[Any]:
    from kbench.keras3.scatter import unstack

    return unstack(x, 3, axis)


def rgb_to_hsv(images: Any, data_format: Any = None) -> Any:
    """Hue, saturation and value of red, green and blue."""
    x = _floating(layout.known(images))
    axis = _channel_axis(x, data_format)
    red, green, blue = _three(x, axis)
    value, least = reduce.max(x, axis), reduce.min(x, axis)
    spread = elementwise.subtract(value, least)
    saturation = elementwise.where(elementwise.greater(value, 0), _over(spread, value), 0.0)
    turn = 1.0 / 6.0

    def hue(first: Any, second: Any, start: float) -> Any:
        away = _over(elementwise.subtract(first, second), spread)
        return elementwise.add(elementwise.multiply(away, turn), start)

    found = elementwise.where(
        elementwise.equal(red, value),
        hue(green, blue, 0.0),
        elementwise.where(
            elementwise.equal(green, value), hue(blue, red, 2 * turn), hue(red, green, 4 * turn)
        ),
    )
    found = elementwise.where(elementwise.greater(spread, 0), found, 0.0)
    found = elementwise.where(elementwise.less(found, 0), elementwise.add(found, 1.0), found)
    parts = [elementwise.cast(one, str(x.dtype)) for one in (found, saturation, value)]
    return layout.stack(parts, axis)


def _over(x: Any, y: Any) -> Any:
    return elementwise.divide_no_nan(x, y)


def hsv_to_rgb(images: Any, data_format: Any = None) -> Any:
    """Red, green and blue of hue, saturation and value."""
    x = _floating(layout.known(images))
    axis = _channel_axis(x, data_format)
    hue, saturation, value = _three(x, axis)

    def part(offset: float) -> Any:
        place = elementwise.mod(elementwise.add(elementwise.multiply(hue, 6.0), offset), 6.0)
        near = elementwise.minimum(place, elementwise.subtract(4.0, place))
        kept = elementwise.clip(near, 0.0, 1.0)
        return elementwise.subtract(
            value, elementwise.multiply(elementwise.multiply(value, saturation), kept)
        )

    parts = [elementwise.cast(part(offset), str(x.dtype)) for offset in (5.0, 3.0, 1.0)]
    return layout.stack(parts, axis)


def gaussian_blur(
    images: Any, kernel_size: Any = (3, 3), sigma: Any = (1.0, 1.0), data_format: Any = None
) -> Any:
    """Every pixel a mean of those around it, by how near they are; first across, then down."""
    x = layout.known(images)
    axis = _channel_axis(x, data_format)
    single = len(x.shape) == 3
    dtype = str(dtype_of(x))
    x = layout.expand_dims(x, 0) if single else x
    across, down = (_bell(int(n), sigma[i]) for i, n in enumerate(kernel_size))
    down, across = layout.reshape(down, (-1, 1, 1, 1)), layout.reshape(across, (1, -1, 1, 1))
    kernel = elementwise.multiply(down, across)
    kernel = layout.tile(kernel, (1, 1, x.shape[axis], 1))
    kernel = elementwise.cast(kernel, elementwise.float_type(x))
    form = "channels_last" if axis == -1 else "channels_first"
    found = depthwise_conv(x, kernel, 1, "same", form, 1)
    return elementwise.cast(layout.squeeze(found, 0) if single else found, dtype)


def _bell(size: int, sigma: Any) -> Any:
    places = (np.arange(size) - (size - 1) / 2).astype("float32")
    away = elementwise.square(elementwise.divide(places, sigma))
    found = elementwise.exp(elementwise.multiply(away, -0.5))
    return elementwise.divide(found, reduce.sum(found))


def sobel_edges(images: Any, data_format: Any = None) -> Any:
    """How steep images are, downwards and to the right, as a last axis of two."""
    x = _floating(layout.known(images))
    axis = _channel_axis(x, data_format)
    single = len(x.shape) == 3
    x = layout.expand_dims(x, 0) if single else x
    x = layout.transpose(x, (0, 2, 3, 1)) if axis == -3 else x
    padded = layout.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), "reflect")
    down = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], str(x.dtype))
    found = []
    for kernel in (down, down.T):
        taps = np.tile(kernel[:, :, None, None], (1, 1, x.shape[-1], 1))
        edges = depthwise_conv(padded, taps, 1, "valid", "channels_last", 1)
        found.append(layout.transpose(edges, (0, 3, 1, 2)) if axis == -3 else edges)
    both = layout.stack(found, -1)
    return layout.squeeze(both, 0) if single else both
