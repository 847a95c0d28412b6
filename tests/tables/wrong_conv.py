"""Wrong calls of the convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from wrong import Wrong, fed, v, x

from kbench import backend as K
from kbench.backend import ArgumentError, DtypeError, ShapeError

RANKS = {
    "conv1d": 1,
    "conv2d": 2,
    "conv3d": 3,
    "depthwise_conv2d": 2,
    "separable_conv1d": 1,
    "separable_conv2d": 2,
}
SPACE = {1: (8,), 2: (8, 9), 3: (8, 9, 7)}


def image(name: str, channels: int = 3) -> Any:
    return x(None, *SPACE[RANKS[name]], channels)


def text(name: str) -> str:
    """How an error writes `image(name)`."""
    return f"float32[?, {', '.join(map(str, SPACE[RANKS[name]]))}, 3]"


def kernels(name: str, channels: int = 3, window: int = 3, dtype: str = "float32") -> list[Any]:
    """A kernel of two filters, and the pointwise one where that is needed."""
    rank = RANKS[name]
    first = v(*(window,) * rank, channels, 2, dtype=dtype)
    pointwise = v(*(1,) * rank, 6, 4, dtype=dtype)
    return [first, pointwise] if "separable" in name else [first]


def with_argument(name: str, said: str, **options: Any) -> Wrong:
    """A call that is right but for one argument."""
    function = getattr(K, name)
    return Wrong(
        name,
        lambda: function(image(name), *kernels(name), **options),
        ArgumentError,
        (said, text(name)),
    )


def of_forward(name: str) -> list[Wrong]:
    """What goes wrong in every convolution."""
    function: Callable[..., Any] = getattr(K, name)
    rank = RANKS[name]
    return [
        Wrong(
            name,
            lambda: function(image(name), *kernels(name, channels=2)),
            ShapeError,
            (text(name), "its last axis has 3 channels", "which reads 2"),
        ),
        Wrong(
            name,
            lambda: function(x(2, 5, *SPACE[rank]), *kernels(name), data_format="channels_first"),
            ShapeError,
            ("so its axis 1 has 5 channels", "which reads 3"),
        ),
        Wrong(
            name,
            lambda: function(x(2, 3), *kernels(name)),
            ShapeError,
            ("x is float32[2, 3]", f"rank {rank + 2} is needed: [batch, "),
        ),
        Wrong(
            name,
            lambda: function(image(name), v(3, 3), *kernels(name)[1:]),
            ShapeError,
            ("kernel is float32[3, 3]", f"rank {rank + 2} is needed"),
        ),
        Wrong(
            name,
            lambda: function(image(name), *kernels(name, window=9)),
            ShapeError,
            ("a window of 9 is larger than spatial axis 0, which has 8 cells",),
        ),
        Wrong(
            name,
            lambda: function(image(name), *kernels(name), dilation_rate=4),
            ShapeError,
            ("a window of 3 (spread to 9) is larger than spatial axis 0",),
        ),
        Wrong(
            name,
            lambda: function(
                image(name),
                *[K.cast(one, "int32") for one in kernels(name)],
                padding="full",
            ),
            ArgumentError,
            ("padding must be 'valid'", "'full'"),
        ),
        Wrong(
            name,
            lambda: function(
                K.cast(image(name), "uint8"), *[K.cast(one, "uint8") for one in kernels(name)]
            ),
            DtypeError,
            ("uint8[?, 8", "convolutions need a float dtype", "try K.cast(x, K.floatx())"),
        ),
        Wrong(
            name,
            lambda: fed(
                function(a := x(*(None,) * (rank + 2)), *kernels(name)),
                (a, np.ones((2, *SPACE[rank], 5))),
            ),
            ShapeError,
            ("which reads 3", "float32[2, 8"),
        ),
        Wrong(
            name,
            lambda: fed(
                function(a := x(*(None,) * (rank + 2)), *kernels(name)),
                (a, np.ones((2, *SPACE[rank][:-1], 2, 3))),
            ),
            ShapeError,
            ("a window of 3 is larger than spatial axis", "which has 2 cells"),
        ),
        with_argument(name, "got strides=2 and dilation_rate=2", strides=2, dilation_rate=2),
        with_argument(name, "got (1, 1, 1, 1)", strides=(1, 1, 1, 1)),
        with_argument(name, "dilation_rate must be at least 1, got 0", dilation_rate=0),
        with_argument(name, "strides must hold integers, got 1.5", strides=1.5),
        with_argument(name, "strides must hold integers, got True", strides=True),
        with_argument(name, "strides must be below 2**31, got 2147483648", strides=2**31),
        with_argument(name, "data_format must be", data_format="NHWC"),
        with_argument(name, "padding must be", padding=1),
    ]


FORWARD = [row for name in RANKS for row in of_forward(name)]

ONE_AXIS = [
    Wrong(
        "conv1d",
        lambda: K.conv1d(x(2, 3, 8), v(3, 3, 4), padding="causal", data_format="channels_first"),
        ArgumentError,
        ("padding 'causal' needs data_format 'channels_last'", "float32[2, 3, 8]"),
    ),
    Wrong(
        "conv2d",
        lambda: K.conv2d(image("conv2d"), *kernels("conv2d"), padding="causal"),
        ArgumentError,
        ("padding must be 'valid' or 'same', got 'causal'",),
    ),
    Wrong(
        "conv2d", lambda: K.conv2d(image("conv2d"), v(0, 3, 3, 2)), ShapeError, ("an empty window",)
    ),
    Wrong("conv2d", lambda: K.conv2d("text", v(3, 3, 3, 2)), DtypeError, ("the string",)),
    Wrong(
        "separable_conv1d",
        lambda: K.separable_conv1d(image("conv1d"), v(3, 3, 2), v(1, 5, 4)),
        ShapeError,
        ("float32[3, 3, 2], which gives 6 channels", "float32[1, 5, 4], which reads 5"),
    ),
    Wrong(
        "separable_conv2d",
        lambda: K.separable_conv2d(image("conv2d"), v(3, 3, 3, 2), v(1, 2, 6, 4)),
        ShapeError,
        ("pointwise_kernel is float32[1, 2, 6, 4]", "window must be of size 1"),
    ),
]


def transposed(shape: Any, **options: Any) -> Any:
    """conv2d_transpose of 4x4 images of 3 channels by windows of 2x2 to 5 channels."""
    return K.conv2d_transpose(v(2, 4, 4, 3), v(2, 2, 5, 3), shape, **options)


TRANSPOSED = [
    Wrong(
        "conv2d_transpose",
        lambda: transposed((2, 9, 9, 5)),
        ShapeError,
        ("output_shape [2, 9, 9, 5] needs x of spatial sizes [8, 8]", "float32[2, 4, 4, 3]"),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: transposed((2, 5, 5, 3)),
        ShapeError,
        ("asks for 3 channels, but there are 5",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: transposed((3, 5, 5, 5)),
        ShapeError,
        ("asks for 3 images, but there are 2",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: transposed((5, 5)),
        ArgumentError,
        ("output_shape must hold 4 sizes, batch and channels included, got (5, 5)",),
    ),
    Wrong("conv2d_transpose", lambda: transposed(None), ArgumentError, ("got None",)),
    Wrong(
        "conv2d_transpose",
        lambda: transposed((2, 5.5, 5, 5)),
        ArgumentError,
        ("output_shape must hold integers, got 5.5",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: transposed((2, -5, 5, 5)),
        ShapeError,
        ("must not hold negative sizes",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: transposed(K.constant([5.0, 5.0])),
        DtypeError,
        ("output_shape must be an integer tensor, got float32[2]",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: transposed(x(3, dtype="int32")),
        ShapeError,
        ("output_shape is int32[3], but 4 sizes are needed",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: fed(transposed(a := x(4, dtype="int32")), (a, [2, 9, 9, 5])),
        ShapeError,
        ("output_shape [2, 9, 9, 5] needs x of spatial sizes [8, 8]",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: fed(transposed(a := x(4, dtype="int32")), (a, [2, 5, -7, 5])),
        ShapeError,
        ("negative size",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: fed(transposed(a := x(None, dtype="int32")), (a, [2, 5, 5])),
        ShapeError,
        ("output_shape must hold 4 sizes, got int32[3]",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: transposed([None, None, K.size(x(None)), 5]),
        ArgumentError,
        ("output_shape must hold integers, got None", "try K.shape(...)"),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: transposed((2, 6, 6, 5), strides=2, dilation_rate=2),
        ArgumentError,
        ("only one of strides and dilation_rate may be greater than 1",),
    ),
    Wrong(
        "conv2d_transpose",
        lambda: K.conv2d_transpose(x(2, 4, 4, 5), v(2, 2, 5, 3), (2, 5, 5, 5)),
        ShapeError,
        ("float32[2, 4, 4, 5] with 5 channels", "whose last axis reads 3"),
    ),
    Wrong(
        "conv3d_transpose",
        lambda: K.conv3d_transpose(x(1, 2, 2, 2, 3), v(2, 2, 2, 4, 3), (1, 5, 3, 3, 4)),
        ShapeError,
        ("needs x of spatial sizes [4, 2, 2]",),
    ),
    Wrong(
        "conv3d_transpose",
        lambda: K.conv3d_transpose(x(1, 2, 2, 3), v(2, 2, 2, 4, 3), (1, 3, 3, 3, 4)),
        ShapeError,
        ("x is float32[1, 2, 2, 3]", "rank 5 is needed"),
    ),
    Wrong(
        "conv3d_transpose",
        lambda: K.conv3d_transpose(x(1, 2, 2, 2, 3), v(2, 2, 2, 4, 3), (1, 3, 3, 3, 4), (2, 2)),
        ArgumentError,
        ("strides must be 3 integers of at least 1, got (2, 2)",),
    ),
    Wrong(
        "conv3d_transpose",
        lambda: K.conv3d_transpose(
            x(1, 2, 2, 2, 3), v(2, 2, 2, 4, 3), (1, 3, 3, 3, 4), padding="causal"
        ),
        ArgumentError,
        ("padding must be 'valid' or 'same'",),
    ),
]

LOCAL = [
    Wrong(
        "local_conv1d",
        lambda: K.local_conv1d(x(2, 6, 3), v(3, 6, 4), (2,), (1,)),
        ShapeError,
        ("float32[2, 6, 3], which has 5 places", "float32[3, 6, 4], whose axis 0 has 3"),
    ),
    Wrong(
        "local_conv1d",
        lambda: K.local_conv1d(x(2, 6, 3), v(5, 5, 4), (2,), (1,)),
        ShapeError,
        ("which has 6 entries in a patch", "whose axis 1 has 5"),
    ),
    Wrong(
        "local_conv1d",
        lambda: K.local_conv1d(x(2, 6, 3), v(5, 6), (2,), (1,)),
        ShapeError,
        ("kernel is float32[5, 6]", "rank 3 is needed: [places, patch, filters]"),
    ),
    Wrong(
        "local_conv1d",
        lambda: K.local_conv1d(x(2, 6, 3), v(5, 6, 4), (2, 2), (1,)),
        ArgumentError,
        ("kernel_size must be an integer of at least 1, got (2, 2)",),
    ),
    Wrong(
        "local_conv1d",
        lambda: K.local_conv1d(x(2, 6, 3), v(5, 6, 4), (7,), (1,)),
        ShapeError,
        ("a window of 7 is larger",),
    ),
    Wrong(
        "local_conv1d",
        lambda: fed(
            K.local_conv1d(a := x(None, None, 3), v(5, 6, 4), (2,), (1,)), (a, np.ones((2, 9, 3)))
        ),
        ShapeError,
        ("8", "5"),
    ),
    Wrong(
        "local_conv1d",
        lambda: fed(  # of so many filters as the kernel takes
            K.local_conv1d(a := x(None, None, 3), v(5, 6, 16), (2,), (1,)), (a, np.ones((2, 9, 3)))
        ),
        ShapeError,
        ("8", "5"),
    ),
    Wrong(
        "local_conv2d",
        lambda: K.local_conv2d(x(2, 3, 4, 1), v(6, 4, 1), (2, 2), (1, 1), (3, 2)),
        ShapeError,
        ("output_shape is [3, 2], but the windows fit [2, 3] times",),
    ),
    Wrong(
        "local_conv2d",
        lambda: K.local_conv2d(x(2, 3, 4, 1), v(6, 4, 1), (2, 2), (1, 1), (6,)),
        ArgumentError,
        ("output_shape must hold 2 sizes, got (6,)",),
    ),
    Wrong(
        "local_conv2d",
        lambda: K.local_conv2d(x(2, 3, 4, 1), v(6, 3, 1), (2, 2), (1, 1), (2, 3)),
        ShapeError,
        ("which has 4 entries in a patch", "float32[6, 3, 1]"),
    ),
    Wrong(
        "local_conv2d",
        lambda: K.local_conv2d(x(2, 3, 4), v(6, 4, 1), (2, 2), (1, 1), (2, 3)),
        ShapeError,
        ("inputs is float32[2, 3, 4]", "rank 4 is needed"),
    ),
    Wrong(
        "local_conv2d",
        lambda: K.local_conv2d(x(2, 3, 4, 1), v(6, 4, 1), (2, 2), (0, 1), (2, 3)),
        ArgumentError,
        ("strides must be at least 1, got (0, 1)",),
    ),
]

WRONG = [*FORWARD, *ONE_AXIS, *TRANSPOSED, *LOCAL]
