"""In a kernel of the terminal, an array that is an image is shown as a picture, too.

What counts as one is what Matplotlib and Pillow take for one, without those that are mostly
something else: bytes of two axes, or with channels where `image_data_format` has them; floats with
channels, all from 0 to 1.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from kbench.engine.runtime import config
from kbench.workbench.output.picture import NOTE_FIELD

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Shell

MIN_SIDE_PIXELS = 16
"""Of an image: what is smaller is a kernel, a table or a list, and its numbers are readable."""
MAX_SIDE_PIXELS = 1200
"""Of what is sent: a terminal that draws pixels shows no more. A larger array is thinned."""
COMPRESSION = 3
"""Of the file, of 9: twice as fast as Pillow's own choice, for a tenth more bytes."""
_CHANNELS = (1, 3, 4)
_LEVELS = 255
"""Of a byte; a float of 1 is as bright."""


def pixels_of(value: np.ndarray) -> np.ndarray | None:
    """The image in an array as uint8 [height, width] or [height, width, 3 or 4]; None if none."""
    image = _channels_last(value)
    if image is None:
        return None
    step = _step(image)
    image = image[::step, ::step]
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    if image.dtype.kind == "f":
        if not (image.min() >= 0 and image.max() <= 1):  # false for NaN, too
            return None
        image = np.rint(image.astype(np.float32) * _LEVELS).astype(np.uint8)
    return np.ascontiguousarray(image)


def _channels_last(value: np.ndarray) -> np.ndarray | None:
    """An array whose shape and dtype are those of an image, as [height, width, channels]."""
    if type(value) is not np.ndarray or value.ndim not in (2, 3):
        return None
    is_float = value.dtype.kind == "f"
    if value.dtype != np.uint8 and not is_float:
        return None
    if value.ndim == 3:
        if config.snapshot()["image_data_format"] == "channels_first":
            value = np.moveaxis(value, 0, -1)
        if value.shape[2] not in _CHANNELS:
            return None
    elif is_float:
        return None
    return value if min(value.shape[:2]) >= MIN_SIDE_PIXELS else None


def _step(image: np.ndarray) -> int:
    """One of so many pixels in a row or column is sent."""
    height, width = image.shape[:2]
    return int(-(-max(height, width) // MAX_SIDE_PIXELS))


def png_of(value: np.ndarray) -> bytes | None:
    """A PNG file of the image in an array; None where there is no image, or no Pillow."""
    pixels = pixels_of(value)
    if pixels is None:
        return None
    try:
        from PIL import Image
        from PIL.PngImagePlugin import PngInfo
    except ImportError:
        return None
    file, about = io.BytesIO(), PngInfo()
    image = _channels_last(value)
    if image is not None and (step := _step(image)) > 1:
        height, width = image.shape[:2]
        about.add_text(NOTE_FIELD, f"one of {step} x {step} pixels of {width} x {height}")
    Image.fromarray(pixels).save(file, "PNG", compress_level=COMPRESSION, pnginfo=about)
    return file.getvalue()


def install(shell: Shell) -> None:
    """Have this shell show them; what its user has registered stays."""
    pictures = shell.display_formatter.formatters["image/png"]
    if np.ndarray not in pictures.type_printers:
        pictures.for_type_by_name("numpy", "ndarray", png_of)
