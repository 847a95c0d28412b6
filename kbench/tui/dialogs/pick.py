"""A list of things of which one is chosen: kernels to attach to, sessions to resume."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from kbench.tui.dialogs.dialogs import key_hints
from kbench.tui.dialogs.modal import Modal
from kbench.tui.keys import keys
from kbench.tui.text.glyphs import UNICODE, Glyphs
from kbench.tui.text.text import one_line


class ListRows(OptionList):
    """Textual fails to turn pages of no rows."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Pages are turned where there is room for some of one."""
        return not action.startswith("page_") or self.size.area > 0


class ListDialog(Modal[int | None]):
    """Up and Down choose, Enter or a click takes, Esc gives None; `drop` takes a row off."""

    BINDINGS = keys.bindings("list")

    def __init__(
        self,
        title: str,
        rows: Sequence[str],
        drop: Callable[[int], None] | None = None,
        at: int = 0,
    ) -> None:
        super().__init__()
        self._at = at
        self._title = title
        self._rows = list(enumerate(rows))
        self._drop = drop

    def compose(self) -> ComposeResult:
        """The rows in a frame."""
        with Vertical(classes="dialog") as frame:
            frame.border_title = Content(self._title)
            more = {"list_drop": "don't offer again"} if self._drop is not None else {}
            frame.border_subtitle = key_hints(self.app, "Enter take", **more, list_close="close")
            yield ListRows(compact=True, classes="pick")

    def on_mount(self) -> None:
        """The first row is chosen, or the one that was asked for."""
        self._fill(self._at)

    def _fill(self, at: int) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        glyphs: Glyphs = getattr(self.app, "glyphs", UNICODE)
        width = max(min(110, self.size.width * 9 // 10) - 6, 10)
        options.add_options(
            Option(Content(one_line(text, width, glyphs.ellipsis))) for _, text in self._rows
        )
        options.highlighted = max(0, min(at, len(self._rows) - 1))
        options.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter, or a click."""
        self.dismiss(self._rows[event.option_index][0])

    def action_move(self, step: int) -> None:
        """As the arrows do."""
        options = self.query_one(OptionList)
        options.highlighted = max(0, min((options.highlighted or 0) + step, len(self._rows) - 1))

    def action_drop(self) -> None:
        """Take the chosen row off the list for good."""
        at = self.query_one(OptionList).highlighted
        if self._drop is None or at is None:
            return
        self._drop(self._rows.pop(at)[0])
        if self._rows:
            self._fill(at)
        else:
            self.dismiss(None)
