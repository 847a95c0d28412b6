"""Images of another size: a matrix of weights for each axis, as one product each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from keras.src.backend import config

from kbench import backend as K
from kbench.keras3.calls.host import dtype_of
from kbench.keras3.calls.planned import planned
from kbench.keras3.numpy import elementwise, index, layout, linear
from kbench.keras3.tensor import finish, in_dtype

METHODS = ("bilinear", "nearest", "lanczos3", "lanczos5", "bicubic")
LINEAR = ("linear", "bilinear", "trilinear", "triangle")
CUBIC = ("cubic", "bicubic", "tricubic")
CUBIC_SLOPE = -0.5
"""The slope of Keys' cubic at 1: with it polynomials of degree 2 stay (Keys 1981)."""
ROUNDING = 1e-6
"""Of sums of weights: where the result is bool, only what is above is True."""


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(0, 1 - np.abs(x)))


def _cubic(x: np.ndarray) -> np.ndarray:
    x, a = np.abs(x), CUBIC_SLOPE
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def _lanczos(radius: int) -> Any:
    return lambda x: np.where(np.abs(x) < radius, np.sinc(x) * np.sinc(x / radius), 0.0)


def kernel_of(method: str) -> Any:
    """The weight of a pixel by its distance."""
    if method in LINEAR:
        return _triangle
    if method in CUBIC:
        return _cubic
    return {"lanczos3": _lanczos(3), "lanczos5": _lanczos(5)}[method]


def weights(
    size: int, count: int, scale: float, shift: float, kernel: Any, antialias: bool
) -> np.ndarray:
    """[size, count]: how much each pixel of an axis has in each of the new ones."""
    places = (np.arange(count) + 0.5 - shift) / scale - 0.5
    wide = max(1.0 / scale, 1.0) if antialias else 1.0
    found = kernel((places[None, :] - np.arange(size)[:, None]) / wide)
    total = found.sum(0, keepdims=True)
    known = np.abs(total) > 1000 * np.finfo(np.float32).eps
    found = np.where(known, found / np.where(known, total, 1.0), 0.0)
    inside = (places >= -0.5) & (places <= size - 0.5)
    return np.where(inside[None, :], found, 0.0)


def along(x: Any, axis: int, matrix: np.ndarray) -> Any:
    """The axis multiplied by a matrix."""
    turned = linear.tensordot(x, matrix.astype(str(x.dtype)), ([axis], [0]))
    return layout.moveaxis(turned, -1, axis)


@planned
def scale_and_translate(
    images: Any,
    output_shape: Any,
    scale: Any,
    translation: Any,
    spatial_dims: Any,
    method: str,
    antialias: bool = True,
) -> Any:
    """Axes stretched by a scale and moved by a number of pixels."""
    if method not in (*LINEAR, *CUBIC, "lanczos3", "lanczos5"):
        raise ValueError(
            "Invalid value for argument `method`. Expected of one of "
            f"{(*LINEAR, *CUBIC, 'lanczos3', 'lanczos5')}. Received: method={method}"
        )
    x = layout.known(images)
    dtype = elementwise.float_type(x)
    x = elementwise.cast(x, dtype)
    factors, moves = np.asarray(scale, float), np.asarray(translation, float)
    for place, axis in enumerate(spatial_dims):
        matrix = weights(
            x.shape[axis],
            int(output_shape[axis]),
            float(factors[place]),
            float(moves[place]),
            kernel_of(method),
            antialias,
        )
        x = along(x, axis, matrix)
    return x


def _checked(size: Any, interpolation: str, fill_mode: str, pad: bool, crop: bool) -> None:
    if interpolation not in METHODS:
        raise ValueError(
            f"Invalid value for argument `interpolation`. Expected of one {METHODS}. Received: "
            f"interpolation={interpolation}"
        )
    if fill_mode != "constant":
        raise ValueError(
            "Invalid value for argument `fill_mode`. Only `'constant'` is supported. Received: "
            f"fill_mode={fill_mode}"
        )
    if pad and crop:
        raise ValueError(
            "Only one of `pad_to_aspect_ratio` & `crop_to_aspect_ratio` can be `True`."
        )
    if len(size) != 2:
        raise ValueError(
            "Argument `size` must be a tuple of two elements (height, width). Received: "
            f"size={size}"
        )


