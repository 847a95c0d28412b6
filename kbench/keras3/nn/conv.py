"""Convolutions of one, two and three axes, in groups too, and transposed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from keras.src.backend import config
from keras.src.backend.common.backend_utils import compute_conv_transpose_padding_args_for_jax

from kbench import backend as K
from kbench.keras3.calls.host import common_dtype
from kbench.keras3.calls.planned import planned
from kbench.keras3.complex_numbers.parts import products
from kbench.keras3.complex_numbers.refusal import is_complex
from kbench.keras3.numpy import layout
from kbench.keras3.tensor import Traced, finish, in_dtype

Node = Any


def sizes(value: Any, rank: int) -> tuple[int, ...]:
    """A number for each axis of the window."""
    return (int(value),) * rank if np.ndim(value) == 0 else tuple(int(n) for n in value)


def channels_last(x: Node, data_format: str) -> Node:
    if data_format == "channels_last":
        return x
    return K.permute_dimensions(x, (0, *range(2, x.ndim), 1))


def as_given(x: Node, data_format: str) -> Node:
    """Channels back to where the caller has them."""
    if data_format == "channels_last":
        return x
    return K.permute_dimensions(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


def spread(kernel: Node, dilation: tuple[int, ...]) -> Node:
    """The kernel with zeros between its taps."""
    if max(dilation) == 1:
        return kernel
    shape: Any = tuple(kernel.spec.shape)
    places = np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape)
    wide = [(n - 1) * d + 1 for n, d in zip(shape[:-2], dilation, strict=True)]
    there = np.zeros((*wide, *shape[-2:]), np.int64)
    there[tuple(slice(None, None, d) for d in dilation)] = places
    return layout.with_border(Traced(kernel), there, 0).node


class _Operands(NamedTuple):
    """What every convolution begins with; `end` makes its result of a node with channels last."""

    x: Node
    kernel: Node
    steps: tuple[int, ...]
    dilation: tuple[int, ...]
    end: Callable[[Node], Any]


def _operands(
    inputs: Any, kernel: Any, strides: Any, data_format: Any, dilation_rate: Any
) -> _Operands:
    layout_name = config.standardize_data_format(data_format)
    rank = len(inputs.shape) - 2
    if not 1 <= rank <= 3 or len(kernel.shape) != rank + 2:
        raise ValueError(
            "inputs need axes of batch and channels and one to three more, a kernel as many more "
            "and two of channels"
        )
    dtype = common_dtype(inputs, kernel)
    computed = dtype if "float" in dtype else "float64"  # where sums of integers are exact

    def end(found: Node) -> Traced:
        found = as_given(found, layout_name)
        if computed != dtype != "bool":
            found = K.cast(found, "int64")  # which wraps around in a narrower dtype
        return finish(found, dtype)

    return _Operands(
        channels_last(in_dtype(inputs, computed), layout_name),
        in_dtype(kernel, computed),
        sizes(strides, rank),
        sizes(dilation_rate, rank),
        end,
    )


def of_complex_numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    """A convolution that takes complex operands: it is linear in both."""

    @functools.wraps(function)
    def call(inputs: Any, kernel: Any, *rest: Any, **options: Any) -> Any:
        if not (is_complex(inputs) or is_complex(kernel)):
            return function(inputs, kernel, *rest, **options)

        def build(x: Node, weights: Node) -> Node:
            return function(Traced(x), Traced(weights), *rest, **options).node

        return products(build, [inputs, kernel], common_dtype(inputs, kernel))

    return call


_BY_RANK = {1: K.conv1d, 2: K.conv2d, 3: K.conv3d}


def _one_group(x: Node, kernel: Node, steps: Any, padding: str, dilation: Any) -> Node:
    rank = len(steps)
    if max(steps) > 1 and max(dilation) > 1:
        kernel, dilation = spread(kernel, dilation), (1,) * rank
    return _BY_RANK[rank](
        x,
        kernel,
        strides=steps if rank > 1 else steps[0],
        padding=padding,
        data_format="channels_last",
        dilation_rate=dilation if rank > 1 else dilation[0],
    )


@planned
@of_complex_numbers
def conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Any:
    """A bank of filters moved over the axes between batch and channels."""
    x, weights, steps, dilation, end = _operands(
        inputs, kernel, strides, data_format, dilation_rate
    )
    sizes_known: Any = (x.spec.shape[-1], *weights.spec.shape[-2:])
    channels, taken, filters = sizes_known
    if channels % taken:
        raise ValueError(
            "The number of input channels must be evenly divisible by kernel's in_channels. "
            f"Received input channels {channels} and kernel in_channels {taken}."
        )
    groups = channels // taken
    border = padding.lower()
    if groups == 1:
        return end(_one_group(x, weights, steps, border, dilation))
    each = filters // groups
    if taken == 1 and len(steps) < 3:  # each channel has filters of its own
        own = K.reshape(weights, (*weights.spec.shape[:-2], channels, each))
        return end(_depthwise(x, own, steps, border, dilation))
    found = [
        _one_group(
            x[..., i * taken : (i + 1) * taken],
            weights[..., i * each : (i + 1) * each],
            steps,
            border,
            dilation,
        )
        for i in range(groups)
    ]
    return end(K.concatenate(found, -1))


@planned
@of_complex_numbers
def depthwise_conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Any:
    """Filters of each channel's own."""
    x, weights, steps, dilation, end = _operands(
        inputs, kernel, strides, data_format, dilation_rate
    )
    return end(_depthwise(x, weights, steps, padding.lower(), dilation))


