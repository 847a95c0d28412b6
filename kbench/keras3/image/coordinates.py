"""Images read at coordinates: affine and perspective views, elastic ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from keras.src.backend import config

from kbench.keras3 import linalg, random
from kbench.keras3.calls.host import dtype_of
from kbench.keras3.image.color import gaussian_blur
from kbench.keras3.numpy import elementwise, index, layout
from kbench.keras3.numpy.curves import floor

FILL_MODES = ("constant", "nearest", "wrap", "mirror", "reflect")
ORDERS = {"nearest": 0, "bilinear": 1}


def _inside(place: Any, size: int, mode: str) -> Any:
    """The place of a pixel that stands for one beyond the border."""
    if mode == "mirror":
        if size == 1:
            return elementwise.multiply(place, 0)
        period = 2 * (size - 1)
        place = elementwise.mod(elementwise.absolute(place), period)
        return elementwise.subtract(
            size - 1, elementwise.absolute(elementwise.subtract(place, size - 1))
        )
    if mode == "reflect":
        place = elementwise.mod(place, 2 * size)
        return elementwise.minimum(place, elementwise.subtract(2 * size - 1, place))
    if mode == "wrap":
        return elementwise.mod(place, size)
    return elementwise.clip(place, 0, size - 1)


def sampled(x: Any, places: list[Any], order: int, mode: str, fill: Any) -> Any:
    """`x` [*sizes, ...rest] at places of its first axes, each an array of floats of one shape."""
    sizes = x.shape[: len(places)]
    rest = tuple(x.shape[len(places) :])
    rows = layout.reshape(x, (int(np.prod(sizes)), *rest))
    dtype = elementwise.float_type(x)
    value = elementwise.cast(np.asarray(fill), dtype)
    lows = [elementwise.round(p) if order == 0 else floor(p) for p in places]
    total: Any = None
    for corner in itertools.product(*[(0,) if order == 0 else (0, 1)] * len(places)):
        flat: Any = None
        share: Any = None
        there: Any = None
        for place, low, step, size in zip(places, lows, corner, sizes, strict=True):
            at = elementwise.cast(elementwise.add(low, step), "int32")
            if mode == "constant":
                own = elementwise.logical_and(
                    elementwise.greater_equal(at, 0), elementwise.less(at, size)
                )
                there = own if there is None else elementwise.logical_and(there, own)
            inner = _inside(at, size, mode)
            flat = (
                inner if flat is None else elementwise.add(elementwise.multiply(flat, size), inner)
            )
            if order == 1:
                part = elementwise.subtract(place, low)
                part = part if step else elementwise.subtract(1.0, part)
                share = part if share is None else elementwise.multiply(share, part)
        found = elementwise.cast(index.take(rows, flat, axis=0), dtype)
        shape = (*flat.shape, *(1,) * len(rest))
        if there is not None:
            found = elementwise.where(layout.reshape(there, shape), found, value)
        if share is not None:
            found = elementwise.multiply(
                found, layout.reshape(elementwise.cast(share, dtype), shape)
            )
        total = found if total is None else elementwise.add(total, found)
    kind = str(dtype_of(x))
    if "float" not in kind:
        size = floor(elementwise.add(elementwise.absolute(total), 0.5))  # halves away from zero
        total = elementwise.multiply(elementwise.sign(total), size)
    return elementwise.cast(total, kind)


def map_coordinates(
    inputs: Any, coordinates: Any, order: int, fill_mode: str = "constant", fill_value: float = 0.0
) -> Any:
    """An array read at coordinates, which have an entry for each of its axes."""
    x = layout.known(inputs)
    points = layout.known(coordinates)
    if points.shape[0] != len(x.shape):
        raise ValueError(
            "First dim of `coordinates` must be the same as the rank of `inputs`. Received inputs "
            f"with shape: {tuple(x.shape)} and coordinate leading dim of {points.shape[0]}"
        )
    if len(points.shape) < 2:
        raise ValueError(
            "Invalid coordinates rank: expected at least rank 2. Received input with shape: "
            f"{tuple(points.shape)}"
        )
    if fill_mode not in FILL_MODES:
        raise ValueError(
            f"Invalid value for argument `fill_mode`. Expected one of {set(FILL_MODES)}. "
            f"Received: fill_mode={fill_mode}"
        )
    if order not in (0, 1):
        raise ValueError(
            f"Invalid value for argument `order`. Expected one of [0, 1]. Received: order={order}"
        )
    points = elementwise.cast(points, elementwise.float_type(points))
    places = [points[i] for i in range(points.shape[0])]
    return sampled(x, places, order, fill_mode, fill_value)


def _batch(images: Any, form: str) -> tuple[Any, bool]:
    """Images [batch, rows, columns, channels], and whether there was one alone."""
    x = layout.known(images)
    if len(x.shape) not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 (single image) or rank 4 (batch of images). "
            f"Received input with shape: images.shape={tuple(x.shape)}"
        )
    single = len(x.shape) == 3
    x = layout.expand_dims(x, 0) if single else x
    return (x if form == "channels_last" else layout.transpose(x, (0, 2, 3, 1))), single


def _given_back(x: Any, form: str, single: bool) -> Any:
    x = x if form == "channels_last" else layout.transpose(x, (0, 3, 1, 2))
    return layout.squeeze(x, 0) if single else x


def _read(x: Any, rows: Any, columns: Any, interpolation: str, mode: str, fill: Any) -> Any:
    """Every image of a batch at its rows and columns."""
    order = ORDERS[interpolation]
    found = [sampled(x[i], [rows[i], columns[i]], order, mode, fill) for i in range(x.shape[0])]
    return layout.stack(found, 0)


def _checked(name: str, value: Any, known: Any) -> None:
    if value not in known:
        raise ValueError(
            f"Invalid value for argument `{name}`. Expected of one {set(known)}. Received: "
            f"{name}={value}"
        )


def affine_transform(
    images: Any,
    transform: Any,
    interpolation: str = "bilinear",
    fill_mode: str = "constant",
    fill_value: Any = 0,
    data_format: Any = None,
) -> Any:
    """Images turned, sheared and moved: a pixel is read where eight numbers say."""
    form = config.standardize_data_format(data_format)
    _checked("interpolation", interpolation, ORDERS)
    _checked("fill_mode", fill_mode, FILL_MODES)
    numbers = layout.known(transform)
    if len(numbers.shape) not in (1, 2):
        raise ValueError(
            "Invalid transform rank: expected rank 1 (single transform) or rank 2 (batch of "
            f"transforms). Received input with shape: transform.shape={tuple(numbers.shape)}"
        )
    if numbers.shape[-1] != 8:
        raise ValueError("a transform has 8 numbers")
    x, single = _batch(images, form)
    rows, columns, _ = _projected(x, numbers)
    return _given_back(_read(x, rows, columns, interpolation, fill_mode, fill_value), form, single)


def _projected(x: Any, numbers: Any) -> tuple[Any, Any, Any]:
    """Rows and columns that a transform reads, and by what a perspective divides them."""
    numbers = elementwise.cast(numbers, elementwise.float_type(numbers))
    numbers = layout.expand_dims(numbers, 0) if len(numbers.shape) == 1 else numbers
    a = [layout.reshape(numbers[:, i], (-1, 1, 1)) for i in range(8)]
    height, width = x.shape[1:3]
    down = np.arange(height, dtype="float32")[None, :, None]
    right = np.arange(width, dtype="float32")[None, None, :]

    def line(i: int) -> Any:
        sum_ = elementwise.add(
            elementwise.multiply(a[i], right), elementwise.multiply(a[i + 1], down)
        )
        whole = elementwise.add(sum_, a[i + 2]) if i < 6 else elementwise.add(sum_, 1.0)
        return layout.broadcast_to(whole, (x.shape[0], height, width))

    return line(3), line(0), line(6)


def perspective_transform(
    images: Any,
    start_points: Any,
    end_points: Any,
    interpolation: str = "bilinear",
    fill_value: Any = 0,
    data_format: Any = None,
) -> Any:
    """Images seen from elsewhere, such that four corners go to four others."""
    form = config.standardize_data_format(data_format)
    x, single = _batch(images, form)
    first, last = layout.known(start_points), layout.known(end_points)
    _checked("interpolation", interpolation, ORDERS)
    for name, points in (("start_points", first), ("end_points", last)):
        if len(points.shape) not in (2, 3) or tuple(points.shape[-2:]) != (4, 2):
            raise ValueError(
                f"Invalid {name} shape: expected (4,2) for a single image or (N,4,2) for a batch. "
                f"Received shape: {tuple(points.shape)}"
            )
    if tuple(first.shape) != tuple(last.shape):
        raise ValueError(
            f"start_points and end_points must have the same shape. Received shapes: {first.shape} "
            f"and {last.shape}"
        )
    numbers = compute_homography_matrix(first, last)
    rows, columns, depth = _projected(x, numbers)
    rows, columns = elementwise.divide(rows, depth), elementwise.divide(columns, depth)
    return _given_back(_read(x, rows, columns, interpolation, "constant", fill_value), form, single)


def compute_homography_matrix(start_points: Any, end_points: Any) -> Any:
    """The eight numbers of the perspective that reads the start where the end is."""
    first, last = layout.known(start_points), layout.known(end_points)
    if len(first.shape) == 2:
        first, last = layout.expand_dims(first, 0), layout.expand_dims(last, 0)
    first, last = elementwise.cast(first, "float32"), elementwise.cast(last, "float32")
    u, v = first[..., 0], first[..., 1]
    x, y = last[..., 0], last[..., 1]
    one, zero = np.ones(x.shape, "float32"), np.zeros(x.shape, "float32")
    minus, times = elementwise.negative, elementwise.multiply
    across = layout.stack([x, y, one, zero, zero, zero, minus(times(x, u)), minus(times(y, u))], -1)
    upright = layout.stack(
        [zero, zero, zero, x, y, one, minus(times(x, v)), minus(times(y, v))], -1
    )
    matrix = layout.concatenate([across, upright], -2)
    return linalg.solve(matrix, layout.concatenate([u, v], -1))


def elastic_transform(
    images: Any,
    alpha: float = 20.0,
    sigma: float = 5.0,
    interpolation: str = "bilinear",
    fill_mode: str = "reflect",
    fill_value: Any = 0.0,
    seed: Any = None,
    data_format: Any = None,
) -> Any:
    """Images whose pixels are moved by a smooth random field."""
    form = config.standardize_data_format(data_format)
    _checked("interpolation", interpolation, ORDERS)
    _checked("fill_mode", fill_mode, FILL_MODES)
    x, single = _batch(images, form)
    size = (int(6 * sigma) | 1,) * 2
    noise = random.normal((2, *x.shape[:3], 1), 0.0, 1.0, "float32", seed)
    moves = []
    for turn in (0, 1):
        smooth = gaussian_blur(noise[turn], size, (sigma, sigma), "channels_last")
        moves.append(elementwise.multiply(smooth[..., 0], alpha))
    rows = elementwise.add(moves[0], np.arange(x.shape[1], dtype="float32")[None, :, None])
    columns = elementwise.add(moves[1], np.arange(x.shape[2], dtype="float32")[None, None, :])
    return _given_back(_read(x, rows, columns, interpolation, fill_mode, fill_value), form, single)
