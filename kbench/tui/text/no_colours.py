"""The workbench without colours, for `NO_COLOR`: what stood out by its background is reversed.

https://no-color.org: where the variable is set and not empty, a program sends no codes of colours.
Bold, underlined and reversed text stays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rich.color import Color as RichColor
from rich.color import ColorType
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

if TYPE_CHECKING:
    from textual.app import App

STANDS_OUT_RATIO = 1.4
"""Contrast of two backgrounds, as WCAG 2 counts it, from which on one is reversed: a cursor's or a
selection's is above 1.5 in all themes, bars and panels are below 1.3."""

_DEFAULT = Style.from_color(RichColor.default(), RichColor.default())
_DARK_NUMBERS, _LIGHT_NUMBERS = (0, 8), (7, 15)
"""Of a terminal's 16 colours: its two blacks, its two whites."""
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_LONG = ("38", "48", "58")
"""Codes of colours that have more numbers behind them: 5 and one, or 2 and three."""
_LENGTHS = {"5": 3, "2": 5}


def wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the user wants no colours; an empty value counts as unset."""
    return bool(environment.get("NO_COLOR"))


class NoColours(LineFilter):
    """Takes the colours from lines; a background that stands out becomes reversed text."""

    def __init__(self, app: App[Any]) -> None:
        super().__init__()
        self._app = app

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments without colours; `background`, the widget's own, may itself stand out."""
        screen = self._screen_colour()
        return [
            Segment(text, style and plain(style, screen), control)
            for text, style, control in segments
        ]

    def _screen_colour(self) -> Color:
        """What is behind everything; a theme of the terminal's own colours does not know it."""
        colour = Color.parse(self._app.theme_variables.get("background", "black"))
        if colour.ansi is None:
            return colour
        return Color(0, 0, 0) if self._app.current_theme.dark else Color(255, 255, 255)


@lru_cache(4096)
def plain(style: Style, screen: Color) -> Style:
    """A style without colours, reversed where its background stands out from the screen's."""
    bare = style + _DEFAULT
    if style.bgcolor is None or not _stands_out(style.bgcolor, screen):
        return bare
    return bare + Style(reverse=not style.reverse)


def _stands_out(colour: RichColor, screen: Color) -> bool:
    if colour.is_default:
        return False
    if colour.type is ColorType.STANDARD:  # the terminal knows what they look like
        return colour.number not in (_DARK_NUMBERS if screen.brightness < 0.5 else _LIGHT_NUMBERS)
    shades = sorted(map(_luminance, (Color(*colour.get_truecolor()), screen)))
    return (shades[1] + 0.05) / (shades[0] + 0.05) >= STANDS_OUT_RATIO


def _luminance(colour: Color) -> float:
    """Relative luminance, 0 to 1."""
    parts = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in colour.normalized
    )
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def stripped(text: str) -> str:
    """What goes to a terminal, without the codes of colours; other attributes stay."""
    return _SGR.sub(_without, text) if "\x1b[" in text else text


def _without(match: re.Match[str]) -> str:
    parts = match.group(1).split(";")
    kept: list[str] = []
    at = 0
    while at < len(parts):
        part = parts[at]
        number, colon, _ = part.partition(":")
        if number in _LONG:
            form = parts[at + 1] if at + 1 < len(parts) else ""
            at += 1 if colon else _LENGTHS.get(form, 1)
            continue
        if not _is_colour(number):
            kept.append(part)
        at += 1
    return f"\x1b[{';'.join(kept)}m" if kept else ""


def _is_colour(number: str) -> bool:
    """One of the codes of 16 colours, or the one for the terminal's own."""
    code = int(number) if number.isdigit() else 0
    return 30 <= code <= 49 or 90 <= code <= 107 or code == 59
