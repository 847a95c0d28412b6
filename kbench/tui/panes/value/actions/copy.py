"""Cells of the value on show in full precision, page by page, up to what a clipboard takes."""

from __future__ import annotations

from msgspec import Struct

from kbench.tui.panes.bench import Bench
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.session.link import AskFailed
from kbench.tui.text.text import safe
from kbench.workbench.protocol.arrays import Window

MAX_CLIPBOARD_BYTES = 70_000
"""Bytes of a copy; terminals drop a longer OSC 52."""
PAGE_ELEMENTS = 1_500
"""Elements asked for at once; a reply holds them unless they are long texts."""


class CopiedCells(Struct, frozen=True):
    """Rows of texts between tabs; `whole` when nothing of what was asked for is left out."""

    text: str
    count: int
    whole: bool


async def cells(
    bench: Bench, pane: ValuePane, rows: tuple[int, int], cols: tuple[int, int]
) -> CopiedCells | None:
    """The cells of a rectangle of the slice on show, (start, count) each; None if none came."""
    here = pane.target
    if here is None:
        return None
    shown = Window(
        name=pane.shown,
        index=list(here.index),
        exact=True,
        row_axis=here.row_axis,
        col_axis=here.col_axis,
    )
    single = rows[1] == 1  # then it is read in pages along the row, else down the rows
    along, across = (cols, rows) if single else (rows, cols)
    many = max(PAGE_ELEMENTS // max(across[1], 1), 1)
    units: list[str] = []  # cells of the only row, or whole rows
    length = 0
    try:
        while len(units) < along[1] and length <= MAX_CLIPBOARD_BYTES:
            page = [along[0] + len(units), min(many, along[1] - len(units))]
            spans = (list(rows), page) if single else (page, list(cols))
            data = await bench.ask(shown.replaced(rows=spans[0], cols=spans[1]))
            lines = [line for line in data.cells if single or len(line) == cols[1]]
            found = lines[0] if single and lines else ["\t".join(line) for line in lines]
            if not found:
                break
            units += found
            length += sum(len(text.encode()) + 1 for text in found)
    except AskFailed as error:
        bench.notify(safe(str(error)), warning=True)
        return None
    whole = len(units) == along[1]
    while length > MAX_CLIPBOARD_BYTES:
        length -= len(units.pop().encode()) + 1
        whole = False
    joint, each = ("\t", 1) if single else ("\n", cols[1])
    return CopiedCells(joint.join(units), len(units) * each, whole)
