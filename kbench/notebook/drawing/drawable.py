"""What of an array a picture can show: numbers as they are, complex ones by their size.

Masked elements are drawn as what is not finite, and told apart in words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe, image_view, statistics
from kbench.engine.inspect.image_view import IMAGE_CHANNELS

_MIN_SIDE_CHANNELS = 2
"""Rows and columns of an image for each channel, at least: three rows of four are no RGB."""


def numbers(part: np.ndarray) -> np.ndarray:
    """A slice as real numbers; NaN where it is masked.

    Arguments:
        part: numbers, bool or complex numbers, of any shape.
    Raises:
        ArgumentError: no numbers, or none at all.
    """
    if not part.size:
        raise ArgumentError(f"{_spec(part)} has no elements to draw")
    if part.dtype.kind == "c":
        part = np.abs(part)
    if part.dtype.kind == "f" and part.dtype.itemsize > np.dtype(np.float64).itemsize:
        part = part.astype(np.float64)
    if statistics.refusal(part) is not None:
        raise ArgumentError(f"{_spec(part)} is not numeric; its values are shown under 'numbers'")
    if describe.is_masked(part):
        floats: Any = part if part.dtype.kind == "f" else part.astype(np.float64)
        return np.asarray(floats.filled(np.nan))
    return np.asarray(part)


def words(array: np.ndarray) -> str:
    """What a picture makes of its numbers; '' when they are drawn as they are."""
    found = ["size of the complex numbers"] if array.dtype.kind == "c" else []
    if describe.is_masked(array) and np.ma.is_masked(array):
        found.append("masked entries are marked as NaN and Inf are")
    return "; ".join(found)


def image_axes(shape: tuple[int, ...], data_format: str) -> tuple[int, int, int | None]:
    """The axes of rows, columns and channels (None without) in an array of images.

    As `image_data_format` says; where that leaves no 1, 3 or 4 channels and the other format
    does, the channels are taken from there.

    >>> image_axes((2, 3, 8, 6), "channels_last")
    (2, 3, 1)

    Raises:
        ArgumentError: fewer than two axes.
    """
    found = image_view.axes(shape, data_format)
    channels = found[2]
    if len(shape) < 3 or (channels is not None and shape[channels] in IMAGE_CHANNELS):
        return found
    rank = len(shape)
    usual = image_view.format_axes(rank, data_format != "channels_last")
    sides = min(shape[usual[0]], shape[usual[1]])
    count = shape[usual[2]]
    colours = IMAGE_CHANNELS if rank > 3 else (1, 3)  # four pictures are as likely as RGBA
    return usual if count in colours and sides >= _MIN_SIDE_CHANNELS * count else found


def pixels(array: np.ndarray, index: tuple[int, ...], data_format: str) -> tuple[np.ndarray, str]:
    """The image that an index chooses: numbers[rows, columns, channels]; and words on its axes.

    Raises:
        ArgumentError: no picture.
    """
    rows, cols, channel = image_axes(array.shape, data_format)
    shown = shown_axes(array.shape, data_format)
    part = array[tuple(slice(None) if at in shown else index[at] for at in range(array.ndim))]
    order = [sorted(shown).index(axis) for axis in (rows, cols, *sorted(shown - {rows, cols}))]
    found = numbers(part.transpose(order))
    found = found if found.ndim == 3 else found[:, :, None]
    if channel is None:
        return found, ""
    if channel not in shown:
        return found, f"one of {array.shape[channel]} channels, which 'axis {channel}' chooses"
    usual = image_view.axes(array.shape, data_format)[2]
    return found, "" if channel == usual else f"channels on axis {channel}, not {data_format}"


def shown_axes(shape: tuple[int, ...], data_format: str) -> set[int]:
    """The axes of an array that its images show whole: rows, columns, and channels of colours."""
    rows, cols, channel = image_axes(shape, data_format)
    together = channel is not None and shape[channel] in IMAGE_CHANNELS
    return {rows, cols, channel} if together and channel is not None else {rows, cols}


def _spec(part: np.ndarray) -> str:
    return describe.spec_text(part.shape, str(part.dtype))
