"""One axis of a chart: where a value is along it, its round numbers, a number as text."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Scale(Struct, frozen=True):
    """One axis: its ends, its name, and whether equal steps are equal factors."""

    low: float
    high: float
    label: str = ""
    log: bool = False

    def places(self, values: Floats) -> Floats:
        """Where values are, from 0 at the low end to 1; NaN for what has no place."""
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = self._bent(np.array([self.low, self.high]))
            found = (self._bent(values) - low) / (high - low)
        return np.where(np.isfinite(found), found, np.nan)

    def place(self, value: float) -> float:
        """Where one value is."""
        return float(self.places(np.array(value)))

    def _bent(self, values: Floats) -> Floats:
        return np.log10(values) if self.log else values

    @property
    def ticks(self) -> list[float]:
        """Round numbers between the ends, a handful."""
        from matplotlib.ticker import MaxNLocator

        ends = np.log10([self.low, self.high]) if self.log else [self.low, self.high]
        locator = MaxNLocator(
            nbins=5, steps=[1, 2, 3, 5, 10] if self.log else [1, 2, 5, 10], integer=self.log
        )
        found = locator.tick_values(*ends)
        inside = [float(at) for at in found if ends[0] - 1e-9 <= at <= ends[1] + 1e-9]
        return [10.0**at for at in inside] if self.log else inside


def number_text(value: float, digits: int) -> str:
    """A number in so many digits, its exponent without zeros: `2.5e-7`."""
    return f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
