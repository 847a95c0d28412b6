"""An array as a picture: half blocks in colour, or characters of rising darkness without.

While the picture has the focus a cursor stands on one pixel.
"""

from __future__ import annotations

from msgspec import Struct
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from kbench.tui.keys import keys
from kbench.tui.panes.rows import ArrayPicture
from kbench.tui.text.half_blocks import HALF, has_colours, shade
from kbench.tui.text.lines import LineView
from kbench.workbench.protocol.arrays import Window

BAD = "!"
CURSOR = "X"  # which no shade is drawn with
MIN_FRAMED_CELLS = 3
"""Cells along a side of a pixel from which on the cursor leaves its middle free."""


class PictureRequest(Struct, frozen=True):
    """Which picture of which array: axes are None where `image_data_format` shall decide."""

    name: str
    size: tuple[int, int]
    index: tuple[int, ...]
    row_axis: int | None
    col_axis: int | None
    colours: bool


class PictureView(LineView):
    """Stands in the place of the grid; a pixel is a square of the same number of cells for all."""

    BINDINGS = keys.bindings("picture")
    COMPONENT_CLASSES = {"picture--cursor"}

    class Wanted(Message):
        """The room has changed, so that other pixels are needed."""

    class Moved(Message):
        """The cursor is on another pixel."""

    class Asked(Message):
        """A key that the pane around the picture answers."""

        def __init__(self, what: str, step: int = 0) -> None:
            self.what = what
            self.step = step
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="picture")
        self.picture: ArrayPicture | None = None
        self.at = (0, 0)  # the element, of the axes shown, on which the cursor is
        self.aim: tuple[int, ...] = ()  # where the next picture's cursor shall be in the array
        self.value = ""  # of that element, once it is known
        self._asked_room = (0, 0)
        self._styles: dict[tuple[object, object], RichStyle] = {}

    # ------------------------------------------------------------------ content

    def show(self, picture: ArrayPicture) -> None:
        """Draw this picture."""
        self.picture = picture
        self._styles.clear()  # the theme may be another
        self._keep_inside()
        self.refit()

    def _keep_inside(self) -> None:
        picture, aim = self.picture, self.aim
        if picture is not None:
            if len(aim) == len(picture.shape):
                self.at, self.aim = (aim[picture.axes[0]], aim[picture.axes[1]]), ()
            last = picture.shape[picture.axes[0]] - 1, picture.shape[picture.axes[1]] - 1
            self.at = min(self.at[0], last[0]), min(self.at[1], last[1])

    def clear(self) -> None:
        """Nothing to show."""
        self.picture, self.at, self.aim = None, (0, 0), ()
        self.refit()

    def window(self, name: str) -> Window | None:
        """The window of an array that holds what the cursor is on; of colours, each channel."""
        picture = self.picture
        if picture is None:
            return None
        (row, col), (row_axis, col_axis, channel) = self.at, picture.axes
        index, cols = list(picture.index), [col, 1]
        if picture.colours and channel is not None:
            index[col_axis], col_axis, cols = col, channel, [0, picture.shape[channel]]
        return Window(
            name=name,
            index=index,
            row_axis=row_axis,
            col_axis=col_axis,
            rows=[row, 1],
            cols=cols,
        )

    @property
    def in_blocks(self) -> bool:
        """Half blocks need colours and a font that has them; else there are characters."""
        return has_colours(self.app, self.glyphs)

    def room(self) -> tuple[int, int]:
        """Rows and columns of pixels that can be shown."""
        height, width = max(self.size.height, 1), max(self.size.width, 2)
        self._asked_room = (height * 2, width) if self.in_blocks else (height, width // 2)
        return self._asked_room

    def refit(self) -> None:
        """Never scrolls: the picture is made to fit."""
        self.virtual_size = Size(0, 0)
        self.refresh()

    def on_resize(self) -> None:
        """More or fewer pixels fit."""
        before = self._asked_room
        if self.picture is not None and self.room() != before:
            self.post_message(self.Wanted())
        super().on_resize()

    # ------------------------------------------------------------------ drawing

    @property
    def _enlarged(self) -> int:
        """How many times a pixel is drawn along each side."""
        if self.picture is None:
            return 1
        height, width = self.picture.size
        rows, cols = self._asked_room
        return max(min(rows // max(height, 1), cols // max(width, 1)), 1)

    def row_count(self) -> int:
        """Lines of the picture."""
        if self.picture is None:
            return 0
        rows = self.picture.size[0] * self._enlarged
        return -(-rows // 2) if self.in_blocks else rows

    def row(self, y: int) -> Content:
        """A line in characters, also what is copied of a line in colours."""
        picture = self.picture
        assert picture is not None
        step, width = self._enlarged, 1 if self.in_blocks else 2
        line = y * 2 // step if self.in_blocks else y // step
        marks = [self._mark(picture, line, col) * (step * width) for col in range(picture.size[1])]
        cursor = self._cursor
        if cursor is not None and cursor[0] == line:
            marks[cursor[1]] = CURSOR * (step * width)
        return Content("".join(marks))

    @property
    def _cursor(self) -> tuple[int, int] | None:
        """The pixel on which the cursor is drawn."""
        if self.picture is None or not self.has_focus:
            return None
        return self.picture.pixel_of(self.at)

    @staticmethod
    def _mark(picture: ArrayPicture, row: int, col: int) -> str:
        pixel = picture.pixel(row, col)
        return BAD if pixel is None else shade(pixel, picture.top)

    def render_line(self, y: int) -> Strip:
        """Two rows of pixels in one line of half blocks, where there are colours."""
        if self.picture is None or not self.in_blocks or y >= self.row_count():
            return super().render_line(y)
        picture, step = self.picture, self._enlarged
        upper, lower = 2 * y // step, (2 * y + 1) // step
        segments = []
        for col in range(picture.size[1]):
            above = picture.pixel(upper, col)
            below = picture.pixel(lower, col) if lower < picture.size[0] else ()
            if self._cursor is not None and self._cursor[1] == col:
                segments += self._marked(above, below, y)
            else:
                segments.append(self._half(above, below, step))
        strip = Strip(segments, picture.size[1] * step)
        return strip.crop_extend(0, self.size.width, self.visual_style.rich_style)

    def _half(
        self, above: tuple[int, ...] | None, below: tuple[int, ...] | None, count: int
    ) -> Segment:
        bad = above is None or below is None
        return Segment((BAD if bad else HALF) * count, self._style(above, below))

    def _marked(
        self, above: tuple[int, ...] | None, below: tuple[int, ...] | None, y: int
    ) -> list[Segment]:
        """The cells of line `y` in the column of pixels in which the cursor is."""
        step, cursor = self._enlarged, self._cursor
        assert cursor is not None
        mark = self._mark_levels()
        segments = []
        for x in range(step):
            pair = []
            for half, pixel in ((2 * y, above), (2 * y + 1, below)):
                inside = half - cursor[0] * step  # cells from the pixel's upper edge
                edge = x in (0, step - 1) or inside in (0, step - 1) or step < MIN_FRAMED_CELLS
                pair.append(mark if 0 <= inside < step and edge else pixel)
            segments.append(self._half(pair[0], pair[1], 1))
        return segments

    def _mark_levels(self) -> tuple[int, ...]:
        """The cursor's colour, as levels of a pixel."""
        colour = self.get_visual_style("picture--cursor").foreground
        assert colour is not None  # the style has one
        return tuple(level * 254 // 255 for level in (colour.r, colour.g, colour.b))

    def _style(self, above: tuple[int, ...] | None, below: tuple[int, ...] | None) -> RichStyle:
        """Foreground for the upper pixel, background for the lower; () is the pane's own."""
        style = self._styles.get((above, below))
        if style is None:
            base = self.visual_style.rich_style
            if above is None or below is None:
                style = base + RichStyle(bold=True)
            else:
                style = base + RichStyle(color=_colour(above))
                if below:
                    style += RichStyle(bgcolor=_colour(below))
            if len(self._styles) > 20_000:
                self._styles.clear()
            self._styles[above, below] = style
        return style

    # ------------------------------------------------------------------ keys

    def action_step(self, rows: int, cols: int) -> None:
        """The cursor goes so many pixels down and to the right; stops at the edges."""
        picture = self.picture
        if picture is None:
            return
        row, col = picture.pixel_of(self.at)
        row = max(0, min(row + rows, picture.size[0] - 1))
        col = max(0, min(col + cols, picture.size[1] - 1))
        self.at = picture.cell_of((row, col))
        self.refresh()
        self.post_message(self.Moved())

    def on_focus(self) -> None:
        """The cursor comes."""
        self.refresh()

    def on_blur(self) -> None:
        """The cursor goes."""
        self.refresh()

    def action_ask(self, what: str, step: int = 0) -> None:
        """The pane around the picture knows which picture comes next."""
        self.post_message(self.Asked(what, step))


def _colour(levels: tuple[int, ...]) -> RichColor:
    red, green, blue = (level * 255 // 254 for level in levels)
    return RichColor.from_rgb(red, green, blue)
