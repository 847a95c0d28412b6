"""Depthwise convolution: every channel has filters of its own, and is never mixed with others.

Separable convolution adds a product over the channels behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from kbench.engine.core.errors import ShapeError
from kbench.engine.core.folds.summation import added
from kbench.engine.core.spec import Spec
from kbench.engine.core.types import Ints, Sizes
from kbench.engine.graph.apply import apply
from kbench.engine.graph.tensor import Operand, Tensor
from kbench.engine.jit.launch import Preparable
from kbench.engine.ops.conv.api import channel_axis, check_kernel, factors, window_attrs
from kbench.engine.ops.conv.convolve import CONVOLVE, Kind, check_channels, family
from kbench.engine.ops.conv.convolve_numpy import (
    Block,
    Scratch,
    blocks,
    spread_back,
    strip_of,
    taps_of,
    useful_taps,
    working_dtype,
)
from kbench.engine.ops.conv.windows import (
    check_rank,
    checked_padding,
    from_channels_last,
    layout_of,
    to_channels_last,
)

BLOCK_ELEMENTS = 1 << 17
"""Elements of a block, which each tap reads and writes: it stays in the cache between two taps."""
MIN_KERNEL_PRODUCTS = 1 << 15
"""Products from which on a compiled kernel is worth while."""

# ------------------------------------------------------------------ on arrays


def _repeated(strip: np.ndarray, times: int) -> np.ndarray:
    """Each channel as often as it has filters."""
    return strip if times == 1 else np.repeat(strip, times, axis=-1)


def _neighbours_summed(total: np.ndarray, times: int) -> np.ndarray:
    """Every `times` channels as one: what `_repeated` gives to many, back."""
    if times > 16:
        each = total.reshape(*total.shape[:-1], -1, times)
        return added(each, (each.ndim - 1,)).astype(total.dtype, copy=False)
    first = total[..., ::times]
    for j in range(1, times):
        np.add(first, total[..., j::times], out=first)
    return first


def _own(box: Block) -> Block:
    """A box by the places of its own strip."""
    return (slice(None), *(slice(0, cells.stop - cells.start) for cells in box[1:]))


@np.errstate(all="ignore")
def _forward(
    out: np.ndarray, x: np.ndarray, kernel: np.ndarray, strides: Ints, starts: Ints, dilation: Ints
) -> None:
    """`out[n, *place, c * times + j]`: the sum over taps of `x` at c times the kernel's [c, j]."""
    if not out.size:
        return
    facts = (x.shape[1:-1], out.shape[1:-1], kernel.shape[:-2], strides, starts, dilation)
    taps, starts = useful_taps(*facts)
    kernel = kernel[taps]
    if not kernel.size or not x.size:
        out.fill(0)
        return
    window, times = kernel.shape[:-2], kernel.shape[-1]
    pool = Scratch(working_dtype(x.dtype))
    weights = kernel.reshape(*window, -1).astype(pool.dtype, copy=False)
    for box in blocks(out.shape[:-1], out.shape[-1], BLOCK_ELEMENTS):
        strip = _repeated(strip_of(x, box, window, strides, starts, dilation, pool), times)
        target = out[box]
        total = target if target.dtype == pool.dtype else pool.take("total", target.shape)
        product = pool.take("product", target.shape)
        for number, (tap, seen) in enumerate(taps_of(_own(box), window, strides, dilation)):
            np.multiply(strip[seen], weights[tap], out=product if number else total)
            if number:
                np.add(total, product, out=total)
        if total is not target:
            target[...] = total


@np.errstate(all="ignore")
def _to_input(
    out: np.ndarray, g: np.ndarray, kernel: np.ndarray, strides: Ints, starts: Ints, dilation: Ints
) -> None:
    """Each window adds to the cells that it sees."""
    facts = (out.shape[1:-1], g.shape[1:-1], kernel.shape[:-2], strides, starts, dilation)
    taps, starts = useful_taps(*facts)
    kernel = kernel[taps]
    window, times = kernel.shape[:-2], kernel.shape[-1]
    pool = Scratch(working_dtype(g.dtype))
    weights = kernel.reshape(*window, math.prod(kernel.shape[-2:])).astype(pool.dtype, copy=False)

    def added(part: np.ndarray) -> Callable[[Ints], np.ndarray]:
        product = pool.take("product", part.shape)
        return lambda tap: np.multiply(part, weights[tap], out=product)

    channels = weights.shape[-1]
    for images, cells, sums in spread_back(
        out,
        g,
        window,
        channels,
        (channels, BLOCK_ELEMENTS),
        (strides, starts, dilation),
        added,
        pool,
    ):
        out[(images, *cells)] = _neighbours_summed(sums, times)


