"""Wrong calls of pooling, paddings and larger images; rows by index beside the kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from wrong import Wrong, fed, x

from kbench import backend as K
from kbench.backend import ArgumentError, ShapeError

IMAGE = "float32[?, 6, 5, 3]"
VOLUME = "float32[?, 6, 5, 4, 3]"


def image() -> Any:
    return x(None, 6, 5, 3)


def volume() -> Any:
    return x(None, 6, 5, 4, 3)


def _late(
    function: Callable[..., Any], shape: tuple[int, ...], *arguments: Any, **options: Any
) -> Callable[[], Any]:
    """A call on a tensor of unknown sizes, that is fed a `shape`."""

    def call() -> Any:
        open_ = x(*(None,) * len(shape))
        return fed(function(open_, *arguments, **options), (open_, np.zeros(shape, "float32")))

    return call


POOL = [
    Wrong(
        "pool2d", lambda: K.pool2d(x(6, 5, 3), (2, 2)), ShapeError, ("float32[6, 5, 3]", "rank 4")
    ),
    Wrong(
        "pool2d",
        lambda: K.pool2d(image(), (2, 6)),
        ShapeError,
        (IMAGE, "window of 6", "5 cells"),
    ),
    Wrong(
        "pool2d",
        lambda: K.pool2d(image(), (2, 4), data_format="channels_first"),
        ShapeError,
        (IMAGE, "window of 4", "3 cells"),
    ),
    Wrong("pool2d", lambda: K.pool2d(image(), 0), ArgumentError, (IMAGE, "at least 1", "got 0")),
    Wrong("pool2d", lambda: K.pool2d(image(), (2, 2, 2)), ArgumentError, (IMAGE, "2 integers")),
    Wrong("pool2d", lambda: K.pool2d(image(), 2.5), ArgumentError, (IMAGE, "pool_size", "2.5")),
    Wrong("pool2d", lambda: K.pool2d(image(), 2, -1), ArgumentError, (IMAGE, "strides", "-1")),
    Wrong("pool2d", lambda: K.pool2d(image(), 2, True), ArgumentError, (IMAGE, "strides", "True")),
    Wrong(
        "pool2d",
        lambda: K.pool2d(image(), 2, padding="full"),
        ArgumentError,
        (IMAGE, "'valid' or 'same'", "'full'"),
    ),
    Wrong(
        "pool2d",
        lambda: K.pool2d(image(), 2, data_format="nchw"),
        ArgumentError,
        (IMAGE, "channels_last", "'nchw'"),
    ),
    Wrong(
        "pool2d",
        lambda: K.pool2d(image(), 2, pool_mode="sum"),
        ArgumentError,
        (IMAGE, "'max' or 'avg'", "'sum'"),
    ),
    Wrong("pool2d", _late(K.pool2d, (1, 2, 2, 1), 3), ShapeError, ("[1, 2, 2, 1]", "window of 3")),
    Wrong("pool3d", lambda: K.pool3d(image(), 2), ShapeError, (IMAGE, "rank 5")),
    Wrong("pool3d", lambda: K.pool3d(volume(), (2, 2)), ArgumentError, (VOLUME, "3 integers")),
    Wrong("pool3d", lambda: K.pool3d(volume(), (7, 1, 1)), ShapeError, (VOLUME, "window of 7")),
    Wrong(
        "pool3d",
        lambda: K.pool3d(volume(), 2, pool_mode=None),
        ArgumentError,
        (VOLUME, "'max' or 'avg'", "None"),
    ),
    Wrong(
        "pool3d",
        _late(K.pool3d, (1, 2, 2, 2, 1), 3),
        ShapeError,
        ("[1, 2, 2, 2, 1]", "window of 3"),
    ),
]

PADDING = [
    Wrong("temporal_padding", lambda: K.temporal_padding(image()), ShapeError, (IMAGE, "rank 3")),
    Wrong(
        "temporal_padding",
        lambda: K.temporal_padding(x(2, 3, 4), (1, -1)),
        ArgumentError,
        ("float32[2, 3, 4]", "negative", "(1, -1)"),
    ),
    Wrong(
        "temporal_padding",
        lambda: K.temporal_padding(x(2, 3, 4), (1, 1, 1)),
        ArgumentError,
        ("float32[2, 3, 4]", "(before, after)"),
    ),
    Wrong(
        "temporal_padding",
        lambda: K.temporal_padding(x(2, 3, 4), 1.5),
        ArgumentError,
        ("float32[2, 3, 4]", "integers", "1.5"),
    ),
    Wrong(
        "spatial_2d_padding",
        lambda: K.spatial_2d_padding(x(2, 3, 4)),
        ShapeError,
        ("float32[2, 3, 4]", "rank 4"),
    ),
    Wrong(
        "spatial_2d_padding",
        lambda: K.spatial_2d_padding(image(), ((1, 1), (1, 1), (1, 1))),
        ArgumentError,
        (IMAGE, "2 entries"),
    ),
    Wrong(
        "spatial_2d_padding",
        lambda: K.spatial_2d_padding(image(), ((1, 1), (1, -2))),
        ArgumentError,
        (IMAGE, "negative"),
    ),
    Wrong(
        "spatial_2d_padding",
        lambda: K.spatial_2d_padding(image(), ((1, 1), (1, "a"))),
        ArgumentError,
        (IMAGE, "integers"),
    ),
    Wrong(
        "spatial_2d_padding",
        lambda: K.spatial_2d_padding(image(), data_format="last"),
        ArgumentError,
        (IMAGE, "'last'"),
    ),
    Wrong(
        "spatial_3d_padding",
        lambda: K.spatial_3d_padding(image()),
        ShapeError,
        (IMAGE, "rank 5"),
    ),
    Wrong(
        "spatial_3d_padding",
        lambda: K.spatial_3d_padding(volume(), (1, 1)),
        ArgumentError,
        (VOLUME, "3 entries"),
    ),
    Wrong(
        "spatial_3d_padding",
        lambda: K.spatial_3d_padding(volume(), (1, (1, 1, 1), 1)),
        ArgumentError,
        (VOLUME, "(before, after)"),
    ),
]

LAST = "channels_last"
RESIZE = [
    Wrong(
        "resize_images",
        lambda: K.resize_images(x(4, 4, 1), 2, 2, LAST),
        ShapeError,
        ("float32[4, 4, 1]", "rank 4"),
    ),
    Wrong(
        "resize_images",
        lambda: K.resize_images(image(), 2.0, 2, LAST),
        ArgumentError,
        (IMAGE, "height_factor", "2.0"),
    ),
    Wrong(
        "resize_images",
        lambda: K.resize_images(image(), 2, 0, LAST),
        ArgumentError,
        (IMAGE, "width_factor", "at least 1"),
    ),
    Wrong(
        "resize_images",
        lambda: K.resize_images(image(), 2, 2, LAST, "cubic"),
        ArgumentError,
        (IMAGE, "'nearest' or 'bilinear'", "'cubic'"),
    ),
    Wrong(
        "resize_images",
        lambda: K.resize_images(image(), 2, 2, "rows"),
        ArgumentError,
        (IMAGE, "'rows'"),
    ),
    Wrong(
        "resize_volumes",
        lambda: K.resize_volumes(image(), 2, 2, 2, LAST),
        ShapeError,
        (IMAGE, "rank 5"),
    ),
    Wrong(
        "resize_volumes",
        lambda: K.resize_volumes(volume(), 2, 2, -2, LAST),
        ArgumentError,
        (VOLUME, "width_factor", "-2"),
    ),
    Wrong(
        "resize_volumes",
        lambda: K.resize_volumes(volume(), True, 2, 2, LAST),
        ArgumentError,
        (VOLUME, "depth_factor", "True"),
    ),
]

WRONG = [*POOL, *PADDING, *RESIZE]
