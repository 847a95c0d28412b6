"""The line plot below a row of cells: the whole line, its range, its gaps, and where the cursor is.

It is there for what has one axis: an array of rank 1, or a slice along one axis.
"""

from __future__ import annotations

from msgspec import Struct
from textual.content import Content
from textual.geometry import Size

from kbench.tui.messages import PaneMessage
from kbench.tui.panes.rows import NameRow, number_text
from kbench.tui.panes.value.views.grid import ValueGrid
from kbench.tui.text import curve
from kbench.tui.text.curve import FRAME_COLUMNS
from kbench.tui.text.lines import LineView
from kbench.tui.themes import MUTED
from kbench.workbench.protocol.arrays import Curve, CurveReply

MIN_ELEMENTS = 3
"""Of a line that is plotted: fewer are read faster as numbers."""
MIN_ROWS = 3
"""Of the plot with its axis; in fewer there is none."""
MAX_STRETCHES = 1024
"""That the kernel gives of a line."""
BAD = "!"
CURSOR = "^"


class Line(Struct, frozen=True):
    """One line of an array: `axis` is along it, the others stand at `index`."""

    name: str
    index: tuple[int, ...]
    axis: int
    size: int


class CurveView(LineView, can_focus=False):
    """Follows the cells above it; has no keys."""

    class Wanted(PaneMessage):
        """A curve is needed."""

        def __init__(self, question: Curve) -> None:
            self.question = question
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="curve")
        self.line: Line | None = None
        self.at = 0  # the element on which the cursor of the cells is
        self._grid: ValueGrid | None = None
        self._reply: CurveReply | None = None
        self._asked: Curve | None = None
        self._refused = False  # the line has no numbers
        self._plot: tuple[Size, list[Content]] | None = None

    # ------------------------------------------------------------------ content

    def follow(self, grid: ValueGrid, row: NameRow | None) -> None:
        """Plot the line whose cells `grid` shows in a single row; of other cells nothing."""
        self._grid, line, window = grid, None, grid.window
        if row is not None and window is not None and grid.display:
            size, axis = window.cols[2], window.col_axis
            if window.row_axis is None and axis is not None and size >= MIN_ELEMENTS:
                line = Line(row.name, window.index, axis, size)
        self.at = grid.at[1]
        if line != self.line:
            self.line, self._reply, self._asked, self._plot = line, None, None, None
            self._refused = False
        self._ask()
        self._take_room()

    def _take_room(self) -> None:
        self.display = self.line is not None and not self._refused
        if self._grid is not None:
            self._grid.set_class(self.display, "line")
        self.refit()

    def outdate(self) -> None:
        """The values may be others: what is shown stays until the new ones come."""
        self._asked = None

    def show(self, question: Curve, reply: CurveReply | None) -> None:
        """Draw what was asked for; None: it cannot be plotted, as texts cannot."""
        if question != self._asked:
            return
        self._reply, self._plot = reply, None
        self._refused = reply is None
        self._take_room()

    def _ask(self) -> None:
        line, width = self.line, self.size.width or self.app.size.width
        if line is None:
            return
        stretches = min(max(2 * width, 2), MAX_STRETCHES)
        question = Curve(
            name=line.name, stretches=stretches, index=list(line.index), axis=line.axis
        )
        known = self._asked
        if known is None or (known.stretches < stretches and known.stretches < line.size):
            self._asked = question
            self.post_message(self.Wanted(question))

    def on_resize(self) -> None:
        """A wider view has room for more of a long line."""
        self._plot = None
        self._ask()
        super().on_resize()

    def refit(self) -> None:
        """Never scrolls: the plot is made to fit."""
        self.virtual_size = Size(0, 0)
        self.refresh()

    # ------------------------------------------------------------------ drawing

    def row_count(self) -> int:
        """All of the view, once there is something to draw."""
        return self.size.height if self._reply is not None and self.size.height >= MIN_ROWS else 0

    def row(self, y: int) -> Content:
        """A row of the plot; the last is the axis."""
        reply, width = self._reply, self.size.width
        assert reply is not None
        end = f" {reply.size - 1}{' sampled' if reply.sampled else ''}"
        if self._plot is None or self._plot[0] != self.size:
            pairs = zip(reply.low, reply.high, strict=True)
            places = [None if low is None or high is None else (low, high) for low, high in pairs]
            how = width - len(end), self.row_count() - 1, self.glyphs, number_text
            self._plot = self.size, curve.framed(places, *how)
        plot = self._plot[1]
        if y < len(plot):
            return plot[y]
        label = plot[0].plain.index(self.glyphs.pipe) - 2
        return self._axis(reply, label, max(width - len(end) - label - FRAME_COLUMNS, 1), end)

    def _axis(self, reply: CurveReply, label: int, columns: int, end: str) -> Content:
        """First and last index; marks for what is not finite, and for the cursor."""
        marks = [(self.glyphs.rule, MUTED)] * columns
        for place in reply.bad:
            marks[self._column(place, len(reply.low), columns)] = BAD, "bold $text-error"
        marks[self._column(self.at, reply.size, columns)] = CURSOR, "bold"
        return Content.assemble(
            (f" {'0':>{label}} {self.glyphs.corner}", MUTED), *marks, (end, MUTED)
        )

    @staticmethod
    def _column(place: int, places: int, columns: int) -> int:
        return round(place * (columns - 1) / max(places - 1, 1))