@np.errstate(all="ignore")
def _to_kernel(
    out: np.ndarray, g: np.ndarray, x: np.ndarray, strides: Ints, starts: Ints, dilation: Ints
) -> None:
    """`out[*tap, c, m]`: the sum over all places of `x`, as the tap sees it, times `g`."""
    facts = (x.shape[1:-1], g.shape[1:-1], out.shape[:-2], strides, starts, dilation)
    taps, starts = useful_taps(*facts)
    target = out[taps]
    out.fill(0)
    window, times = target.shape[:-2], out.shape[-1]
    pool = Scratch(working_dtype(x.dtype))
    total = np.zeros((*window, math.prod(out.shape[-2:])), np.float64)
    if target.size and g.size and x.size:
        for box in blocks(g.shape[:-1], total.shape[-1], BLOCK_ELEMENTS):
            strip = _repeated(strip_of(x, box, window, strides, starts, dilation, pool), times)
            part = g[box].astype(pool.dtype, copy=False)
            product = pool.take("product", part.shape)
            for tap, seen in taps_of(_own(box), window, strides, dilation):
                np.multiply(strip[seen], part, out=product)
                total[tap] += added(product.reshape(-1, product.shape[-1]), (0,))
    target[...] = total.reshape(target.shape)


def _filters(kernel: Spec) -> int | None:
    channels, times = kernel.shape[-2:]
    return None if channels is None or times is None else channels * times


def _find_kernel(product: str, dtype: str, rank: int) -> Preparable | None:
    from kbench.engine.kernels.depthwise import (
        api as depthwise,  # on first need: it brings much along
    )

    return depthwise.find_kernel(product, dtype, rank)


DEPTHWISE = family(
    Kind(
        "depthwise",
        "numpy",
        _filters,
        lambda kernel: 1,
        _forward,
        _to_input,
        _to_kernel,
        _find_kernel,
        lambda name, kernel, places: math.prod(kernel) * places >= MIN_KERNEL_PRODUCTS,
    )
)

# ------------------------------------------------------------------ as Keras calls it


def _depthwise(
    rank: int,
    x: Operand,
    kernels: dict[str, Operand],
    strides: Sizes,
    padding: str,
    data_format: str | None,
    dilation_rate: Sizes,
) -> Tensor:
    """The depthwise convolution and, with a second kernel, the pointwise one behind it."""
    layout = layout_of(data_format)
    attrs = window_attrs(strides, checked_padding(padding), dilation_rate, rank)
    value, depthwise, *pointwise = factors(x, **kernels)
    check_rank(value.spec, rank, layout)
    check_kernel(depthwise.spec, rank, "depthwise_kernel", "multiplier")
    check_channels(value.spec, depthwise.spec, channel_axis(layout))
    result = apply(DEPTHWISE.forward, to_channels_last(value, layout), depthwise, **attrs)
    for kernel in pointwise:
        check_kernel(kernel.spec, rank, "pointwise_kernel")
        _check_pointwise(depthwise.spec, kernel.spec)
        ones = (1,) * rank
        result = apply(
            CONVOLVE.forward, result, kernel, strides=ones, padding="valid", dilation=ones
        )
    return from_channels_last(result, layout)


def _check_pointwise(depthwise: Spec, pointwise: Spec) -> None:
    if any(size not in (1, None) for size in pointwise.shape[:-2]):
        raise ShapeError(f"pointwise_kernel is {pointwise}, but its window must be of size 1")
    given, wanted = pointwise.shape[-2], _filters(depthwise)
    if None not in (given, wanted) and given != wanted:
        raise ShapeError(
            f"depthwise_kernel is {depthwise}, which gives {wanted} channels, but "
            f"pointwise_kernel is {pointwise}, which reads {given}"
        )


