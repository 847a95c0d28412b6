"""Convolution under one set of names for every library, channels last as in Keras.

`convolution(x, kernel, stride, padding, dilation)` over one to three axes, its gradients
`convolution_to_input(g, kernel, space, ...)` and `convolution_to_kernel(g, x, window, ...)`, where
`space` is what the input's axes between batch and channels measure, `transposed(x, kernel, space,
stride)`, which is the first of them as a layer, `depthwise(x, kernel)` and
`separable(x, kernel, pointwise)`. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

LETTERS = "DHW"


def border(
    space: tuple[int, ...], window: tuple[int, ...], stride: int, padding: str, dilation: int
) -> list[tuple[int, int]]:
    """Zeros before and after each axis."""
    if padding == "valid":
        return [(0, 0)] * len(window)
    totals = [
        max((-(-size // stride) - 1) * stride + dilation * (width - 1) + 1 - size, 0)
        for size, width in zip(space, window, strict=True)
    ]
    return [(total // 2, total - total // 2) for total in totals]


# ------------------------------------------------------------------ NumPy


def taps(x: Any, window: Any, stride: int, padding: str, dilation: int) -> Any:
    """For each tap of the window, the part of the padded `x` that it sees."""
    zeros = border(x.shape[1:-1], window, stride, padding, dilation)
    if padding == "same":
        x = np.pad(x, [(0, 0), *zeros, (0, 0)])
    yield from views(x, window, stride, dilation)


def views(x: Any, window: Any, stride: int, dilation: int) -> Any:
    """The same of an `x` that has its border already."""
    sizes = [
        (size - dilation * (width - 1) - 1) // stride + 1
        for size, width in zip(x.shape[1:-1], window, strict=True)
    ]
    for tap in itertools.product(*map(range, window)):
        starts = [at * dilation for at in tap]
        places = [
            slice(start, start + stride * (size - 1) + 1, stride)
            for start, size in zip(starts, sizes, strict=True)
        ]
        yield tap, x[:, *places]


def _numpy_convolution(
    x: Any, kernel: Any, stride: int = 1, padding: str = "same", dilation: int = 1
) -> Any:
    seen = taps(x, kernel.shape[:-2], stride, padding, dilation)
    return sum(part @ kernel[tap] for tap, part in seen)


def _numpy_depthwise(x: Any, kernel: Any) -> Any:
    seen = taps(x, kernel.shape[:-2], 1, "same", 1)
    return sum(part * kernel[tap][:, 0] for tap, part in seen)


def _numpy_to_input(
    g: Any, kernel: Any, space: Any, stride: int = 1, padding: str = "same", dilation: int = 1
) -> Any:
    """What each tap saw gets its part of the gradient."""
    window = kernel.shape[:-2]
    zeros = border(space, window, stride, padding, dilation)
    padded = [size + sum(pair) for size, pair in zip(space, zeros, strict=True)]
    out = np.zeros((len(g), *padded, kernel.shape[-2]), g.dtype)
    for tap, part in views(out, window, stride, dilation):
        part[tuple(slice(size) for size in g.shape[:-1])] += g @ kernel[tap].T
    inner = [slice(pair[0], pair[0] + size) for size, pair in zip(space, zeros, strict=True)]
    return out[:, *inner]


def _numpy_to_kernel(
    g: Any, x: Any, window: Any, stride: int = 1, padding: str = "same", dilation: int = 1
) -> Any:
    flat = g.reshape(-1, g.shape[-1])
    out = np.empty((*window, x.shape[-1], g.shape[-1]), x.dtype)
    for tap, part in taps(x, window, stride, padding, dilation):
        out[tap] = part.reshape(-1, x.shape[-1]).T @ flat
    return out


def numpy_names() -> dict[str, Any]:
    """One product for each tap of the window."""
    return {
        "convolution": _numpy_convolution,
        "depthwise": _numpy_depthwise,
        "separable": lambda x, kernel, last: _numpy_depthwise(x, kernel) @ last[0, 0],
        "convolution_to_input": _numpy_to_input,
        "convolution_to_kernel": _numpy_to_kernel,
        "transposed": _numpy_to_input,
    }


# ------------------------------------------------------------------ kbench


def kbench_names(K: Any) -> dict[str, Any]:
    """The functions of the module; gradients through `K.gradients`."""

    def convolution(
        x: Any, kernel: Any, stride: int = 1, padding: str = "same", dilation: int = 1
    ) -> Any:
        rank = K.ndim(kernel) - 2
        run = getattr(K, f"conv{rank}d")
        steps = [stride if rank == 1 else (stride,) * rank]
        spread = dilation if rank == 1 else (dilation,) * rank
        return run(x, kernel, *steps, padding=padding, dilation_rate=spread)

    def to_input(g: Any, kernel: Any, space: Any, *how: Any) -> Any:
        x = K.zeros((K.int_shape(g)[0], *space, K.int_shape(kernel)[-2]))
        return K.gradients(K.sum(convolution(x, kernel, *how) * g), [x])[0]

    def to_kernel(g: Any, x: Any, window: Any, *how: Any) -> Any:
        kernel = K.zeros((*window, K.int_shape(x)[-1], K.int_shape(g)[-1]))
        return K.gradients(K.sum(convolution(x, kernel, *how) * g), [kernel])[0]

    def transposed(x: Any, kernel: Any, space: Any, stride: int) -> Any:
        shape = (K.int_shape(x)[0], *space, K.int_shape(kernel)[-2])
        return K.conv2d_transpose(x, kernel, shape, (stride, stride), "same")

    return {
        "convolution": convolution,
        "depthwise": lambda x, kernel: K.depthwise_conv2d(x, kernel, padding="same"),
        "separable": lambda x, kernel, last: K.separable_conv2d(x, kernel, last, padding="same"),
        "convolution_to_input": to_input,
        "convolution_to_kernel": to_kernel,
        "transposed": transposed,
    }


def named(
    convolution: Any, depthwise: Any, to_input: Any, to_kernel: Any, transposed: Any
) -> dict[str, Any]:
    """The functions under their names, for a library that has no separable convolution."""
    return {
        "convolution": convolution,
        "depthwise": depthwise,
        "separable": lambda x, kernel, last: convolution(depthwise(x, kernel), last),
        "convolution_to_input": to_input,
        "convolution_to_kernel": to_kernel,
        "transposed": transposed,
    }


# ------------------------------------------------------------------ PyTorch


def torch_names(torch: Any) -> dict[str, Any]:
    """Arrays are channels last in memory, which is what PyTorch is fastest with too."""
    functional, grad = torch.nn.functional, torch.nn.grad

    def first(x: Any) -> Any:
        return x.movedim(-1, 1)

    def filters(kernel: Any) -> Any:
        return kernel.movedim((-1, -2), (0, 1))

    def convolution(
        x: Any, kernel: Any, stride: int = 1, padding: str = "same", dilation: int = 1
    ) -> Any:
        run = getattr(functional, f"conv{kernel.ndim - 2}d")
        y = run(first(x), filters(kernel), None, stride, padding, dilation)
        return y.movedim(1, -1)

    def depthwise(x: Any, kernel: Any) -> Any:
        weights = filters(kernel.movedim(-1, -2))
        y = functional.conv2d(first(x), weights, None, 1, "same", 1, x.shape[-1])
        return y.movedim(1, -1)

    def before(space: Any, window: Any, stride: int, padding: str, dilation: int) -> list[int]:
        pairs = border(tuple(space), tuple(window), stride, padding, dilation)
        return [pair[0] for pair in pairs]

    def to_input(
        g: Any, kernel: Any, space: Any, stride: int = 1, padding: str = "same", dilation: int = 1
    ) -> Any:
        run = getattr(grad, f"conv{kernel.ndim - 2}d_input")
        shape = (g.shape[0], kernel.shape[-2], *space)
        pad = before(space, kernel.shape[:-2], stride, padding, dilation)
        return run(shape, filters(kernel), first(g), stride, pad, dilation).movedim(1, -1)

    def to_kernel(
        g: Any, x: Any, window: Any, stride: int = 1, padding: str = "same", dilation: int = 1
    ) -> Any:
        run = getattr(grad, f"conv{len(window)}d_weight")
        shape = (g.shape[-1], x.shape[-1], *window)
        pad = before(x.shape[1:-1], window, stride, padding, dilation)
        found = run(first(x), shape, first(g), stride, pad, dilation)
        return found.movedim((0, 1), (-1, -2))

    def transposed(x: Any, kernel: Any, space: Any, stride: int) -> Any:
        pad = before(space, kernel.shape[:-2], stride, "same", 1)
        y = functional.conv_transpose2d(first(x), filters(kernel), None, stride, pad)
        return y.movedim(1, -1)

    return named(convolution, depthwise, to_input, to_kernel, transposed)


# ------------------------------------------------------------------ JAX


def jax_names(jax: Any) -> dict[str, Any]:
    """The general convolution of JAX, and what its transformation gives for the gradients."""

    def convolution(
        x: Any, kernel: Any, stride: int = 1, padding: str = "same", dilation: int = 1,
        groups: int = 1,
    ) -> Any:  # fmt: skip
        rank = kernel.ndim - 2
        space = LETTERS[3 - rank :]
        return jax.lax.conv_general_dilated(
            x, kernel, (stride,) * rank, padding.upper(), rhs_dilation=(dilation,) * rank,
            dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"),
            feature_group_count=groups,
        )  # fmt: skip

    def to_input(g: Any, kernel: Any, space: Any, *how: Any) -> Any:
        x = jax.numpy.zeros((len(g), *space, kernel.shape[-2]), g.dtype)
        return jax.vjp(lambda x: convolution(x, kernel, *how), x)[1](g)[0]

    def to_kernel(g: Any, x: Any, window: Any, *how: Any) -> Any:
        kernel = jax.numpy.zeros((*window, x.shape[-1], g.shape[-1]), g.dtype)
        return jax.vjp(lambda kernel: convolution(x, kernel, *how), kernel)[1](g)[0]

    def depthwise(x: Any, kernel: Any) -> Any:
        return convolution(x, kernel.swapaxes(-1, -2), groups=x.shape[-1])

    return named(convolution, depthwise, to_input, to_kernel, to_input)


# ------------------------------------------------------------------ TensorFlow


def tensorflow_names(tf: Any) -> dict[str, Any]:
    """`tf.nn`, and the gradients that its tape gives."""

    def convolution(
        x: Any, kernel: Any, stride: int = 1, padding: str = "same", dilation: int = 1
    ) -> Any:
        return tf.nn.convolution(x, kernel, stride, padding.upper(), dilations=dilation)

    def to_input(g: Any, kernel: Any, space: Any, *how: Any) -> Any:
        x = tf.zeros((g.shape[0], *space, kernel.shape[-2]))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = convolution(x, kernel, *how)
        return tape.gradient(y, x, g)

    def to_kernel(g: Any, x: Any, window: Any, *how: Any) -> Any:
        kernel = tf.zeros((*window, x.shape[-1], g.shape[-1]))
        with tf.GradientTape() as tape:
            tape.watch(kernel)
            y = convolution(x, kernel, *how)
        return tape.gradient(y, kernel, g)

    def transposed(x: Any, kernel: Any, space: Any, stride: int) -> Any:
        shape = (x.shape[0], *space, kernel.shape[-2])
        return tf.nn.conv2d_transpose(x, kernel, shape, stride, "SAME")

    return {
        "convolution": convolution,
        "depthwise": lambda x, kernel: tf.nn.depthwise_conv2d(x, kernel, [1] * 4, "SAME"),
        "separable": lambda x, kernel, last: tf.nn.separable_conv2d(
            x, kernel, last, [1] * 4, "SAME"
        ),
        "convolution_to_input": to_input,
        "convolution_to_kernel": to_kernel,
        "transposed": transposed,
    }
