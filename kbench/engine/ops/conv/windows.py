"""What convolution and pooling share: arguments, borders, and how often a window fits.

Windows slide over the spatial axes, which lie between the batch and the channels. Sizes may be
unknown (None), and so may what follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from kbench.engine.core.errors import ArgumentError, ShapeError, shown
from kbench.engine.core.spec import Spec, integer
from kbench.engine.core.type_errors import entries_of
from kbench.engine.core.types import Dim, Ints, Shape
from kbench.engine.graph.tensor import Tensor
from kbench.engine.ops.layout.reshape import permute_dimensions
from kbench.engine.runtime.config import normalize_data_format

Pads = tuple[tuple[int, int], ...]


class WindowAttrs(TypedDict):
    """The attributes of every op that convolves."""

    strides: Ints
    padding: str
    dilation: Ints


MAX_WINDOW_SIZE = 1 << 31
"""Strides, windows and dilations are below: kernels multiply them in 64 bits."""
AXIS_NAMES = {1: "steps", 2: "rows, cols", 3: "depth, rows, cols"}

# ------------------------------------------------------------------ arguments


def checked_ints(value: object, rank: int, name: str) -> Ints:
    """One integer of at least 1 for each spatial axis; a single one counts for all of them."""
    given = entries_of(value, name)
    entries = list(given) if isinstance(given, (list, tuple)) else [given] * rank
    if len(entries) != rank:
        raise ArgumentError(
            f"{name} must be {'an integer' if rank == 1 else f'{rank} integers'} of at least 1, "
            f"got {shown(value)}"
        )
    return tuple(_checked_int(entry, name, value) for entry in entries)


def whole_number(value: object) -> int | None:
    """The integer that a value is; None for all else, truth values and tensors included."""
    if isinstance(value, (bool, np.bool_, Tensor)):
        return None
    try:
        return integer(value)
    except (AttributeError, TypeError):
        return None


def _checked_int(entry: object, name: str, value: object) -> int:
    number = whole_number(entry)
    if number is None:
        raise ArgumentError(f"{name} must hold integers, got {shown(value)}")
    if number < 1:
        raise ArgumentError(f"{name} must be at least 1, got {shown(value)}")
    if number >= MAX_WINDOW_SIZE:
        raise ArgumentError(f"{name} must be below 2**31, got {shown(value)}")
    return number


def checked_padding(padding: str, allowed: Sequence[str] = ("valid", "same")) -> str:
    """The border's name in lower case; ArgumentError for any other."""
    lowered = padding.lower() if isinstance(padding, str) else ""
    if lowered not in allowed:
        words = " or ".join(f"'{name}'" for name in allowed)
        raise ArgumentError(f"padding must be {words}, got {shown(padding)}")
    return str(lowered)


def check_rank(x: Spec, rank: int, data_format: str, name: str = "x") -> None:
    """ShapeError unless `x` has a batch, `rank` spatial axes and channels."""
    if x.ndim != rank + 2:
        order = f"batch, {AXIS_NAMES[rank]}, channels"
        if data_format == "channels_first":
            order = f"batch, channels, {AXIS_NAMES[rank]}"
        raise ShapeError(f"{name} is {x}, but rank {rank + 2} is needed: [{order}]")


def layout_of(data_format: str | None) -> str:
    """The layout meant by a `data_format` argument."""
    return normalize_data_format(data_format)


def to_channels_last(x: Tensor, data_format: str) -> Tensor:
    """`x` with its channels behind the spatial axes."""
    if data_format == "channels_last":
        return x
    return permute_dimensions(x, (0, *range(2, x.ndim), 1))


def from_channels_last(x: Tensor, data_format: str) -> Tensor:
    """A channels-last result in the layout of the user."""
    if data_format == "channels_last":
        return x
    return permute_dimensions(x, (0, x.ndim - 1, *range(1, x.ndim - 1)))


# ------------------------------------------------------------------ arithmetic


def reach(window: int, dilation: int = 1) -> int:
    """Cells from the first tap of a window to its last, both included."""
    return (window - 1) * dilation + 1


def window_count(size: Dim, window: Dim, stride: int, padding: str, dilation: int = 1) -> Dim:
    """How many windows fit along one axis, None when that is unknown.

    "same" and "causal" start one window at every `stride`-th cell; "valid" only where it fits as
    a whole.
    """
    if padding != "valid":
        return None if size is None else -(-size // stride)
    if size is None or window is None:
        return None
    return (size - reach(window, dilation)) // stride + 1


def window_counts(
    sizes: Shape, windows: Shape, strides: Ints, padding: str, dilation: Ints | None = None
) -> Shape:
    """How many windows fit along each axis; ShapeError when a window is larger than an axis."""
    spacing = dilation or (1,) * len(sizes)
    for i, (size, window) in enumerate(zip(sizes, windows, strict=True)):
        if size is None or window is None or padding != "valid":
            continue
        if reach(window, spacing[i]) > size:
            spread = f" (spread to {reach(window, spacing[i])})" if spacing[i] > 1 else ""
            raise ShapeError(
                f"a window of {window}{spread} is larger than spatial axis {i}, which has {size} "
                "cells, so the output would be empty"
            )
    return tuple(
        window_count(size, windows[i], strides[i], padding, spacing[i])
        for i, size in enumerate(sizes)
    )


def same_pads(size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Cells of border before and after, for ceil(size / stride) windows; an odd one goes after."""
    count = -(-size // stride)
    total = max((count - 1) * stride + reach(window, dilation) - size, 0)
    return total // 2, total - total // 2


def pads_of(
    sizes: Ints, windows: Ints, strides: Ints, padding: str, dilation: Ints | None = None
) -> Pads:
    """The border before and after each axis, for known sizes."""
    spacing = dilation or (1,) * len(sizes)
    if padding == "valid":
        return ((0, 0),) * len(sizes)
    if padding == "causal":
        return tuple((reach(window, spacing[i]) - 1, 0) for i, window in enumerate(windows))
    return tuple(
        same_pads(size, windows[i], strides[i], spacing[i]) for i, size in enumerate(sizes)
    )
