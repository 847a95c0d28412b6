"""`kbench.charts`: small pictures of numbers, as SVG for notebooks and as characters for terminals.

Both are drawn from the same numbers. The SVG has a ground of its own, so that it is legible on a
dark page, and neither style, script nor id, so it is drawn alike wherever it is allowed. Series
differ in their dashes, not in colour alone. The same numbers give the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe
from kbench.notebook.base import given
from kbench.notebook.drawing import chart_svg, chart_text
from kbench.notebook.drawing.chart_scale import Floats, Scale
from kbench.notebook.html import views

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor
    from kbench.workbench.core_types import JsonObject

MAX_SERIES = 8
"""Series of one chart: more dashes and marks are not told apart."""
MAX_POINTS = 2000
"""Points of a line: a screen has no more columns. Of a longer line the peaks are kept."""
MAX_PIXELS = 64
"""Rows and columns of a picture: each of them is a rectangle in the SVG."""
MAX_BINS = 44
"""Bins of a histogram: the characters of its text."""


class Chart(Struct, frozen=True):
    """A picture that shows itself: SVG where the front end draws, else characters.

    In HTML it follows the theme of the notebook, and is made smaller where there is little room.
    """

    title: str

    @property
    def svg(self) -> str:
        """The picture as one SVG element."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The picture in lines of characters, at most 50 wide."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_options: object) -> JsonObject:
        drawn = self.svg
        figure = views.picture(drawn.encode(), self.title or "chart", kind="svg+xml")
        return {
            "text/html": views.styled(figure),
            "image/svg+xml": drawn,
            "text/plain": self.text,
        }


class Lines(Chart, frozen=True):
    """Curves over one axis."""

    series: dict[str, tuple[Floats, Floats]]
    points: dict[str, tuple[float, float]]
    across: Scale
    up: Scale

    @property
    def svg(self) -> str:
        """The picture as one SVG element."""
        return chart_svg.lines(self)

    @property
    def text(self) -> str:
        """The picture in lines of characters."""
        return chart_text.lines(self)


class Histograms(Chart, frozen=True):
    """Counts of values, one above the other, over the same bins."""

    counts: dict[str, NDArray[np.int64]]
    left_out: dict[str, int]
    across: Scale

    @property
    def svg(self) -> str:
        """The picture as one SVG element."""
        return chart_svg.histograms(self)

    @property
    def text(self) -> str:
        """The picture in lines of characters."""
        return chart_text.histograms(self)


class Images(Chart, frozen=True):
    """Tables of numbers as shades, beside each other; zero has the same shade in all of them."""

    pictures: dict[str, Floats]
    limit: float

    @property
    def svg(self) -> str:
        """The picture as one SVG element."""
        return chart_svg.images(self)

    @property
    def text(self) -> str:
        """The picture in lines of characters."""
        return chart_text.images(self)


def lines(
    series: Mapping[str, object],
    x: object = None,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    x_log: bool = False,
    y_log: bool = False,
    points: Mapping[str, tuple[float, float]] | None = None,
) -> Lines:
    """Curves over a common axis.

    Arguments:
        series: names of curves, each with its values: an array, list or tensor of one axis; a
            symbol is computed on the values fed last.
        x: where the values are, of the same length as each series; None for 0, 1, 2 ...
        title: above the picture.
        x_label: below the horizontal axis.
        y_label: beside the vertical axis.
        x_log: a logarithmic axis; values that are not above zero are left out.
        y_log: likewise for the vertical axis.
        points: single points to mark, each a pair (x, y), with their names.
    Returns:
        The chart. NaN and infinities are gaps.
    Raises:
        ArgumentError: no series or more than 8, no numbers, lengths that differ, a point that is
        no pair.

    >>> from kbench import charts
    >>> charts.lines({"loss": [4.0, 2.0, 1.0]}).across.high
    2.0
    """
    _few(series, "lines")
    values = {str(name): _numbers(value, name, 1, "lines") for name, value in series.items()}
    sizes = {name: len(value) for name, value in values.items()}
    length = max(sizes.values())
    places = np.arange(length, dtype=float) if x is None else _numbers(x, "x", 1, "lines")
    for name, size in sizes.items():
        if x is not None and size != len(places):
            raise ArgumentError(
                f"series {name!r} has {size} values, x has {len(places)}", function="lines"
            )
    marked = {str(name): _point(at, name) for name, at in (points or {}).items()}
    curves = {name: _thinned(places[: len(y)], y) for name, y in values.items()}
    across = _scale([places, *(np.array([at]) for at, _ in marked.values())], x_label, x_log)
    up = _scale([*values.values(), *(np.array([at]) for _, at in marked.values())], y_label, y_log)
    return Lines(str(title), curves, marked, across, up)