def depthwise_conv2d(
    x: Operand,
    depthwise_kernel: Operand,
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Tensor:
    """Slide filters over each channel of a batch of images on its own.

    Arguments:
        x: float[batch, rows, cols, channels], or with "channels_first" the channels second.
        depthwise_kernel: float[height, width, channels, multiplier], whatever the data format.
        strides: two ints of at least 1; dilation_rate: likewise, the spacing of filter taps.
        padding: "valid", no border; or "same", zeros so the output is ceil(size / stride).
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor float[batch, new_rows, new_cols, channels * multiplier] in the layout and dtype of
        `x`; filter m of channel c is at c * multiplier + m.
    Raises:
        ShapeError: `x` is not rank 4, its channels differ from the kernel's, or a "valid" window
            is larger than `x`.
        ArgumentError: unknown padding or layout, or strides and dilation both above 1.
    Gradient: to `x` and `depthwise_kernel`.
    Source: Keras 2.3 `backend.depthwise_conv2d`.

    >>> K.int_shape(K.depthwise_conv2d(K.zeros((8, 28, 28, 3)), K.zeros((3, 3, 3, 2))))
    (8, 26, 26, 6)
    """
    kernels = {"depthwise_kernel": depthwise_kernel}
    return _depthwise(2, x, kernels, strides, padding, data_format, dilation_rate)


def separable_conv1d(
    x: Operand,
    depthwise_kernel: Operand,
    pointwise_kernel: Operand,
    strides: Sizes = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = 1,
) -> Tensor:
    """Filter each channel of a batch of sequences on its own, then mix the channels of each step.

    Arguments:
        x: float[batch, steps, channels], or with "channels_first" the channels second.
        depthwise_kernel: float[width, channels, multiplier].
        pointwise_kernel: float[1, channels * multiplier, filters].
        strides: an int of at least 1; dilation_rate: likewise, the spacing of filter taps.
        padding: "valid", no border; or "same", zeros so the output is ceil(steps / stride).
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor float[batch, new_steps, filters] in the layout and dtype of `x`.
    Raises:
        ShapeError: ranks or channels do not fit, or a "valid" window is longer than `x`.
        ArgumentError: unknown padding or layout, or strides and dilation both above 1.
    Gradient: to `x` and both kernels.
    Source: Keras 2.3 `backend.separable_conv1d`.

    >>> x, depthwise, pointwise = K.zeros((8, 20, 3)), K.zeros((5, 3, 2)), K.zeros((1, 6, 4))
    >>> K.int_shape(K.separable_conv1d(x, depthwise, pointwise))
    (8, 16, 4)
    """
    kernels = {"depthwise_kernel": depthwise_kernel, "pointwise_kernel": pointwise_kernel}
    return _depthwise(1, x, kernels, strides, padding, data_format, dilation_rate)


def separable_conv2d(
    x: Operand,
    depthwise_kernel: Operand,
    pointwise_kernel: Operand,
    strides: Sizes = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Sizes = (1, 1),
) -> Tensor:
    """Filter each channel of a batch of images on its own, then mix the channels of each pixel.

    Arguments:
        x: float[batch, rows, cols, channels], or with "channels_first" the channels second.
        depthwise_kernel: float[height, width, channels, multiplier].
        pointwise_kernel: float[1, 1, channels * multiplier, filters].
        strides: two ints of at least 1; dilation_rate: likewise, the spacing of filter taps.
        padding: "valid", no border; or "same", zeros so the output is ceil(size / stride).
        data_format: "channels_last", "channels_first", or None for `image_data_format()`.
    Returns:
        Tensor float[batch, new_rows, new_cols, filters] in the layout and dtype of `x`.
    Raises:
        ShapeError: ranks or channels do not fit, or a "valid" window is larger than `x`.
        ArgumentError: unknown padding or layout, or strides and dilation both above 1.
    Gradient: to `x` and both kernels.
    Source: Keras 2.3 `backend.separable_conv2d`.

    >>> x, depthwise = K.zeros((8, 28, 28, 3)), K.zeros((3, 3, 3, 2))
    >>> K.int_shape(K.separable_conv2d(x, depthwise, K.zeros((1, 1, 6, 16)), strides=2))
    (8, 13, 13, 16)
    """
    kernels = {"depthwise_kernel": depthwise_kernel, "pointwise_kernel": pointwise_kernel}
    return _depthwise(2, x, kernels, strides, padding, data_format, dilation_rate)
