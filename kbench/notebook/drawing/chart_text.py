"""Charts as lines of characters, at most 50 wide, for terminals and for whoever reads no SVG.

The width does not depend on the terminal: what a notebook stores is the same everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kbench.notebook.drawing.chart_scale import Floats, Scale, number_text

if TYPE_CHECKING:
    from kbench.notebook.drawing.charts import Histograms, Images, Lines

COLUMNS, ROWS = 40, 10
"""Characters of a plot: with its numbers it fits the session of a terminal of 120 columns."""
BAR_ROWS = 3
"""Characters in the height of a histogram."""
_BARS = " ▁▂▃▄▅▆▇█"
_MARKS = "*o+x#@%="
_LIGHT, _DARK = "░▒▓█", "-=%@"
"""Shades above zero and below it, from weak to strong."""
_MAX_COLUMNS = 50
"""Characters of a line."""
_MAX_LINES = 30
"""Lines of pictures; those that need more are drawn at half their height and width."""
_DIGITS = 3
"""Of a number beside an axis."""


def lines(chart: Lines) -> str:
    """One curve as bars, several as marks, with a legend below them."""
    several = len(chart.series) > 1 or bool(chart.points)
    body = _marks(chart) if several else _bars(_columns(chart, *_only(chart)), ROWS - 1)
    high, low = number_text(chart.up.high, _DIGITS), number_text(chart.up.low, _DIGITS)
    room = max(len(high), len(low))
    labels = [high, *[""] * (len(body) - 2), low]
    plot = [f"{label:>{room}} |{line}" for label, line in zip(labels, body, strict=True)]
    up = f"{chart.up.label or ('' if several else ', '.join(chart.series))}"
    up = f"{up}{' (log)' if chart.up.log else ''}".strip()
    head = [chart.title, *([up] if up else [])]
    marks = [f"{mark} {name}" for mark, name in zip(_MARKS, chart.series, strict=False)]
    legend = _wrapped([*marks, *_letters(chart)]) if several else []
    return "\n".join([*head, *plot, _axis(chart.across, room, COLUMNS), *legend]).rstrip()


def _only(chart: Lines) -> tuple[Floats, Floats]:
    """The one curve that there is."""
    ((x, y),) = chart.series.values()
    return x, y


def histograms(chart: Histograms) -> str:
    """Bars of block characters, one series above the other."""
    found = [chart.title]
    for name, counts in chart.counts.items():
        tallest = max(int(counts.max()), 1)
        more = f", {chart.left_out[name]} not finite" if chart.left_out[name] else ""
        found.append(f"  {name}{more}")
        heights = np.where(counts > 0, counts / tallest, np.nan)
        found += [f"  |{line}" for line in _bars(heights, BAR_ROWS)]
    width = len(next(iter(chart.counts.values())))
    return "\n".join([*found, _axis(chart.across, 1, width)])


def images(chart: Images) -> str:
    """Shades beside or below each other, two characters for an entry.

    What would be wide or long has one character for two rows, or for more columns, too.
    """
    body = _placed([_block(name, one, chart.limit, 2) for name, one in chart.pictures.items()])
    if len(body) > _MAX_LINES:
        body = _placed([_block(name, one, chart.limit, 1) for name, one in chart.pictures.items()])
    limit = number_text(chart.limit, _DIGITS)
    ends = f"{_LIGHT} up to {limit}, {_DARK} down to -{limit}, . is 0"
    return "\n".join([chart.title, *body, ends])


def _block(name: str, picture: Floats, limit: float, cells: int) -> list[str]:
    """The name and the lines of one picture; `cells`: characters for an entry, if they fit."""
    across = -(-picture.shape[1] // _MAX_COLUMNS)  # columns for a character
    cells = cells if picture.shape[1] * cells <= _MAX_COLUMNS else 1
    shown = _strongest(picture, across * 2 // cells, across)
    return [name, *("".join(_shade(value / limit) * cells for value in row) for row in shown)]


def _strongest(picture: Floats, down: int, across: int) -> Floats:
    """Of each `down` rows and `across` columns the entry that is farthest from 0, or NaN."""
    rows, columns = -(-picture.shape[0] // down), -(-picture.shape[1] // across)
    whole = np.zeros((rows * down, columns * across))
    whole[: picture.shape[0], : picture.shape[1]] = picture
    parts = whole.reshape(rows, down, columns, across).swapaxes(1, 2).reshape(rows, columns, -1)
    at = np.where(np.isnan(parts), np.inf, np.abs(parts)).argmax(axis=-1)
    return np.take_along_axis(parts, at[..., None], axis=-1)[..., 0]


def _placed(blocks: list[list[str]]) -> list[str]:
    """Blocks of lines beside each other, as many as fit."""
    rows: list[list[str]] = []
    used = _MAX_COLUMNS
    for lines in blocks:
        wide = max(map(len, lines)) + 2
        block = [f"{line:<{wide}}" for line in lines]
        if used + wide > _MAX_COLUMNS + 2:  # the last of a line needs no space behind it
            rows.append(block)
            used = wide
        else:
            tall = max(len(rows[-1]), len(block))
            left = rows[-1] + [" " * used] * (tall - len(rows[-1]))
            right = block + [" " * wide] * (tall - len(block))
            rows[-1] = [before + after for before, after in zip(left, right, strict=True)]
            used += wide
    return [line.rstrip() for row in rows for line in row]


def _columns(chart: Lines, x: Floats, y: Floats) -> Floats:
    """The height of a curve in each column, 0 to 1, its largest there; NaN where there is none."""
    places = chart.across.places(x)
    heights = chart.up.places(y)
    found = np.full(COLUMNS, np.nan)
    for at, height in zip(places, heights, strict=True):
        if np.isfinite(at) and np.isfinite(height):
            column = min(int(at * COLUMNS), COLUMNS - 1)
            found[column] = np.fmax(found[column], height)
    known = np.flatnonzero(np.isfinite(found))
    if known.size:
        inner = np.arange(known[0], known[-1] + 1)
        found[inner] = np.interp(inner, known, found[known])
    return found


def _bars(heights: Floats, rows: int) -> list[str]:
    """Bars of eighths of a character; what is there has one eighth at least, NaN has none."""
    eighths = [max(round(one * rows * 8), 1) if np.isfinite(one) else 0 for one in heights]
    return [
        "".join(_BARS[min(max(one - row * 8, 0), 8)] for one in eighths).rstrip()
        for row in range(rows - 1, -1, -1)
    ]


def _marks(chart: Lines) -> list[str]:
    """A grid of characters, a mark for each series; where several meet, their marks take turns."""
    there: dict[tuple[int, int], str] = {}
    for mark, (x, y) in zip(_MARKS, chart.series.values(), strict=False):
        for column, height in enumerate(_columns(chart, x, y)):
            if np.isfinite(height):
                place = _row(height), column
                there[place] = there.get(place, "") + mark
    grid = [[" "] * COLUMNS for _ in range(ROWS)]
    for (row, column), marks in there.items():
        grid[row][column] = marks[column % len(marks)]
    for letter, (across, up) in zip(_letters(chart), chart.points.values(), strict=True):
        at, tall = chart.across.place(across), chart.up.place(up)
        if np.isfinite([at, tall]).all():
            grid[_row(tall)][min(int(at * COLUMNS), COLUMNS - 1)] = letter[0]
    return ["".join(line).rstrip() for line in grid]


def _row(height: float) -> int:
    return ROWS - 1 - min(max(int(height * ROWS), 0), ROWS - 1)


def _letters(chart: Lines) -> list[str]:
    """A letter for each point, and its name."""
    return [f"{chr(65 + number)} {name}" for number, name in enumerate(chart.points)]


def _axis(scale: Scale, room: int, columns: int) -> str:
    low, high = number_text(scale.low, _DIGITS), number_text(scale.high, _DIGITS)
    middle = f"{scale.label}{' (log)' if scale.log else ''}"
    gap = max(columns - len(low) - len(high), len(middle) + 2)
    return f"{' ' * room} +{'-' * columns}\n{' ' * room}  {low}{middle:^{gap}}{high}"


def _wrapped(words: list[str]) -> list[str]:
    """Entries of a legend in lines."""
    found = [""]
    for word in words:
        if found[-1] and len(found[-1]) + len(word) + 3 > _MAX_COLUMNS:
            found.append("")
        found[-1] += f"{'   ' if found[-1] else ''}{word}"
    return found


def _shade(value: float) -> str:
    if not np.isfinite(value):
        return "?"
    if abs(value) < 1 / 32:
        return "."
    return (_LIGHT if value > 0 else _DARK)[min(int(abs(value) * 4), 3)]
