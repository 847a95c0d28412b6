"""Search in the inputs of all sessions, newest first, with the whole input shown below."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from kbench.tui.dialogs.dialogs import key_hints
from kbench.tui.dialogs.modal import Modal
from kbench.tui.keys import keys
from kbench.tui.prompt.field import Field
from kbench.tui.text.glyphs import UNICODE, Glyphs
from kbench.tui.text.text import one_line
from kbench.tui.transcript.cells import coloured

MAX_MATCHES = 200
"""Inputs listed at most; who searches further types another word."""


class HistoryScreen(Modal[str | None]):
    """Type to filter; Enter brings the input to the prompt."""

    BINDINGS = keys.bindings("search")

    def __init__(self, search: Callable[[str], list[str]], words: str = "") -> None:
        super().__init__()
        self._search = search
        self._words = words
        self._found: list[str] = []

    def compose(self) -> ComposeResult:
        """The search, what it finds, the input under the cursor."""
        with Vertical(classes="dialog tall") as frame:
            frame.border_title = Content("History of all sessions")
            words = "type to search  Enter to prompt"
            frame.border_subtitle = key_hints(self.app, words, search_close="close")
            yield Field(self._words, placeholder="words to find")
            options = OptionList(compact=True)
            options.can_focus = False
            yield options
            yield Static("", markup=False, id="preview")

    def on_mount(self) -> None:
        """Everything, until something is typed."""
        self.query_one(Input).focus()
        self._fill(self._words)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter."""
        self._fill(event.value)

    def _fill(self, words: str) -> None:
        self._found = self._search(words)[:MAX_MATCHES]
        options = self.query_one(OptionList)
        options.clear_options()
        width = max(self.size.width - 12, 20)
        glyphs: Glyphs = getattr(self.app, "glyphs", UNICODE)
        lines = (code.replace("\n", f" {glyphs.newline} ") for code in self._found)
        options.add_options(
            Option(Content(one_line(line, width, glyphs.ellipsis))) for line in lines
        )
        options.highlighted = 0 if self._found else None
        self._preview()

    def _preview(self) -> None:
        at = self.query_one(OptionList).highlighted
        code = self._found[at] if at is not None and at < len(self._found) else ""
        lines = list(coloured(code)[:6]) if code else [Content("nothing found")]
        self.query_one("#preview", Static).update(Content("\n").join(lines))

    def on_option_list_option_highlighted(self) -> None:
        """Another input is under the cursor."""
        self._preview()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click takes the input."""
        self.dismiss(self._found[event.option_index])

    def on_input_submitted(self) -> None:
        """Enter takes the input under the cursor."""
        at = self.query_one(OptionList).highlighted
        self.dismiss(self._found[at] if at is not None and self._found else None)

    def action_move(self, step: int) -> None:
        """Up and down without leaving the search."""
        options = self.query_one(OptionList)
        if self._found:
            at = (options.highlighted or 0) + step
            options.highlighted = max(0, min(at, len(self._found) - 1))
