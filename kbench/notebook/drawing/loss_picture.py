"""The course of a loss or of a watched number, small enough for a line of a widget.

It is drawn in the colour of the text around it, so that it follows the theme of the page. Sites
that strip SVG also strip styles: there, and in plain text, it is a row of bars.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kbench.engine.inspect import describe
from kbench.notebook.markup.markup import Html, element, escape, join
from kbench.workbench.progress.bars import bars as row_of_bars
from kbench.workbench.progress.course import LOSS, Course, Curve

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

Called = Callable[["Tensor"], "str | None"]
"""What the user calls a tensor, if anything."""

WIDTH, HEIGHT = 260, 44
"""Pixels of the curve of a loss."""
SMALL_WIDTH, SMALL_HEIGHT = 96, 16
"""Pixels of the curve of a watch, which stands in a table."""
BARS = 24
"""Characters of a curve in text, at most."""
STEP = 2
"""Pixels between two points: a curve is a few hundred bytes."""
_UNITS = {"call": ("call", "calls"), "batch": ("batch", "batches"), "epoch": ("epoch", "epochs")}
_EDGE = 2.0
"""Pixels that stay free around a curve, half of its pen and a little more."""


def curve(values: Curve, label: str, width: int = WIDTH, height: int = HEIGHT) -> Html:
    """One curve as SVG from the lowest to the highest of its values; nothing below two of them.

    What is not finite is a gap.
    """
    points = _thinned(values.points(), width // STEP)
    finite = [value for _, value in points if math.isfinite(value)]
    if len(finite) < 2:
        return Html("")
    low, high = min(finite), max(finite)
    last = points[-1][0]
    across = (width - 2 * _EDGE) / max(last - points[0][0], 1.0)
    up = (height - 2 * _EDGE) / (high - low) if high > low else 0.0
    pieces, pen = [], "M"
    for at, value in points:
        if not math.isfinite(value):
            pen = "M"
            continue
        x = _EDGE + (at - points[0][0]) * across
        y = height - _EDGE - (value - low) * up if up else height / 2
        pieces.append(f"{pen}{x:.0f} {y:.1f}")
        pen = "L"
    ink = {"fill": "none", "stroke": "currentColor", "stroke_width": "1.5"}
    path = element("path", d=Html("".join(pieces)), stroke_linejoin="round", **ink)
    size = {"width": str(width), "height": str(height), "viewBox": f"0 0 {width} {height}"}
    middle = {"style": "vertical-align:middle"}
    drawn = element("svg", path, role="img", aria_label=label, **size, **middle)
    return join([drawn, element("span", bars(values), class_="kb-bare")])


def bars(values: Curve, most: int = BARS) -> str:
    """The curve as at most `most` characters, the lowest value the lowest bar; '' below two values.

    What is not finite is a blank.

    >>> falling = Curve()
    >>> for value in (8.0, 4.0, 2.0, 1.0):
    ...     falling.add(value)
    >>> bars(falling)
    '█▄▂▁'
    """
    shown = [value for _, value in _thinned(values.points(), most - 1)]
    return row_of_bars(shown) if sum(map(math.isfinite, shown)) > 1 else ""


def _thinned(points: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """At most so many and one more of the points, each the mean of its neighbours, the last as it
    is."""
    count = -(-len(points) // most)
    if count <= 1:
        return points
    groups = [points[at : at + count] for at in range(0, len(points), count)]
    means = [tuple(sum(column) / len(group) for column in zip(*group)) for group in groups]  # noqa: B905
    return [*((mean[0], mean[1]) for mean in means), points[-1]]


def words(found: Course, name: str, values: Curve | None = None) -> str:
    """`loss 2.31 -> 0.0213, 1,200 calls of train`; by default of the loss."""
    values = values or found.curve
    units = f"{values.count:,} {_UNITS[found.unit][values.count != 1]}"
    first, last = describe.number(values.first), describe.number(values.last)
    change = f"{first} -> {last}" if values.count > 1 else last
    return f"{name} {change}, {units} of {describe.printable(found.source)}"


def losses(courses: Sequence[Course], called: Called) -> Html:
    """Curves of losses below each other, each with its numbers; `called` is what a name is for."""
    parts = []
    for text, values in _told(courses, called):
        said = element("span", text, style="display:inline-block")  # as a whole on one line
        picture = curve(values, text)
        parts.append(element("p", join([picture, escape(" "), said]) if picture else said))
    return join(parts)


def lines(courses: Sequence[Course], called: Called) -> list[str]:
    """The same in words, with rows of bars."""
    return [f"{text}  {bars(values)}".rstrip() for text, values in _told(courses, called)]


def _told(courses: Sequence[Course], called: Called) -> list[tuple[str, Curve]]:
    """Each curve, and what it says in words."""
    found = []
    for course in courses:
        for name, values in course.series():
            shown = name_of(course, called) if name == LOSS else describe.printable(name)
            found.append((words(course, shown, values), values))
    return found


def name_of(found: Course, called: Called) -> str:
    """What the user calls a loss, if anything."""
    tensor = None if found.tensor is None else found.tensor()
    own = None if tensor is None else called(tensor)
    return describe.printable(own or LOSS)
