"""Charts as SVG: a few kilobytes each, without style, script or id."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kbench.notebook.drawing import palette
from kbench.notebook.drawing.chart_scale import Floats, Scale, number_text
from kbench.notebook.markup.markup import Html, element, escape, join

if TYPE_CHECKING:
    from kbench.notebook.drawing.charts import Histograms, Images, Lines

WIDTH, PLOT = 560, 190
"""Pixels of a chart across, and of the plot in it downwards."""
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 30, 44
"""Pixels around the plot: numbers of the axes, and the title."""
BAND = 62
"""Pixels of one histogram."""
PIXEL = 12
"""Pixels of an entry of a picture."""
MAX_IMAGES_WIDTH = 660
"""Pixels of a row of pictures, so that it fits the column of a notebook."""
_CHARACTER = 6.6
"""Pixels of a character at font size 11, on average."""
_LEGEND_LINE, _LEGEND_ROW = 22, 16
"""Pixels of a dash in the legend, and of a row of it."""
_INK, _FAINT, _GROUND = "#24292f", "#d0d7de", "#ffffff"
_COLOURS = (
    "#0b5cad", "#c2410c", "#177245", "#8a3ffc", "#6b4f00", "#b3006b", "#00707a", "#444444",
)  # fmt: skip
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2", "14 3 3 3")
_STEPS = 16
"""Shades above zero, and below it: a path of the SVG for each."""
_DIGITS = 4
"""Of a number beside an axis."""
_FONT = "system-ui, Helvetica, Arial, sans-serif"


def lines(chart: Lines) -> str:
    """Curves with axes, their names above the plot."""
    legend, rows = _legend(list(chart.series))
    top, wide, high = TOP + rows * _LEGEND_ROW, WIDTH - LEFT - RIGHT, PLOT
    parts = [_across(chart.across, top, high), _up(chart.up, top, high), legend]
    for number, (across, up) in enumerate(chart.series.values()):
        lefts, heights = chart.across.places(across), chart.up.places(up)
        path = _path(LEFT + lefts * wide, top + (1 - heights) * high)
        parts.append(_stroke(path, number))
    for name, (at, value) in chart.points.items():
        x = LEFT + chart.across.place(at) * wide
        y = top + (1 - chart.up.place(value)) * high
        if not np.isfinite([x, y]).all():
            continue
        ring = {"r": "4", "fill": _GROUND, "stroke": _INK, "stroke_width": "1.5"}
        parts.append(element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", **ring))
        end = x > LEFT + 0.8 * wide
        parts.append(_text(x - 7 if end else x + 7, y - 6, name, "end" if end else "start"))
    words = f"{chart.title}: {', '.join(chart.series)}"
    return _svg(chart.title, words, WIDTH, top + high + BOTTOM, parts)


def histograms(chart: Histograms) -> str:
    """Bars above each other, one band for each series; the tallest of a band fills it."""
    wide, high = WIDTH - LEFT - RIGHT, BAND * len(chart.counts)
    parts = [_across(chart.across, 26, high)]
    for number, (name, counts) in enumerate(chart.counts.items()):
        base = 26 + BAND * (number + 1)
        width, tallest = wide / len(counts), max(int(counts.max()), 1)
        for at, count in enumerate(counts):
            tall = (BAND - 20) * int(count) / tallest
            if count:
                parts.append(
                    element(
                        "rect",
                        x=f"{LEFT + at * width:.1f}",
                        y=f"{base - tall:.1f}",
                        width=f"{width - 1:.1f}",
                        height=f"{tall:.1f}",
                        fill=_COLOURS[number],
                    )
                )
        more = f", {chart.left_out[name]} not finite" if chart.left_out[name] else ""
        parts.append(_text(LEFT + 4, base - BAND + 15, f"{name}{more}", "start"))
        parts.append(_rule(LEFT, base, LEFT + wide, base, _INK))
    words = f"{chart.title}: {', '.join(chart.counts)}"
    return _svg(chart.title, words, WIDTH, 26 + high + BOTTOM, parts)


def images(chart: Images) -> str:
    """Shades beside each other; all places of a shade are one path."""
    left, top, wide, tall = 12.0, 26, 0.0, 0
    parts: list[Html] = []
    for name, picture in chart.pictures.items():
        rows, columns = picture.shape
        room = max(columns * PIXEL, len(name) * _CHARACTER) + 18
        if left > 12 and left + room > MAX_IMAGES_WIDTH:
            left, top, tall = 12.0, top + tall, 0
        frame = {"fill": "none", "stroke": _INK, "stroke_width": "1"}
        size = {"width": f"{columns * PIXEL}", "height": f"{rows * PIXEL}"}
        placed = f"translate({left:.0f} {top}) scale({PIXEL})"
        parts.append(element("g", join(_shades(picture / chart.limit)), transform=placed))
        parts.append(element("rect", x=f"{left:.0f}", y=f"{top}", **size, **frame))
        parts.append(_text(left, top + rows * PIXEL + 15, name, "start"))
        left += room
        wide, tall = max(wide, left), max(tall, rows * PIXEL + 26)
    limit = number_text(chart.limit, _DIGITS)
    ends = f"white is 0, red {limit}, blue -{limit}"
    parts.append(_text(12, top + tall + 7, ends, "start"))
    wide = max(wide, len(ends) * _CHARACTER + 24, len(chart.title) * _CHARACTER * 1.3 + 24)
    words = f"{chart.title}: {', '.join(chart.pictures)}"
    return _svg(chart.title, words, wide, top + tall + 16, parts)


def _shades(picture: Floats) -> list[Html]:
    """A path for each shade but white, in units of an entry; a run of equal ones is one piece."""
    found: dict[str, list[str]] = {}
    for row, values in enumerate(picture):
        shades = [_shade(float(value)) for value in values]
        starts = [at for at in range(len(shades)) if at == 0 or shades[at] != shades[at - 1]]
        for start, stop in pairwise([*starts, len(shades)]):
            wide = stop - start
            found.setdefault(shades[start], []).append(f"M{start} {row}h{wide}v1h-{wide}z")
    return [
        element("path", d=Html("".join(pieces)), fill=shade)
        for shade, pieces in sorted(found.items())
        if shade != _GROUND
    ]


def _shade(value: float) -> str:
    """A colour for -1 to 1, as heat maps have it: blue below 0, white, red above."""
    if not np.isfinite(value):
        return _hex(palette.BAD)
    step = round(max(-1.0, min(value, 1.0)) * _STEPS)
    return _GROUND if step == 0 else _colours()[step + _STEPS]


@cache
def _colours() -> list[str]:
    """The colours of a heat map from -1 to 1."""
    found = palette.map_colours("both")
    places = np.linspace(0, len(found) - 1, 2 * _STEPS + 1).round().astype(int)
    return [_hex(tuple(found[at] * 255)) for at in places]


def _hex(colour: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(one):02x}" for one in colour)


def _svg(title: str, words: str, wide: float, high: float, parts: list[Html]) -> str:
    ground = element("rect", width=f"{wide:.0f}", height=f"{high:.0f}", fill=_GROUND)
    heading = _text(12, 17, title, "start", font_size="13", font_weight="600")
    return element(
        "svg",
        Html("\n".join([element("title", words), ground, heading, *parts])),
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_label=words,
        width=f"{wide:.0f}",
        height=f"{high:.0f}",
        viewBox=f"0 0 {wide:.0f} {high:.0f}",
        font_family=_FONT,
        font_size="11",
        fill=_INK,
    )


def _across(scale: Scale, top: float, high: float) -> Html:
    """The horizontal axis: faint rules, their numbers, and its name."""
    wide = WIDTH - LEFT - RIGHT
    parts = [_rule(LEFT, top + high, LEFT + wide, top + high, _INK)]
    for tick in scale.ticks:
        x = LEFT + scale.place(tick) * wide
        parts.append(_rule(x, top, x, top + high, _FAINT))
        parts.append(_text(x, top + high + 15, number_text(tick, _DIGITS), "middle"))
    parts.append(_text(LEFT + wide / 2, top + high + 34, scale.label, "middle"))
    return join(parts)


def _up(scale: Scale, top: float, high: float) -> Html:
    """The vertical axis."""
    wide = WIDTH - LEFT - RIGHT
    parts = [_rule(LEFT, top, LEFT, top + high, _INK)]
    for tick in scale.ticks:
        y = top + (1 - scale.place(tick)) * high
        parts.append(_rule(LEFT, y, LEFT + wide, y, _FAINT))
        parts.append(_text(LEFT - 6, y + 4, number_text(tick, _DIGITS), "end"))
    turned = {"transform": f"rotate(-90 14 {top + high / 2:.0f})"}
    parts.append(_text(14, top + high / 2, scale.label, "middle", **turned))
    return join(parts)


def _legend(names: list[str]) -> tuple[Html, int]:
    """What each dash is, in rows below the title, and how many rows."""
    parts: list[Html] = []
    x, row = float(LEFT), 0
    for number, name in enumerate(names):
        wide = _LEGEND_LINE + 16 + len(name) * _CHARACTER
        if x > LEFT and x + wide > WIDTH:
            x, row = float(LEFT), row + 1
        y = TOP + row * _LEGEND_ROW
        parts.append(_stroke(Html(f"M{x:.0f} {y}h{_LEGEND_LINE}"), number))
        parts.append(_text(x + _LEGEND_LINE + 5, y + 4, name, "start"))
        x += wide
    return join(parts), row + 1


def _path(x: Floats, y: Floats) -> Html:
    """A line through points; what has no place is a gap. Numbers alone: nothing to escape."""
    pieces, pen = [], "M"
    for across, up in zip(x, y, strict=True):
        if not (np.isfinite(across) and np.isfinite(up)):
            pen = "M"
            continue
        pieces.append(f"{pen}{across:.1f} {up:.1f}")
        pen = "L"
    return Html("".join(pieces))


def _stroke(path: Html, number: int) -> Html:
    dashes = {"stroke_dasharray": _DASHES[number]} if _DASHES[number] else {}
    ink = {"fill": "none", "stroke": _COLOURS[number], "stroke_width": "1.8"}
    return element("path", d=path, **ink, **dashes)


def _rule(x: float, y: float, to_x: float, to_y: float, ink: str) -> Html:
    ends = {"x1": f"{x:.1f}", "y1": f"{y:.1f}", "x2": f"{to_x:.1f}", "y2": f"{to_y:.1f}"}
    return element("line", stroke=ink, stroke_width="1", **ends)


def _text(x: float, y: float, words: str, anchor: str, **attributes: str) -> Html:
    if not words:
        return Html("")
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor}
    return element("text", escape(words, 120), **place, **attributes)
