"""Two-dimensional slices as PNG pictures, drawn on figures that are used again and again.

What takes time is text and lines: those of a heat map are drawn once for a shape, and only the
numbers at its scale with each picture.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter
from numpy.typing import NDArray
from PIL import Image

from kbench.engine.core import fork_safety
from kbench.engine.inspect import block_view, describe
from kbench.notebook.drawing import centred
from kbench.notebook.drawing.centred import Scale
from kbench.notebook.drawing.palette import BAD, BLUE, HEAT_COLOURS, SOLID, Pixels, inked, png

MAX_SIDE_PIXELS = 512
"""Pixels of an image's side; of a larger one each pixel is the mean of a block."""
_ENLARGED_PIXELS = 384
"""Pixels of the page for an image's longer side, which small ones are enlarged to."""
_HISTOGRAM_BINS = 40
"""Bars of a histogram."""
_MAX_SCALE_VALUE = 4e307
"""The largest number of a scale: the difference of two such is finite still."""
_FIGURE_INCHES = (5.0, 3.6)
"""Width and height of a picture: 500 x 360 pixels."""
_DOTS_PER_INCH = 100
"""Pixels of an inch."""
# Of the axes in the figure: left, bottom, width, height; whole pixels, which leaves no gaps.
_AXES_BOX = (65 / 500, 47 / 360, 340 / 500, 284 / 360)
_SCALE_BOX = (418 / 500, 47 / 360, 15 / 500, 284 / 360)
_POWER_WIDTHS = 5.3
"""Where the power of ten of the scale ends, in widths of the scale."""
_SCALE_FONT_POINTS = 8.5
"""Size of the numbers at the scale: what there is room for."""
_PLAIN_POWERS = (-3, 4)
"""Powers of ten that are written out there."""
_MIN_CROSS_PIXELS = 8
"""Pixels of a cell from which on crosses are seen."""
_CELLS_PER_MARK = 200
"""Of so many cells one at most may be marked larger than it is."""
_MAX_COUNTED_ELEMENTS = 1 << 18
"""Elements of a histogram; of a larger slice as many are drawn at random. By chance a bar that
takes the whole height is then two of its 284 pixels off, one with four times as many."""
_WHITE = 255.0
"""The brightest pixel of an image of whole numbers."""
_MIN_FLOAT_WHITE = 128
"""The brightest pixel that an image of whole floats has at least: smaller ones are labels."""
_CROSSED = 255
"""Stands for what is no finite number, among numbers of colours."""


