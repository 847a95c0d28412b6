"""A course as a row of bars, in plain text: for the terminal, and for notebooks without styles."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

BLOCKS = "▁▂▃▄▅▆▇█"


def bars(values: Sequence[float | None], levels: str = BLOCKS) -> str:
    """A row of bars, a character each, the least value the lowest; what is not finite is a blank.

    A constant is drawn at half the height; '' where nothing is finite.

    >>> bars([8.0, 4.0, None, 1.0])
    '█▄ ▁'
    """
    known = [value for value in values if value is not None and isfinite(value)]
    if not known:
        return ""
    low, extent = min(known) / 2, max(known) / 2 - min(known) / 2  # halves do not overflow
    found = []
    for value in values:
        if value is None or not isfinite(value):
            found.append(" ")
            continue
        share = (value / 2 - low) / extent if extent > 0 else 0.5
        found.append(levels[round(share * (len(levels) - 1))])
    return "".join(found)
