"""Two-dimensional slices as PNG pictures, drawn on one figure that is used again and again."""

from __future__ import annotations

import io
import threading
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

PIXELS = 512
_COLOURS = 256  # of a picture, which bounds its bytes
_SIDE = 384  # pixels of an image's longer side, which small ones are enlarged to
_BINS = 40
_MOST = 4e307  # so that the range of a scale can be told
_INCHES, _DPI = (5.0, 3.6), 100
_PLACE = (0.13, 0.13, 0.7, 0.79)  # of the axes in the figure: left, bottom, width, height
_SCALE = (0.86, 0.13, 0.03, 0.79)


class Picture:
    """Draws heat maps, histograms and images; a slice larger than `PIXELS` is thinned.

    The parts of a heat map are kept and given other values: making them takes three times as long
    as drawing them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figure = Figure(figsize=_INCHES, dpi=_DPI)
        FigureCanvasAgg(self._figure)
        self._map: Any = None  # what `imshow` gave, while the figure shows a heat map
        self._bar: Any = None

    def heat(self, part: np.ndarray, labels: tuple[str, str]) -> bytes:
        """A colour map with its scale; NaN and infinities are left blank and crossed."""
        thin, _ = thinned(part)
        raw = np.asarray(thin, np.float64)
        finite = np.isfinite(raw)
        values = np.ma.array(np.where(finite, raw.clip(-_MOST, _MOST), 0.0), mask=~finite)
        with self._lock:
            if self._map is None:
                self._begin_map(values)
            low, high = (0.0, 1.0) if values.mask.all() else (values.min(), values.max())
            self._map.set_data(values)
            self._map.set_extent((-0.5, part.shape[1] - 0.5, part.shape[0] - 0.5, -0.5))
            self._map.set_clim(low, high if high > low else low + (abs(low) * 1e-6 or 1e-6))
            self._bar.update_normal(self._map)
            self._map.axes.set(ylabel=labels[0], xlabel=labels[1], title=thinning(part))
            return self._png()

    def _begin_map(self, values: np.ndarray) -> None:
        axes = self._fresh()
        axes.patch.set(hatch="xxx", edgecolor="#a8071a", facecolor="white")
        self._map = axes.imshow(values, aspect="auto", interpolation="nearest", cmap="viridis")
        self._bar = self._figure.colorbar(self._map, cax=self._figure.add_axes(_SCALE))

    def image(self, part: np.ndarray) -> bytes:
        """Rows, columns and one, three or four channels (last) as grey or colour.

        Whole numbers are taken as 0 to 255, floats in 0 to 1 as they are, others are stretched.
        """
        thin, _ = thinned(part)
        pixels = np.round(unit_range(thin) * 255.0).astype(np.uint8)
        shown = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        if shown.mode == "RGBA":
            shown = Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown)
        larger = max(_SIDE // max(shown.size), 1)
        size = (shown.width * larger, shown.height * larger)
        return _packed(shown.convert("RGB").resize(size, Image.Resampling.NEAREST))

    def histogram(self, part: np.ndarray, label: str) -> bytes:
        """How often which value occurs; of a large slice in every so many rows and columns."""
        thin, _ = thinned(part)
        values = np.asarray(thin, np.float64).reshape(-1)
        finite = values[np.isfinite(values)]
        with self._lock:
            axes = self._fresh()
            if finite.size:
                low, high = float(finite.min()), float(finite.max())
                scale = max(abs(low), abs(high)) or 1.0
                if high - low <= 1e-9 * scale or not np.isfinite(high - low):
                    words = f"all {low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
                    axes.text(0.5, 0.5, words, ha="center", transform=axes.transAxes)
                else:
                    axes.hist(finite, bins=_BINS, range=(low, high), color="#2c728e")
            axes.set(xlabel=f"value in {label}", ylabel="elements", title=thinning(part))
            return self._png()

    def _fresh(self) -> Any:
        self._figure.clear()
        self._map = self._bar = None
        return self._figure.add_axes(_PLACE)

    def _png(self) -> bytes:
        canvas: Any = self._figure.canvas
        canvas.draw()
        return _packed(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))


def _packed(image: Any) -> bytes:
    """A PNG with a palette: less than half of the bytes, and it looks the same."""
    stream = io.BytesIO()
    image.quantize(_COLOURS, method=Image.Quantize.MEDIANCUT).save(stream, "png")
    return stream.getvalue()


def thinning(part: np.ndarray) -> str:
    """What a picture leaves out of a slice, '' when it is nothing."""
    steps = zip(("row", "column"), thinned(part)[1], strict=True)
    return " and ".join(f"one {word} in {step}" for word, step in steps if step > 1)


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
