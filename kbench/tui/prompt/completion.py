"""The list of completions that floats over the transcript, and the input it replaces."""

from __future__ import annotations

from dataclasses import dataclass

from textual.content import Content
from textual.geometry import Offset, Region
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kbench.tui.text.text import one_line
from kbench.tui.themes import MUTED

MAX_MATCHES = 200
"""Completions that are listed; who wants others types another letter."""
MAX_LIST_ROWS = 10
"""Rows of the list on the screen; the others are scrolled to."""


@dataclass(frozen=True)
class Match:
    """One completion and what it is, for example 'function'."""

    text: str
    kind: str = ""


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
        width = min(max((len(match.text) for match in self.matches), default=0), 40)
        self.add_options([Option(self._words(match, width)) for match in self.matches])
        self.display = bool(self.matches)
        self.highlighted = 0 if self.matches else None

    def _words(self, match: Match, width: int) -> Content:
        shown = one_line(match.text, width).ljust(width)
        return Content.assemble(shown, (f"  {one_line(match.kind, 10)}", MUTED))

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
        texts = [min(len(match.text), 40) for match in self.matches]
        width = min(max(texts, default=10) + 16, screen.width)
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
