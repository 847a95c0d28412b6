"""The list of completions that floats over the transcript, and the input it replaces."""

from __future__ import annotations

from msgspec import Struct
from textual.content import Content
from textual.geometry import Offset, Region
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kbench.tui.text.glyphs import UNICODE, Glyphs
from kbench.tui.text.text import one_line
from kbench.tui.themes import MUTED

MAX_MATCHES = 200
"""Completions that are listed; who wants others types another letter."""
MAX_NAME_CELLS = 40
"""Of a completion's name."""
MAX_ABOUT_CELLS = 72
"""Of its signature: the line below the prompt has all of it once it is called."""
FRAME_CELLS = 7
"""Of a row beside its words: two borders, the scrollbar, the mark and the blanks between."""
MAX_LIST_ROWS = 10
"""Rows of the list on the screen; the others are scrolled to."""


class Match(Struct, frozen=True):
    """One completion and what it is, for example 'function'."""

    text: str
    kind: str = ""
    signature: str = ""  # of a function, `(x: float[rows, cols], axis=-1)`

    @property
    def shown(self) -> str:
        """As the list has it: what is called with its parentheses."""
        return f"{self.text}()" if self.kind == "function" else self.text


class CompletionList(OptionList, can_focus=False):
    """Shown while there is more than one way to go on; the prompt keeps the focus."""

    def __init__(self) -> None:
        super().__init__(id="completion", compact=True)
        self.span = (0, 0)  # characters of the prompt's text that a match replaces
        self.matches: list[Match] = []
        self.display = False

    def offer(self, matches: list[Match], span: tuple[int, int]) -> None:
        """Show these completions for the characters of `span`."""
        self.matches = matches[:MAX_MATCHES]
        self.span = span
        self.clear_options()
        name, about = self._cells(self.screen.size.width)
        self.add_options([Option(self._words(match, name, about)) for match in self.matches])
        self.display = bool(self.matches)
        self.highlighted = 0 if self.matches else None

    def _cells(self, width: int) -> tuple[int, int]:
        """Cells of the names, and of what is told of them."""
        name = min(max((len(match.shown) for match in self.matches), default=0), MAX_NAME_CELLS)
        about = max((len(match.signature or match.kind) for match in self.matches), default=0)
        return name, max(min(about, MAX_ABOUT_CELLS, width - name - FRAME_CELLS), 0)

    def _words(self, match: Match, name: int, about: int) -> Content:
        glyphs: Glyphs = getattr(self.app, "glyphs", UNICODE)
        mark = glyphs.function if match.kind == "function" else " "
        shown = one_line(match.shown, name, glyphs.ellipsis).ljust(name)
        told = one_line(match.signature or match.kind, about, glyphs.ellipsis)
        return Content.assemble((f"{mark} ", MUTED), shown, (f"  {told}", MUTED))

    def hide(self) -> None:
        """Take the list away."""
        self.display = False

    def move(self, step: int) -> None:
        """Go up or down in the list, round its ends."""
        if self.matches:
            self.highlighted = ((self.highlighted or 0) + step) % len(self.matches)

    @property
    def chosen(self) -> str | None:
        """The text of the highlighted completion."""
        if not self.display or self.highlighted is None or not self.matches:
            return None
        return self.matches[self.highlighted].text

    def common_prefix(self) -> str:
        """What all completions begin with."""
        if not self.matches:
            return ""
        first = min(match.text for match in self.matches)
        last = max(match.text for match in self.matches)
        length = 0
        while length < len(first) and length < len(last) and first[length] == last[length]:
            length += 1
        return first[:length]

    def stand(self, cursor: Offset, screen: Region) -> None:
        """Take a place above or below the cursor, wherever there is more room.

        While the screen is drawn in another size, the cursor may still be where that has no row.
        """
        if not self.display:
            return
        if not screen.contains(*cursor):
            self.display = False
            return
        name, about = self._cells(screen.width)
        width = min(name + about + FRAME_CELLS, screen.width)
        above, below = cursor.y - screen.y, screen.bottom - cursor.y - 1
        rows = min(len(self.matches) + 2, MAX_LIST_ROWS + 2, max(above, below))
        if rows < 3:
            self.display = False
            return
        y = cursor.y - rows if above >= below else cursor.y + 1
        x = min(max(cursor.x - 2, 0), max(screen.width - width, 0))
        self.styles.offset = (x, y)
        self.styles.width = width
        self.styles.height = rows
