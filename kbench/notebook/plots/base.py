"""Figures that a notebook shows without any set-up, and what all plots have in common."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe
from kbench.engine.runtime import config
from kbench.notebook.base import given
from kbench.notebook.base.computed import value_of
from kbench.notebook.base.redraw import names
from kbench.notebook.base.slicing import Slice, first
from kbench.notebook.html import views
from kbench.workbench.protocol.messages import ProtocolError

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

SIZE_INCHES = (6.4, 4.0)
"""Width and height of a figure, as matplotlib's own."""
LINES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


class Picture(Figure):
    """A figure that shows itself, whether or not pyplot is there; on a ground of its own, so that
    it is legible on any page, and dark on one that is dark and takes the style.

    `keeps_colours`: it shows images, whose colours the theme must not change.
    """

    keeps_colours = False

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()

    def _repr_html_(self) -> str:
        titles = [self.get_suptitle(), *(axes.get_title() for axes in self.axes)]
        words = next((title for title in titles if title), "figure")
        picture = views.picture(self._repr_png_(), words, not self.keeps_colours)
        return views.styled(picture)


def figure(size: tuple[float, float] = SIZE_INCHES) -> Figure:
    """A new figure that belongs to nobody: no window, nothing to close."""
    made = Picture(figsize=size, dpi=100, layout="constrained")
    FigureCanvasAgg(made)
    return made


def axes_of(ax: object, function: str, size: tuple[float, float] = SIZE_INCHES) -> Axes:
    """The axes to draw in: those that were given, or those of a new figure."""
    if ax is None:
        return figure(size).add_subplot()
    if not isinstance(ax, Axes):
        kind = describe.printable(type(ax).__name__)
        raise ArgumentError(f"ax must be axes of matplotlib, got {kind}", function=function)
    return ax


def figure_of(ax: Axes) -> Figure:
    """The whole figure that axes are in."""
    found = ax.figure
    while isinstance(found, SubFigure):
        found = found.figure
    return found


def checked_figure(wanted: object, function: str, size: tuple[float, float]) -> Figure | SubFigure:
    """The figure, or part of one, to draw in; empty."""
    if wanted is None:
        return figure(size)
    if not isinstance(wanted, (Figure, SubFigure)):
        kind = describe.printable(type(wanted).__name__)
        raise ArgumentError(f"figure must be a figure of matplotlib, got {kind}", function=function)
    return wanted


def values_of(x: object, function: str) -> np.ndarray:
    """The numbers of a tensor, array, nested list or name; a symbol is computed on what was fed.

    Raises:
        ArgumentError: no numbers, no such name, or a symbol that needs what was never fed.
    """
    try:
        value = names().get(x.strip()) if isinstance(x, str) else x
        array = given.array_of(value)
        if array is None:
            array = value_of(cast("Tensor", value))  # what holds no numbers is a symbol
    except (ProtocolError, ArgumentError) as error:
        raise ArgumentError(error.reason, function=function) from None
    refused = describe.array(array).get("refused")
    if refused and array.dtype.kind != "c":
        raise ArgumentError(f"x cannot be drawn: {refused}", function=function)
    if not array.size:
        shape = describe.spec_text(array.shape, str(array.dtype))
        raise ArgumentError(f"x is {shape}, which has no elements", function=function)
    return array


def name_of(x: object, own: str | None) -> str:
    """What to call a value in a title."""
    if own is not None:
        return plain(own)
    if isinstance(x, str):
        return plain(x.strip())
    return plain(describe.printable(x.name).removesuffix(":0")) if describe.is_tensor(x) else ""


def plain(text: object) -> str:
    """Text as it stands: matplotlib would read what is between dollar signs as a formula."""
    return describe.printable(text).replace("$", r"\$")


def spatial(shape: tuple[int, ...]) -> Slice:
    """Rows and columns of a batch of images by the layout that is set; else the last two axes
    along which there is more than one entry."""
    if len(shape) == 4:
        at = 1 if config.image_data_format() == "channels_last" else 2
        if shape[at] > 1 and shape[at + 1] > 1:
            return Slice((0,) * 4, at, at + 1)
    long = [axis for axis, size in enumerate(shape) if size > 1]
    if len(long) < 2:
        return first(shape)
    return Slice((0,) * len(shape), long[-2], long[-1])
