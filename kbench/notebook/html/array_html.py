"""Static HTML of one array of any dtype: what is known of it, and the corners of one slice.

Numbers are told by range and moments, dates and complex numbers by their ends or their sizes;
texts, objects and structured elements by their values alone. Masked entries are left out of all
statistics and written `--`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kbench.engine.inspect import describe, slice_view
from kbench.engine.inspect.number_format import AUTO, NumberFormat
from kbench.engine.inspect.statistics import MAX_EXACT_ELEMENTS
from kbench.notebook.drawing import centred
from kbench.notebook.drawing.centred import Scale
from kbench.notebook.html import views
from kbench.notebook.markup.markup import Html, details, element, facts, histogram, table
from kbench.workbench.core_types import JsonObject, Row

EDGE_CELLS = 5
"""Rows and columns shown from each edge of a slice."""
MAX_OPEN_ELEMENTS = 40
"""An array of no more elements is shown unfolded."""
_BAD_TEXTS = frozenset(("NaN", "Inf", "-Inf", "NaT"))
"""Cells that are marked as wrong; the text says it too."""


class SliceLike(Protocol):
    """Which slice of an array a table shows; see `slicing.Slice`."""

    @property
    def index(self) -> Sequence[int]: ...
    @property
    def row_axis(self) -> int | None: ...
    @property
    def col_axis(self) -> int | None: ...


def parts(
    array: np.ndarray, name: str, shown: SliceLike | None = None, form: NumberFormat = AUTO
) -> list[Html]:
    """Statistics, what is wrong in words, and the values of one slice, written as `form` says."""
    row = describe.array(array)
    known = _other_facts(array) if row.get("refused") else _statistics(row)
    known += [("masked", f"{row['masked']} of {row['size']}")] if row.get("masked") else []
    parts = [facts(known), views.alerts(row)]
    if array.size:
        parts.append(_values(array, name, row, shown, form))
    else:
        parts.append(element("p", "no elements"))
    return parts


def _statistics(row: Row) -> list[tuple[str, object]]:
    """Range with histogram, mean, deviation and zeros of the finite values."""
    if not row["finite"]:
        return []
    about = "~" if row["sampled"] else ""
    zeros = f"{about}{row['zeros'] / max(row['count'], 1):.0%}" if row["zeros"] else None
    sampled = f"{row['count']} of {row['size']} elements" if row["sampled"] else None
    return [
        ("range", histogram(row["histogram"], row["min"], row["max"])),
        ("mean", about + describe.number(row["mean"])),
        ("sd", about + describe.number(row["std"])),
        ("zeros", zeros),
        ("sampled", sampled),
    ]


def _other_facts(array: np.ndarray) -> list[tuple[str, object]]:
    """What can be said of elements that have no range: sizes of complex numbers, ends of dates."""
    if not 0 < array.size <= MAX_EXACT_ELEMENTS:
        return []
    if array.dtype.kind == "c":
        row = describe.array(np.abs(array))
        return [("|x|" if term == "range" else term, fact) for term, fact in _magnitude(row)]
    if array.dtype.kind in "mM":
        known = np.ma.compressed(array)
        missing = int(np.count_nonzero(np.isnat(known)))
        known = known[~np.isnat(known)]
        ends = [("from", str(known.min())), ("to", str(known.max()))] if known.size else []
        return [*ends, ("NaT", str(missing) if missing else None)]
    return []


def _magnitude(row: Row) -> list[tuple[str, object]]:
    """The range of absolute values."""
    return [fact for fact in _statistics(row) if fact[0] in ("range", "zeros")]


def _values(
    array: np.ndarray, name: str, row: Row, shown: SliceLike | None, form: NumberFormat
) -> Html:
    """The corners of one two-dimensional slice, five rows and columns from each edge."""
    scale = centred.scale(row["min"], row["max"]) if row.get("finite") else None
    limits = None if scale is None else _limits(scale)

    write = None if form == AUTO else form.write

    def cut(rows: tuple[int, int], cols: tuple[int, int]) -> JsonObject:
        if shown is None:
            return slice_view.window(array, None, rows, cols, limits=limits, write=write)
        axes = (shown.row_axis, shown.col_axis)
        return slice_view.window(array, shown.index, rows, cols, *axes, limits, write=write)

    corner = cut((0, 1), (0, 1))
    rows, cols = _edges(corner["rows"][2]), _edges(corner["cols"][2])
    lines: list[list[object]] = []
    classes: list[list[str]] = []
    heads: list[object] = ["", *_labels(cols)]
    for number, span in enumerate(rows):
        if number:
            lines.append(["…"] * len(heads))
            classes.append([""] * (len(heads) - 1))
        bands = [cut(span, columns) for columns in cols]
        for line in range(span[1]):
            cells, levels = _line(bands, line, scale)
            lines.append([span[0] + line, *cells])
            classes.append(levels)
    caption = _slice(name, corner)
    if len(rows) > 1 or len(cols) > 1:
        caption += f", {EDGE_CELLS} from each edge"
    content = table(caption, heads, lines, classes)
    return details("values", content, shown is not None or array.size <= MAX_OPEN_ELEMENTS)


def _limits(scale: Scale) -> tuple[float, float]:
    """The numbers of the lowest and the highest level of heat, with 0 between two levels."""
    largest = max(abs(scale.low), abs(scale.high)) or 1.0  # nothing but zeros: any will do
    return (scale.low, scale.high) if scale.colours == "far" else (-largest, largest)


def _line(bands: Sequence[Row], line: int, scale: Scale | None) -> tuple[list[object], list[str]]:
    """One row of cells over the column bands, with `…` between the bands."""
    cells: list[object] = []
    levels: list[str] = []
    for number, band in enumerate(bands):
        if number:
            cells.append("…")
            levels.append("")
        cells += band["cells"][line]
        levels += [
            _class(level, text, scale)
            for level, text in zip(band["heat"][line], band["cells"][line], strict=True)
        ]
    return cells, levels


def _class(level: int | None, text: str, scale: Scale | None) -> str:
    """Shade for a finite value, a warning colour for what is not; the text says it too."""
    if level is None:
        return "kb-bad" if text in _BAD_TEXTS else ""
    half = slice_view.HEAT_LEVELS // 2
    if scale is None or scale.colours == "far":
        step, sign = level // 2, "p"
    else:
        step, sign = (level - half, "p") if level >= half else (half - 1 - level, "n")
    return f"kb-{sign}{step}" if step else ""


def _edges(total: int) -> list[tuple[int, int]]:
    """(start, count) of what is shown along an axis."""
    if total <= 2 * EDGE_CELLS:
        return [(0, total)]
    return [(0, EDGE_CELLS), (total - EDGE_CELLS, EDGE_CELLS)]


def _labels(spans: Sequence[tuple[int, int]]) -> list[object]:
    labels: list[object] = []
    for number, (start, count) in enumerate(spans):
        labels += ["…"] if number else []
        labels += range(start, start + count)
    return labels


def _slice(name: str, window: Row) -> str:
    """`w[0, :, :]`: which slice a table shows."""
    shown = (window["row_axis"], window["col_axis"])
    index = [":" if axis in shown else str(at) for axis, at in enumerate(window["index"])]
    return f"{name}[{', '.join(index)}]" if index else name
