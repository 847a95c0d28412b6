"""How the numbers of a grid are written: so many digits, plain, with an exponent, or as hex.

Beside `describe`, whose `number` is what is written where nothing else was chosen.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe

STYLES = ("auto", "plain", "scientific", "hex")
MAX_DIGITS = 17
"""Significant digits: as many as tell every float64 from all others."""
_DIGITS = 4
"""Where a style was chosen and no number of digits."""
_PLAIN_LIMITS = (1e-7, 1e21)
"""A plain number outside of these is written with an exponent, which has fewer zeros."""


class NumberFormat(Struct, frozen=True):
    """A style, and significant digits; None for as many as `describe.number` has.

    >>> NumberFormat("plain", 3).write(123456.0), NumberFormat("hex").write(-255)
    ('123000', '-0xff')
    """

    style: str = "auto"
    digits: int | None = None

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise ArgumentError(f"format must be one of {', '.join(STYLES)}; got {self.style!r}")
        if self.digits is not None and not 1 <= self.digits <= MAX_DIGITS:
            raise ArgumentError(f"digits must be 1 to {MAX_DIGITS}; got {self.digits}")

    def write(self, value: Any) -> str:
        """One element as text; what is no number is written as everywhere."""
        kind = type(value)  # not isinstance: it would ask the object, which may be hostile
        if issubclass(kind, (bool, np.bool_, np.datetime64, np.timedelta64)):
            return describe.cell(value)
        if issubclass(kind, (int, np.integer)):
            return f"{int(value):#x}" if self.style == "hex" else self._integer(value)
        if issubclass(kind, (float, np.floating)):
            return self._real(float(value))
        if issubclass(kind, (complex, np.complexfloating)):
            imaginary = self._real(float(value.imag))
            sign = "" if imaginary.startswith("-") else "+"
            return f"{self._real(float(value.real))}{sign}{imaginary}j"
        return describe.cell(value)

    def _integer(self, value: Any) -> str:
        if self.style != "scientific":
            return describe.number(value)
        return f"{int(value):.{(self.digits or _DIGITS) - 1}e}"

    def _real(self, value: float) -> str:
        written = self.style if self.style != "hex" else "auto"  # hex is for integers
        if not math.isfinite(value) or (written == "auto" and self.digits is None):
            return describe.number(value)
        digits = self.digits or _DIGITS
        if written == "auto":
            return f"{value:.{digits}g}"
        low, high = _PLAIN_LIMITS
        if written == "plain" and (value == 0 or low <= abs(value) < high):
            return np.format_float_positional(
                value, precision=digits, unique=False, fractional=False, trim="-"
            )
        return f"{value:.{digits - 1}e}"


AUTO = NumberFormat()
