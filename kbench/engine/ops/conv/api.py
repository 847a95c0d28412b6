"""Convolution as Keras calls it: arguments checked, channels brought last, `convolve` applied."""

from __future__ import annotations

import numpy as np

from kbench.engine.core.errors import ArgumentError, DtypeError, ShapeError, shown
from kbench.engine.core.spec import Spec, is_float, promote
from kbench.engine.core.type_errors import entries_of
from kbench.engine.core.types import Sizes
from kbench.engine.graph.apply import apply
from kbench.engine.graph.convert import as_tensor, converted, tensors_of
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.ops.conv.convolve import CONVOLVE, check_channels
from kbench.engine.ops.conv.windows import (
    MAX_WINDOW_SIZE,
    WindowAttrs,
    check_rank,
    checked_ints,
    checked_padding,
    from_channels_last,
    layout_of,
    to_channels_last,
)
from kbench.engine.ops.layout.shape import shape, shape_operand

# ------------------------------------------------------------------ what all have in common


def factors(x: Operand, **kernels: Operand) -> list[Tensor]:
    """`x` and the kernels in their common float dtype; DtypeError when there is none."""
    tensors = tensors_of(x, *kernels.values())
    common = tensors[0].spec.dtype
    for tensor in tensors[1:]:
        common = promote(common, tensor.spec.dtype)
    if not is_float(common):
        raise DtypeError(
            f"x is {tensors[0].spec}, but convolutions need a float dtype",
            suggestion="K.cast(x, K.floatx())",
        )
    return [converted(tensor, common) for tensor in tensors]


def check_kernel(kernel: Spec, rank: int, name: str = "kernel", last: str = "filters") -> None:
    """ShapeError unless a kernel has `rank` window axes, channels and filters."""
    if kernel.ndim != rank + 2:
        axes = {1: "width", 2: "height, width", 3: "depth, height, width"}[rank]
        raise ShapeError(
            f"{name} is {kernel}, but rank {rank + 2} is needed: [{axes}, channels, {last}]"
        )


def window_attrs(strides: Sizes, padding: str, dilation_rate: Sizes, rank: int) -> WindowAttrs:
    """The attributes of the ops; ArgumentError when windows are both far apart and spread."""
    steps = checked_ints(strides, rank, "strides")
    spacing = checked_ints(dilation_rate, rank, "dilation_rate")
    if max(steps) > 1 and max(spacing) > 1:
        raise ArgumentError(
            "only one of strides and dilation_rate may be greater than 1, got "
            f"strides={shown(strides)} and dilation_rate={shown(dilation_rate)}"
        )
    return {"strides": steps, "padding": padding, "dilation": spacing}


def channel_axis(layout: str) -> int:
    """Where the user has the channels."""
    return -1 if layout == "channels_last" else 1


def _convolution(
    rank: int,
    x: Operand,
    kernel: Operand,
    strides: Sizes,
    padding: str,
    data_format: str | None,
    dilation_rate: Sizes,
) -> Tensor:
    layout = layout_of(data_format)
    attrs = window_attrs(strides, padding, dilation_rate, rank)
    value, weights = factors(x, kernel=kernel)
    check_rank(value.spec, rank, layout)
    check_kernel(weights.spec, rank)
    check_channels(value.spec, weights.spec, channel_axis(layout))
    result = apply(CONVOLVE.forward, to_channels_last(value, layout), weights, **attrs)
    return from_channels_last(result, layout)


# ------------------------------------------------------------------ forward


