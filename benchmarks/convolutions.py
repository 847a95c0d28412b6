"""Convolution under one set of names for every library, channels last as in Keras.

`convolution(x, kernel, stride, padding, dilation)` over one to three axes, `depthwise(x, kernel)`,
and for padding "same" without strides the gradients `convolution_to_input(g, kernel)` and
`convolution_to_kernel(g, x, window)`. Nothing is imported before it is asked for.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np

LETTERS = "DHW"


def _border(window: tuple[int, ...], dilation: int) -> list[tuple[int, int]]:
    """Zeros before and after each axis for "same" without strides."""
    totals = [dilation * (size - 1) for size in window]
    return [(total // 2, total - total // 2) for total in totals]


# ------------------------------------------------------------------ NumPy


def _taps(x: Any, window: Any, stride: int, padding: str, dilation: int) -> Any:
    """For each tap of the window, the part of the padded `x` that it sees."""
    if padding == "same":
        x = np.pad(x, [(0, 0), *_border(window, dilation), (0, 0)])
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
    taps = _taps(x, kernel.shape[:-2], stride, padding, dilation)
    return sum(seen @ kernel[tap] for tap, seen in taps)


def _numpy_depthwise(x: Any, kernel: Any) -> Any:
    taps = _taps(x, kernel.shape[:-2], 1, "same", 1)
    return sum(seen * kernel[tap][:, 0] for tap, seen in taps)


def _numpy_to_input(g: Any, kernel: Any) -> Any:
    """The convolution of `g` with the kernel turned around."""
    turned = np.flip(kernel, tuple(range(kernel.ndim - 2)))
    return _numpy_convolution(g, np.swapaxes(turned, -1, -2))


def _numpy_to_kernel(g: Any, x: Any, window: Any) -> Any:
    flat = g.reshape(-1, g.shape[-1])
    out = np.empty((*window, x.shape[-1], g.shape[-1]), x.dtype)
    for tap, seen in _taps(x, window, 1, "same", 1):
        out[tap] = seen.reshape(-1, x.shape[-1]).T @ flat
    return out


NUMPY = {
    "convolution": _numpy_convolution,
    "depthwise": _numpy_depthwise,
    "convolution_to_input": _numpy_to_input,
    "convolution_to_kernel": _numpy_to_kernel,
}

# ------------------------------------------------------------------ kbench


def kbench_names(K: Any) -> Any:
    """The functions of the module, and these."""

    def convolution(
        x: Any, kernel: Any, stride: int = 1, padding: str = "same", dilation: int = 1
    ) -> Any:
        rank = K.ndim(kernel) - 2
        run = getattr(K, f"conv{rank}d")
        steps = [stride if rank == 1 else (stride,) * rank]
        spread = dilation if rank == 1 else (dilation,) * rank
        return run(x, kernel, *steps, padding=padding, dilation_rate=spread)

    def to_input(g: Any, kernel: Any) -> Any:
        x = K.zeros((*K.int_shape(g)[:-1], K.int_shape(kernel)[-2]))
        return K.gradients(K.sum(convolution(x, kernel) * g), [x])[0]

    def to_kernel(g: Any, x: Any, window: Any) -> Any:
        kernel = K.zeros((*window, K.int_shape(x)[-1], K.int_shape(g)[-1]))
        return K.gradients(K.sum(convolution(x, kernel) * g), [kernel])[0]

    return SimpleNamespace(
        **{**vars(K), "convolution": convolution},
        depthwise=lambda x, kernel: K.depthwise_conv2d(x, kernel, padding="same"),
        convolution_to_input=to_input,
        convolution_to_kernel=to_kernel,
    )


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

    def half(window: Any) -> list[int]:
        return [size // 2 for size in window]

    def to_input(g: Any, kernel: Any) -> Any:
        run = getattr(grad, f"conv{kernel.ndim - 2}d_input")
        shape = (g.shape[0], kernel.shape[-2], *g.shape[1:-1])
        x = run(shape, filters(kernel), first(g), padding=half(kernel.shape[:-2]))
        return x.movedim(1, -1)

    def to_kernel(g: Any, x: Any, window: Any) -> Any:
        run = getattr(grad, f"conv{len(window)}d_weight")
        shape = (g.shape[-1], x.shape[-1], *window)
        return run(first(x), shape, first(g), padding=half(window)).movedim((0, 1), (-1, -2))

    return {
        "convolution": convolution,
        "depthwise": depthwise,
        "convolution_to_input": to_input,
        "convolution_to_kernel": to_kernel,
    }


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

    def to_input(g: Any, kernel: Any) -> Any:
        x = jax.numpy.zeros((*g.shape[:-1], kernel.shape[-2]), g.dtype)
        return jax.vjp(lambda x: convolution(x, kernel), x)[1](g)[0]

    def to_kernel(g: Any, x: Any, window: Any) -> Any:
        kernel = jax.numpy.zeros((*window, x.shape[-1], g.shape[-1]), g.dtype)
        return jax.vjp(lambda kernel: convolution(x, kernel), kernel)[1](g)[0]

    return {
        "convolution": convolution,
        "depthwise": lambda x, kernel: convolution(x, kernel.swapaxes(-1, -2), groups=x.shape[-1]),
        "convolution_to_input": to_input,
        "convolution_to_kernel": to_kernel,
    }
