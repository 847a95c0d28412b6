"""`kbench.plots`: the pictures that people expect of tensors, records and runs.

Every function returns the figure, which a notebook shows; with `ax=` or `figure=` it draws into one
that is there. Nothing is told by colour alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import block_view, describe
from kbench.engine.inspect.image_view import IMAGE_CHANNELS
from kbench.engine.runtime import config
from kbench.notebook.base.slicing import Slice, parse
from kbench.notebook.drawing import centred, drawable, palette
from kbench.notebook.drawing.heatmap import MAX_SIDE_PIXELS, thinned, unit_range
from kbench.notebook.plots import base
from kbench.notebook.plots.records import GradientNorms, History
from kbench.notebook.plots.time import gradient_norms, history, timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import SubFigure

__all__ = [
    "GradientNorms",
    "History",
    "gradient_norms",
    "heatmap",
    "history",
    "image_grid",
    "timeline",
]

MAX_PICTURES = 16
"""Images drawn beside each other unless the call says otherwise."""
_MAX_PLAIN_VALUE = 1e100
"""Above it a scale is told in units of a power of ten, so that arithmetic does not overflow."""
_MAX_CROSSED_CELLS = 60
"""Cells of a side that are large enough to be crossed."""


def heatmap(
    x: object,
    index: str | None = None,
    ax: Axes | None = None,
    name: str | None = None,
    cmap: str | None = None,
) -> Figure:
    """A two-dimensional slice as colours, with their scale.

    Arguments:
        x: tensor, array or name, of any rank; a symbol is computed on what was fed last.
        index: the slice as text, such as "0, :, :, 3"; None for rows and columns of a batch of
            images, else the last two axes.
        ax: axes to draw in, None for those of a new figure.
        name: for the title.
        cmap: a colour map of matplotlib; None for blue below 0, white at 0 and red above, and
            for others where all values are far from 0.
    Returns:
        The figure. NaN and infinities are crossed cells, and counted in the title.
    Raises:
        ArgumentError: a tensor without value, no numbers, or an index that does not fit.
    """
    array = base.values_of(x, "heatmap")
    shown = base.spatial(array.shape) if index is None else parse(index, array.shape)
    axes = base.axes_of(ax, "heatmap")
    part = drawable.numbers(shown.of(array))
    numbers, bad, each = block_view.paired(part, (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
    values = np.ma.masked_array(numbers, bad | ~np.isfinite(numbers))
    low, high = (float(values.min()), float(values.max())) if values.count() else (0.0, 0.0)
    unit = 1.0
    if (
        max(-low, high) > _MAX_PLAIN_VALUE
    ):  # arithmetic with the ends of the scale must not overflow
        unit = 10.0 ** np.floor(np.log10(max(-low, high)))
        values, low, high = values / unit, low / unit, high / unit
    scale = centred.scale(low, high)
    bad_colour = "#" + bytes(palette.BAD).hex()
    axes.patch.set(hatch="xxx", edgecolor=bad_colour, facecolor="white")
    drawn = axes.imshow(
        values,
        aspect="equal" if max(part.shape) <= 4 * min(part.shape) else "auto",
        interpolation="nearest",
        cmap=cmap or ListedColormap(palette.map_colours(scale.colours)),
        extent=(-0.5, part.shape[1] - 0.5, part.shape[0] - 0.5, -0.5),
        vmin=scale.low,
        vmax=scale.high if scale.high > scale.low else scale.low + 1.0,
    )
    axes.set_ylabel(_axis(shown.row_axis, "rows"))
    axes.set_xlabel(_axis(shown.col_axis, "columns"))
    axes.set_title(_title(x, name, array, shown, each), fontsize="medium")
    if max(numbers.shape) > _MAX_CROSSED_CELLS:  # a crossed cell would be lost
        rows, columns = np.nonzero(bad)
        sides = [size / count for size, count in zip(part.shape, numbers.shape, strict=True)]
        places = [(at + 0.5) * size - 0.5 for at, size in zip((rows, columns), sides, strict=True)]
        axes.plot(places[1], places[0], "x", color=bad_colour, markersize=5, markeredgewidth=1.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    units = "" if unit == 1.0 else f" in units of {unit:.0e}"
    base.figure_of(axes).colorbar(drawn, ax=axes, label=f"value{units}, {array.dtype}")
    return base.figure_of(axes)


def _axis(axis: int | None, word: str) -> str:
    return "" if axis is None else f"axis {axis} ({word})"


def _title(
    x: object, name: str | None, array: np.ndarray, shown: Slice, each: tuple[int, int] = (1, 1)
) -> str:
    row = describe.array(array)
    words = [f"{base.name_of(x, name)}{shown if array.ndim else ''}"]
    words.append(describe.spec_text(array.shape, str(array.dtype)))
    words.append(block_view.words(each))
    bad = [(row.get("nan"), "NaN"), (row.get("inf"), "Inf")]
    words += [f"{count} {word}" for count, word in bad if count]
    words += [drawable.words(array)]
    return ", ".join(word for word in words if word)


def image_grid(
    x: object,
    columns: int | None = None,
    most: int = MAX_PICTURES,
    figure: Figure | SubFigure | None = None,
    name: str | None = None,
) -> Figure:
    """Images beside each other, in the layout that `image_data_format` says, or the other one
    where only that has 1, 3 or 4 channels.

    Arguments:
        x: tensor, array or name: [rows, cols], one image or a batch of them. Images of 1, 3
            or 4 channels are shown as grey or colour; of others every channel of the first one is.
        columns: how many stand beside each other; None for about as many as below each other.
        most: how many are drawn.
        figure: figure to draw in, None for a new one.
        name: for the title.
    Returns:
        The figure. Whole numbers are taken as 0 to 255, floats in 0 to 1 as they are, others are
        stretched over each image.
    Raises:
        ArgumentError: a tensor without value, another rank, or a number that is no count.
    """
    for word, value in (("columns", columns), ("most", most)):
        if (value is not None or word == "most") and (type(value) is not int or value < 1):
            raise ArgumentError(f"{word} must be at least 1, got {value!r}", function="image_grid")
    array = base.values_of(x, "image_grid")
    pictures, total = _pictures(array, most)
    wide = min(columns or int(np.ceil(np.sqrt(len(pictures)))), len(pictures))
    high = -(-len(pictures) // wide)
    size = (min(1.7 * wide + 0.4, 16.0), min(1.9 * high + 0.5, 20.0))
    whole = base.checked_figure(figure, "image_grid", size)
    if isinstance(whole, base.Picture):
        whole.keeps_colours = True
    places = whole.subplots(high, wide, squeeze=False).reshape(-1)
    for place in places:
        place.set_axis_off()
    for place, (label, pixels) in zip(places, pictures, strict=False):
        shown = unit_range(thinned(pixels))
        if shown.shape[-1] == 1:
            place.imshow(shown[..., 0], cmap="gray", vmin=0.0, vmax=1.0)
        else:
            place.imshow(shown)
        place.set_title(label, fontsize="small")
    cut = f", the first {len(pictures)} of {total}" if len(pictures) < total else ""
    spec = describe.spec_text(array.shape, str(array.dtype))
    own = base.name_of(x, name)
    whole.suptitle(f"{own}{' ' if own else ''}{spec}{cut}", fontsize="medium")
    return whole if isinstance(whole, Figure) else whole.figure


def _pictures(array: np.ndarray, most: int) -> tuple[list[tuple[str, np.ndarray]], int]:
    """Labelled images with their channels last, and how many there are in all."""
    if array.ndim not in (2, 3, 4):
        spec = describe.spec_text(array.shape, str(array.dtype))
        raise ArgumentError(
            f"x is {spec}; images have 2 axes, 3 with channels, 4 in a batch",
            function="image_grid",
        )
    rows, cols, channel = drawable.image_axes(array.shape, config.image_data_format())
    if array.ndim == 2:
        return [("image", drawable.numbers(array)[:, :, None])], 1
    if channel is None:  # the third axis goes through images
        (axis,) = {0, 1, 2} - {rows, cols}
        several = np.moveaxis(array, axis, 0)
        found = [drawable.numbers(image)[:, :, None] for image in several[:most]]
        return [(f"image {at}", image) for at, image in enumerate(found)], len(several)
    images = array if array.ndim == 4 else array[None]
    images = np.moveaxis(images, channel - array.ndim, -1)
    channels = images.shape[-1]
    if channels in IMAGE_CHANNELS:
        chosen = [drawable.numbers(image) for image in images[:most]]
        return [(f"image {at}", image) for at, image in enumerate(chosen)], len(images)
    maps = [drawable.numbers(images[0][..., at])[:, :, None] for at in range(min(channels, most))]
    return [(f"channel {at}", image) for at, image in enumerate(maps)], channels
