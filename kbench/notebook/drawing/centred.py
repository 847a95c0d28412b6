"""Which colours numbers get, in every view: blue below 0, white at 0, red above.

Numbers that are all far from 0, such as 1000 to 1001, would have one colour: they get a scale of
their own, from the least to the greatest, in other colours. Knows no Matplotlib.
"""

from __future__ import annotations

from msgspec import Struct

_MIN_SPREAD_SHARE = 0.25
"""How far numbers of one sign must spread, as a share of the largest, to be seen against 0."""


class Scale(Struct, frozen=True):
    """The numbers with the first and the last colour, and which colours: a key of `palette.MAPS`.

    `colours`: "both" (0 in the middle), "above" (0 first), "below" (0 last) or "far" (without 0).
    """

    low: float
    high: float
    colours: str


def scale(low: float, high: float) -> Scale:
    """The scale for finite numbers from `low` to `high`.

    >>> scale(-1.0, 3.0), scale(0.5, 2.0), scale(1000.0, 1001.0).colours
    (Scale(low=-3.0, high=3.0, colours='both'), Scale(low=0.0, high=2.0, colours='above'), 'far')
    """
    largest = max(abs(low), abs(high))
    if low < 0 < high:
        return Scale(-largest, largest, "both")
    if high - low < _MIN_SPREAD_SHARE * largest and low != high:
        return Scale(low, high, "far")
    return Scale(-largest, 0.0, "below") if low < 0 else Scale(0.0, largest, "above")
