"""Pictures as numbers of colours: what matplotlib has drawn, with a colour map, as a small PNG.

Colours are known beforehand, so that none have to be found in the picture, which takes longer than
drawing it.
"""

from __future__ import annotations

import io

import numpy as np
from matplotlib import colormaps
from numpy.typing import NDArray
from PIL import Image

HEAT_COLOURS = 200
"""Colours of the map from low to high; they come first."""
BAD, BLUE = (176, 0, 150), (44, 114, 142)  # of what is no number, in no map; and of bars
_GREYS, _SHADES = 32, 8
SOLID = HEAT_COLOURS + _GREYS  # the number of `BAD` itself
Pixels = NDArray[np.uint8]


def _ramp(ink: tuple[int, int, int], count: int) -> NDArray[np.float64]:
    """From an ink to white."""
    return np.linspace(ink, (255, 255, 255), count)


MAPS = {  # a map of Matplotlib's for each `centred.Scale.colours`, and which part of it
    "both": ("RdBu_r", 0.0, 1.0),
    "above": ("RdBu_r", 0.5, 1.0),
    "below": ("RdBu_r", 0.0, 0.5),
    "far": ("viridis", 0.0, 1.0),
}


def map_colours(colours: str) -> NDArray[np.float64]:
    """The colours of a scale from low to high: float64[HEAT_COLOURS, 3] in 0 to 1."""
    name, first, last = MAPS[colours]
    return np.asarray(colormaps[name](np.linspace(first, last, HEAT_COLOURS))[:, :3], np.float64)


def _table(colours: str) -> bytes:
    ramps = [_ramp((0, 0, 0), _GREYS), _ramp(BAD, _SHADES), _ramp(BLUE, _SHADES)]
    whole = np.concatenate([map_colours(colours) * 255.0, *ramps])
    return np.round(whole).astype(np.uint8).tobytes()


_TABLES = {colours: _table(colours) for colours in MAPS}


def _numbers(first: int, dark: int, count: int) -> Pixels:
    """By the brightness of one channel, the numbers of a ramp that begins at `dark`."""
    part = (np.arange(256) - dark).clip(0, 255) / (255 - dark)
    return np.asarray(first + np.round(part * (count - 1)), np.uint8)


_GREY = _numbers(HEAT_COLOURS, 0, _GREYS)
_BAD = _numbers(HEAT_COLOURS + _GREYS, BAD[1], _SHADES)
_BLUE = _numbers(HEAT_COLOURS + _GREYS + _SHADES, BLUE[0], _SHADES)


def inked(drawn: Pixels) -> Pixels:
    """The numbers of the colours of what was drawn on white, in black, `BAD` and `BLUE`.

    Arguments:
        drawn: uint8[rows, columns, 3 or more].
    Returns:
        uint8[rows, columns].
    """
    red, green, blue = drawn[..., 0], drawn[..., 1], drawn[..., 2]
    numbers = _GREY[green]
    for where, found in ((red > blue, _BAD[green]), (blue > red, _BLUE[red])):
        numbers[where] = found[where]
    return numbers


def png(numbers: Pixels, colours: str = "both") -> bytes:
    """A picture of numbers of colours, uint8[rows, columns], as a PNG; `colours`: of `MAPS`."""
    image = Image.fromarray(np.ascontiguousarray(numbers), "L")
    image.putpalette(_TABLES[colours])
    stream = io.BytesIO()
    image.save(stream, "png", compress_level=4)
    return stream.getvalue()
