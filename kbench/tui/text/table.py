"""A table with a cursor whose columns give way by priority when the pane is narrow."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from textual import events
from textual.content import Content

from kbench.tui.keys import keys
from kbench.tui.messages import PaneMessage, ShowPane
from kbench.tui.text.lines import LineView
from kbench.tui.text.text import one_line

CellText = Content | str
GAP_CELLS = 2
"""Cells between two columns."""
NARROW_CELLS = 64
"""Cells below which a table stands closer together."""


class Column(Struct, frozen=True):
    """`rank` 0 is always shown, higher ranks go first; the `stretch` column takes what is left.

    A column may be cut down to `least` cells before another is left out for it, and further, down
    to `bare`, before one of rank 1 is. With `runs_over` a cell takes the room of those behind it
    while they are empty. An `optional` column is left out while all of its cells are empty.
    """

    title: str
    rank: int = 0
    right: bool = False
    most: int = 40
    least: int = 0
    bare: int = 0
    stretch: bool = False
    runs_over: bool = False
    optional: bool = False


def _cut_bare(columns: Sequence[Column], needed: Sequence[int]) -> list[int]:
    return [
        min(cells, column.bare) if column.bare else cells
        for cells, column in zip(needed, columns, strict=True)
    ]


def column_widths(
    columns: Sequence[Column], texts: Sequence[Sequence[int]], width: int, gap: int = GAP_CELLS
) -> list[int]:
    """A width per column, 0 for those without room; `texts` are the cells' widths."""
    wanted = [
        min(max([len(column.title), *(row[at] for row in texts)]), column.most)
        for at, column in enumerate(columns)
    ]
    needed = [
        min(want, column.least) if column.least else want
        for want, column in zip(wanted, columns, strict=True)
    ]
    shown = {
        at
        for at, column in enumerate(columns)
        if not column.optional or any(row[at] for row in texts)
    }
    while sum(needed[at] + gap for at in shown) - gap > width:
        last = max(shown, key=lambda at: (columns[at].rank, at))
        if columns[last].rank == 0:
            break
        if columns[last].rank == 1 and (cut := _cut_bare(columns, needed)) != needed:
            needed = cut
        else:
            shown.discard(last)
    widths = [needed[at] if at in shown else 0 for at in range(len(columns))]
    spare = width - sum(widths[at] + gap for at in shown) + gap
    for at in sorted(shown, key=lambda at: columns[at].stretch):
        more = spare if columns[at].stretch else min(wanted[at] - widths[at], spare)
        if more > 0:
            widths[at] += more
            spare -= more
    if spare > 0 and any(column.runs_over for column in columns):
        widths[max(shown)] += spare  # for what runs over
    while spare < 0 and max(widths) > 4:
        widest = widths.index(max(widths))
        widths[widest] -= 1
        spare += 1
    return widths


