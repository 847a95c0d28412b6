"""A two-dimensional slice of an array of any size; asks for windows, never for the array."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from textual import events
from textual.color import Color
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.style import Style

from kbench.tui.keys import keys
from kbench.tui.panes.rows import ArrayWindow
from kbench.tui.text.lines import LineView
from kbench.tui.text.text import one_line

MAX_WINDOW_BYTES = 48_000
"""Bytes of texts to ask for at once; a reply of the inspector holds 64 kB."""
MAX_COLUMN_CELLS = 24
"""Cells of a column; wider texts are cut."""
MAX_LABEL_CELLS = 20
"""Cells before the rows of a table; a time has 19."""
GAP_CELLS = 1
"""Cells between two columns."""
DOTS_SECONDS = 0.06
"""Seconds until dots stand for elements that are on their way."""
HEAT_STEP_SHARE = 0.055
"""Share of the warm colour per level; text must stay readable on the last."""


class WindowRequest(Struct, frozen=True):
    """Which part of which array: `index` has an entry per axis, shown axes count from `row`."""

    name: str
    index: tuple[int, ...] = ()
    row_axis: int | None = None
    col_axis: int | None = None
    row: int = 0
    col: int = 0
    rows: int = 20
    cols: int = 10


class ValueGrid(LineView):
    """Cells with a cursor; the window on hand exceeds the screen, so small steps are free."""

    BINDINGS = keys.bindings("grid")
    COMPONENT_CLASSES = {"grid--header", "grid--cursor", "grid--odd"}
    header_rows = 1

    class Wanted(Message):
        """A window shall be fetched."""

        def __init__(self, request: WindowRequest) -> None:
            self.request = request
            super().__init__()

    class Moved(Message):
        """The cursor or the slice has changed."""

    class Asked(Message):
        """A key that the pane around the grid answers."""

        def __init__(self, what: str) -> None:
            self.what = what
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="grid")
        self.window: ArrayWindow | None = None
        self.at = (0, 0)  # cursor: row and column within the slice
        self.shading = True
        self._top = 0
        self._left = 0
        self._width = 4  # of a column: that of the widest text on hand
        self._awaited: WindowRequest | None = None
        self._moving = False  # a move of the cursor that is not shown yet
        self._shades: tuple[object, list[Style | None]] | None = None

    # ------------------------------------------------------------------ content

    def show(self, window: ArrayWindow) -> None:
        """Draw this window; the cursor stays where the slice still has it."""
        if self.window is not None and (window.shape != self.window.shape):
            self.at, self._top, self._left = (0, 0), 0, 0
        self.window = window
        texts = [*(text for line in window.cells for text in line), *window.col_names]
        widest = max(map(cell_len, texts), default=4)
        self._width = min(widest, MAX_COLUMN_CELLS)
        rows, cols = self.totals
        self.at = (max(min(self.at[0], rows - 1), 0), max(min(self.at[1], cols - 1), 0))
        self._reveal()
        self.refit()
        self._moved()

    def clear(self) -> None:
        """Nothing to show."""
        self.window, self._awaited, self._width = None, None, 4
        self.at, self._top, self._left = (0, 0), 0, 0
        self.refit()

    @property
    def totals(self) -> tuple[int, int]:
        """Rows and columns of the whole slice."""
        if self.window is None:
            return 0, 0
        return self.window.rows[2], self.window.cols[2]

    @property
    def on_screen(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Start and count of the rows and of the columns on the screen."""
        rows = self.row_count()
        cols = min(self._screen_cols(), max(self.totals[1] - self._left, 0))
        return (self._top, rows), (self._left, cols)

    def request(self, name: str) -> WindowRequest:
        """What is to be fetched for the present place: a screen more either way, if it fits."""
        shown_rows, shown_cols = self._screen_rows(), max(self._screen_cols(), 4)
        cells = MAX_WINDOW_BYTES // (max(self._width, 8) + 6)  # a text in quotes, and its shade
        cols = min(shown_cols * 3, max(cells // shown_rows, shown_cols))
        rows = min(shown_rows * 3, max(cells // cols, shown_rows))
        request = WindowRequest(name, rows=rows, cols=cols)
        if self.window is not None:
            request = replace(
                request,
                index=self.window.index,
                row_axis=self.window.row_axis,
                col_axis=self.window.col_axis,
            )
        return replace(
            request,
            row=max(self._top - (rows - shown_rows) // 2, 0),
            col=max(self._left - (cols - shown_cols) // 2, 0),
        )

    # ------------------------------------------------------------------ geometry

    @property
    def _label_width(self) -> int:
        names = self.window.row_names if self.window is not None else []
        if names:
            return max(min(max(map(cell_len, names)), MAX_LABEL_CELLS), 2)
        return max(len(str(max(self.totals[0] - 1, 0))), 2)

    def _screen_rows(self) -> int:
        return max(self.size.height - self.header_rows, 1)

    def _screen_cols(self) -> int:
        return max((self.size.width - self._label_width - 1) // (self._width + GAP_CELLS), 1)

    def row_count(self) -> int:
        """Only what is on screen: the grid scrolls by fetching."""
        return min(self._screen_rows(), max(self.totals[0] - self._top, 0))

    def refit(self) -> None:
        """Never scrolls by itself."""
        self.virtual_size = Size(0, 0)
        self.refresh()

    def on_resize(self) -> None:
        """Another part may be on screen now."""
        self._reveal()
        super().on_resize()

    def _reveal(self) -> bool:
        """Bring the cursor on screen and fetch what is missing there; whether that was needed."""
        row, col = self.at
        rows, cols = self._screen_rows(), self._screen_cols()
        ends = self.totals[0] - rows, self.totals[1] - cols  # beyond which nothing would stand
        self._top = max(min(self._top, row, max(ends[0], 0)), row - rows + 1, 0)
        self._left = max(min(self._left, col, max(ends[1], 0)), col - cols + 1, 0)
        window = self.window
        if window is None:
            return False
        bottom = min(self._top + rows, window.rows[2])
        right = min(self._left + cols, window.cols[2])
        inside = (
            window.rows[0] <= self._top
            and bottom <= window.rows[1]
            and window.cols[0] <= self._left
            and right <= window.cols[1]
        )
        request = None if inside else self.request("")
        wanted = request is not None and request != self._awaited
        self._awaited = request  # what has not come when asked for will not come now
        if request is not None and wanted:
            self.post_message(self.Wanted(request))
        return wanted

    # ------------------------------------------------------------------ rows

    def header(self, y: int) -> Content:
        """Column numbers, or the names of a table's columns."""
        if self.window is None:
            return Content("")
        width, last = self._width, self.totals[1]
        parts = [" " * (self._label_width + 1)]
        for col in range(self._left, min(self._left + self._screen_cols(), last)):
            at = col - self.window.cols[0]
            names = self.window.col_names
            known = names[at] if 0 <= at < len(names) else "" if names else str(col)
            parts.append(self._fitted(known, width) + " " * GAP_CELLS)
        if self._left + self._screen_cols() < last and parts:
            parts.append(self.glyphs.more)
        return Content("".join(parts)).stylize(self.get_visual_style("grid--header"))

    def row(self, y: int) -> Content:
        """One line of cells; those still on their way are dots."""
        window = self.window
        assert window is not None
        row = self._top + y
        head = self.get_visual_style("grid--header")
        at, names = row - window.rows[0], window.row_names
        label = names[at] if 0 <= at < len(names) else "" if names else str(row)
        parts: list[tuple[str, Style]] = [(f"{self._fitted(label, self._label_width)} ", head)]
        shades, plain = self._shade_styles(), Style()
        width = self._width
        for col in range(self._left, min(self._left + self._screen_cols(), window.cols[2])):
            text, level = self.cell(row, col)
            shown = self._fitted(self.glyphs.missing if text is None else text, width)
            style = shades[level] or plain if level is not None else plain
            if text is not None and ("NaN" in text or "Inf" in text):
                style = Style.parse("bold $text-error")
                shown = (text + "!").rjust(width) if len(text) < width else shown
            if (row, col) == self.at:
                style = self.get_visual_style("grid--cursor")
                if self.has_focus and shown.startswith(" "):
                    shown = f">{shown[1:]}"
                elif self.has_focus:  # into the gap before it
                    parts[-1] = (f"{parts[-1][0][:-1]}>", parts[-1][1])
            parts += [(shown, style), (" " * GAP_CELLS, plain)]
        return Content.assemble(*parts)

    def _fitted(self, text: str, width: int) -> str:
        """At the right of so many cells, some of which a wide character may take two of."""
        if text.isascii() and len(text) <= width:
            return text.rjust(width)
        text = one_line(text, width, self.glyphs.ellipsis)
        return " " * (width - cell_len(text)) + text

    def cell(self, row: int, col: int) -> tuple[str | None, int | None]:
        """Text and heat of a cell, None while it is not on hand."""
        window = self.window
        if window is None:
            return None, None
        inside = window.rows[0] <= row < window.rows[1] and window.cols[0] <= col < window.cols[1]
        if not inside:
            return None, None
        line, place = row - window.rows[0], col - window.cols[0]
        heat = window.heat[line][place] if window.heat else "-"
        return window.cells[line][place], None if heat == "-" else int(heat)

    def _shade_styles(self) -> list[Style | None]:
        """A background per heat level, between the pane's own colour and the accent."""
        theme = self.app.current_theme
        key = (theme.name, self.shading)
        if self._shades is None or self._shades[0] != key:
            shades: list[Style | None] = [None] * 10
            if self.shading and not theme.ansi and not self.app.no_color:
                base = Color.parse(self.app.theme_variables["surface"])
                warm = Color.parse(self.app.theme_variables["primary"])
                shades = [
                    Style(background=base.blend(warm, HEAT_STEP_SHARE * n)) for n in range(10)
                ]
            self._shades = (key, shades)
        return self._shades[1]

    # ------------------------------------------------------------------ keys

    def move_to(self, row: int, col: int) -> None:
        """Put the cursor on a cell of the slice."""
        rows, cols = self.totals
        self.at = (max(min(row, rows - 1), 0), max(min(col, cols - 1), 0))
        self._moving = True
        if self._reveal():
            # Mostly it comes before dots could be drawn; drawing twice makes a jump twice as long.
            self.set_timer(DOTS_SECONDS, self._moved)
        else:
            self._moved()

    def _moved(self) -> None:
        """Show where the cursor is now, whether its cells are there or not."""
        if self._moving:
            self._moving = False
            self.refresh()
            self.post_message(self.Moved())

    def jump_to(self, row: int, col: int) -> None:
        """Put the cursor on a cell, in the middle of the screen if it was not on the screen."""
        (top, rows), (left, cols) = self.on_screen
        if not top <= row < top + rows:
            self._top = max(min(row - rows // 2, self.totals[0] - rows), 0)
        if not left <= col < left + cols:
            self._left = max(min(col - cols // 2, self.totals[1] - cols), 0)
        self.move_to(row, col)

    def action_step(self, rows: int, cols: int) -> None:
        """One cell further."""
        self.move_to(self.at[0] + rows, self.at[1] + cols)

    def action_page(self, step: int) -> None:
        """A screen further; in a single row sideways."""
        if self.totals[0] == 1:
            self.move_to(0, self.at[1] + step * self._screen_cols())
        else:
            self.move_to(self.at[0] + step * self._screen_rows(), self.at[1])

    def action_line_edge(self, end: int) -> None:
        """First or last column."""
        self.move_to(self.at[0], self.totals[1] - 1 if end else 0)

    def action_edge(self, end: int) -> None:
        """First or last row; in a single row the first or last column."""
        if self.totals[0] == 1:
            self.action_line_edge(end)
        else:
            self.move_to(self.totals[0] - 1 if end else 0, self.at[1])

    def action_shade(self) -> None:
        """Heat shading on or off."""
        self.shading = not self.shading
        self.refresh()

    def action_slice(self, step: int) -> None:
        """The next or previous slice along the last axis that is not shown."""
        self.post_message(self.Asked("slice_up" if step > 0 else "slice_down"))

    def action_ask(self, what: str) -> None:
        """The pane around the grid, or the main screen, knows what to do."""
        self.post_message(self.Asked(what))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked cell."""
        if self.window is None or event.y < self.header_rows:
            return
        col = (event.x - self._label_width - 1) // (self._width + GAP_CELLS)
        if col >= 0:
            self.move_to(self._top + event.y - self.header_rows, self._left + col)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll by fetching."""
        event.stop()
        self.action_step(3, 0)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll by fetching."""
        event.stop()
        self.action_step(-3, 0)
