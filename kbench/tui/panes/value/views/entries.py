"""What is inside a value as a table with a cursor, of any length: asks for pages, never for all."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message

from kbench.tui.keys import keys
from kbench.tui.messages import CopyText, InsertText, PaneMessage, ValueCommand
from kbench.tui.panes.rows import SHORT_DTYPES, NameRow, kind_word, row_of, shape_text
from kbench.tui.panes.variables.view import VariablesTable, note_words
from kbench.tui.text.glyphs import human_bytes
from kbench.tui.text.lines import LineView
from kbench.tui.text.table import GAP_CELLS, NARROW_CELLS, Column, column_widths, joined
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED
from kbench.workbench.contents import address
from kbench.workbench.protocol.contents import OpenReply

MAX_PAGE_ROWS = 200
"""Rows to ask for at once: a tall screen and what is around it."""
MAX_REPLY_ROWS_BYTES = 44_000
"""Bytes of rows to ask for; a reply of the inspector holds 64 kB."""
_ROW_BYTES = 220
"""Bytes of a row that is no text, in a reply."""
_TEXT_COLUMNS = (Column("", right=True, most=12), Column("", most=1_000, stretch=True))
_COLUMNS = (
    Column("entry", 0, most=32, least=8),
    Column("kind", 2),
    Column("shape", 1, most=26),
    Column("dtype", 4, most=10),
    Column("size", 3, right=True),
    Column("value", 0, most=200, least=12, stretch=True),
)


class EntriesRequest(Struct, frozen=True):
    """Which rows of what is inside a name; lines of a text are `width` characters long."""

    name: str
    start: int = 0
    count: int = 60
    width: int = 60


class EntriesPage(Struct, frozen=True):
    """Rows on hand: each its label, and what is known of it or the text that stands there."""

    form: str = "entries"
    start: int = 0
    total: int = 0
    words: str = ""
    rows: list[tuple[str, NameRow]] = field(default_factory=list)

    @classmethod
    def of(cls, reply: OpenReply) -> EntriesPage:
        """From the reply to `open`."""
        rows = [(row.name, row_of(row)) for row in reply.rows]
        return cls(reply.form, reply.start, reply.total, reply.words, rows)

    @property
    def stop(self) -> int:
        """Behind the last row on hand."""
        return self.start + len(self.rows)

    @property
    def texts(self) -> bool:
        """Lines, not entries."""
        return self.form != "entries"


class EntriesView(LineView):
    """Entries or lines; the page on hand exceeds the screen, so small steps are free."""

    BINDINGS = keys.bindings("entries")
    COMPONENT_CLASSES = {"table--cursor", "table--header"}
    header_rows = 1

    class Fetch(PaneMessage):
        """A page of what is inside the shown name is needed."""

        def __init__(self, request: EntriesRequest) -> None:
            self.request = request
            super().__init__()

    class Moved(Message):
        """The cursor stands elsewhere."""

    class Chosen(PaneMessage):
        """An entry shall be opened."""

        def __init__(self, row: NameRow) -> None:
            self.row = row
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="entries")
        self.shown = ""  # whose entries they are
        self.page: EntriesPage | None = None
        self.at = 0
        self._top = 0
        self._widths: list[int] = []
        self._cells: list[list[Content]] = []
        self._awaited: EntriesRequest | None = None
        self._asked_width = 0

    # ------------------------------------------------------------------ content

    def show(self, page: EntriesPage) -> None:
        """Draw this page; the cursor stays where there still is a row."""
        self.page = page
        self.header_rows = 0 if page.texts else 1
        self.at = max(min(self.at, page.total - 1), 0)
        self._reveal()
        self._lay_out()

    def clear(self) -> None:
        """Nothing to show."""
        self.page, self._awaited = None, None
        self.at, self._top = 0, 0
        self._lay_out()

    def place(self, at: int) -> None:
        """Have the cursor on a row of what is about to come."""
        self.at = at
        self._top = max(at - self._screen_rows() // 2, 0)

    def open(self, name: str) -> None:
        """Have what is inside a name fetched, once the room for it is known."""
        self.shown = name
        self.call_after_refresh(self._fetch)

    def _fetch(self) -> None:
        if self.shown and self.display:
            self._ask(self.request())

    def request(self) -> EntriesRequest:
        """What is to be fetched for the present place: a screen more either way, if it fits."""
        shown, width = self._screen_rows(), self._line_width()
        each = width + 40 if self.page is not None and self.page.texts else _ROW_BYTES
        count = max(min(shown * 3, MAX_PAGE_ROWS, MAX_REPLY_ROWS_BYTES // each), shown)
        return EntriesRequest(self.shown, max(self._top - (count - shown) // 2, 0), count, width)

    @property
    def current(self) -> NameRow | None:
        """The row under the cursor, None while it is not on hand."""
        page = self.page
        if page is None or not page.start <= self.at < page.stop:
            return None
        return page.rows[self.at - page.start][1]

    # ------------------------------------------------------------------ geometry

    def _screen_rows(self) -> int:
        return max(self.size.height - self.header_rows, 1)

    def _line_width(self) -> int:
        """Characters of a line of text: what the numbers before it leave free."""
        total = self.page.total if self.page is not None else 1
        return max(self.text_width - max(len(str(total)), 2) - GAP_CELLS - 1, 4)

    def row_count(self) -> int:
        """Only what is on the screen: it scrolls by fetching."""
        page = self.page
        if page is None:
            return 0
        return min(self._screen_rows(), max(page.total - self._top, 0)) or 1

    def refit(self) -> None:
        """Never scrolls by itself."""
        self.virtual_size = Size(0, 0)
        self.refresh()

    def on_resize(self) -> None:
        """Other rows may be on the screen, and lines have another length."""
        if self.page is not None:
            self._awaited = None
            if self.page.texts and self._line_width() != self._asked_width:
                self._ask(self.request())
            self._reveal()
        self._lay_out()

    def _ask(self, request: EntriesRequest) -> None:
        self._awaited, self._asked_width = request, request.width
        self.post_message(self.Fetch(request))

    def _reveal(self) -> None:
        """Bring the cursor on the screen, and fetch what is missing there."""
        page, rows = self.page, self._screen_rows()
        if page is None:
            return
        end = max(page.total - rows, 0)
        self._top = max(min(self._top, self.at, end), self.at - rows + 1, 0)
        bottom = min(self._top + rows, page.total)
        if page.start <= self._top and bottom <= page.stop:
            return
        request = self.request()
        if request != self._awaited:  # what has not come when asked for will not come now
            self._ask(request)

    def _lay_out(self) -> None:
        """Word the cells, and share the width among the columns."""
        page = self.page
        self._cells = [] if page is None else [self._worded(*row) for row in page.rows]
        lengths = [[cell.cell_length for cell in cells] for cells in self._cells]
        columns = self._columns()
        used = [at for at in range(len(columns)) if self._says_something(at)]
        fitted = column_widths(
            [columns[at] for at in used],
            [[row[at] for at in used] for row in lengths],
            max(self.text_width - 1, 1),
            self._gap(),
        )
        self._widths = [0] * len(columns)
        for at, width in zip(used, fitted, strict=True):
            self._widths[at] = width
        self.refit()

    def _says_something(self, column: int) -> bool:
        """Whether a row has more than a dash there."""
        return not self._cells or any(cells[column].plain != "-" for cells in self._cells)

    def _columns(self) -> Sequence[Column]:
        return _TEXT_COLUMNS if self.page is not None and self.page.texts else _COLUMNS

    @property
    def _narrow(self) -> bool:
        return 0 < self.size.width < NARROW_CELLS

    def _gap(self) -> int:
        return 1 if self._narrow else GAP_CELLS

    # ------------------------------------------------------------------ rows

    def _worded(self, label: str, row: NameRow) -> list[Content]:
        if self.page is not None and self.page.texts:
            return [Content.styled(label, MUTED), Content(safe(row.note))]
        narrow = self._narrow
        shape = shape_text(row.shape, "," if narrow else ", ")
        texts = [
            safe(label),
            kind_word(row),
            f"len {row.length}" if row.length is not None else shape,
            (SHORT_DTYPES.get(row.dtype, row.dtype) if narrow else row.dtype) or "-",
            row.about + human_bytes(row.nbytes).replace(" ", "" if narrow else " "),
        ]
        return [*map(Content, texts), note_words(row, self.glyphs, narrow)]

    def header(self, y: int) -> Content:
        """The titles of the columns."""
        if not self._cells:
            return Content("")
        titles = [Content(column.title) for column in self._columns()]
        return self._join(" ", titles).stylize(self.get_visual_style("table--header"))

    def row(self, y: int) -> Content:
        """One row; one that is on its way is a dot."""
        page = self.page
        assert page is not None
        if not page.total:
            return Content.styled(f" {safe(page.words)}", MUTED)
        at = self._top + y
        mark = ">" if at == self.at and self.has_focus else " "
        if not page.start <= at < page.stop:
            return Content(f"{mark}{self.glyphs.missing}")
        return self._join(mark, self._cells[at - page.start])

    def _join(self, mark: str, cells: Sequence[Content]) -> Content:
        columns, ellipsis = self._columns(), self.glyphs.ellipsis
        return joined(mark, columns, self._widths, cells, self._gap(), ellipsis)

    def restyle(self, y: int) -> str:
        """The cursor stands out."""
        is_here = self.page is not None and self.page.total and self._top + y == self.at
        return "table--cursor" if is_here and self.has_focus else ""

    # ------------------------------------------------------------------ keys

    def go(self, at: int) -> None:
        """Put the cursor on a row."""
        if self.page is not None:
            self.at = max(0, min(at, self.page.total - 1))
            self._reveal()
            self.refresh()
            self.post_message(self.Moved())

    def action_move(self, step: int) -> None:
        """Up or down."""
        self.go(self.at + step)

    def action_move_page(self, step: int) -> None:
        """A screen further."""
        self.go(self.at + step * max(self._screen_rows() - 1, 1))

    def action_edge(self, end: int) -> None:
        """First or last row."""
        if self.page is not None:
            self.go(self.page.total - 1 if end else 0)

    def action_open(self) -> None:
        """Open the entry."""
        row = self.current
        if row is not None and self.page is not None and not self.page.texts:
            self.post_message(self.Chosen(row))

    def action_ask(self, what: str) -> None:
        """A dialog, or another value, answers it."""
        self.post_message(ValueCommand(what))

    def action_insert(self) -> None:
        """Put what stands for the entry into the prompt."""
        if (code := self._code()) is not None:
            self.post_message(InsertText(code))

    def action_watch(self) -> None:
        """Watch the entry."""
        if (code := self._code()) is not None:
            self.post_message(VariablesTable.WatchWanted(code))

    def action_copy(self) -> None:
        """Copy the line, or the row as text."""
        row, page = self.current, self.page
        if row is None or page is None:
            return
        if page.texts:
            self.post_message(CopyText(row.note, "the line"))
        else:
            cells = self._cells[self.at - page.start]
            words = "  ".join(text for cell in cells if (text := cell.plain.strip()) != "-")
            self.post_message(CopyText(words, "the entry"))

    def _code(self) -> str | None:
        """What to type for the entry under the cursor; None, and said, where nothing can be."""
        row = self.current
        if row is None or (self.page is not None and self.page.texts):
            return None
        if not address.is_code(row.name):
            self.app.notify("no expression leads to this entry", timeout=3, markup=False)
            return None
        return row.expression

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """The clicked row gets the cursor; a double click opens it."""
        at = event.y - self.header_rows
        if self.page is not None and 0 <= at < self.row_count():
            self.go(self._top + at)
            if event.chain == 2:
                self.action_open()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll by fetching."""
        event.stop()
        self.action_move(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll by fetching."""
        event.stop()
        self.action_move(-3)
