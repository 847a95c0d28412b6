"""Rows of convolutions, pooling, resizing, padding, cropping and locally connected layers."""

from __future__ import annotations

import numpy as np
import reference_spatial as slow
from keras import layers
from layer_table import LayerRow, Shape, both

# ------------------------------------------------------------------ convolutions
# (label, options of the layer) for each; the reference reads the same options.

SHAPES: dict[int, Shape] = {1: (7, 2), 2: (5, 6, 2), 3: (3, 4, 3, 2)}

OPTIONS = {
    "Conv1D": (
        1,
        (
            ("valid", {}),
            ("same, strides", {"padding": "same", "strides": 2}),
            ("causal, dilated", {"padding": "causal", "dilation_rate": 2}),
        ),
    ),
    "Conv2D": (
        2,
        (
            ("valid", {}),
            ("same, strides", {"padding": "same", "strides": (2, 1)}),
            ("same, dilated", {"padding": "same", "dilation_rate": (1, 2)}),
        ),
    ),
    "Conv3D": (3, (("valid", {}), ("same, strides", {"padding": "same", "strides": 2}))),
    "SeparableConv1D": (
        1,
        (
            ("valid", {"depth_multiplier": 2}),
            ("same, dilated", {"padding": "same", "dilation_rate": 2}),
        ),
    ),
    "SeparableConv2D": (
        2,
        (("valid", {"depth_multiplier": 2}), ("same, strides", {"padding": "same", "strides": 2})),
    ),
    "DepthwiseConv2D": (
        2,
        (
            ("valid", {"depth_multiplier": 2}),
            ("same, dilated", {"padding": "same", "dilation_rate": 2}),
        ),
    ),
}
KERNEL = {1: 3, 2: (3, 2), 3: (2, 1, 2)}
FORWARD = {"Conv": slow.convolve, "SeparableConv": slow.separable, "DepthwiseConv": slow.depthwise}