class Table(LineView):
    """Base of the variables and the plan: a subclass sets `columns` and calls `fill`."""

    BINDINGS = keys.bindings("table")
    COMPONENT_CLASSES = {"table--cursor", "table--header", "table--flash"}
    header_rows = 1
    columns: tuple[Column, ...] = ()

    class Opened(PaneMessage):
        """Enter or a double click on a row."""

        def __init__(self, table: Table, key: str) -> None:
            self.table = table
            self.key = key
            super().__init__()

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._rows: list[tuple[str, list[Content]]] = []
        self._widths: list[int] = []
        self._at = 0
        self._touched = False  # the user has moved the cursor: it stays with its row
        self._flashing: set[str] = set()
        self.empty_rows: Sequence[Content | str] = []
        self._folded: list[Content] = []  # those, as rows that fit

    # ------------------------------------------------------------------ content

    @property
    def narrow(self) -> bool:
        """Whether cells should be short and close together."""
        return 0 < self.size.width < NARROW_CELLS

    @property
    def gap(self) -> int:
        """Blank cells between two columns."""
        return 1 if self.narrow else GAP_CELLS

    def fill(self, rows: Sequence[tuple[str, Sequence[CellText]]]) -> None:
        """Show these rows, each under its key; the cursor stays on its key if it is still there."""
        key = self.current_key if self._touched else None
        self._rows = [
            (name, [cell if isinstance(cell, Content) else Content(cell) for cell in cells])
            for name, cells in rows
        ]
        places = [at for at, (name, _) in enumerate(self._rows) if name == key]
        kept = min(self._at, len(self._rows) - 1) if self._touched else 0
        self._at = places[0] if places else max(kept, 0)
        self.refit()

    def refit(self) -> None:
        """Share the width among the columns again."""
        room = max(self.text_width - 1, 1)
        lengths = [self.lengths(cells) for _, cells in self._rows]
        self._widths = column_widths(self.columns, lengths, room, self.gap)
        self._folded = [] if self._rows else self.folded(self.empty_rows)
        super().refit()

    def lengths(self, cells: Sequence[Content]) -> list[int]:
        """Cells of the screen that a row would like to have in each column."""
        return [cell.cell_length for cell in cells]

    def fitted(self, name: str, cells: list[Content], widths: Sequence[int]) -> list[Content]:
        """The cells of a row; what is still too long for its column is cut at its end."""
        return cells

    def flash(self, names: set[str]) -> None:
        """Mark rows as just changed for a second."""
        self._flashing |= names
        self.refresh()
        self.set_timer(1.0, lambda: self._unflash(names))

    def _unflash(self, names: set[str]) -> None:
        self._flashing -= names
        self.refresh()

    @property
    def current_key(self) -> str | None:
        """The key of the row under the cursor."""
        return self._rows[self._at][0] if self._at < len(self._rows) else None

    def keys(self) -> list[str]:
        """Keys of all rows in their order."""
        return [name for name, _ in self._rows]

    def keys_shown(self) -> list[str]:
        """Keys of the rows on screen."""
        top = self.scroll_offset.y
        return [name for name, _ in self._rows[top : top + self.size.height]]

    # ------------------------------------------------------------------ rows

    def row_count(self) -> int:
        """The rows, or those that say there are none."""
        return len(self._rows) or len(self._folded)

    def header(self, y: int) -> Content:
        """The titles of the columns."""
        if not self._rows:
            return Content("")
        titles = [Content(column.title) for column in self.columns]
        return self._join(" ", titles).stylize(self.get_visual_style("table--header"))

    def row(self, y: int) -> Content:
        """One row."""
        if not self._rows:
            return self._folded[y]
        name, cells = self._rows[y]
        cells = self.fitted(name, cells, self._widths)
        mark = ">" if y == self._at and self.has_focus else " "
        mark = "*" if name in self._flashing and mark == " " else mark
        return self._join(mark, cells)

    def restyle(self, y: int) -> str:
        """The cursor and changed rows stand out."""
        if not self._rows:
            return ""
        if y == self._at and self.has_focus:
            return "table--cursor"
        return "table--flash" if self._rows[y][0] in self._flashing else ""

    def _join(self, mark: str, cells: Sequence[Content]) -> Content:
        return joined(mark, self.columns, self._widths, cells, self.gap, self.glyphs.ellipsis)

    # ------------------------------------------------------------------ the cursor

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def go(self, at: int) -> None:
        """Put the cursor on a row and bring it into view."""
        if not self._rows:
            return
        self._at = max(0, min(at, len(self._rows) - 1))
        self._touched = True
        height = max(self.size.height - self.header_rows, 1)
        top = self.scroll_offset.y
        if self._at < top:
            self.scroll_to(y=self._at, animate=False)
        elif self._at >= top + height:
            self.scroll_to(y=self._at - height + 1, animate=False)
        self.refresh()
        self.moved()

    def moved(self) -> None:
        """Called when the cursor has moved."""

    def action_move(self, step: int) -> None:
        """Up or down."""
        self.go(self._at + step)

    def action_move_page(self, step: int) -> None:
        """A page up or down."""
        self.go(self._at + step * max(self.size.height - 2, 1))

    def action_edge(self, end: int) -> None:
        """To the first or last row."""
        self.go(len(self._rows) - 1 if end else 0)

    def action_leave(self) -> None:
        """Back to the prompt."""
        self.post_message(ShowPane("prompt"))

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if (key := self.current_key) is not None:
            self.post_message(self.Opened(self, key))

    def on_click(self, event: events.Click) -> None:
        """The clicked row gets the cursor; a double click opens it."""
        at = event.y - self.header_rows + self.scroll_offset.y
        if 0 <= at < len(self._rows):
            self.go(at)
            if event.chain == 2:
                self.action_open()


def joined(
    mark: str,
    columns: Sequence[Column],
    widths: Sequence[int],
    cells: Sequence[Content],
    gap: int,
    ellipsis: str,
) -> Content:
    """The cells of a row side by side behind a mark, each as wide as its column."""
    parts: list[Content | str] = [mark]
    shown = [at for at, width in enumerate(widths) if width]
    while shown:
        at = shown.pop(0)
        column, cell, width = columns[at], cells[at], widths[at]
        while column.runs_over and cell.cell_length > width and shown and not cells[shown[0]]:
            width += gap + widths[shown.pop(0)]
        if cell.cell_length > width:
            cell = cut(cell, width, ellipsis)
        pad = " " * (width - cell.cell_length)
        parts += [pad, cell] if column.right else [cell, pad]
        parts.append(" " * gap)
    return Content.assemble(*parts[:-1])


def cut(cell: Content, width: int, ellipsis: str) -> Content:
    """A cell cut to a width; the end gives way to an ellipsis."""
    room = width - len(ellipsis)
    if room < 1 or not cell.spans:
        return Content(one_line(cell.plain, width, ellipsis))
    return cell.truncate(room) + ellipsis
