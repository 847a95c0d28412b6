"""The op table: pooling, paddings, larger images, against loops that are easy to believe."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from case import ANY, FLOATS, INTEGERS, Case, each

from kbench import backend as K

Ints = tuple[int, ...]


def _as_last(x: np.ndarray, data_format: str | None) -> np.ndarray:
    return np.moveaxis(x, 1, -1) if data_format == "channels_first" else x


def _back(x: np.ndarray, data_format: str | None) -> np.ndarray:
    return np.moveaxis(x, -1, 1) if data_format == "channels_first" else x


def pooled(
    x: np.ndarray,
    pool_size: Ints,
    strides: Ints = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> np.ndarray:
    """Every window by itself: its real cells, then their largest or their mean."""
    x = _as_last(x, data_format)
    rank = x.ndim - 2
    ranges = []
    for size, window, stride in zip(x.shape[1:-1], pool_size, strides, strict=False):
        count, before = (size - window) // stride + 1, 0
        if padding == "same":
            count = -(-size // stride)
            before = max((count - 1) * stride + window - size, 0) // 2
        starts = [i * stride - before for i in range(count)]
        ranges.append([slice(max(one, 0), min(one + window, size)) for one in starts])
    out = np.empty((len(x), *map(len, ranges), x.shape[-1]), x.dtype)
    fold = np.max if pool_mode == "max" else np.mean
    for place in itertools.product(*[range(len(one)) for one in ranges]):
        window = tuple(ranges[i][place[i]] for i in range(rank))
        cells = x[(slice(None), *window)]
        axes = tuple(range(1, rank + 1))
        out[(slice(None), *place)] = fold(cells, axis=axes) if x.size else 0
    return _back(out, data_format)


def _options(rank: int) -> list[dict[str, Any]]:
    chosen: list[tuple[Ints, Ints, str, str | None]] = [
        ((2, 2, 2), (2, 2, 2), "valid", None),
        ((3, 2, 1), (1, 1, 2), "same", "channels_last"),
        ((2, 3, 2), (2, 1, 3), "same", "channels_first"),
        ((1, 2, 2), (3, 2, 1), "valid", "channels_first"),
        ((3, 3, 2), (2, 2, 1), "same", None),
    ]
    names = ("pool_size", "strides", "padding", "data_format", "pool_mode")
    values = [
        (size[:rank], strides[:rank], padding, layout, mode)
        for size, strides, padding, layout in chosen
        for mode in ("max", "avg")
    ]
    return each(*names, values=values)


def _largest(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in options if one["pool_mode"] == "max"]


POOL = [
    Case("pool2d", [((2, 3, 5, 3),)], pooled, options=_options(2), smooth=True),
    Case("pool3d", [((1, 3, 4, 3, 2),)], pooled, options=_options(3), smooth=True),
    Case(
        "pool2d",
        [((2, 3, 5, 3),)],
        pooled,
        options=_largest(_options(2)),
        dtypes=(*INTEGERS, "bool"),
    ),
    Case(
        "pool2d",
        [((2, 4, 5, 3),)],
        pooled,
        options=each("pool_size", "pool_mode", values=[((2, 3), "avg")]),
        dtypes=INTEGERS,
        result="float",
    ),
    Case(
        "pool2d",
        [((0, 4, 5, 3),), ((2, 4, 5, 0),)],
        pooled,
        options=each("pool_size", "pool_mode", values=[((2, 3), "avg"), ((2, 3), "max")]),
    ),
    Case(
        "pool2d",  # windows of the size of the image
        [((2, 7, 6, 3),)],
        pooled,
        options=each("pool_size", "pool_mode", values=[((7, 6), "avg"), ((7, 6), "max")]),
        smooth=True,
    ),
    Case(
        "pool2d",  # many ties, of which the first one counts; and no size at all
        [((2, 4, 4, 2),), ((1, 0, 4, 2),)],
        lambda x, **options: pooled(np.floor(x / 8), **options) if x.size else x,
        options=each("pool_size", "padding", values=[((2, 2), "same"), ((3, 1), "same")]),
        dtypes=FLOATS,
        gradient=False,
        call=lambda x, **options: K.pool2d(K.round(x / 8 - 0.5), **options),
    ),
]

# ------------------------------------------------------------------ paddings


def _padded(x: np.ndarray, padding: Any = 1, data_format: str | None = None) -> np.ndarray:
    rank = x.ndim - 2
    entries = list(padding) if isinstance(padding, (tuple, list)) else [padding] * rank
    if rank == 1:
        entries = [padding]
    pairs = [one if isinstance(one, (tuple, list)) else (one, one) for one in entries]
    width = [(0, 0), *pairs, (0, 0)]
    if data_format == "channels_first":
        width = [(0, 0), (0, 0), *pairs]
    return np.pad(x, width)


PLACES_2D = [
    (((1, 0), (2, 3)), None),
    (((0, 0), (0, 0)), None),
    (((1, 2), (0, 1)), "channels_first"),
    ((1, 2), "channels_last"),
    ([[1, 0], 2], "channels_first"),
    (1, None),
]
PLACES_3D = [
    (((0, 1), (2, 0), (1, 2)), None),
    ((1, 0, 2), "channels_first"),
    ((1, 1, 1), "channels_last"),
    (2, "channels_last"),
]

PADDING = [
    Case(
        "temporal_padding",
        [((2, 3, 2),), ((0, 3, 2),), ((2, 0, 2),)],
        _padded,
        options=[{}, *each("padding", values=[(0, 2), (2, 0), 2, np.int64(1), [0, 0]])],
        dtypes=ANY,
        smooth=True,
    ),
    Case(
        "spatial_2d_padding",
        [((2, 2, 3, 2),)],
        _padded,
        options=[{}, *each("padding", "data_format", values=PLACES_2D)],
        dtypes=ANY,
        smooth=True,
    ),
    Case(
        "spatial_3d_padding",
        [((1, 2, 2, 3, 2),)],
        _padded,
        options=[{}, *each("padding", "data_format", values=PLACES_3D)],
        dtypes=ANY,
        smooth=True,
    ),
]

# ------------------------------------------------------------------ larger images


def _nearest(x: np.ndarray, factors: Ints, data_format: str | None) -> np.ndarray:
    first = 2 if data_format == "channels_first" else 1
    for axis, factor in enumerate(factors, first):
        x = np.repeat(x, factor, axis)
    return x


def _bilinear(x: np.ndarray, factors: Ints, data_format: str | None) -> np.ndarray:
    """Each new cell from the two old ones whose centres are around its own."""
    first = 2 if data_format == "channels_first" else 1
    for axis, factor in enumerate(factors, first):
        size = x.shape[axis]
        centre = (np.arange(size * factor) + 0.5) / factor - 0.5
        low = np.floor(centre).astype(int)
        weight = (centre - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
        below = x.take(low.clip(0, size - 1), axis)
        above = x.take((low + 1).clip(0, size - 1), axis)
        x = below * (1 - weight) + above * weight
    return x


def _resized(
    x: np.ndarray,
    height_factor: int,
    width_factor: int,
    data_format: str | None,
    interpolation: str = "nearest",
) -> np.ndarray:
    resize = _nearest if interpolation == "nearest" else _bilinear
    return resize(x, (height_factor, width_factor), data_format)


def _resized_volume(
    x: np.ndarray, depth_factor: int, height_factor: int, width_factor: int, data_format: str | None
) -> np.ndarray:
    return _nearest(x, (depth_factor, height_factor, width_factor), data_format)


FACTORS = [
    (2, 3, "channels_last"),
    (1, 2, "channels_first"),
    (np.int32(3), 1, None),
    (1, 1, "channels_last"),
]
NAMES = ("height_factor", "width_factor", "data_format")

IMAGE = [
    Case(
        "resize_images",
        [((2, 2, 3, 2),), ((0, 2, 3, 2),), ((1, 0, 3, 2),)],
        _resized,
        options=each(*NAMES, values=FACTORS),
        dtypes=ANY,
        smooth=True,
    ),
    Case(
        "resize_images",
        [((2, 2, 3, 2),), ((1, 1, 4, 1),)],
        _resized,
        options=each(*NAMES, "interpolation", values=[(*one, "bilinear") for one in FACTORS]),
        dtypes=FLOATS,
        smooth=True,
    ),
    Case(
        "resize_images",
        [((2, 2, 3, 2),)],
        _resized,
        options=each(*NAMES, "interpolation", values=[(2, 5, None, "bilinear")]),
        dtypes=INTEGERS,
        result="float",
    ),
    Case(
        "resize_volumes",
        [((1, 2, 2, 3, 2),), ((0, 2, 2, 3, 2),)],
        _resized_volume,
        options=each("depth_factor", *NAMES, values=[(2, *one) for one in FACTORS]),
        dtypes=ANY,
        smooth=True,
    ),
]

POOL_CASES = [*POOL, *PADDING, *IMAGE]