@planned
def resize(
    images: Any,
    size: Any,
    interpolation: str = "bilinear",
    antialias: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    data_format: Any = None,
) -> Any:
    """Images of another height and width."""
    form = config.standardize_data_format(data_format)
    _checked(size, interpolation, fill_mode, pad_to_aspect_ratio, crop_to_aspect_ratio)
    x = layout.known(images)
    if len(x.shape) not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 (single image) or rank 4 (batch of images). "
            f"Received input with shape: images.shape={tuple(x.shape)}"
        )
    goal = (int(size[0]), int(size[1]))
    first = len(x.shape) - (3 if form == "channels_last" else 2)
    if crop_to_aspect_ratio:
        x = _cropped(x, first, goal)
    elif pad_to_aspect_ratio:
        x = _padded(x, first, goal, fill_value)
    dtype = str(dtype_of(x))
    if tuple(x.shape[first : first + 2]) == goal:
        return x
    if interpolation == "nearest":
        for axis, count in zip((first, first + 1), goal, strict=True):
            places = np.floor((np.arange(count) + 0.5) * (x.shape[axis] / count))
            x = index.take(x, places.astype(np.int64), axis)
        return x
    whole = "float" not in dtype
    x = elementwise.cast(x, "float32") if whole else x
    x = _resampled(x, first, goal, interpolation, antialias)
    if dtype == "bool":
        return elementwise.greater(x, ROUNDING)
    if whole:
        limits = np.iinfo(dtype)
        x = elementwise.clip(elementwise.round(x), float(limits.min), float(limits.max))
    return elementwise.cast(x, dtype)


def _resampled(x: Any, first: int, goal: tuple[int, int], method: str, antialias: bool) -> Any:
    """Floats of another height and width; by the engine's interpolation where both grow evenly."""
    dtype = str(dtype_of(x))
    height, width = x.shape[first : first + 2]
    tall, wide = goal[0] // max(1, height), goal[1] // max(1, width)
    if method == "bilinear" and (height * tall, width * wide) == goal:
        node = in_dtype(x, dtype)
        inner = math.prod(x.shape[first + 2 :])
        lined = K.reshape(node, (math.prod(x.shape[:first]), height, width, inner))
        found = K.resize_images(lined, tall, wide, "channels_last", interpolation="bilinear")
        return finish(K.reshape(found, (*x.shape[:first], *goal, *x.shape[first + 2 :])), dtype)
    for axis, count in zip((first, first + 1), goal, strict=True):
        before = x.shape[axis]
        matrix = weights(before, count, count / before, 0.0, kernel_of(method), antialias)
        x = along(x, axis, matrix)
    return x


def _cropped(x: Any, first: int, goal: tuple[int, int]) -> Any:
    height, width = x.shape[first : first + 2]
    rows = max(1, min(height, int(float(width * goal[0]) / goal[1])))
    columns = max(1, min(width, int(float(height * goal[1]) / goal[0])))
    top, left = int((height - rows) / 2), int((width - columns) / 2)
    lead = (slice(None),) * first
    return x[(*lead, slice(top, top + rows), slice(left, left + columns))]


def _padded(x: Any, first: int, goal: tuple[int, int], fill: float) -> Any:
    """As much on both sides: an odd pixel that is missing is left to the resizing, as in Keras."""
    height, width = x.shape[first : first + 2]
    rows = max(height, int(float(width * goal[0]) / goal[1]))
    columns = max(width, int(float(height * goal[1]) / goal[0]))
    top, left = int((rows - height) / 2), int((columns - width) / 2)
    widths = [(0, 0)] * len(x.shape)
    widths[first], widths[first + 1] = (top, top), (left, left)
    return layout.pad(x, widths, "constant", fill)