def _depthwise(x: Node, kernel: Node, steps: Any, padding: str, dilation: Any) -> Node:
    if len(steps) == 1:
        x, kernel = K.expand_dims(x, 1), K.expand_dims(kernel, 0)
        # The axis of size 1 is left as it is, whatever the border.
        found = _depthwise(x, kernel, (1, *steps), padding, (1, *dilation))
        return K.squeeze(found, 1)
    if max(steps) > 1 and max(dilation) > 1:
        kernel, dilation = spread(kernel, dilation), (1, 1)
    return K.depthwise_conv2d(x, kernel, steps, padding, "channels_last", dilation)


@planned
def separable_conv(
    inputs: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Any:
    """Filters of each channel's own, and then sums over channels."""
    layout_name = config.standardize_data_format(data_format)
    found = depthwise_conv(inputs, depthwise_kernel, strides, padding, layout_name, dilation_rate)
    return conv(found, pointwise_kernel, 1, "valid", layout_name, 1)


@planned
@of_complex_numbers
def conv_transpose(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    output_padding: Any = None,
    data_format: Any = None,
    dilation_rate: Any = 1,
) -> Any:
    """What a convolution would have to be given: its gradient to its input."""
    x, weights, steps, dilation, end = _operands(
        inputs, kernel, strides, data_format, dilation_rate
    )
    borders = compute_conv_transpose_padding_args_for_jax(
        input_shape=inputs.shape,
        kernel_shape=kernel.shape,
        strides=strides,
        padding=padding,
        output_padding=output_padding,
        dilation_rate=dilation_rate,
    )
    found = _whole_transpose(x, spread(weights, dilation), steps)
    wide = [(n - 1) * d + 1 for n, d in zip(kernel.shape[:-2], dilation, strict=True)]
    for axis, ((left, right), size) in enumerate(zip(borders, wide, strict=True), 1):
        found = _cut(found, axis, left - (size - 1), right - (size - 1))
    return end(found)


def _whole_transpose(x: Node, kernel: Node, steps: Any) -> Node:
    """Every product: what a convolution without a border would have read."""
    rank = len(steps)
    if rank == 1:
        flat = _whole_transpose(K.expand_dims(x, 1), K.expand_dims(kernel, 0), (1, *steps))
        return K.squeeze(flat, 1)
    shape: Any = [
        (n - 1) * step + size
        for n, step, size in zip(x.spec.shape[1:-1], steps, kernel.spec.shape[:-2], strict=True)
    ]
    target = (x.spec.shape[0], *shape, kernel.spec.shape[-2])
    run = K.conv2d_transpose if rank == 2 else K.conv3d_transpose
    return run(x, kernel, target, steps, "valid", "channels_last")


def _cut(x: Node, axis: int, left: int, right: int) -> Node:
    """So many more cells of zeros on both sides, or fewer cells where the number is negative."""
    lead = (slice(None),) * axis
    size = x.spec.shape[axis]
    x = x[(*lead, slice(max(-left, 0), size - max(-right, 0)))]
    if max(left, right) > 0:
        widths = [(0, 0)] * x.ndim
        widths[axis] = (max(left, 0), max(right, 0))
        x = layout.pad(Traced(x), widths).node
    return x
