"""The session so far: a list of cells, drawn row by row whatever their length."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from kbench.tui.graphics.graphics import PictureRow
from kbench.tui.keys import keys
from kbench.tui.messages import CopyText, InsertText, TraceNan
from kbench.tui.text.glyphs import Glyphs
from kbench.tui.text.half_blocks import MIN_ROWS, Canvas, has_colours
from kbench.tui.text.lines import LineView
from kbench.tui.transcript import welcome
from kbench.tui.transcript.cells import Block, NotePart
from kbench.tui.workbench import workbench

if TYPE_CHECKING:
    from kbench.workbench.output.picture import Picture

GUTTER_CELLS = 1
"""Cells for the mark of the current cell."""
MAX_ROWS = 50_000
"""Rows of all cells together; beyond, the oldest outputs are shortened."""
_PICTURE_FRAME_ROWS = 2
"""Of the view that are left free beside a picture: the words above it, and the row below it."""
MIN_SHORTENED_ROWS = 60
"""A cell of no more rows is left as it is."""


class Transcript(LineView):
    """Cells in order; one of them is current while the pane has the focus."""

    BINDINGS = keys.bindings("transcript")
    COMPONENT_CLASSES = {"transcript--current"}

    class Explain(Message):
        """The error of a cell shall be explained."""

        def __init__(self, block: Block) -> None:
            self.block = block
            super().__init__()

    class SavePicture(Message):
        """The picture of a cell shall be written to a file."""

        def __init__(self, block: Block) -> None:
            self.block = block
            super().__init__()

    class Fitted(Message):
        """The transcript has another width."""

    def __init__(self) -> None:
        super().__init__(id="transcript")
        self.taught = False  # a lesson is open
        self.blocks: list[Block] = []
        self._by_ident: dict[str, Block] = {}
        self._starts: list[int] = [0]
        self._drawn: list[list[Content]] = []
        self._current = -1
        self._follow = True
        self._fitted = Size()  # the widget's when rows were last laid out

    # ------------------------------------------------------------------ content

    def add(self, block: Block) -> Block:
        """Put a cell at the end."""
        self.blocks.append(block)
        self._by_ident[block.ident] = block
        self._follow = True
        self.refit()
        return block

    def find(self, ident: str) -> Block | None:
        """The cell with this id."""
        return self._by_ident.get(ident)

    def rename(self, block: Block, ident: str) -> None:
        """Give a queued cell the id under which the session runs it."""
        self._by_ident.pop(block.ident, None)
        block.ident = ident
        self._by_ident[ident] = block

    def note(self, text: str) -> None:
        """Add words of the workbench itself."""
        block = Block(f"note-{len(self.blocks)}", "", "note")
        block.add(NotePart(text))
        self.add(block)

    def by_count(self, count: int) -> Block | None:
        """The newest cell with this number."""
        own = (block for block in reversed(self.blocks) if not block.past)
        return next((block for block in own if block.count == count), None)

    def newest_error(self) -> Block | None:
        """The newest cell that ended in an error."""
        return next((block for block in reversed(self.blocks) if block.error), None)

    @property
    def has_picture(self) -> bool:
        """Whether some cell shows one."""
        return any(block.has_picture for block in self.blocks)

    def changed(self, block: Block) -> None:
        """A cell has another look."""
        block.touch()
        self.refit()

    # ------------------------------------------------------------------ rows

    def refit(self) -> None:
        """Lay the rows out again; stays at the end unless the user has scrolled up.

        Of a flood of output, drawn thirty times a second, often only the last row is new.
        """
        follow = self._follow  # not what the scrolling below makes of it
        width = self.columns
        before = self._drawn
        how = width, self.glyphs, self.key_word("explain"), self._canvas
        self._drawn = [block.rows(*how) for block in self.blocks]
        self._make_room(*how)
        starts, total = [0], 0
        for rows in self._drawn:
            total += len(rows) + 1
            starts.append(total)
        self._starts = starts
        since = _unchanged(before, self._drawn) if self.size == self._fitted else 0
        if self.size != self._fitted:
            self._fitted = self.size
            self.post_message(self.Fitted())
        self.refit_from(since)
        if follow:
            self.scroll_end(animate=False, immediate=True, force=True)
        self._follow = follow

    @property
    def _canvas(self) -> Canvas:
        """Pictures are as high as the view, below the line that says what they show."""
        rows = max(self.size.height - _PICTURE_FRAME_ROWS, MIN_ROWS)
        pixels = bool(workbench(self).graphics.kind) and not self.app.no_color
        return Canvas(rows, has_colours(self.app, self.glyphs), pixels)

    def cells_of(self, picture: Picture) -> tuple[int, int]:
        """Columns and rows that a picture takes."""
        columns, lines = picture.fitted_size(*self._canvas.room(self.columns))
        return columns, -(-lines // 2)

    def _make_room(self, width: int, glyphs: Glyphs, explain: str, canvas: Canvas) -> None:
        """Shorten the outputs of the oldest cells once all together are too many rows."""
        excess = sum(map(len, self._drawn)) - MAX_ROWS
        for index, block in enumerate(self.blocks[:-1]):
            if excess <= 0:
                return
            before = len(self._drawn[index])
            if before > MIN_SHORTENED_ROWS:
                block.release()
                self._drawn[index] = block.rows(width, glyphs, explain, canvas)
                excess -= before - len(self._drawn[index])

    @property
    def columns(self) -> int:
        """Cells that a row of output has."""
        return max(self.text_width - GUTTER_CELLS, 4)

    def row_count(self) -> int:
        """All rows of all cells, an empty one after each; without a cell, how to begin."""
        return max(self._starts[-1] - 1, 0) if self.blocks else len(self._welcome())

    def _welcome(self) -> tuple[Content, ...]:
        return welcome.rows(self.key_word, self.text_width, self.taught)

    def _locate(self, y: int) -> tuple[int, int]:
        index = min(bisect_right(self._starts, y) - 1, len(self.blocks) - 1)
        return index, y - self._starts[index]

    def row(self, y: int) -> Content:
        """One row, with the mark of the current cell before it."""
        return self._row(y) if self.blocks else self._welcome()[y]

    def _row(self, y: int, as_drawn: bool = False) -> Content:
        index, offset = self._locate(y)
        rows = self._drawn[index]
        content = rows[offset] if offset < len(rows) else Content("")
        if as_drawn and isinstance(content, PictureRow):
            content = content.cells
        current = index == self._current and self.has_focus and offset < len(rows)
        mark = self.glyphs.cursor if current else " "
        return Content.assemble((mark, "$text-accent")) + content

    def render_line(self, y: int) -> Strip:
        """Draw one line; of a picture that the terminal draws, its cells."""
        at = y + self.scroll_offset.y
        if self.blocks and at < self.row_count():
            index, offset = self._locate(at)
            rows = self._drawn[index]
            if offset < len(rows) and isinstance(rows[offset], PictureRow):
                return self._strip(self._row(at, as_drawn=True), self.size.width, -1)
        return super().render_line(y)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end again once the user has scrolled back to it."""
        super().watch_scroll_y(old_value, new_value)
        self._follow = new_value >= self.max_scroll_y - 1

    # ------------------------------------------------------------------ the current cell

    @property
    def current(self) -> Block | None:
        """The cell that the keys refer to."""
        if not self.blocks:
            return None
        return self.blocks[min(self._current, len(self.blocks) - 1)]

    def on_focus(self) -> None:
        """Start at the newest cell."""
        if not 0 <= self._current < len(self.blocks):
            self._current = len(self.blocks) - 1
        self.refresh()

    def on_blur(self) -> None:
        """The mark goes, and the next visit starts at the newest cell."""
        self._current = -1
        self.refresh()

    def select(self, block: Block) -> None:
        """Make a cell the current one and bring it into view."""
        self._current = self.blocks.index(block)
        top = self._starts[self._current]
        height = len(self._drawn[self._current])
        view = self.scroll_offset.y
        if top < view or top + height > view + self.size.height:
            target = top if height >= self.size.height else top + height - self.size.height
            self.scroll_to(y=min(target, top) if top < view else target, animate=False)
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """The clicked cell becomes the current one; a double click folds it."""
        y = event.y + self.scroll_offset.y
        if self.blocks and y < self.row_count():
            self._current = self._locate(y)[0]
            self.refresh()
            if event.chain == 2:
                self.action_fold()

    def action_move(self, step: int) -> None:
        """Go to the cell above or below; scroll within a cell that is taller than the view."""
        if not self.blocks:
            return
        top = self._starts[self._current]
        bottom = top + len(self._drawn[self._current])
        view, height = self.scroll_offset.y, self.size.height
        if step > 0 and bottom > view + height:
            self.scroll_relative(y=min(height // 2 + 1, bottom - view - height), animate=False)
        elif step < 0 and top < view:
            self.scroll_relative(y=-min(height // 2 + 1, view - top), animate=False)
        else:
            self._go(self._current + step)

    def _go(self, index: int) -> None:
        index = max(0, min(index, len(self.blocks) - 1))
        down = index >= self._current
        self.select(self.blocks[index])
        if down and len(self._drawn[index]) >= self.size.height:
            self.scroll_to(y=self._starts[index], animate=False)

    def action_edge(self, end: int) -> None:
        """Go to the first or the last cell."""
        if self.blocks:
            self._go(len(self.blocks) - 1 if end else 0)

    def action_fold(self) -> None:
        """Fold the output of the cell to one row, or show it."""
        if (block := self.current) is not None:
            block.folded = not block.folded
            self.changed(block)
            self.select(block)

    def action_explain(self) -> None:
        """Explain the error of the cell, or of the newest cell that has one."""
        block = self.current
        if block is None or block.error is None:
            block = self.newest_error()
        if block is not None:
            self.post_message(self.Explain(block))

    def action_trace(self) -> None:
        """Look for what made the first NaN or infinity that the cell shows."""
        if (block := self.current) is not None and block.code:
            self.post_message(TraceNan(code=block.code))

    def action_edit(self) -> None:
        """Bring the input back to the prompt."""
        if (block := self.current) is not None and block.code:
            self.post_message(InsertText(block.code, replace=True))

    def action_copy(self) -> None:
        """Copy the output, or the input when there is none."""
        if (block := self.current) is not None:
            text = block.output_text() or block.code
            self.post_message(CopyText(text, f"cell {block.count or ''}".strip()))

    def action_save_picture(self) -> None:
        """Write the picture of the cell to a file."""
        if (block := self.current) is not None:
            self.post_message(self.SavePicture(block))

    def show_place(self, place: str) -> bool:
        """Make the cell of a place like 'In [3] line 2' the current one, if there is one."""
        count = _cell_number(place)
        block = None if count is None else self.by_count(count)
        if block is not None:
            self.select(block)
        return block is not None

    def action_origin(self) -> None:
        """Go to the cell that made the operand at fault."""
        error = self.current.error if self.current else None
        for operand in error.detail.get("operands", ()) if error else ():
            count = _cell_number(operand.get("place"))
            block = self.by_count(count) if count is not None else None
            if block is not None and block is not self.current:
                self.select(block)
                return
        self.app.bell()


def _unchanged(before: list[list[Content]], now: list[list[Content]]) -> int:
    """How many of the first rows of all cells look as they did."""
    at = 0
    for old, new in zip(before, now, strict=False):
        if old is not new:
            for row, other in zip(old, new, strict=False):
                if not row.is_same(other):
                    return at
                at += 1
            if len(old) != len(new):
                return at
        else:
            at += len(new)
        at += 1  # the empty row after it
    return at


def _cell_number(place: object) -> int | None:
    """3 of a place like 'In [3]' or 'In [3], line 2'."""
    head, _, rest = str(place or "").partition("In [")
    digits = rest.partition("]")[0]
    return int(digits) if not head and digits.isdigit() else None
