"""The op table: convolutions, against loops over places and taps that are easy to believe."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from case import Case, each

from kbench import backend as K

Ints = tuple[int, ...]


def _last(x: np.ndarray, data_format: str | None) -> np.ndarray:
    return np.moveaxis(x, 1, -1) if data_format == "channels_first" else x


def _back(x: np.ndarray, data_format: str | None) -> np.ndarray:
    return np.moveaxis(x, -1, 1) if data_format == "channels_first" else x


def _all(value: int | Ints, rank: int) -> Ints:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def geometry(size: int, window: int, stride: int, padding: str, dilation: int) -> tuple[int, int]:
    """(number of windows, cells of border before)."""
    reach = (window - 1) * dilation + 1
    if padding == "valid":
        return (size - reach) // stride + 1, 0
    count = -(-size // stride)
    if padding == "causal":
        return count, reach - 1
    return count, max((count - 1) * stride + reach - size, 0) // 2


def taps_seen(
    sizes: Ints, window: Ints, strides: Ints, padding: str, dilation: Ints
) -> tuple[Ints, list[tuple[Ints, Ints, Ints]]]:
    """The number of windows, and every (place, tap, cell) where a tap falls on a cell."""
    facts = [
        geometry(*one) for one in zip(sizes, window, strides, [padding] * 9, dilation, strict=False)
    ]
    counts = tuple(count for count, _ in facts)
    seen = []
    for place in itertools.product(*map(range, counts)):
        for tap in itertools.product(*map(range, window)):
            cell = tuple(
                p * s - facts[i][1] + t * d
                for i, (p, s, t, d) in enumerate(zip(place, strides, tap, dilation, strict=True))
            )
            if all(0 <= one < size for one, size in zip(cell, sizes, strict=True)):
                seen.append((place, tap, cell))
    return counts, seen


def convolved(
    x: np.ndarray,
    kernel: np.ndarray,
    strides: int | Ints = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int | Ints = 1,
) -> np.ndarray:
    """Tap by tap, place by place."""
    x = _last(x, data_format)
    rank = x.ndim - 2
    window, steps = kernel.shape[:-2], _all(strides, rank)
    counts, seen = taps_seen(x.shape[1:-1], window, steps, padding, _all(dilation_rate, rank))
    out = np.zeros((len(x), *counts, kernel.shape[-1]))
    for place, tap, cell in seen:
        out[(slice(None), *place)] += x[(slice(None), *cell)] @ kernel[tap]
    return _back(out, data_format)


def transposed(
    x: np.ndarray,
    kernel: np.ndarray,
    output_shape: Any,
    strides: int | Ints = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int | Ints = 1,
) -> np.ndarray:
    """The same pairs of place and cell, read the other way."""
    x = _last(x, data_format)
    rank = x.ndim - 2
    sizes = output_shape[2:] if data_format == "channels_first" else output_shape[1:-1]
    window, steps = kernel.shape[:-2], _all(strides, rank)
    counts, seen = taps_seen(tuple(sizes), window, steps, padding, _all(dilation_rate, rank))
    assert counts == x.shape[1:-1]
    out = np.zeros((len(x), *sizes, kernel.shape[-2]))
    for place, tap, cell in seen:
        out[(slice(None), *cell)] += x[(slice(None), *place)] @ kernel[tap].T
    return _back(out, data_format)


def depthwise(
    x: np.ndarray,
    kernel: np.ndarray,
    strides: int | Ints = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int | Ints = 1,
) -> np.ndarray:
    """Each channel as a convolution of one channel; its filters stay together."""
    x = _last(x, data_format)
    parts = [
        convolved(x[..., [c]], kernel[..., [c], :], strides, padding, None, dilation_rate)
        for c in range(x.shape[-1])
    ]
    return _back(np.concatenate(parts, -1), data_format)


def separable(
    x: np.ndarray,
    depthwise_kernel: np.ndarray,
    pointwise_kernel: np.ndarray,
    strides: int | Ints = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: int | Ints = 1,
) -> np.ndarray:
    middle = depthwise(x, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return convolved(middle, pointwise_kernel, data_format=data_format)


def local(
    x: np.ndarray,
    kernel: np.ndarray,
    kernel_size: Ints,
    strides: Ints,
    output_shape: Ints | None = None,
    data_format: str | None = None,
) -> np.ndarray:
    """At each place the flattened patch times the kernel of that place."""
    first = output_shape is not None and data_format == "channels_first"
    x = _last(x, data_format) if first else x
    pairs = zip(x.shape[1:-1], kernel_size, strides, strict=True)
    counts = [(size - window) // stride + 1 for size, window, stride in pairs]
    out = np.zeros((len(x), *counts, kernel.shape[-1]))
    for number, place in enumerate(itertools.product(*map(range, counts))):
        cells = [
            slice(p * s, p * s + w) for p, s, w in zip(place, strides, kernel_size, strict=True)
        ]
        patch = x[(slice(None), *cells)]
        patch = np.moveaxis(patch, -1, 1) if first else patch
        out[(slice(None), *place)] = patch.reshape(len(x), kernel.shape[1]) @ kernel[number]
    return _back(out, data_format) if first else out


# ------------------------------------------------------------------ rows

FIRST = {"data_format": "channels_first"}


def _row(name: str, reference: Callable[..., Any], shapes: Any, options: Any, **more: Any) -> Case:
    """A case that is smooth, and whose sums are longer than usual."""
    settings = {"smooth": True, "scale": 40.0, "domain": (-1.0, 1.0), **more}
    return Case(name, shapes, reference, options=options, **settings)


CONV = [
    _row(
        "conv1d",
        convolved,
        [((2, 5, 2), (3, 2, 3)), ((1, 4, 1), (2, 1, 2))],
        [
            {},
            {"strides": 2, "padding": "same", "data_format": "channels_last"},
            {"padding": "causal"},
            {"padding": "same", "dilation_rate": 2},
            {"strides": (3,), "padding": "causal"},
        ],
    ),
    _row(
        "conv1d", convolved, [((2, 7, 2), (3, 2, 1))], [{"padding": "causal", "dilation_rate": 2}]
    ),
    _row(
        "conv1d",
        convolved,
        [((2, 3, 5), (2, 3, 2))],
        [{**FIRST}, {**FIRST, "strides": 2}, {**FIRST, "padding": "same", "dilation_rate": 3}],
    ),
    _row(
        "conv1d",
        convolved,
        [((0, 5, 2), (3, 2, 3)), ((2, 5, 0), (3, 0, 3)), ((2, 5, 2), (3, 2, 0))],
        [{}, {"padding": "same"}],
        smooth=False,
    ),
    _row("conv1d", convolved, [((2, 0, 2), (3, 2, 3))], [{"padding": "same"}], smooth=False),
    _row(
        "conv2d",
        convolved,
        [((1, 4, 5, 2), (3, 2, 2, 3))],
        [
            {},
            {"strides": (2, 1), "padding": "same"},
            {"strides": (1, 3), "padding": "valid"},
            {"padding": "same", "dilation_rate": (1, 2)},
            {"strides": 2},
        ],
    ),
    _row(
        "conv2d",
        convolved,
        [((1, 2, 4, 5), (2, 3, 2, 2))],
        [{**FIRST}, {**FIRST, "strides": (3, 2), "padding": "same"}],
    ),
    _row("conv2d", convolved, [((2, 3, 2, 2), (1, 1, 2, 3))], [{}, {"strides": (2, 2)}]),
    _row("conv2d", convolved, [((1, 2, 2, 1), (4, 4, 1, 2))], [{"padding": "same"}]),
    _row(
        "conv3d",
        convolved,
        [((1, 3, 2, 3, 2), (2, 2, 1, 2, 2))],
        [{}, {"strides": (2, 1, 2), "padding": "same"}, {"dilation_rate": (2, 1, 2)}],
    ),
    _row("conv3d", convolved, [((1, 2, 3, 2, 2), (2, 1, 2, 2, 1))], [{**FIRST}]),
]

TRANSPOSED = [
    _row(
        "conv2d_transpose",
        transposed,
        [((2, 2, 3, 2), (3, 2, 1, 2))],
        [
            {"output_shape": (2, 4, 4, 1)},
            {"output_shape": (2, 5, 6, 1), "strides": 2},
            {"output_shape": (2, 4, 6, 1), "strides": (2, 2), "padding": "same"},
            {"output_shape": (None, 3, 9, 1), "strides": (2, 3), "padding": "same"},
            {"output_shape": [-1, 6, 4, 1], "dilation_rate": (2, 1)},
        ],
    ),
    _row(
        "conv2d_transpose",
        transposed,
        [((1, 2, 2, 3), (2, 2, 3, 2))],
        [{"output_shape": np.array([1, 3, 4, 5]), "strides": 2, "padding": "same", **FIRST}],
    ),
    _row(
        "conv2d_transpose",
        lambda x, kernel, padding: transposed(x, kernel, (1, 4, 4, 2), (2, 2), padding),
        [((1, 2, 2, 2), (2, 2, 2, 2))],
        each("padding", values=["valid", "same"]),
        call=lambda x, kernel, padding: K.conv2d_transpose(
            x, kernel, K.shape(x) * [1, 2, 2, 1], (2, 2), padding
        ),
    ),
    _row(
        "conv3d_transpose",
        transposed,
        [((1, 2, 1, 2, 2), (2, 1, 2, 1, 2))],
        [
            {"output_shape": (1, 3, 1, 3, 1)},
            {"output_shape": (None, 4, 2, 2, 1), "strides": (2, 2, 1), "padding": "same"},
        ],
    ),
]

DEPTHWISE = [
    _row(
        "depthwise_conv2d",
        depthwise,
        [((1, 4, 4, 2), (3, 2, 2, 2)), ((2, 3, 4, 2), (2, 2, 2, 1))],
        [
            {},
            {"strides": (2, 1), "padding": "same"},
            {"strides": (3, 2)},
            {"padding": "same", "dilation_rate": (1, 2)},
        ],
    ),
    _row("depthwise_conv2d", depthwise, [((1, 2, 3, 4), (2, 2, 2, 2))], [{**FIRST, "strides": 2}]),
    _row(
        "depthwise_conv2d",
        depthwise,
        [((0, 4, 4, 2), (3, 2, 2, 2)), ((1, 4, 4, 2), (3, 2, 2, 0))],
        [{}],
        smooth=False,
    ),
    _row(
        "separable_conv1d",
        separable,
        [((2, 5, 2), (3, 2, 2), (1, 4, 2))],
        [{}, {"strides": 2, "padding": "same"}, {"dilation_rate": (2,)}],
    ),
    _row("separable_conv1d", separable, [((1, 2, 4), (2, 2, 1), (1, 2, 3))], [{**FIRST}]),
    _row(
        "separable_conv2d",
        separable,
        [((1, 3, 4, 2), (2, 3, 2, 2), (1, 1, 4, 2))],
        [{}, {"strides": (2, 2), "padding": "same"}, {"padding": "same", "dilation_rate": (2, 2)}],
    ),
    _row("separable_conv2d", separable, [((1, 2, 3, 3), (2, 2, 2, 1), (1, 1, 2, 2))], [{**FIRST}]),
]

LOCAL = [
    _row(
        "local_conv1d",
        local,
        [((2, 5, 2), (3, 6, 2))],
        [{"kernel_size": (3,), "strides": (1,)}],
    ),
    _row(
        "local_conv1d",
        lambda x, kernel, data_format=None: local(x, kernel, (2,), (2,)),
        [((2, 6, 2), (3, 4, 2)), ((0, 6, 2), (3, 4, 2))],
        [{}, FIRST],
        call=lambda x, kernel, **options: K.local_conv1d(x, kernel, 2, [2], **options),
    ),
    _row(
        "local_conv2d",
        local,
        [((2, 3, 4, 2), (6, 8, 1))],
        [{"kernel_size": (2, 2), "strides": (1, 1), "output_shape": (2, 3)}],
    ),
    _row(
        "local_conv2d",
        local,
        [((1, 3, 3, 1), (4, 4, 16))],
        [{"kernel_size": (2, 2), "strides": (1, 1), "output_shape": (2, 2)}],
    ),
    _row(
        "local_conv2d",
        local,
        [((1, 2, 3, 5), (2, 12, 2))],
        [
            {"kernel_size": (3, 2), "strides": (1, 3), "output_shape": (1, 2), **FIRST},
        ],
    ),
]

CONV_CASES: list[Case] = [*CONV, *TRANSPOSED, *DEPTHWISE, *LOCAL]
