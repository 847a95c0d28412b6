"""A curve as rows of characters: braille dots, two by four in a cell, or marks in plain ASCII.

A value is a number, or the least and greatest of a stretch; None is a gap, over which no line goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite

from textual.content import Content

from kbench.tui.text.glyphs import ASCII, Glyphs
from kbench.tui.themes import MUTED
from kbench.workbench.progress.bars import bars

Stretch = tuple[float, float] | None
"""Least and greatest of what is drawn in one place; None: a gap."""
FRAME_COLUMNS = 3
"""Beside the number before a row: blanks, and the line."""
_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the dots of a cell, by row and column."""
_MARK = "*"


def stretches(values: Sequence[float | None]) -> list[Stretch]:
    """Single numbers as places of a curve; what is not finite is a gap."""
    return [None if value is None or not isfinite(value) else (value, value) for value in values]


def limits(curve: Sequence[Stretch]) -> tuple[float, float] | None:
    """Least and greatest of all; None where there are only gaps."""
    known = [place for place in curve if place is not None]
    if not known:
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def rows(curve: Sequence[Stretch], columns: int, height: int, glyphs: Glyphs) -> list[str]:
    """The curve in so many columns and rows, from the least value to the greatest.

    A curve of fewer places than dots is drawn with lines between them, one of more by their
    greatest and least.

    Raises:
        ValueError: fewer than one column or row.
    """
    if columns < 1 or height < 1:
        raise ValueError(f"a curve has no room in {columns} columns and {height} rows")
    fine = glyphs is not ASCII
    across, down = (2 * columns, 4 * height) if fine else (columns, height)
    grid = [[False] * across for _ in range(down)]
    for at, span in enumerate(_spans(curve, across, down)):
        if span is not None:
            for y in range(span[0], span[1] + 1):
                grid[down - 1 - y][at] = True
    if not fine:
        return ["".join(_MARK if dot else " " for dot in line) for line in grid]
    return [_braille_row(grid[top : top + 4], columns) for top in range(0, down, 4)]


def framed(
    curve: Sequence[Stretch],
    columns: int,
    height: int,
    glyphs: Glyphs,
    number: Callable[[float], str],
) -> list[Content]:
    """The same with the greatest and the least value before the first and the last row."""
    ends = limits(curve)
    low, high = ("", "") if ends is None else (number(ends[0]), number(ends[1]))
    room = max(len(low), len(high))
    lines = rows(curve, max(columns - room - FRAME_COLUMNS, 1), height, glyphs)
    words = [high, *[""] * (height - 2), low] if height > 1 else [high]
    return [
        Content.assemble((f" {word:>{room}} {glyphs.pipe}", MUTED), (line, "$text-accent"))
        for word, line in zip(words, lines, strict=True)
    ]


def _braille_row(dots: Sequence[Sequence[bool]], columns: int) -> str:
    found = []
    for at in range(columns):
        bits = 0
        for line, (left, right) in zip(dots, _DOTS, strict=True):
            bits |= (left if line[2 * at] else 0) | (right if line[2 * at + 1] else 0)
        found.append(chr(_BRAILLE + bits) if bits else " ")
    return "".join(found)


def _spans(curve: Sequence[Stretch], across: int, down: int) -> list[tuple[int, int] | None]:
    """Lowest and highest dot of each column, so that neighbours touch; None without any."""
    ends = limits(curve)
    if ends is None:
        return [None] * across
    middle = (down - 1) // 2  # where a constant is
    extent = ends[1] / 2 - ends[0] / 2  # halves do not overflow

    def dot(value: float) -> int:
        return round((value / 2 - ends[0] / 2) / extent * (down - 1)) if extent > 0 else middle

    found: list[tuple[int, int] | None] = []
    for place in _placed(curve, across):
        if place is None:
            found.append(None)
            continue
        low, high = dot(place[0]), dot(place[1])
        before = found[-1] if found else None
        if before is not None and before[1] < low:
            low = min(before[1] + 1, low)
        elif before is not None and before[0] > high:
            high = max(before[0] - 1, high)
        found.append((low, high))
    return found


def _placed(curve: Sequence[Stretch], across: int) -> list[Stretch]:
    """One place for each column of dots."""
    count = len(curve)
    if count > across:
        return [
            limits(curve[at * count // across : (at + 1) * count // across]) for at in range(across)
        ]
    found: list[Stretch] = [None] * across
    step = (across - 1) / (count - 1) if count > 1 else 0.0
    for at, (here, there) in enumerate(zip(curve, [*curve[1:], None], strict=True)):
        if here is None:
            continue
        first, last = round(at * step), round((at + 1) * step)
        found[first] = here
        if there is not None:
            for between in range(first + 1, last):
                share = (between - first) / (last - first)
                low, high = (a + (b - a) * share for a, b in zip(here, there, strict=True))
                found[between] = (low, high)
    return found


def spark(values: Sequence[float | None], glyphs: Glyphs, width: int) -> str:
    """The last values as a row of at most `width` bars, the least one the lowest; a gap is blank.

    A constant is drawn at half the height.
    """
    return bars(values[-width:], glyphs.bars) if width > 0 else ""