class SlicePainter:
    """Draws heat maps, histograms and images; of a large slice each pixel stands for a block."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._frame: HeatmapFigure | None = None
        self._bars: HistogramFigure | None = None

    def heat(self, part: np.ndarray, labels: tuple[str, str]) -> bytes:
        """A colour map with its scale, 0 in the middle; NaN and infinities are crossed, or solid.

        Of a slice that is larger than the picture each block gives its least and greatest number.
        """
        with self._lock:
            self._frame = self._frame or HeatmapFigure()
            room = self._frame.room
            raw, bad, each = block_view.paired(part, room)
            known = np.isfinite(raw)
            kept = raw[known].clip(-_MAX_SCALE_VALUE, _MAX_SCALE_VALUE)
            ends = (float(kept.min()), float(kept.max())) if kept.size else (0.0, 1.0)
            scale = centred.scale(*ends)
            low, high = scale.low, scale.high
            levels = np.full(raw.shape, _CROSSED, np.uint8)
            levels[known] = np.round((kept - low) * ((HEAT_COLOURS - 1) / ((high - low) or 1.0)))
            levels[bad] = _CROSSED
            texts = (labels[0], labels[1], block_view.words(each))
            return self._frame.drawn(levels, scale, part.shape, texts)

    def image(self, part: np.ndarray) -> bytes:
        """Rows, columns and one, three or four channels (last) as grey or colour.

        Whole numbers are taken as 0 to 255, floats in 0 to 1 as they are, others are stretched:
        see `stretching`. A pixel for each element: the page enlarges them by `image_style`.
        """
        thin = thinned(part)
        pixels = np.round(unit_range(thin) * 255.0).astype(np.uint8)
        finite = np.isfinite(thin).all(axis=-1)
        if not finite.all():
            pixels = np.repeat(pixels, 3, axis=-1) if pixels.shape[-1] == 1 else pixels[..., :3]
            few = np.count_nonzero(~finite) * _CELLS_PER_MARK <= finite.size
            pixels[grown(~finite, few and max(finite.shape) > _ENLARGED_PIXELS // 3)] = BAD
        shown = Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
        if shown.mode == "RGBA":
            shown = Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown)
        if shown.mode != "L":
            shown = shown.convert("RGB")
        stream = io.BytesIO()
        shown.save(stream, "png", compress_level=4)
        return stream.getvalue()

    def histogram(self, part: np.ndarray, label: str) -> bytes:
        """How often which value occurs; of a large slice in some of its elements, at random."""
        values, note = sampled(part)
        low, high, _ = block_view.extremes(part, 1, 1) if part.size else (0.0, 0.0, None)
        with self._lock:
            if self._bars is None:
                self._bars = HistogramFigure()
            finite = values[np.isfinite(values)]
            if note and finite.size:  # the range is that of all
                finite = np.concatenate([finite, np.ravel(low), np.ravel(high)])
            whole = part.dtype.kind in "iu" and part.size > 0
            ends = (int(part.min()), int(part.max())) if whole else None
            return self._bars.drawn(finite, label, note, ends)


def _figure() -> tuple[Any, Any]:
    figure = Figure(figsize=_FIGURE_INCHES, dpi=_DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    return figure, figure.add_axes(_AXES_BOX)


def _colour(ink: tuple[int, int, int]) -> str:
    return "#" + bytes(ink).hex()


def _seen(figure: Any) -> Pixels:
    """What stands on the canvas, as a view."""
    return np.asarray(figure.canvas.buffer_rgba())


class HeatmapFigure:
    """What surrounds a heat map: axes with their labels, and the scale, both kept as drawn."""

    def __init__(self) -> None:
        self._figure, self._axes = _figure()
        self._scale = self._figure.add_axes(_SCALE_BOX)
        for axes in (self._axes, self._scale):
            axes.spines[:].set_linewidth(
                72 / _DOTS_PER_INCH
            )  # one pixel, of which nothing leaks inside
        self._scale.xaxis.set_visible(False)
        self._scale.yaxis.tick_right()
        self._scale.tick_params(labelsize=_SCALE_FONT_POINTS)
        self._scale.yaxis.get_major_formatter().set_powerlimits(_PLAIN_POWERS)
        self._scale.yaxis.offsetText.set(ha="right", x=_POWER_WIDTHS)
        self._scale.yaxis.set_animated(True)  # it is drawn with each picture, the rest is not
        for axis in (self._axes.xaxis, self._axes.yaxis):
            axis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        self._at, self._bar = self._inside(self._axes), self._inside(self._scale)
        self._axes.patch.set(hatch="xxx", edgecolor=_colour(BAD), facecolor="white", linewidth=0)
        self._figure.canvas.draw()
        self._crosses = inked(_seen(self._figure)[self._at])
        self._axes.patch.set(hatch=None)
        self._key: object = None
        self._clean: Any = None
        self._kept = np.empty((0, 0), np.uint8)

    @property
    def room(self) -> tuple[int, int]:
        """How many rows and columns can be told apart."""
        return self._crosses.shape[0], self._crosses.shape[1]

    def _inside(self, axes: Any) -> tuple[slice, slice]:
        """The rows and columns of pixels within the lines around axes."""
        axes.patch.set_facecolor("#ff00ff")
        self._figure.canvas.draw()
        there = (_seen(self._figure)[..., :3] == (255, 0, 255)).all(-1)
        axes.patch.set_facecolor("white")
        rows, columns = np.flatnonzero(there.any(1)), np.flatnonzero(there.any(0))
        return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)

    def drawn(
        self,
        levels: Pixels,
        scale: Scale,
        shape: tuple[int, ...],
        texts: tuple[str, str, str],
    ) -> bytes:
        """A picture of levels of heat.

        Arguments:
            levels: uint8[rows, columns] below `HEAT_COLOURS`, or `_CROSSED`; as many as there is
                `room` for.
            scale: the values of the lowest and the highest level, and which colours these have.
            shape: rows and columns of the slice before it was thinned.
            texts: the labels of rows and columns, and a title.
        """
        self._draw_frame(shape, texts)
        numbers = self._kept.copy()
        self._draw_scale(numbers, (scale.low, scale.high))
        heat = levels[np.ix_(*map(_spread, levels.shape, self.room))]
        crossed = heat == _CROSSED
        small = min(size / count for size, count in zip(self.room, levels.shape, strict=True))
        numbers[self._at] = np.where(crossed, self._crosses, heat)
        if small < _MIN_CROSS_PIXELS:  # crosses would be lost between the lines
            few = int(np.count_nonzero(levels == _CROSSED)) * _CELLS_PER_MARK <= levels.size
            numbers[self._at][grown(crossed, few)] = SOLID
        return png(numbers, scale.colours)

    def _draw_frame(self, shape: tuple[int, ...], texts: tuple[str, str, str]) -> None:
        """Draw what is the same for all slices of a shape, unless it was drawn last."""
        if self._key == (shape, texts):
            return
        limits = {"xlim": (-0.5, shape[1] - 0.5), "ylim": (shape[0] - 0.5, -0.5)}
        self._axes.set(ylabel=texts[0], xlabel=texts[1], title=texts[2], **limits)
        self._figure.canvas.draw()
        self._clean = self._figure.canvas.copy_from_bbox(self._figure.bbox)
        self._kept = inked(_seen(self._figure))
        rows = self._bar[0].stop - self._bar[0].start
        steps = HEAT_COLOURS - 1 - _spread(HEAT_COLOURS, rows)
        self._kept[self._bar] = steps[:, None].astype(np.uint8)
        self._key = (shape, texts)

    def _draw_scale(self, numbers: Pixels, limits: tuple[float, float]) -> None:
        """Write the numbers at the scale."""
        low, high = limits
        if not high > low:
            high = low + (abs(low) * 1e-6 or 1e-6)
        self._figure.canvas.restore_region(self._clean)
        self._scale.set_ylim(low, high)
        self._scale.draw_artist(self._scale.yaxis)
        for strip in (np.s_[:, self._bar[1].stop :], np.s_[: self._bar[0].start - 1]):
            numbers[strip] = inked(_seen(self._figure)[strip])


class HistogramFigure:
    """A histogram, whose axes are kept."""

    def __init__(self) -> None:
        self._figure, self._axes = _figure()
        self._bars = self._axes.stairs([0], [0, 1], fill=True, color=_colour(BLUE))
        self._axes.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        self._axes.yaxis.set_major_formatter(EngFormatter(sep=""))  # 25k: there is room for four
        self._words = self._axes.text(0.5, 0.5, "", ha="center", transform=self._axes.transAxes)

    def drawn(
        self,
        values: NDArray[np.float64],
        label: str,
        title: str,
        whole: tuple[int, int] | None = None,
    ) -> bytes:
        """A picture of how often which of the finite `values` occurs; `whole`: exact ends."""
        words, counts, edges = "", np.zeros(1), np.array([0.0, 1.0])
        if values.size:
            low, high = float(values.min()), float(values.max())
            scale = max(abs(low), abs(high)) or 1.0
            if high - low <= 1e-9 * scale or not np.isfinite(high - low):
                ends = (
                    [f"{end:.6g}" for end in (low, high)] if whole is None else [*map(str, whole)]
                )
                words = f"all {ends[0]}" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
            else:
                counts, edges = np.histogram(values, _HISTOGRAM_BINS, (low, high))
        self._bars.set_data(counts, edges)
        self._words.set_text(words)
        limits = {"xlim": (edges[0], edges[-1]), "ylim": (0, float(counts.max()) * 1.05 or 1.0)}
        self._axes.set(xlabel=f"value in {label}", ylabel="elements", title=title, **limits)
        self._figure.canvas.draw()
        return png(inked(_seen(self._figure)))


def _spread(count: int, pixels: int) -> NDArray[np.intp]:
    """Which of `count` rows is at the middle of each of so many pixels."""
    return (2 * np.arange(pixels, dtype=np.intp) + 1) * count // (2 * pixels)


def grown(marks: NDArray[np.bool_], wanted: bool = True) -> NDArray[np.bool_]:
    """Marks with their neighbours, where `wanted`: a single pixel is not seen."""
    if not wanted:
        return marks
    found = marks.copy()
    found[1:] |= marks[:-1]
    found[:-1] |= marks[1:]
    beside = found.copy()
    found[:, 1:] |= beside[:, :-1]
    found[:, :-1] |= beside[:, 1:]
    return found


def sampled(part: np.ndarray) -> tuple[NDArray[np.float64], str]:
    """The elements of a slice, of a large one some at random; and words for that.

    Each of so many runs of elements gives one, at a place of its own. So they are read in the
    order in which they mostly lie, which takes a fifth of the time of places in no order.
    """
    count = _MAX_COUNTED_ELEMENTS
    if part.size <= count:
        return np.asarray(part, np.float64).reshape(-1), ""
    ends = (np.arange(count + 1, dtype=np.int64) * part.size) // count
    offsets = np.random.RandomState(0).random_sample(count) * np.diff(ends)
    rows, columns = np.unravel_index(ends[:-1] + offsets.astype(np.int64), part.shape)
    return part[rows, columns].astype(np.float64), f"{count:,} of {part.size:,} elements"


def image_style(part: np.ndarray) -> str:
    """The CSS that shows an image, enlarged if it is small.

    >>> image_style(np.zeros((100, 50, 3)))
    'width:150px;max-width:100%;image-rendering:pixelated'
    """
    times = max(_ENLARGED_PIXELS // max(*part.shape[:2], 1), 1)
    return f"width:{part.shape[1] * times}px;max-width:100%;image-rendering:pixelated"


def thinning(part: np.ndarray) -> str:
    """What a picture makes of a large image, '' when it is as it is."""
    steps = [-(-size // MAX_SIDE_PIXELS) for size in part.shape[:2]]
    if max(steps) <= 1:
        return ""
    return f"mean of each {steps[0]} x {steps[1]} pixels"


def stretching(part: np.ndarray) -> str:
    """What an image makes of its numbers, '' when they are taken as they are; of a large one's the
    means that are drawn count, however large it is."""
    thin = thinned(part)
    if not thin.size or _as_they_are(thin):
        return ""
    finite = thin[np.isfinite(thin)]
    if not finite.size:
        return ""
    low, high = describe.number(finite.min()), describe.number(finite.max())
    return f"black is {low}, white is {high}"


def thinned(
    part: np.ndarray, room: tuple[int, int] = (MAX_SIDE_PIXELS, MAX_SIDE_PIXELS)
) -> np.ndarray:
    """An image of at most so many pixels; a large one's are the means of blocks."""
    rows, cols = min(part.shape[0], room[0]), min(part.shape[1], room[1])
    if (rows, cols) == part.shape[:2] or not part.size:
        return part
    found = block_view.means(part, rows, cols)
    if part.dtype.kind in "biu":  # whole numbers are taken as such
        return np.round(found).astype(part.dtype if part.dtype.kind != "b" else np.uint8)
    return found


def _as_they_are(values: np.ndarray) -> float:
    """The number that is white in an image of pixels 0 to 1 or 0 to 255; 0 for other numbers.

    Floats are taken as pixels up to 255 where all are whole, as after `astype("float32")`.
    """
    finite = values if values.dtype.kind in "bui" else values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0, 0)
    if low < 0 or high > _WHITE:
        return 0.0
    if high <= 1:
        return 1.0
    if values.dtype.kind in "ui":
        return _WHITE
    whole = high >= _MIN_FLOAT_WHITE and bool((finite == np.floor(finite)).all())
    return _WHITE if whole else 0.0


def unit_range(values: np.ndarray) -> NDArray[np.float64]:
    """Pixels as floats in 0 to 1; what is not finite becomes 0."""
    white = _as_they_are(values)
    pixels = np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    if white:
        return pixels / white
    largest = float(np.abs(pixels).max(initial=0.0)) or 1.0
    pixels = pixels / largest  # first, so that the difference of extremes cannot overflow
    low, spread = float(pixels.min()), float(np.ptp(pixels))
    return (pixels - low) / (spread or 1.0)