def conv1d(
    x: Operand,
    kernel: Operand,
    strides: Sizes = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Tensor:
    """Slide a bank of filters, not flipped, along a batch of sequences.

    Arguments:
        x: float[batch, steps, channels], or with "channels_first" the channels second.
        kernel: float[width, channels, filters], whatever the data format.
        strides: an int of at least 1; dilation_rate: likewise, the spacing of filter taps.
        padding: "valid", no border; "same", zeros so the output is ceil(steps / stride); or
            "causal", zeros before only, so that no output sees a later step.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor float[batch, new_steps, filters] in the layout and dtype of `x`.
    Raises:
        ShapeError: `x` is not rank 3, its channels differ from the kernel's, or a "valid" window
            is longer than `x`.
        ArgumentError: unknown padding or layout, "causal" with channels first, or strides and
            dilation both above 1.
    Gradient: to `x` and `kernel`.
    Source: Keras 2.3 `backend.conv1d`; with "same", an odd border puts the extra cell after.

    >>> K.int_shape(K.conv1d(K.zeros((8, 20, 3)), K.zeros((5, 3, 16)), padding="causal"))
    (8, 20, 16)
    """
    border = checked_padding(padding, ("valid", "same", "causal"))
    if border == "causal" and layout_of(data_format) == "channels_first":
        raise ArgumentError("padding 'causal' needs data_format 'channels_last'")
    return _convolution(1, x, kernel, strides, border, data_format, dilation_rate)


def conv2d(
    x: Operand,
    kernel: Operand,
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Tensor:
    """Slide a bank of two-dimensional filters, not flipped, over a batch of images.

    Arguments:
        x: float[batch, rows, cols, channels], or with "channels_first" the channels second.
        kernel: float[height, width, channels, filters], whatever the data format.
        strides: two ints of at least 1; dilation_rate: likewise, the spacing of filter taps.
        padding: "valid", no border; or "same", zeros so the output is ceil(size / stride).
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor float[batch, new_rows, new_cols, filters] in the layout and dtype of `x`.
    Raises:
        ShapeError: `x` is not rank 4, its channels differ from the kernel's, or a "valid" window
            is larger than `x`.
        ArgumentError: unknown padding or layout, or strides and dilation both above 1.
    Gradient: to `x` and `kernel`.
    Source: Keras 2.3 `backend.conv2d`; with "same", an odd border puts the extra cell after.

    >>> K.int_shape(K.conv2d(K.zeros((8, 28, 28, 3)), K.zeros((3, 3, 3, 16))))
    (8, 26, 26, 16)
    """
    border = checked_padding(padding)
    return _convolution(2, x, kernel, strides, border, data_format, dilation_rate)


def conv3d(
    x: Operand,
    kernel: Operand,
    strides: Sizes = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1, 1),
) -> Tensor:
    """Slide a bank of three-dimensional filters, not flipped, through a batch of volumes.

    Arguments:
        x: float[batch, depth, rows, cols, channels], or with "channels_first" the channels second.
        kernel: float[depth, height, width, channels, filters], whatever the data format.
        strides: three ints of at least 1; dilation_rate: likewise, the spacing of filter taps.
        padding: "valid", no border; or "same", zeros so the output is ceil(size / stride).
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor float[batch, new_depth, new_rows, new_cols, filters] in the layout and dtype of `x`.
    Raises:
        ShapeError: `x` is not rank 5, its channels differ from the kernel's, or a "valid" window
            is larger than `x`.
        ArgumentError: unknown padding or layout, or strides and dilation both above 1.
    Gradient: to `x` and `kernel`.
    Source: Keras 2.3 `backend.conv3d`; with "same", an odd border puts the extra cell after.

    >>> K.int_shape(K.conv3d(K.zeros((1, 8, 8, 8, 2)), K.zeros((3, 3, 3, 2, 4)), padding="same"))
    (1, 8, 8, 8, 4)
    """
    border = checked_padding(padding)
    return _convolution(3, x, kernel, strides, border, data_format, dilation_rate)


# ------------------------------------------------------------------ transposed


def _wanted_shape(output_shape: Operand, x: Tensor, layout: str) -> Tensor:
    """The shape of the result with channels last, as an int vector; no batch means that of `x`."""
    if isinstance(output_shape, Tensor):
        sizes = shape_operand(output_shape, name="output_shape")
        if isinstance(sizes, Tensor):
            return _reordered(sizes, x, layout)
        output_shape = sizes
    entries = entries_of(output_shape, "output_shape")
    if not isinstance(entries, (list, tuple)) or len(entries) != x.ndim:
        raise ArgumentError(
            f"output_shape must hold {x.ndim} sizes, batch and channels included, "
            f"got {shown(entries)}"
        )
    items = list(entries)
    if items[0] is None or (not isinstance(items[0], Tensor) and items[0] == -1):
        items[0] = x.spec.shape[0] if x.spec.shape[0] is not None else shape(x)[0]
    if layout == "channels_first":
        items = [items[0], *items[2:], items[1]]
    sizes = shape_operand(items, name="output_shape")
    if isinstance(sizes, Tensor):
        return sizes
    if max(sizes) >= MAX_WINDOW_SIZE:
        raise ArgumentError(f"output_shape must hold sizes below 2**31, got {shown(entries)}")
    return as_tensor(np.array(sizes, np.int32))


def _reordered(sizes: Tensor, x: Tensor, layout: str) -> Tensor:
    if sizes.spec.shape[0] not in (x.ndim, None):
        raise ShapeError(
            f"output_shape is {sizes.spec}, but {x.ndim} sizes are needed, batch and channels "
            "included"
        )
    if layout == "channels_last":
        return sizes
    order = (0, *range(2, x.ndim), 1)
    stacked = shape_operand([sizes[i] for i in order], name="output_shape")
    assert isinstance(stacked, Tensor)
    return stacked


def _transposed(
    rank: int,
    x: Operand,
    kernel: Operand,
    output_shape: Operand,
    strides: Sizes,
    padding: str,
    data_format: str | None,
    dilation_rate: Sizes,
) -> Tensor:
    layout = layout_of(data_format)
    attrs = window_attrs(strides, checked_padding(padding), dilation_rate, rank)
    value, weights = factors(x, kernel=kernel)
    check_rank(value.spec, rank, layout)
    check_kernel(weights.spec, rank, last="channels of x")
    ours, theirs = value.spec.shape[channel_axis(layout)], weights.spec.shape[-1]
    if None not in (ours, theirs) and ours != theirs:
        raise ShapeError(
            f"x is {value.spec} with {ours} channels, but kernel is {weights.spec}, whose last "
            f"axis reads {theirs}",
            axes={"x": channel_axis(layout) % value.ndim, "kernel": weights.ndim - 1},
        )
    sizes = _wanted_shape(output_shape, value, layout)
    result = apply(CONVOLVE.to_input, to_channels_last(value, layout), weights, sizes, **attrs)
    return from_channels_last(result, layout)


def conv2d_transpose(
    x: Operand,
    kernel: Operand,
    output_shape: Operand,
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Tensor:
    """The convolution backwards: each cell of `x` spreads a filter over the images of the result.

    It is the gradient of `conv2d` to its input, for an input of the shape `output_shape`.

    Arguments:
        x: float[batch, rows, cols, channels], or with "channels_first" the channels second.
        kernel: float[height, width, filters, channels], whatever the data format.
        output_shape: four sizes in the layout of `x`: ints, scalar tensors, or an int vector
            tensor. The batch may be None. `conv2d` of this shape must give the rows and cols of
            `x`.
        strides: two ints of at least 1; dilation_rate: likewise, the spacing of filter taps.
        padding: "valid" or "same", the border of that `conv2d`.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor of `output_shape` and the dtype of `x`.
    Raises:
        ShapeError: ranks or channels do not fit, or `output_shape` does not belong to `x`.
        ArgumentError: unknown padding or layout, `output_shape` does not hold four sizes, or
            strides and dilation both above 1.
    Gradient: to `x` and `kernel`.
    Source: Keras 2.3 `backend.conv2d_transpose`.

    >>> x, kernel = K.zeros((1, 4, 4, 8)), K.zeros((3, 3, 5, 8))
    >>> K.int_shape(K.conv2d_transpose(x, kernel, (1, 8, 8, 5), strides=2, padding="same"))
    (1, 8, 8, 5)
    """
    return _transposed(2, x, kernel, output_shape, strides, padding, data_format, dilation_rate)


def conv3d_transpose(
    x: Operand,
    kernel: Operand,
    output_shape: Operand,
    strides: Sizes = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
) -> Tensor:
    """The three-dimensional convolution backwards; see `conv2d_transpose`.

    Arguments:
        x: float[batch, depth, rows, cols, channels], or with "channels_first" the channels second.
        kernel: float[depth, height, width, filters, channels], whatever the data format.
        output_shape: five sizes in the layout of `x`: ints, scalar tensors, or an int vector
            tensor. The batch may be None. `conv3d` of this shape must give the places of `x`.
        strides: three ints of at least 1.
        padding: "valid" or "same", the border of that `conv3d`.
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor of `output_shape` and the dtype of `x`.
    Raises:
        ShapeError: ranks or channels do not fit, or `output_shape` does not belong to `x`.
        ArgumentError: unknown padding or layout, or `output_shape` does not hold five sizes.
    Gradient: to `x` and `kernel`.
    Source: Keras 2.3 `backend.conv3d_transpose`.

    >>> x, kernel = K.zeros((1, 2, 2, 2, 3)), K.zeros((2, 2, 2, 1, 3))
    >>> K.int_shape(K.conv3d_transpose(x, kernel, (None, 4, 4, 4, 1), strides=2))
    (1, 4, 4, 4, 1)
    """
    return _transposed(3, x, kernel, output_shape, strides, padding, data_format, 1)
