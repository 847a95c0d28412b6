"""Pictures of an exploration: its inputs in small, and what convolution, pooling and the like make
of an image, beside it.

An element is a square of pixels, as many of them in what goes in as in what comes out, so that an
image that gets smaller is seen to. Blue is below 0, white is 0, red is above, as everywhere.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.inspect import describe
from kbench.notebook.base.slicing import Slice
from kbench.notebook.drawing import centred
from kbench.notebook.html import views
from kbench.notebook.markup.markup import Html, element, escape, join

OF_IMAGES = frozenset(
    "conv2d conv2d_transpose deconv2d atrous_conv2d depthwise_conv2d separable_conv2d local_conv2d "
    "pool2d resize_images spatial_2d_padding".split()
)
"""Functions whose first input is an image, and that give another one."""
MAX_MAPS = 8
"""Channels of an image that are drawn."""
MAX_SIDE = 64
"""Rows and columns of a picture; of a larger one every second is drawn, or fewer."""
THUMB_SIDE = 48
"""Pixels across a picture of an input, at most."""
IMAGE_SIDE = 150
"""Pixels across the largest of the pictures that stand beside each other, at most."""
_FIGURE = "margin:0;display:inline-block;vertical-align:top"
_ROW = "display:flex;flex-wrap:wrap;gap:.6em;align-items:flex-start;margin:.2em 0"
_BESIDE = "display:flex;flex-wrap:wrap;gap:0 1.6em;align-items:flex-start"


def thumb(array: np.ndarray, shown: Slice | None, name: str) -> Html:
    """A small picture of one slice of an input; nothing for what has fewer than two axes."""
    if shown is None or shown.row_axis is None or shown.col_axis is None or not array.size:
        return Html("")
    part = np.asarray(shown.of(array))
    if part.ndim != 2 or not _drawable(part):
        return Html("")
    part = _thinned(part)
    return _picture(part, THUMB_SIDE / max(part.shape), f"picture of {name}{shown}", _limits(part))


def feature_maps(
    name: str, given: np.ndarray, result_name: str, result: np.ndarray, data_format: str
) -> Html:
    """The first image that was given and what came of it, a picture of each channel.

    Arguments:
        given, result: numbers[images, rows, columns, channels], or with the channels first.
    Returns:
        HTML; nothing for what is no such batch of numbers.
    """
    before, after = _channels(given, data_format), _channels(result, data_format)
    if not before or not after:
        return Html("")
    largest = max(max(part.shape) for part in (before[0], after[0]))
    scale = IMAGE_SIDE / largest
    parts = [
        _row(name, before, given, scale, data_format),
        _row(result_name, after, result, scale, data_format, verb="gives "),
    ]
    return element("div", join(parts), style=_BESIDE)


def _row(
    name: str,
    parts: list[np.ndarray],
    whole: np.ndarray,
    scale: float,
    data_format: str,
    verb: str = "",
) -> Html:
    """The channels of one image beside each other, on one scale of colours."""
    count = whole.shape[1 if data_format == "channels_first" else -1]
    limits = _limits(np.stack(parts))
    spec = describe.spec_text(whole.shape, str(whole.dtype))
    figures = []
    for channel, part in enumerate(parts):
        said = f"{name}, channel {channel}: {part.shape[0]} by {part.shape[1]}"
        picture = _picture(part, scale, said, limits)
        if count > 1:
            picture = join([picture, element("figcaption", f"channel {channel}")])
        figures.append(element("figure", picture, style=_FIGURE))
    low, high = (describe.number(limit) for limit in limits)
    cut = f", the first {len(parts)} of {count} channels" if count > len(parts) else ""
    head = join([escape(verb), element("b", name), escape(f" {spec} from {low} to {high}{cut}")])
    return element("div", join([element("p", head), element("div", join(figures), style=_ROW)]))


def _channels(array: np.ndarray, data_format: str) -> list[np.ndarray]:
    """Rows and columns of each channel of the first image."""
    if array.ndim != 4 or not array.size or not _drawable(array):
        return []
    image = array[0] if data_format == "channels_first" else np.moveaxis(array[0], -1, 0)
    return [_thinned(np.asarray(part)) for part in image[:MAX_MAPS]]


def _drawable(array: np.ndarray) -> bool:
    return array.dtype.kind in "biuf"


def _thinned(part: np.ndarray) -> np.ndarray:
    step = -(-max(part.shape) // MAX_SIDE)
    return part[::step, ::step]


def _limits(array: np.ndarray) -> tuple[float, float]:
    """The least and the greatest finite number; 0 and 0 without any."""
    finite = np.asarray(array, np.float64)
    finite = finite[np.isfinite(finite)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)


def _picture(part: np.ndarray, scale: float, words: str, limits: tuple[float, float]) -> Html:
    """One picture, `scale` pixels of the page for each element; what is not finite is magenta."""
    from kbench.notebook.drawing import palette  # matplotlib: on first need only

    colours = centred.scale(*limits)
    numbers = np.asarray(part, np.float64)
    finite = np.isfinite(numbers)
    spread = max(colours.high - colours.low, np.finfo(np.float64).tiny)
    places = (np.where(finite, numbers, colours.low) / spread) - colours.low / spread
    inks = np.round(places * (palette.HEAT_COLOURS - 1)).clip(0, palette.HEAT_COLOURS - 1)
    pixels = np.where(finite, inks, palette.SOLID).astype(np.uint8)
    size = f"width:{part.shape[1] * scale:.0f}px;height:{part.shape[0] * scale:.0f}px"
    style = f"{size};image-rendering:pixelated;border:1px solid;display:block"
    return views.picture(palette.png(pixels, colours.colours), words, is_figure=False, style=style)
