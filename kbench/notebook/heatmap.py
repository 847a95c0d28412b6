"""Two-dimensional slices as PNG pictures, drawn on one figure that is used again and again."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

PIXELS = 512
_INCHES, _DPI = (5.0, 3.6), 100


class Picture:
    """Draws heat maps and images; a slice larger than `PIXELS` along an axis is thinned."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figure = Figure(figsize=_INCHES, dpi=_DPI, layout="constrained")
        FigureCanvasAgg(self._figure)

    def heat(self, part: np.ndarray, labels: tuple[str, str]) -> bytes:
        """A colour map with its scale; NaN and infinities are left blank and crossed."""
        thin, step = thinned(part)
        values = np.ma.masked_invalid(np.asarray(thin, np.float64))
        with self._lock:
            axes = self._fresh()
            axes.patch.set(hatch="xxx", edgecolor="#a8071a", facecolor="white")
            extent = (-0.5, part.shape[1] - 0.5, part.shape[0] - 0.5, -0.5)
            drawn = axes.imshow(
                values, aspect="auto", interpolation="nearest", cmap="viridis", extent=extent
            )
            axes.set(ylabel=labels[0], xlabel=labels[1], title=_thinning(step))
            self._figure.colorbar(drawn, ax=axes)
            return self._png()

    def image(self, part: np.ndarray) -> bytes:
        """Rows, columns and one, three or four channels (last) as grey or colour.

        Whole numbers are taken as 0 to 255, floats in 0 to 1 as they are, others are stretched.
        """
        thin, step = thinned(part)
        with self._lock:
            axes = self._fresh()
            axes.set_axis_off()
            axes.set_title(_thinning(step))
            shown = unit_range(thin)
            if shown.shape[-1] == 1:
                axes.imshow(shown[..., 0], cmap="gray", vmin=0.0, vmax=1.0)
            else:
                axes.imshow(shown)
            return self._png()

    def _fresh(self) -> Any:
        self._figure.clear()
        return self._figure.add_subplot()

    def _png(self) -> bytes:
        stream = io.BytesIO()
        self._figure.savefig(stream, format="png")
        return stream.getvalue()


def thinned(part: np.ndarray) -> tuple[np.ndarray, tuple[int, int]]:
    """Every so many rows and columns, so that at most `PIXELS` of each are left."""
    step = (-(-part.shape[0] // PIXELS) or 1, -(-part.shape[1] // PIXELS) or 1)
    return part[:: step[0], :: step[1]], step


def unit_range(values: np.ndarray) -> np.ndarray:
    """Pixels as floats in 0 to 1; what is not finite becomes 0."""
    if values.dtype.kind in "ui" and values.size and values.min() >= 0 and values.max() <= 255:
        return np.asarray(values, np.float64) / 255.0
    pixels = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    largest = float(np.abs(pixels).max(initial=0.0))
    if largest <= 1.0 and float(pixels.min(initial=0.0)) >= 0.0:
        return pixels
    pixels = pixels / largest  # first, so that the difference of extremes cannot overflow
    low, spread = float(pixels.min()), float(np.ptp(pixels))
    return (pixels - low) / (spread or 1.0)


def _thinning(step: tuple[int, int]) -> str:
    if step == (1, 1):
        return ""
    return f"every {step[0]}. row and every {step[1]}. column"
