"""The few drawing characters of the workbench, in Unicode and in plain ASCII for poor fonts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct


class Glyphs(Struct, frozen=True):
    """One set of characters; widgets ask the app for the set in use."""

    bars: str
    spinner: str
    ellipsis: str
    cursor: str
    up: str
    down: str
    rule: str
    pipe: str
    corner: str
    dash: str
    missing: str
    more: str
    newline: str
    function: str


UNICODE = Glyphs(
    bars="▁▂▃▄▅▆▇█",
    spinner="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏",
    ellipsis="…",
    cursor="▌",
    up="▲",
    down="▼",
    rule="─",
    pipe="│",
    corner="└",
    dash="─",
    missing="·",
    more="›",
    newline="⏎",
    function="ƒ",
)
ASCII = Glyphs(
    bars=".:-=+*#@",
    spinner="|/-\\",
    ellipsis="...",
    cursor=">",
    up="^",
    down="v",
    rule="-",
    pipe="|",
    corner="+",
    dash="-",
    missing=".",
    more=">",
    newline="/",
    function="f",
)


def histogram(bins: Sequence[float], glyphs: Glyphs, width: int) -> str:
    """Counts as a row of at most `width` bars; empty bins are blank, the fullest is the tallest."""
    merged = _merged(bins, width)
    top = max(merged, default=0)
    if top <= 0:
        return " " * len(merged)
    steps = len(glyphs.bars) - 1
    return "".join(
        glyphs.bars[round(count / top * steps)] if count > 0 else " " for count in merged
    )


def tall_histogram(bins: Sequence[float], glyphs: Glyphs, width: int, height: int) -> list[str]:
    """The same in rows, from the top: each row has as many steps as there are kinds of bars.

    A bin that is not empty has the lowest bar at least.
    """
    merged = _merged(bins, width)
    top, steps = max(merged, default=0), len(glyphs.bars)
    levels = [max(round(count / top * steps * height), 1) if count > 0 else 0 for count in merged]
    return [
        "".join(_bar(level - below * steps, glyphs) for level in levels)
        for below in reversed(range(height))
    ]


def _bar(level: int, glyphs: Glyphs) -> str:
    return " " if level <= 0 else glyphs.bars[min(level, len(glyphs.bars)) - 1]


def _merged(bins: Sequence[float], width: int) -> list[float]:
    """The bins in at most `width` groups of neighbours."""
    if not bins or width < 1:
        return []
    count = min(width, len(bins))
    edges = [index * len(bins) // count for index in range(count + 1)]
    return [sum(bins[first:last]) for first, last in pairwise(edges)]


def human_bytes(count: int | None) -> str:
    """A byte count in at most six characters: '31 kB', '3.1 MB'; '-' when unknown."""
    if count is None:
        return "-"
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1023.5:
            digits = f"{size:.1f}".removesuffix(".0") if size < 9.95 else f"{size:.0f}"
            return f"{digits} {unit}"
        size /= 1024
    return f"{size:.0f} TB"


def counted(count: int, word: str) -> str:
    """'1 cell', '12,000 cells'."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def human_seconds(seconds: float) -> str:
    """A duration as people say it: '350 us', '1.8 ms', '2.41 s', '3 min 20 s'."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.{1 if seconds < 0.0995 else 0}f} ms"
    if seconds < 60:
        return f"{seconds:.2f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"
