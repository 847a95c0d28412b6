"""Figures that a notebook shows without any set-up, and what all plots have in common."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure

from kbench.engine import config, describe
from kbench.engine.errors import ArgumentError
from kbench.notebook.slicing import Slice, first

SIZE = (6.4, 4.0)  # inches
LINES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")


class Picture(Figure):
    """A figure that shows itself as PNG, whether or not pyplot is there; on a ground of its own,
    so that a dark page leaves it legible."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png")
        return stream.getvalue()


def figure(size: tuple[float, float] = SIZE) -> Figure:
    """A new figure that belongs to nobody: no window, nothing to close."""
    made = Picture(figsize=size, dpi=100, layout="constrained")
    FigureCanvasAgg(made)
    return made


def axes_of(ax: Any, function: str, size: tuple[float, float] = SIZE) -> Axes:
    """The axes to draw in: those that were given, or those of a new figure."""
    if ax is None:
        return figure(size).add_subplot()
    if not isinstance(ax, Axes):
        kind = describe.printable(type(ax).__name__)
        raise ArgumentError(f"ax must be axes of matplotlib, got {kind}", function=function)
    return ax


def figure_of(ax: Axes) -> Figure:
    """The whole figure that axes are in."""
    found: Any = ax.figure
    while isinstance(found, SubFigure):
        found = found.figure
    return found  # type: ignore[no-any-return]


def checked_figure(given: Any, function: str, size: tuple[float, float]) -> Any:
    """The figure, or part of one, to draw in; empty."""
    if given is None:
        return figure(size)
    if not isinstance(given, (Figure, SubFigure)):
        kind = describe.printable(type(given).__name__)
        raise ArgumentError(f"figure must be a figure of matplotlib, got {kind}", function=function)
    return given


def values_of(x: Any, function: str) -> np.ndarray[Any, Any]:
    """The numbers of a variable, constant, array or nested list.

    Raises:
        ArgumentError: a symbolic tensor, which has no value of its own, or no numbers.
    """
    array = describe.held_array(x)
    if array is None and describe.is_tensor(x):
        raise ArgumentError(
            f"{x.kind} {describe.printable(x.name)!r} has no value of its own",
            function=function,
            suggestion=f"{function}(K.eval(x))",
        )
    if array is None:
        try:
            array = np.asarray(x)
        except Exception as error:
            raise ArgumentError(
                f"x is no array: {type(error).__name__}", function=function
            ) from None
    refused = describe.array(array).get("refused")
    if refused:
        raise ArgumentError(f"x cannot be drawn: {refused}", function=function)
    if not array.size:
        shape = describe.spec_text(array.shape, str(array.dtype))
        raise ArgumentError(f"x is {shape}, which has no elements", function=function)
    return array


def name_of(x: Any, given: str | None) -> str:
    """What to call a value in a title."""
    if given is not None:
        return plain(given)
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