def each(value, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def convolution(name: str, rank: int, label: str, options: dict) -> list[LayerRow]:
    """Rows of one layer with one set of options."""
    forward = FORWARD[name[:-2]]
    strides = each(options.get("strides", 1), rank)
    dilation = each(options.get("dilation_rate", 1), rank)
    padding = options.get("padding", "valid")
    filters = () if name == "DepthwiseConv2D" else (3,)
    settings = {"kernel_size": KERNEL[rank], "activation": "tanh", **options}

    def make(form: str):
        return getattr(layers, name)(*filters, data_format=form, **settings)

    def numpy(x, *weights):
        *kernels, bias = weights
        return np.tanh(forward(x, *kernels, strides, padding, dilation) + bias)

    rows = both(name, make, SHAPES[rank], numpy, label)
    return rows[:1] if padding == "causal" else rows


CONVOLUTIONS = [
    row
    for name, (rank, settings) in OPTIONS.items()
    for label, options in settings
    for row in convolution(name, rank, label, options)
]

# ------------------------------------------------------------------ transposed convolutions


def deconvolution(name: str, sizes: tuple[int, ...], label: str, **options) -> list[LayerRow]:
    """`sizes` are those of the output, counted by hand."""
    rank = len(sizes)
    strides = each(options.get("strides", 1), rank)
    dilation = each(options.get("dilation_rate", 1), rank)

    def make(form: str):
        return getattr(layers, name)(2, 3, data_format=form, **options)

    def numpy(x, kernel, bias):
        padding = options.get("padding", "valid")
        return slow.deconvolve(x, kernel, sizes, strides, padding, dilation) + bias

    return both(name, make, (*(3, 2, 2)[:rank], 3), numpy, label)


DECONVOLUTIONS = [
    *deconvolution("Conv2DTranspose", (5, 4), "valid"),
    *deconvolution("Conv2DTranspose", (6, 4), "same, strides", padding="same", strides=2),
    *deconvolution("Conv2DTranspose", (8, 6), "output padding", strides=2, output_padding=1),
    *deconvolution("Conv2DTranspose", (7, 6), "dilated", dilation_rate=2),
    *deconvolution("Conv3DTranspose", (5, 4, 4), "valid"),
    *deconvolution("Conv3DTranspose", (6, 4, 4), "same, strides", padding="same", strides=2),
]

# ------------------------------------------------------------------ locally connected


def local_channels_first(x, kernel, bias):
    """Keras reads the bias [rows, columns, filters] as [filters, rows, columns] in this layout."""
    y = slow.unshared(np.moveaxis(x, 1, -1), kernel, 0, (2, 3), (1, 2), True)
    return np.moveaxis(y, -1, 1) + bias.reshape(bias.shape[-1], *bias.shape[:-1])


LOCAL = [
    LayerRow(
        "LocallyConnected1D",
        lambda: layers.LocallyConnected1D(3, 2, strides=2),
        ((6, 2),),
        lambda x, kernel, bias: slow.unshared(x, kernel, bias, (2,), (2,)),
    ),
    LayerRow(
        "LocallyConnected2D",
        lambda: layers.LocallyConnected2D(3, (2, 3), strides=(1, 2), data_format="channels_last"),
        ((3, 5, 2),),
        lambda x, kernel, bias: slow.unshared(x, kernel, bias, (2, 3), (1, 2)),
        "last",
    ),
    LayerRow(
        "LocallyConnected2D",
        lambda: layers.LocallyConnected2D(3, (2, 3), strides=(1, 2), data_format="channels_first"),
        ((2, 3, 5),),
        local_channels_first,
        "first",
    ),
]

# ------------------------------------------------------------------ pooling

REDUCE = {"Max": np.max, "Average": np.mean}
POOLS = {
    1: ((6, 2), {"pool_size": 2}, {"pool_size": 3, "strides": 2, "padding": "same"}),
    2: ((5, 4, 2), {"pool_size": 2}, {"pool_size": (3, 2), "strides": (2, 1), "padding": "same"}),
    3: ((4, 3, 4, 2), {"pool_size": 2}, {"pool_size": 2, "strides": 1, "padding": "same"}),
}


def pooling(kind: str, rank: int, shape: Shape, options: dict, label: str) -> list[LayerRow]:
    window = each(options["pool_size"], rank)
    strides = each(options.get("strides", window), rank)
    name = f"{kind}Pooling{rank}D"

    def make(form: str):
        return getattr(layers, name)(data_format=form, **options)

    def numpy(x):
        return slow.pool(x, window, strides, options.get("padding", "valid"), REDUCE[kind])

    return both(name, make, shape, numpy, label)


def pooling_of_all(kind: str, rank: int, shape: Shape) -> list[LayerRow]:
    name = f"Global{kind}Pooling{rank}D"
    return both(
        name,
        lambda form: getattr(layers, name)(data_format=form),
        shape,
        lambda x: REDUCE[kind](x, axis=tuple(range(1, 1 + rank))),
    )


POOLING = [
    row
    for kind in REDUCE
    for rank, (shape, *settings) in POOLS.items()
    for row in (
        *pooling(kind, rank, shape, settings[0], "valid"),
        *pooling(kind, rank, shape, settings[1], "same"),
        *pooling_of_all(kind, rank, shape),
    )
]
POOLING.append(
    LayerRow(
        "GlobalAveragePooling1D",
        lambda: layers.GlobalAveragePooling1D(),
        ((4, 3),),
        lambda x, mask: (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True),
        "masked",
        masked=True,
    )
)

# ------------------------------------------------------------------ sizes

SIZES = [
    LayerRow(
        "UpSampling1D", lambda: layers.UpSampling1D(3), ((3, 2),), lambda x: slow.repeat(x, (3,))
    ),
    *both(
        "UpSampling2D",
        lambda form: layers.UpSampling2D((2, 3), data_format=form),
        (2, 3, 2),
        lambda x: slow.repeat(x, (2, 3)),
        "nearest",
    ),
    *both(
        "UpSampling2D",
        lambda form: layers.UpSampling2D((2, 3), data_format=form, interpolation="bilinear"),
        (2, 3, 2),
        lambda x: slow.bilinear(x, (2, 3)),
        "bilinear",
    ),
    *both(
        "UpSampling3D",
        lambda form: layers.UpSampling3D((2, 1, 3), data_format=form),
        (2, 3, 1, 2),
        lambda x: slow.repeat(x, (2, 1, 3)),
    ),
    LayerRow(
        "ZeroPadding1D",
        lambda: layers.ZeroPadding1D((2, 1)),
        ((3, 2),),
        lambda x: slow.pad(x, [(2, 1)]),
    ),
    *both(
        "ZeroPadding2D",
        lambda form: layers.ZeroPadding2D(((1, 0), (2, 1)), data_format=form),
        (2, 3, 2),
        lambda x: slow.pad(x, [(1, 0), (2, 1)]),
    ),
    *both(
        "ZeroPadding3D",
        lambda form: layers.ZeroPadding3D((1, 0, 2), data_format=form),
        (2, 3, 1, 2),
        lambda x: slow.pad(x, [(1, 1), (0, 0), (2, 2)]),
    ),
    LayerRow(
        "Cropping1D", lambda: layers.Cropping1D((1, 2)), ((6, 2),), lambda x: slow.crop(x, [(1, 2)])
    ),
    *both(
        "Cropping2D",
        lambda form: layers.Cropping2D(((1, 0), (2, 1)), data_format=form),
        (3, 5, 2),
        lambda x: slow.crop(x, [(1, 0), (2, 1)]),
    ),
    *both(
        "Cropping3D",
        lambda form: layers.Cropping3D(((1, 0), (2, 1), (0, 1)), data_format=form),
        (3, 5, 2, 2),
        lambda x: slow.crop(x, [(1, 0), (2, 1), (0, 1)]),
    ),
]

ROWS = [*CONVOLUTIONS, *DECONVOLUTIONS, *LOCAL, *POOLING, *SIZES]
