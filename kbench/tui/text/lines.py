"""A scrollable view that draws only the rows on screen, for content of any length."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kbench.tui.keys import keys
from kbench.tui.text.glyphs import UNICODE, Glyphs
from kbench.tui.text.text import wrap
from kbench.tui.themes import MUTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from textual.selection import Selection

ACTION = re.compile(r"\{(\w+)\}")


class LineView(ScrollView, can_focus=True):
    """Base of the transcript, the tables and the grid: a subclass gives `row(y)` and a height."""

    header_rows = 0  # rows at the top that do not scroll; a subclass gives `header(y)`

    @property
    def glyphs(self) -> Glyphs:
        """The character set in use."""
        return cast(Glyphs, getattr(self.app, "glyphs", UNICODE))

    @property
    def text_width(self) -> int:
        """Cells of a row that the scrollbar, shown or not, leaves free."""
        return self.scrollable_content_region.width

    def row(self, y: int) -> Content:
        """The content of row `y`, at most the view's width."""
        raise NotImplementedError

    def row_count(self) -> int:
        """Rows that can be scrolled to."""
        raise NotImplementedError

    def header(self, y: int) -> Content:
        """A row of the fixed header."""
        raise NotImplementedError

    def restyle(self, y: int) -> str:
        """Style name laid over the whole of row `y`, '' for none."""
        return ""

    def refit(self) -> None:
        """Take over a changed number of rows and draw again."""
        self.refit_from(0)

    def refit_from(self, since: int) -> None:
        """Take over a changed number of rows and draw those from row `since` on again."""
        self.virtual_size = Size(0, self.row_count() + self.header_rows)
        top = max(since + self.header_rows - self.scroll_offset.y, 0) if since else 0
        width, height = self.size
        if top == 0:
            self.refresh()
        elif top < height:
            self.refresh(Region(0, top, width, height - top))

    def folded(self, lines: Iterable[Content | str]) -> list[Content]:
        """Words of the workbench as rows that fit, each behind a blank as its line is.

        In plain text `{name}` stands for the key of an action.
        """
        lines_shown = [
            line if isinstance(line, Content) else self._with_keys(line) for line in lines
        ]
        if not self.text_width:  # not laid out yet
            return lines_shown
        width = max(self.text_width - 1, 4)
        rows: list[Content] = []
        for line in lines_shown:
            first, *rest = wrap(line, width)
            rows += [first, *(Content(" ") + row for row in rest)]
        return rows

    def _with_keys(self, text: str) -> Content:
        words = ACTION.sub(lambda found: self.key_word(found[1]), text)
        return Content.styled(f" {words}", MUTED)

    def key_word(self, ident: str) -> str:
        """The key of an action, as the user has it."""
        word = getattr(self.app, "key_word", None)
        return word(ident) if word else keys.named(ident).keys

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """All rows, for parents with an automatic height."""
        return self.row_count() + self.header_rows

    def on_resize(self) -> None:
        """Rows may wrap differently at another width."""
        self.refit()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the visible part."""
        width = self.size.width
        base = self.visual_style
        style = base.rich_style
        if y < self.header_rows:
            return self._strip(self.header(y), width, -1)
        at = y - self.header_rows + self.scroll_offset.y
        if at >= self.row_count():
            return Strip.blank(width, style)
        return self._strip(self.row(at), width, at)

    def _strip(self, content: Content, width: int, y: int) -> Strip:
        base = self.visual_style
        name = self.restyle(y) if y >= 0 else ""
        if name:
            base += self.get_visual_style(name)
        selection = self.text_selection if y >= 0 else None
        if selection is not None:
            span = selection.get_span(y)
            if span is not None:
                start, end = span
                stop = len(content) if end == -1 else end
                content = content.stylize(
                    self.screen.get_visual_style("screen--selection"), start, stop
                )
        strip = Strip(content.render_segments(base), content.cell_length)
        strip = strip.crop_extend(0, width, base.rich_style)
        return strip.apply_offsets(0, y) if y >= 0 else strip

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text, for copying."""
        rows = (self.row(y).plain.rstrip() for y in range(self.row_count()))
        return selection.extract("\n".join(rows)), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the new selection."""
        self.refresh()
