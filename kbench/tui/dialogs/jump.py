"""Jump mode: every pane shows a letter, and the letter brings the focus there."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Region, Size
from textual.style import Style

from kbench.tui.dialogs.modal import Modal
from kbench.tui.session.bars import Line, clickable


class JumpScreen(Modal[str | None]):
    """Gives the pane's name; any other key, or a click beside the letters, gives None."""

    def __init__(self, letters: Mapping[str, tuple[str, str]], regions: Mapping[str, Region]):
        """`letters`: the pane and its title by letter; `regions` of the panes on the screen."""
        super().__init__()
        self._letters = dict(letters)
        self._regions = dict(regions)
        self._placed_for: Size | None = None

    def compose(self) -> ComposeResult:
        """A label on each pane that is on the screen, the others in a line at the bottom."""
        hidden: list[str | tuple[str, Style]] = []
        for letter, (pane, title) in self._letters.items():
            words = f" {letter} {title} "
            region = self._regions.get(pane)
            if region is None:
                piece = clickable(words, f"screen.take('{letter}')", "bold reverse")
                hidden += [" ", piece]
            elif region.area:
                yield self._label(pane, letter, words, region)
        line = Line("jump-hidden")
        line.show(Content.assemble(" Letter, or Esc", *hidden))
        width, height = self.app.size
        line.styles.offset = (0, max(height - 1, 0))
        line.styles.width = width
        yield line

    def _label(self, pane: str, letter: str, words: str, region: Region) -> Line:
        line = Line(f"jump-{pane}")
        line.add_class("label")
        line.show(Content.assemble(clickable(words, f"screen.take('{letter}')", "bold")))
        width = min(len(words), region.width)
        line.styles.width = width
        line.styles.offset = (region.x + (region.width - width) // 2, region.y + region.height // 2)
        return line

    def on_key(self, event: events.Key) -> None:
        """A letter jumps; all else closes."""
        event.stop()
        self.action_take((event.character or "").lower())

    def on_click(self, event: events.Click) -> None:
        """A click beside the labels closes."""
        if event.widget is self:
            self.dismiss(None)

    def on_resize(self, event: events.Resize) -> None:
        """At another size the labels would stand elsewhere."""
        if self._placed_for not in (None, event.size):
            self.dismiss(None)
        else:
            self._placed_for = event.size

    def action_take(self, letter: str) -> None:
        """Close, with the pane if the letter is one's."""
        found = self._letters.get(letter)
        self.dismiss(found[0] if found else None)
