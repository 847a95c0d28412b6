"""An array as a picture: half blocks in colour, or characters of rising darkness without."""

from __future__ import annotations

from dataclasses import dataclass

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from kbench.tui import keys
from kbench.tui.glyphs import ASCII
from kbench.tui.lines import LineView
from kbench.tui.rows import Picture

RAMP = " .:-=+*#%@"
HALF = "▀"
BAD = "!"


@dataclass(frozen=True)
class Look:
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

    class Wanted(Message):
        """The room has changed, so that other pixels are needed."""

    class Asked(Message):
        """A key that the pane around the picture answers."""

        def __init__(self, what: str, step: int = 0) -> None:
            self.what = what
            self.step = step
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="picture")
        self.picture: Picture | None = None
        self._asked_room = (0, 0)
        self._styles: dict[tuple[object, object], RichStyle] = {}

    # ------------------------------------------------------------------ content

    def show(self, picture: Picture) -> None:
        """Draw this picture."""
        self.picture = picture
        self._styles.clear()  # the theme may be another
        self.refit()

    def clear(self) -> None:
        """Nothing to show."""
        self.picture = None
        self.refit()

    @property
    def in_blocks(self) -> bool:
        """Half blocks need colours and a font that has them; else there are characters."""
        few = self.app.console.color_system not in ("256", "truecolor")
        return not (self.glyphs is ASCII or self.app.no_color or few)

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
        marks = (self._mark(picture, line, col) for col in range(picture.size[1]))
        return Content("".join(mark * (step * width) for mark in marks))

    @staticmethod
    def _mark(picture: Picture, row: int, col: int) -> str:
        pixel = picture.pixel(row, col)
        if pixel is None:
            return BAD
        red, green, blue = pixel
        bright = (299 * red + 587 * green + 114 * blue) // 1000
        return RAMP[min(bright * len(RAMP) // (picture.top + 1), len(RAMP) - 1)]

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
            bad = above is None or below is None
            style = self._style(above, below)
            segments.append(Segment((BAD if bad else HALF) * step, style))
        strip = Strip(segments, picture.size[1] * step)
        return strip.crop_extend(0, self.size.width, self.visual_style.rich_style)

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

    def action_ask(self, what: str, step: int = 0) -> None:
        """The pane around the picture knows which picture comes next."""
        self.post_message(self.Asked(what, step))


def _colour(levels: tuple[int, ...]) -> RichColor:
    red, green, blue = (one * 255 // 254 for one in levels)
    return RichColor.from_rgb(red, green, blue)
