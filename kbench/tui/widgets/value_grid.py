"""A two-dimensional slice of an array of any size; asks for windows, never for the array."""

from __future__ import annotations

from dataclasses import dataclass, replace

from textual import events
from textual.color import Color
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.style import Style

from kbench.tui import keys
from kbench.tui.lines import LineView
from kbench.tui.rows import Window

MOST_CELLS = 6000
GAP = 1
HEAT_STEP = 0.055  # share of the warm colour per level; text must stay readable on the last


@dataclass(frozen=True)
class View:
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

        def __init__(self, view: View) -> None:
            self.view = view
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
        self.window: Window | None = None
        self.at = (0, 0)  # cursor: row and column within the slice
        self.shading = True
        self._top = 0
        self._left = 0
        self._awaited: View | None = None
        self._shades: tuple[object, list[Style | None]] | None = None

    # ------------------------------------------------------------------ content

    def show(self, window: Window) -> None:
        """Draw this window; the cursor stays where the slice still has it."""
        if self.window is not None and (window.shape != self.window.shape):
            self.at, self._top, self._left = (0, 0), 0, 0
        self.window = window
        self._awaited = None
        rows, cols = self.totals
        self.at = (max(min(self.at[0], rows - 1), 0), max(min(self.at[1], cols - 1), 0))
        self._reveal()
        self.refit()

    def clear(self) -> None:
        """Nothing to show."""
        self.window, self._awaited = None, None
        self.at, self._top, self._left = (0, 0), 0, 0
        self.refit()

    @property
    def totals(self) -> tuple[int, int]:
        """Rows and columns of the whole slice."""
        if self.window is None:
            return 0, 0
        return self.window.rows[2], self.window.cols[2]

    def view(self, name: str) -> View:
        """What is to be fetched for the present place: two screens either way."""
        rows, cols = self._screen_rows() * 3, max(self._screen_cols(), 4) * 3
        cols = min(cols, 80)
        rows = min(rows, MOST_CELLS // cols)
        view = View(name, rows=rows, cols=cols)
        if self.window is not None:
            view = replace(
                view,
                index=self.window.index,
                row_axis=self.window.row_axis,
                col_axis=self.window.col_axis,
            )
        return replace(
            view,
            row=max(self._top - self._screen_rows(), 0),
            col=max(self._left - self._screen_cols(), 0),
        )

    # ------------------------------------------------------------------ geometry

    @property
    def _width(self) -> int:
        """Width of a column: that of the widest text on hand."""
        cells = self.window.cells if self.window else []
        return min(max((len(one) for line in cells for one in line), default=4), 24)

    @property
    def _label_width(self) -> int:
        return max(len(str(max(self.totals[0] - 1, 0))), 2)

    def _screen_rows(self) -> int:
        return max(self.size.height - self.header_rows, 1)

    def _screen_cols(self) -> int:
        return max((self.size.width - self._label_width - 1) // (self._width + GAP), 1)

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

    def _reveal(self) -> None:
        """Bring the cursor on screen and fetch what is missing there."""
        row, col = self.at
        rows, cols = self._screen_rows(), self._screen_cols()
        self._top = max(min(self._top, row), row - rows + 1, 0)
        self._left = max(min(self._left, col), col - cols + 1, 0)
        window = self.window
        if window is None:
            return
        bottom = min(self._top + rows, window.rows[2])
        right = min(self._left + cols, window.cols[2])
        inside = (
            window.rows[0] <= self._top
            and bottom <= window.rows[1]
            and window.cols[0] <= self._left
            and right <= window.cols[1]
        )
        if not inside:
            view = self.view("")
            if view != self._awaited:
                self._awaited = view
                self.post_message(self.Wanted(view))

    # ------------------------------------------------------------------ rows

    def header(self, y: int) -> Content:
        """Column numbers."""
        if self.window is None:
            return Content("")
        width, last = self._width, self.totals[1]
        parts = [" " * (self._label_width + 1)]
        for col in range(self._left, min(self._left + self._screen_cols(), last)):
            parts.append(str(col).rjust(width) + " " * GAP)
        if self._left + self._screen_cols() < last and parts:
            parts.append(self.glyphs.more)
        return Content("".join(parts)).stylize(self.get_visual_style("grid--header"))

    def row(self, y: int) -> Content:
        """One line of cells; those still on their way are dots."""
        window = self.window
        assert window is not None
        row = self._top + y
        head = self.get_visual_style("grid--header")
        parts: list[tuple[str, Style]] = [(f"{row:>{self._label_width}} ", head)]
        shades, plain = self._shade_styles(), Style()
        width = self._width
        for col in range(self._left, min(self._left + self._screen_cols(), window.cols[2])):
            text, level = self.cell(row, col)
            shown = (self.glyphs.missing if text is None else text).rjust(width)[:width]
            style = shades[level] or plain if level is not None else plain
            if text is not None and ("NaN" in text or "Inf" in text):
                style = Style.parse("bold $text-error")
                shown = (text + "!").rjust(width) if len(text) < width else shown
            if (row, col) == self.at:
                style = self.get_visual_style("grid--cursor")
                shown = f">{shown[1:]}" if shown.startswith(" ") and self.has_focus else shown
            parts += [(shown, style), (" " * GAP, plain)]
        return Content.assemble(*parts)

    def cell(self, row: int, col: int) -> tuple[str | None, int | None]:
        """Text and heat of a cell, None while it is not on hand."""
        window = self.window
        if window is None:
            return None, None
        inside = window.rows[0] <= row < window.rows[1] and window.cols[0] <= col < window.cols[1]
        if not inside:
            return None, None
        line, place = row - window.rows[0], col - window.cols[0]
        heat = window.heat[line][place] if window.heat else None
        return window.cells[line][place], heat

    def _shade_styles(self) -> list[Style | None]:
        """A background per heat level, between the pane's own colour and the accent."""
        theme = self.app.current_theme
        key = (theme.name, self.shading)
        if self._shades is None or self._shades[0] != key:
            shades: list[Style | None] = [None] * 10
            if self.shading and not theme.ansi and not self.app.no_color:
                base = Color.parse(self.app.theme_variables["surface"])
                warm = Color.parse(self.app.theme_variables["primary"])
                shades = [Style(background=base.blend(warm, HEAT_STEP * n)) for n in range(10)]
            self._shades = (key, shades)
        return self._shades[1]

    # ------------------------------------------------------------------ keys

    def move_to(self, row: int, col: int) -> None:
        """Put the cursor on a cell of the slice."""
        rows, cols = self.totals
        self.at = (max(min(row, rows - 1), 0), max(min(col, cols - 1), 0))
        self._reveal()
        self.refresh()
        self.post_message(self.Moved())

    def action_step(self, rows: int, cols: int) -> None:
        """One cell further."""
        self.move_to(self.at[0] + rows, self.at[1] + cols)

    def action_page(self, step: int) -> None:
        """A screen further."""
        self.move_to(self.at[0] + step * self._screen_rows(), self.at[1])

    def action_line_edge(self, end: int) -> None:
        """First or last column."""
        self.move_to(self.at[0], self.totals[1] - 1 if end else 0)

    def action_edge(self, end: int) -> None:
        """First or last row."""
        self.move_to(self.totals[0] - 1 if end else 0, self.at[1])

    def action_shade(self) -> None:
        """Heat shading on or off."""
        self.shading = not self.shading
        self.refresh()

    def action_slice(self, step: int) -> None:
        """The next or previous slice along the last axis that is not shown."""
        self.post_message(self.Asked("slice_up" if step > 0 else "slice_down"))

    def action_axes(self) -> None:
        """Choose axes."""
        self.post_message(self.Asked("axes"))

    def action_index(self) -> None:
        """Type an index."""
        self.post_message(self.Asked("index"))

    def action_next_nan(self) -> None:
        """Next NaN or infinity."""
        self.post_message(self.Asked("next_nan"))

    def action_full(self) -> None:
        """Full precision."""
        self.post_message(self.Asked("full"))

    def action_copy(self) -> None:
        """Copy the cell."""
        self.post_message(self.Asked("copy"))

    def action_export(self) -> None:
        """Write to a file."""
        self.post_message(self.Asked("export"))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked cell."""
        if self.window is None or event.y < self.header_rows:
            return
        col = (event.x - self._label_width - 1) // (self._width + GAP)
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
