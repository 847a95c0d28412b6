"""kbench's own themes, and the style that all widgets share.

Textual's themes and those that take the terminal's colours are there as well.
"""

from __future__ import annotations

from textual.theme import Theme

DEFAULT = "kbench-dark"
MUTED = "$foreground 65%"
"""A real colour; Textual's $text-muted comes out white in a line."""
SHORT_NAMES = {
    "dark": "kbench-dark",
    "light": "kbench-light",
    "contrast": "kbench-contrast",
    "ansi": "ansi-dark",
}


def full_name(name: str) -> str:
    """A theme by its short name, or the name itself."""
    return SHORT_NAMES.get(name, name)


THEMES = (
    Theme(
        name="kbench-dark",
        primary="#4f9fd9",
        secondary="#7fb6a4",
        accent="#e0a75e",
        success="#7fbf7f",
        warning="#e0c060",
        error="#e0696f",
        foreground="#d6dbe0",
        background="#14181d",
        surface="#1a1f26",
        panel="#252c35",
        dark=True,
    ),
    Theme(
        name="kbench-light",
        primary="#1d699f",
        secondary="#2d7a63",
        accent="#9a5a00",
        success="#24702a",
        warning="#7a5a00",
        error="#b0232c",
        foreground="#1c2126",
        background="#fafafa",
        surface="#f1f2f4",
        panel="#e2e5e9",
        dark=False,
    ),
    Theme(
        name="kbench-contrast",
        primary="#6fc3ff",
        secondary="#8ff0c8",
        accent="#ffd24d",
        success="#8cff8c",
        warning="#ffe14d",
        error="#ff8080",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#262626",
        dark=True,
    ),
)