def histograms(
    series: Mapping[str, object], bins: int = 30, title: str = "", x_label: str = ""
) -> Histograms:
    """How values are spread, over bins that all series share.

    Arguments:
        series: names, each with its values: an array or tensor of any shape.
        bins: how many, from 2 to 44.
        title: above the picture.
        x_label: below the axis.
    Returns:
        The chart. NaN and infinities are counted beside it.
    Raises:
        ArgumentError: no series or more than 8, no numbers, another number of bins.
    """
    _few(series, "histograms")
    if type(bins) is not int or not 2 <= bins <= MAX_BINS:
        raise ArgumentError(f"bins must be 2 to {MAX_BINS}, got {bins!r}", function="histograms")
    values = {
        str(name): _numbers(value, name, None, "histograms").ravel()
        for name, value in series.items()
    }
    across = _scale(list(values.values()), x_label, False)
    edges = np.linspace(across.low, across.high, bins + 1)
    finite = {name: value[np.isfinite(value)] for name, value in values.items()}
    counts = {name: np.histogram(value, edges)[0] for name, value in finite.items()}
    left_out = {name: value.size - finite[name].size for name, value in values.items()}
    return Histograms(str(title), counts, left_out, across)


def images(pictures: Mapping[str, object], title: str = "") -> Images:
    """Tables of numbers as shades, beside each other.

    Arguments:
        pictures: names, each with an array or tensor of rows and columns, at most 64 of either.
        title: above the picture.
    Returns:
        The chart. All pictures have the same scale, whose middle is zero.
    Raises:
        ArgumentError: no pictures or more than 8, no numbers, more rows or columns.
    """
    _few(pictures, "images")
    values = {str(name): _numbers(value, name, 2, "images") for name, value in pictures.items()}
    for name, value in values.items():
        if max(value.shape) > MAX_PIXELS:
            shape = describe.spec_text(value.shape, str(value.dtype))
            raise ArgumentError(
                f"picture {name!r} is {shape}; the limit is {MAX_PIXELS} rows and columns",
                function="images",
            )
    every = np.concatenate([value.ravel() for value in values.values()])
    finite = np.abs(every[np.isfinite(every)])
    limit = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    return Images(str(title), values, limit)


def _few(series: Mapping[str, object], function: str) -> None:
    if not isinstance(series, Mapping) or not 1 <= len(series) <= MAX_SERIES:
        got = f"{len(series)}" if isinstance(series, Mapping) else type(series).__name__
        raise ArgumentError(
            f"a dict of 1 to {MAX_SERIES} names and values is needed, got {got}", function=function
        )


def _numbers(value: object, name: object, ndim: int | None, function: str) -> Floats:
    """A series as float64; the error names it."""
    try:
        array = given.array_of(value)
        if array is None:
            from kbench.notebook.base.computed import value_of  # which watches the names, too

            array = value_of(cast("Tensor", value))  # what holds no numbers is a symbol
    except ArgumentError as error:
        raise ArgumentError(f"{name!r}: {error.reason}", function=function) from None
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"{name!r} is {array.dtype}, not real numbers", function=function)
    if not array.size or (ndim is not None and array.ndim != ndim):
        shape = describe.spec_text(array.shape, str(array.dtype))
        axes = "any" if ndim is None else str(ndim)
        raise ArgumentError(
            f"{name!r} is {shape}; {axes} axes with values are needed", function=function
        )
    return array.astype(np.float64)


def _point(at: object, name: object) -> tuple[float, float]:
    """A point to mark, as two numbers."""
    pair = _numbers(at, f"point {name}", 1, "lines")
    if pair.size != 2:
        raise ArgumentError(
            f"point {name!r} needs x and y, got {pair.size} numbers", function="lines"
        )
    return float(pair[0]), float(pair[1])


def _thinned(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """At most MAX_POINTS points: of each stretch its least and its greatest, so no peak is lost."""
    if len(y) <= MAX_POINTS:
        return x, y
    size = -(-2 * len(y) // MAX_POINTS)
    kept: list[int] = []
    for start in range(0, len(y), size):
        part = y[start : start + size]
        good = np.flatnonzero(np.isfinite(part))
        ends = (
            {int(good[part[good].argmin()]), int(good[part[good].argmax()])} if good.size else {0}
        )
        kept += [start + at for at in sorted(ends)]
    return x[kept], y[kept]


def _scale(values: list[Floats], label: str, log: bool) -> Scale:
    """The axis that holds all values; it is never of no length."""
    every = np.concatenate([value.ravel() for value in values])
    good = every[np.isfinite(every) & ((every > 0) | (not log))]
    if not good.size:
        return Scale(1.0, 10.0, label, log)
    low, high = float(good.min()), float(good.max())
    if low == high:
        half = abs(low) / 2 or 0.5
        low, high = (low / 2, high * 2) if log else (low - half, high + half)
    return Scale(low, high, label, log)
