"""Pixels as rows of text: two in a cell as a half block in colour, or shades of characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from textual.color import Color
from textual.content import Content, Span
from textual.style import Style

from kbench.tui.text.glyphs import ASCII, Glyphs

if TYPE_CHECKING:
    from textual.app import App

    from kbench.workbench.output.picture import Pixel

RAMP = " .:-=+*#%@"
"""Shades from dark to bright."""
HALF = "▀"
MIN_ROWS = 16
"""Rows that a picture may take in a low view, too: in fewer, a figure shows nothing."""
_SHOWN_LEVELS_STEP = 4
"""Between two levels of a colour that are told apart, of 256: few see more, and neighbours that are
drawn alike are one piece of text."""


class Canvas(Struct, frozen=True):
    """How pictures are drawn: in so many rows at most, in colours or in characters.

    `pixels`: those that the terminal can draw, are drawn by it.
    """

    rows: int = MIN_ROWS
    colours: bool = True
    pixels: bool = False

    def room(self, columns: int) -> tuple[int, int]:
        """Columns and rows of pixels for a picture in so many columns of text."""
        return (columns, 2 * self.rows) if self.colours else (columns // 2, self.rows)


def has_colours(app: App[Any], glyphs: Glyphs) -> bool:
    """Half blocks need colours and a font that has them; else there are characters."""
    few = app.console.color_system not in ("256", "truecolor")
    return not (glyphs is ASCII or app.no_color or few)


def drawn(pixels: Sequence[Sequence[Pixel]], colours: bool) -> list[Content]:
    """Rows of text for lines of pixels."""
    if not colours:
        return [Content("".join(2 * shade(pixel, 255) for pixel in line)) for line in pixels]
    below: Sequence[Sequence[Pixel | None]] = [*pixels[1::2], [None] * len(pixels[0])]
    return [_halves(upper, lower) for upper, lower in zip(pixels[::2], below, strict=False)]


def shade(pixel: Pixel, top: int) -> str:
    """The character for a pixel whose levels go up to `top`."""
    red, green, blue = pixel
    bright = (299 * red + 587 * green + 114 * blue) // 1000
    return RAMP[min(bright * len(RAMP) // (top + 1), len(RAMP) - 1)]


def _halves(upper: Sequence[Pixel], lower: Sequence[Pixel | None]) -> Content:
    spans, at = [], 0
    pairs = zip(map(_seen, upper), map(_seen, lower), strict=True)
    for pair, same in groupby(pairs):
        count = sum(1 for _ in same)
        spans.append(Span(at, at + count, _style(*pair)))
        at += count
    return Content(HALF * at, spans, cell_length=at)


def _seen(pixel: Pixel | None) -> Pixel | None:
    if pixel is None:
        return None
    step = _SHOWN_LEVELS_STEP
    red, green, blue = (level // step * step + level // 64 for level in pixel)  # white stays white
    return red, green, blue


@lru_cache(maxsize=4096)
def _style(upper: Pixel, lower: Pixel | None) -> Style:
    return Style(background=None if lower is None else Color(*lower), foreground=Color(*upper))
