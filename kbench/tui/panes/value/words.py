"""The words around a value: what it is, where the cursor stands, its statistics, its histogram."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content

from kbench.tui.panes.rows import ArrayPicture, NameRow, Statistics, number_text, shape_text
from kbench.tui.panes.value.slices import Target, cell_index, text_of
from kbench.tui.panes.value.views.entries import EntriesPage
from kbench.tui.text.glyphs import Glyphs, histogram, human_bytes, tall_histogram
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED

EMPTY = "Press Enter on a variable to see its values."
PROPERTY = "a property, which is not evaluated by looking: i puts it into the prompt"
HEAD_CELLS = 28
"""Cells of the head that shape, dtype and size need."""
MAX_BAR_CELLS = 3
"""Cells of a bar of the histogram."""


def title(row: NameRow) -> str:
    """`model.layers[0].weights[0] kernel` of a part, else the name."""
    label = f" {safe(row.label)}" if row.label and row.label != row.name else ""
    return safe(row.expression) + label


def head(row: NameRow, width: int, way: str = "", when: str = "") -> Content:
    """Name, or the way to it, shape, dtype, size; of other values the type in their place.

    `when` says after which cell it is what it is; the size goes first where there is no room.
    """
    size = human_bytes(row.nbytes)
    if row.openable:
        length = f" of {row.length}" if row.length is not None else ""
        pieces = [(f"{safe(row.type)}{length}", 0)]
        pieces += [(f"{row.about}{size}", 3)] if row.nbytes else []
    else:
        texts = ((shape_text(row.shape), 0), (row.dtype, 1), (size, 3))
        pieces = [piece for piece in texts if piece[0]]
    pieces += [(f"v{row.version}", 2)] if row.version is not None else []
    name, told = f" {safe(way) or title(row)} ", f"  {when}" if when else ""
    words = _fitting(pieces, width - cell_len(name + told))
    return Content.assemble((name, "bold"), words, (told, "bold $text-warning"))


def when(cell: int, until: int, last: int) -> str:
    """After which cells a value is what it is."""
    return f"after cell {until} of {last}" + (f", since {cell}" if cell < until else "")


def entry(page: EntriesPage | None, at: int, is_inside: bool, width: int) -> str:
    """Which entry or line of how many the cursor is on, and how to go on from there."""
    if page is None:
        return "reading"
    back = [("Backspace back", 1)] * is_inside
    if not page.total:
        return _fitting([(safe(page.words), 0), *back], width)
    place = f"row {at + 1}" if page.texts else f"entry {at}"
    pieces = [(f"{place} of {page.total}", 0), *back]
    pieces += [] if page.texts else [("Enter opens", 2)]
    return _fitting(pieces, width)


def no_value(row: NameRow) -> str:
    """Why there are no cells."""
    made = f"made in {row.place}" if row.place else ""
    note = row.note or "a symbol; K.eval gives its value"
    return safe(", ".join(word for word in (note, made) if word))


def _fitting(pieces: list[tuple[str, int]], width: int) -> str:
    """The pieces side by side; where they do not fit, those of the highest rank go first."""
    kept = list(pieces)
    while len("  ".join(words for words, _ in kept)) > width:
        last = max(range(len(kept)), key=lambda at: (kept[at][1], at))
        if not kept[last][1]:
            break
        del kept[last]
    return "  ".join(words for words, _ in kept)


def place(row: NameRow, here: Target, width: int) -> str:
    """The slice and the cell on show."""
    shown = [
        f"{word} {axis}"
        for word, axis in (("rows", here.row_axis), ("cols", here.col_axis))
        if axis is not None
    ]
    if not shown:
        return "a scalar"
    if row.shape is not None and 0 in row.shape:
        return f"{text_of(here)}  no elements  {' '.join(shown)}"
    cell = ", ".join(str(number) for number in cell_index(here))
    pieces = [(text_of(here), 0), (f"at ({cell})", 0)]
    pieces += [("of the last run", 1)] if row.evaluated else []
    pieces += [(" ".join(shown), 3)]
    pieces += [("[ ] slice", 2), ("a axes", 4)] if len(here.index) > 2 else []
    return _fitting(pieces, width)


def where(
    row: NameRow, here: Target | None, drawn: ArrayPicture | None, width: int, cursor: str = ""
) -> str:
    """What is drawn: cells or a picture; `here` is None until there is anything."""
    if here is None:
        return "reading"
    return place(row, here, width) if drawn is None else picture(drawn, width, cursor)


def pixel(shown: ArrayPicture, at: tuple[int, int], value: str) -> str:
    """The element under the cursor of a picture, and its value once that is known."""
    place = ", ".join(":" if number is None else str(number) for number in shown.place_of(at))
    return f"at ({place})" + f" {safe(value)}" * bool(value)


def picture(shown: ArrayPicture, width: int, cursor: str = "") -> str:
    """Which picture of the array it is, what the cursor is on, how numbers became shades."""
    rows, cols, channel = shown.axes
    visible = shown.axes if shown.colours else (rows, cols)
    parts = (":" if axis in visible else str(number) for axis, number in enumerate(shown.index))
    # The index under the cursor says also which picture it is.
    pieces = [(f"[{', '.join(parts)}]", 1 if cursor else 0)] + [(cursor, 0)] * bool(cursor)
    pieces.append((f"{shown.shape[rows]}x{shown.shape[cols]}", 2))
    if channel is not None:
        count = shown.shape[channel]
        names = {3: "RGB", 4: "RGBA"}
        one = "grey" if count == 1 else f"channel {shown.index[channel]} of {count}"
        pieces.append((f"{names[count] if shown.colours else one} {shown.data_format}", 0))
        if count in names:
            pieces.append(("c one channel" if shown.colours else "c colours", 5))
    if shown.free_axes:
        pieces.append(("[ ] next", 4))
    low, high = (number_text(limit) for limit in shown.limits)
    pieces.append((f"{low} black {high} white", 3))
    if shown.blocks:
        pieces.append((shown.blocks, 6))
    return _fitting(pieces, width)


def statistics(
    stats: Statistics | None, glyphs: Glyphs, with_range: bool, note: str = ""
) -> Content:
    """Mean, deviation, zeros, NaN and infinities; with the range where no histogram has it.

    `note` says why there are none.
    """
    if stats is None:
        return Content.styled(f" {safe(note)}", MUTED) if note else Content("")
    if stats.refused:
        return Content.styled(f" {safe(stats.refused)}", MUTED)
    zeros = f"{100 * stats.zeros / stats.count:.0f}%" if stats.count else "-"
    mark = "~" if stats.sampled else ""
    words = (
        f" {mark}mean {number_text(stats.mean)}  sd {number_text(stats.deviation)}  zeros {zeros}"
    )
    parts: list[str | tuple[str, str]] = [words]
    more = "+" if stats.sampled else ""  # what was not read may hold others
    flags = f"  NaN {stats.nan}{more}  Inf {stats.inf}{more}"
    if stats.nan or stats.inf:
        parts += [(f"{flags} !", "bold $text-error"), ("  n next", MUTED)]
    else:
        parts.append("  sample finite" if stats.sampled else flags)
    if with_range and stats.bins:
        parts.append(f"  {_range(stats, histogram(stats.bins, glyphs, 8))}")
    if stats.sampled:
        parts.append(("  x exact", MUTED))
    return Content.assemble(*parts)


def histogram_rows(
    stats: Statistics | None, glyphs: Glyphs, width: int, height: int = 1
) -> Content:
    """The least number, a bar for each share of the range, the greatest number, in rows."""
    if stats is None or stats.refused or not stats.bins:
        return Content("")
    room = width - len(_range(stats, "")) - 1
    if height == 1:
        rows = [histogram(stats.bins, glyphs, max(room, 1))]
    else:
        rows = tall_histogram(stats.bins, glyphs, max(room, 1), height)
    each = max(min(room // len(rows[-1]), MAX_BAR_CELLS), 1)
    *upper, last = ("".join(bar * each for bar in row) for row in rows)
    indent = " " * (len(number_text(stats.low)) + 3)
    return Content("\n".join([*(indent + row for row in upper), f" {_range(stats, last)}"]))


def _range(stats: Statistics, bars: str) -> str:
    return f"[{number_text(stats.low)} {bars} {number_text(stats.high)}]"
