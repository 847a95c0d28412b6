"""The three dialogs that all others are made of: a text to read, a choice, a line to type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from kbench.tui.dialogs.modal import Modal
from kbench.tui.keys import keys
from kbench.tui.prompt.field import Field
from kbench.tui.session.bars import Line, clickable
from kbench.tui.text.lines import LineView
from kbench.tui.text.text import fold_words, safe
from kbench.tui.workbench import workbench

UNASKED_QUIET_SECONDS = 0.7
"""Seconds without a key after which a letter answers a question that came unasked: longer than a
pause within typing."""


def key_hints(app: App[int], before: str = "", **words: str) -> Content:
    """What a frame says of its keys: each action's first key, and its word."""
    pieces = [f"{workbench(app).key_word(ident)} {word}" for ident, word in words.items()]
    return Content("  ".join([before, *pieces] if before else pieces))


class TextLines(LineView):
    """Lines of content, folded to the width; what is folded keeps the line's indentation."""

    BINDINGS = keys.bindings("lines")

    def __init__(self, lines: Sequence[Content]) -> None:
        super().__init__()
        self._lines = list(lines)
        self._rows: list[Content] = []

    def replace(self, lines: Sequence[Content]) -> None:
        """Show others."""
        self._lines = list(lines)
        self.refit()
        self.refresh()

    def refit(self) -> None:
        """Fold again."""
        width = max(self.text_width, 4)
        self._rows = [row for line in self._lines for row in fold_words(line, width)]
        super().refit()

    def row_count(self) -> int:
        """Folded rows."""
        return len(self._rows)

    def row(self, y: int) -> Content:
        """One of them."""
        return self._rows[y]

    def plain(self) -> str:
        """All of it as text."""
        return "\n".join(line.plain for line in self._lines)


class Pager(Modal[None]):
    """A text to read; y copies it."""

    BINDINGS = keys.bindings("text")

    def __init__(self, title: str, lines: Sequence[Content]) -> None:
        super().__init__()
        self._title = title
        self._lines = TextLines(lines)

    def compose(self) -> ComposeResult:
        """A framed text."""
        with Vertical(classes="dialog tall") as frame:
            frame.border_title = Content(self._title)
            frame.border_subtitle = key_hints(self.app, text_close="close", text_copy="copy")
            yield self._lines

    def on_mount(self) -> None:
        """The text scrolls with the keys."""
        self._lines.focus()

    def action_copy(self) -> None:
        """Copy the text."""
        self.app.copy_to_clipboard(self._lines.plain())
        self.notify("copied", markup=False)


class ChoiceDialog(Modal[str | None]):
    """A question with one letter per answer; Esc is None.

    To one that comes `unasked`, maybe while its user types at the prompt, letters are no answer
    until nothing has been typed for a moment.
    """

    BINDINGS = keys.bindings("choice")

    def __init__(
        self, question: str, answers: Sequence[tuple[str, str]], unasked: bool = False
    ) -> None:
        super().__init__()
        self._quiet_since = monotonic() if unasked else 0.0
        self._question = question
        self._answers = list(answers)

    def compose(self) -> ComposeResult:
        """The question over its answers."""
        with Vertical(classes="dialog"):
            yield Static(Content(self._question), markup=False)
            for letter, words in self._answers:
                line = Line(f"answer-{letter}")
                line.show(
                    Content.assemble(
                        "  ", clickable(f"[{letter}] {words}", f"screen.answer('{letter}')", "bold")
                    )
                )
                yield line

    def on_key(self, event: object) -> None:
        """A letter answers."""
        key = getattr(event, "character", None) or ""
        now = monotonic()
        if self._quiet_since and now < self._quiet_since + UNASKED_QUIET_SECONDS:
            self._quiet_since = now
            return
        if any(key.lower() == letter for letter, _ in self._answers):
            self.dismiss(key.lower())

    def action_answer(self, letter: str) -> None:
        """A clicked answer."""
        self.dismiss(letter or None)


class InputDialog(Modal[str | None]):
    """A line to type; `check` returns what is wrong with it, or '' when it is right."""

    BINDINGS = keys.bindings("line")

    def __init__(
        self,
        title: str,
        value: str = "",
        check: Callable[[str], str] | None = None,
        live: Callable[[str], None] | None = None,
        password: bool = False,
    ) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._check = check
        self._live = live
        self._password = password

    def compose(self) -> ComposeResult:
        """A framed line with a place for complaints."""
        with Vertical(classes="dialog") as frame:
            frame.border_title = Content(self._title)
            yield Field(self._value, password=self._password)
            yield Line("complaint")

    def on_mount(self) -> None:
        """Type at once."""
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the effect while typing."""
        if self._live is not None:
            self._live(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close if the text is right."""
        problem = self._check(event.value) if self._check else ""
        if problem:
            self.query_one("#complaint", Line).show(Content.styled(problem, "bold $text-error"))
        else:
            self.dismiss(event.value)

    def action_cancel(self) -> None:
        """Give up; a live effect is taken back."""
        if self._live is not None:
            self._live(self._value)
        self.dismiss(None)


class PasswordDialog(InputDialog):
    """A line for a cell that waits for it, which is not shown; ^C is for the cell, too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "cancel", "interrupt the cell", show=False, priority=True)
    ]


def may_replace(
    path: str, replace: Callable[[], object]
) -> tuple[ChoiceDialog, Callable[[str | None], None]]:
    """The question whether a file that is there may be replaced, and who takes its answer."""

    def act(answer: str | None) -> None:
        if answer == "r":
            replace()

    question = f"{safe(Path(path).name)} already exists: {safe(path)}"
    return ChoiceDialog(question, [("r", "replace it"), ("k", "keep it")]), act
