"""The one-line widgets: status, tabs of the drawer, hint below the prompt, keys, banner."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from kbench.tui.text.glyphs import UNICODE, Glyphs
from kbench.tui.text.text import one_line
from kbench.tui.themes import MUTED

Piece = tuple[str, str]  # words and their style
JOINT_CELLS = 3
"""Cells between two pieces of the status line."""


class Line(Widget):
    """One row of styled pieces, some of which can be clicked; rendered only when it changes."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._content = Content("")

    def show(self, content: Content) -> None:
        """Draw `content` unless it is what stands there already."""
        if not content.is_same(self._content):
            self._content = content
            self.refresh()

    def cut(self, text: str, width: int) -> str:
        """The text on one line of at most `width` cells."""
        glyphs: Glyphs = getattr(self.app, "glyphs", UNICODE)
        return one_line(text, width, glyphs.ellipsis)

    def render(self) -> Content:
        """The row as it is."""
        return self._content


def clickable(words: str, action: str, style: str = "") -> tuple[str, Style]:
    """A piece of a line that runs `action` when it is clicked."""
    meta = Style.from_meta({"@click": action})
    return words, (Style.parse(style) + meta if style else meta)


def longest_piece(width: int) -> int:
    """The most cells that one piece takes of a status line."""
    return max(60, 2 * width // 5)


class StatusLine(Line):
    """`kbench | idle | eps 1e-07 | float32 | channels_last ...`; cut from the end."""

    def set_pieces(self, pieces: Iterable[Piece], separator: str) -> None:
        """Join what fits; a piece that does not fit is left out whole."""
        parts: list[str | tuple[str, str]] = []
        room = self.size.width or 80
        longest = longest_piece(room)
        for words, style in pieces:
            joint = f" {separator} " if parts else " "
            words = self.cut(words, longest)
            if len(joint) + len(words) > room:
                break
            parts += [(joint, MUTED), (words, style)]
            room -= len(joint) + len(words)
        self.show(Content.assemble(*parts))


class TabLine(Line):
    """` 1 Vars  2 Value ...  12 names`: the panes that share one place."""

    def set_tabs(self, tabs: Iterable[tuple[str, str]], active: str, note: str, rule: str) -> None:
        """`tabs` are (pane, title); the active one stands in brackets."""
        room = self.size.width or 80
        shown, joint = _fitting(list(tabs), active, room)
        parts: list[str | tuple[str, Style]] = [rule]
        width = 1
        # Brackets stand in place of the blanks beside a title, so that no tab ever moves.
        for at, (pane, title) in enumerate(shown):
            ours = pane == active
            style = "bold $text-accent" if ours else "$text"
            left = ("[" if ours else " ") if at == 0 or joint or shown[at - 1][0] != active else ""
            right = "]" if ours else " " if joint or at == len(shown) - 1 else ""
            words = f"{left}{title}{right}"
            parts += [clickable(words, f"screen.pane('{pane}')", style), rule * joint]
            width += len(words) + joint
        room -= width
        note = self.cut(note, room - 2) if room - 2 >= min(cell_len(note), MIN_NOTE_CELLS) else ""
        filler = rule * max(room - cell_len(note) - 2, 0)
        parts += [filler, f" {note} " if note and room > 2 else rule * min(room, 2)]
        self.show(Content.assemble(*parts))


MIN_NOTE_CELLS = 8
"""Cells below which a note is not begun."""
NOTE_ROOM_CELLS = 20
"""Cells that the tabs leave free before they move closer together."""


def _fitting(
    tabs: list[tuple[str, str]], active: str, width: int
) -> tuple[list[tuple[str, str]], int]:
    """The tabs in the widest form there is room for, and the cells between them.

    Apart, close together, then without their numbers, then as many as fit.
    """

    def needed(joint: int) -> int:
        return 2 - joint + sum(len(title) + 1 + 2 * joint for _, title in tabs)

    if needed(1) + NOTE_ROOM_CELLS <= width:
        return tabs, 1
    if needed(0) > width:
        tabs = [(pane, title.partition(" ")[2] or title) for pane, title in tabs]
    while needed(0) > width and len(tabs) > 1:
        at = len(tabs) - 1 if tabs[-1][0] != active else len(tabs) - 2
        tabs = [*tabs[:at], *tabs[at + 1 :]]
    return tabs, 0


class KeyLine(Line):
    """` F1 Help  F2 Prompt ...`: as many keys as fit, each of which can be clicked."""

    def set_keys(self, keys: Iterable[tuple[str, str, str]]) -> None:
        """`keys` are (key as shown, word, action)."""
        parts: list[str | tuple[str, Style]] = []
        room = self.size.width or 80
        for shown, word, action in keys:
            if len(shown) + len(word) + 2 > room:
                break
            parts += [
                clickable(f" {shown}", action, "bold $text-accent"),
                clickable(f" {word}" if len(shown) > 1 else word, action, "$text"),
            ]
            room -= len(shown) + len(word) + 2
        self.show(Content.assemble(*parts))


class HintLine(Line):
    """What can be done at the prompt, or the signature of the call being typed."""

    def set_text(self, text: str, style: str = MUTED) -> None:
        """Show `text`, cut to the line."""
        self.show(Content.assemble((self.cut(f" {text}", self.size.width or 80), style)))


class Banner(Line):
    """A red line over the transcript when the kernel is gone or does not answer."""

    def set_choices(self, text: str, choices: Iterable[tuple[str, str]]) -> None:
        """`choices` are (words, action), shown in brackets after the text."""
        parts: list[str | tuple[str, Style]] = [f" {self.cut(text, 400)} "]
        for words, action in choices:
            parts += [" ", clickable(f"[{words}]", action, "bold")]
        self.show(Content.assemble(*parts))
