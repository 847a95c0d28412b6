"""An array looked at as pictures: which axes are rows, columns and channels, and one as pixels.

`image_data_format` says where the channels of an array of rank 4 or more are; with rank 3 their
number does. A picture is made no larger than asked, and leaves out no element: see `blocks`.
Beside `windows`; knows no UI.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.types import Array, Row
from kbench.engine.inspect import block_view, slice_view, statistics

COLOUR_CHANNELS = (3, 4)
"""Numbers of channels that are shown together: RGB, and RGB with opacity."""
IMAGE_CHANNELS = (1, *COLOUR_CHANNELS)
"""Grey, RGB, and RGB with opacity."""
MAX_PIXEL_BYTES = 42_000
"""Bytes of pixels; as text they are a third more."""
MAX_LEVEL = 254
"""The brightest level."""
NOT_FINITE_LEVEL = 255
"""The level of what is not finite, in every channel."""
_MIN_SIDE_PIXELS = 8
"""Pixels of a side that the proportions of a picture may not take away."""


def axes(
    shape: Sequence[int], data_format: str, row_axis: int | None = None, col_axis: int | None = None
) -> tuple[int, int, int | None]:
    """The axes of rows, columns and channels (None without) in an array of this shape.

    Arguments:
        shape: the array's.
        data_format: "channels_last" or "channels_first".
        row_axis, col_axis: where given the channels are what is left beside them.
    Raises:
        ArgumentError: fewer than two axes, or axes that there are not.
    """
    rank = len(shape)
    if rank < 2:
        raise ArgumentError(f"a picture needs two axes, and the array has rank {rank}")
    if row_axis is None or col_axis is None:
        return _usual_axes(shape, data_format == "channels_last")
    shown = slice_view.shown_axes(rank, row_axis, col_axis)
    assert shown[0] is not None and shown[1] is not None
    usual = rank - 1 if data_format == "channels_last" else max(rank - 3, 0)
    few = rank > 3 or (rank == 3 and shape[usual] in IMAGE_CHANNELS)
    return shown[0], shown[1], usual if few and usual not in shown else None


def format_axes(rank: int, last: bool) -> tuple[int, int, int]:
    """Rows, columns and channels of images of a rank from 3 on, with the channels `last` or not."""
    return (rank - 3, rank - 2, rank - 1) if last else (rank - 2, rank - 1, rank - 3)


def _usual_axes(shape: Sequence[int], last: bool) -> tuple[int, int, int | None]:
    rank = len(shape)
    if rank == 2:
        return 0, 1, None
    usual = format_axes(rank, last)
    if rank > 3 or shape[usual[2]] in IMAGE_CHANNELS:
        return usual
    odd = _odd_axis(shape)
    if odd is None or odd == usual[2]:
        return usual
    return (1, 2, None) if odd == 0 else (0, 1, None)


def _odd_axis(shape: Sequence[int]) -> int | None:
    """Which of three axes, the first or the last, is no side of a picture by the look of it."""
    first, middle, last = shape
    if middle == last != first or (first < min(middle, last) and first != middle):
        return 0
    return 2 if first == middle != last or last < min(first, middle) else None


def picture(
    values: object,
    size: tuple[int, int],
    data_format: str,
    index: Sequence[int] | None = None,
    row_axis: int | None = None,
    col_axis: int | None = None,
    colours: bool = True,
    limits: tuple[float, float] | None = None,
) -> Row:
    """One picture of an array, in pixels.

    Arguments:
        values: the array, of numbers or bool.
        size: rows and columns of pixels that there is room for.
        data_format: where the channels are: see `axes`, also for `row_axis` and `col_axis`.
        index: which picture, and which channel: an index per axis. Default: the first.
        colours: show 3 or 4 channels together; False for one channel at a time.
        limits: the numbers that are black and white; None for those of the picture itself, and
            bytes and bool have limits of their own.
    Returns:
        `pixels` (base64; a byte, or three, per pixel; from 0 to `MAX_LEVEL`,
        `NOT_FINITE_LEVEL` where a number is not finite), their `size`, what they are of (`axes`:
        rows, columns, channels; `index`, `shape`, `dtype`, `data_format`), whether in `colours`,
        `limits`, and in words what the pixels of a large array are of its `blocks`.
    Raises:
        ArgumentError: no picture, or an index or axis that the array does not have.
    """
    whole = np.asarray(values)
    reason = statistics.refusal(whole)
    if reason is not None:
        raise ArgumentError(f"dtype {whole.dtype.name} cannot be shown as a picture")
    row, col, channel = axes(whole.shape, data_format, row_axis, col_axis)
    together = colours and channel is not None and whole.shape[channel] in COLOUR_CHANNELS
    shown = (row, col, channel) if together and channel is not None else (row, col)
    fixed = slice_view.fixed_index(whole.shape, index, shown)
    if 0 in whole.shape:
        raise ArgumentError(f"shape {list(whole.shape)} holds no picture")
    key = [slice(None) if axis in shown else position for axis, position in enumerate(fixed)]
    part = whole[tuple(key)].transpose([sorted(shown).index(axis) for axis in shown])
    numbers, words = _reduced(part, size)
    limits = _limits(whole, numbers, limits)
    pixels = _levels(numbers, limits)
    return {
        "shape": list(whole.shape),
        "dtype": whole.dtype.name,
        "index": fixed,
        "axes": [row, col, channel],
        "data_format": data_format,
        "colours": together,
        "limits": list(limits),
        "size": list(pixels.shape[:2]),
        "blocks": words,
        "pixels": base64.b64encode(pixels.tobytes()).decode("ascii"),
    }


def _reduced(part: Array, size: tuple[int, int]) -> tuple[NDArray[np.float64], str]:
    """The slice as numbers[rows, cols, channels] of pixels, NaN where any of a pixel is bad; words.

    Where an element is no pixel of its own: of an image the means, of other numbers the least and
    the greatest of each block, one below or beside the other.
    """
    height, width = part.shape[:2]
    channels = part.shape[2] if part.ndim == 3 else 1
    rows, cols = _fit(height, width, size, MAX_PIXEL_BYTES // min(channels, 3))
    image = part.ndim == 3 or part.dtype.kind == "b" or part.dtype == np.uint8
    if image and (rows, cols) != (height, width):
        each = (-(-height // rows), -(-width // cols))
        found = block_view.means(part.reshape(height, width, channels), rows, cols)
        return found, f"mean of each {each[0]} x {each[1]} pixels"
    if image:
        return part.reshape(height, width, channels).astype(np.float64), ""
    numbers, bad, each = block_view.paired(part, (rows, cols))
    return np.where(bad, np.nan, numbers)[..., None], block_view.words(each)


def _fit(height: int, width: int, size: tuple[int, int], most: int) -> tuple[int, int]:
    """Rows and columns of pixels: in proportion, unless a side would all but vanish."""
    scale = max(height / size[0], width / size[1], 1.0)
    while True:
        rows, cols = (
            min(max(round(side / scale), min(side, _MIN_SIDE_PIXELS, room)), room, side)
            for side, room in ((height, size[0]), (width, size[1]))
        )
        if rows * cols <= most:
            return rows, cols
        scale *= 1.02


def _limits(
    whole: Array, numbers: NDArray[np.float64], limits: tuple[float, float] | None
) -> tuple[float, float]:
    """The numbers that are drawn black and white."""
    if whole.dtype == np.uint8 and (limits is None or limits[1] > 1):  # else it is a mask
        return 0.0, 255.0
    if whole.dtype.kind == "b":
        return 0.0, 1.0
    known = numbers[np.isfinite(numbers)] if limits is None else np.asarray(limits)
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)


def _levels(numbers: NDArray[np.float64], limits: tuple[float, float]) -> NDArray[np.uint8]:
    finite = np.isfinite(numbers).all(axis=-1, keepdims=True)
    share = slice_view.scaled(np.where(finite, numbers, limits[0]), limits)
    if share.shape[-1] == 4:  # over black
        share = share[..., :3] * share[..., 3:]
    return np.where(finite, np.rint(share * MAX_LEVEL), NOT_FINITE_LEVEL).astype(np.uint8)
