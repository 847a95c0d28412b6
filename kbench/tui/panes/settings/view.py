"""The configuration, edited in place: what the kernel says is shown, never what was typed."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.widgets import Input

from kbench.tui.keys import keys
from kbench.tui.messages import AssignSetting, HintChanged
from kbench.tui.prompt.field import Field
from kbench.tui.text.lines import LineView
from kbench.tui.text.text import one_line, wrap
from kbench.tui.themes import MUTED
from kbench.workbench.core_types import JsonObject, Row, SettingValue

CHOICES: dict[str, tuple[tuple[str, SettingValue], ...]] = {
    "floatx": (("float16", "float16"), ("float32", "float32"), ("float64", "float64")),
    "image_data_format": (
        ("channels_last", "channels_last"),
        ("channels_first", "channels_first"),
    ),
    "learning_phase": (("per call", None), ("0 test", 0), ("1 train", 1)),
}
NAMES = ("epsilon", "floatx", "image_data_format", "learning_phase", "num_threads")
TYPED = ("epsilon", "num_threads")
NOTES = {
    "epsilon": "affects new graphs only",
    "floatx": "affects new variables and tensors only",
    "image_data_format": "affects new calls without data_format only",
    "learning_phase": "per call: a placeholder, test unless fed",
    "num_threads": "threads of the parallel kernels",
}
EDIT_WORDS = "Enter sets it, Esc keeps the old value"
MARGIN = "  "
"""Before what is told of a setting."""
LABEL_CELLS = 19
"""Cells for a setting's name: the longest has 17, and two blanks part it from
its value."""


class SettingsList(LineView):
    """One line per setting; the kernel's answer decides what it shows."""

    BINDINGS = keys.bindings("settings")
    COMPONENT_CLASSES = {"settings--cursor"}

    def __init__(self) -> None:
        super().__init__(id="settings-list")
        self.values: JsonObject = {}
        self.at = 0
        self.message = ""
        self._told: list[Content] = []  # that, as rows that fit

    def row_count(self) -> int:
        """The settings, what is told of the one under the cursor, and what that one means."""
        return len(NAMES) + len(self._told) + 1

    def row(self, y: int) -> Content:
        """One setting, what is told of it, or what it means."""
        if y == self.row_count() - 1:
            shown = one_line(f" {NOTES[NAMES[self.at]]}", self.size.width, self.glyphs.ellipsis)
            return Content.styled(shown, MUTED)
        at = self.place_at(y)
        if at is None:
            return self._told[y - self.at - 1]
        name = NAMES[at]
        mark = ">" if at == self.at and self.has_focus else " "
        label = one_line(name, self.label - 1, self.glyphs.ellipsis)
        return Content.assemble(mark, f"{label:<{self.label}}", *self._value(name))

    def place_at(self, y: int) -> int | None:
        """Which setting stands in a row, None where it is none."""
        if y <= self.at:
            return y
        return y - len(self._told) if y > self.at + len(self._told) else None

    def tell(self, words: str) -> None:
        """Say something below the setting under the cursor, in as many rows as it takes."""
        self.message = words
        self.refit()

    def refit(self) -> None:
        """Fold what is told again."""
        line = Content.styled(self.message, "bold $text-error")
        rows = wrap(line, max(self.text_width - len(MARGIN), 4)) if self.message else []
        self._told = [Content(MARGIN) + row for row in rows]
        super().refit()

    @property
    def label(self) -> int:
        """Cells for the names."""
        return min(LABEL_CELLS, max(self.size.width // 2, 4))

    def restyle(self, y: int) -> str:
        """The setting under the cursor."""
        return "settings--cursor" if y == self.at and self.has_focus else ""

    def _value(self, name: str) -> list[str | tuple[str, str]]:
        if name not in self.values:
            return [("waiting for the kernel", MUTED)]
        value = self.values[name]
        if name in TYPED:
            return [f"[{value!r:<8}]" if self.label == LABEL_CELLS else f"[{value!r}]"]
        parts: list[str | tuple[str, str]] = []
        for words, choice in self._choices(name):
            chosen = choice == value and type(choice) is type(value)
            parts.append((f"({words}*)", "bold $text-accent") if chosen else f"({words})")
        return parts

    def _choices(self, name: str) -> list[tuple[str, SettingValue]]:
        """Words and values: short words where the pane is narrow, then only what is set."""
        choices = list(CHOICES.get(name, ()))
        room = self.size.width - self.label - 2  # for the mark of the line and that of what is set
        if sum(len(words) + 2 for words, _ in choices) > room:
            choices = [(_short(words), value) for words, value in choices]
        if sum(len(words) + 2 for words, _ in choices) > room:
            choices = [choice for choice in choices if choice[1] == self.values.get(name)]
        return choices

    def place_of(self, name: str, x: int) -> SettingValue:
        """The choice at column `x` of a setting's line; the name itself when there is none."""
        column = 1 + self.label
        for words, choice in self._choices(name):
            value = self.values.get(name)
            width = len(words) + 2 + (choice == value and type(choice) is type(value))
            if column <= x < column + width:
                return choice
            column += width
        return name

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def on_click(self, event: Click) -> None:
        """Choose what was clicked."""
        y = event.y + self.scroll_offset.y
        at = self.place_at(y) if y < self.row_count() - 1 else None
        if at is None:
            return
        self.at = at
        self.tell("")
        name = NAMES[at]
        if name in TYPED:
            self.action_edit()
        elif (choice := self.place_of(name, event.x)) != name:
            self.post_message(AssignSetting(name, choice))

    def action_move(self, step: int) -> None:
        """The setting above or below."""
        self.at = max(0, min(self.at + step, len(NAMES) - 1))
        self.tell("")

    def action_turn(self, step: int) -> None:
        """The next choice to a side."""
        name = NAMES[self.at]
        if name in TYPED:
            self.action_edit()
            return
        values = [choice for _, choice in CHOICES[name]]
        now = self.values.get(name)
        places = [
            at for at, value in enumerate(values) if value == now and type(value) is type(now)
        ]
        at = (places[0] if places else 0) + step
        if 0 <= at < len(values):
            self.post_message(AssignSetting(name, values[at]))

    def action_edit(self) -> None:
        """Type a value, or take the next choice round the end."""
        name = NAMES[self.at]
        if name in TYPED:
            pane = self.parent
            if isinstance(pane, SettingsPane):
                pane.edit(name, self.values.get(name))
            return
        values = [choice for _, choice in CHOICES[name]]
        now = self.values.get(name)
        places = [
            at for at, value in enumerate(values) if value == now and type(value) is type(now)
        ]
        at = ((places[0] if places else -1) + 1) % len(values)
        self.post_message(AssignSetting(name, values[at]))


def _short(words: str) -> str:
    return words.removeprefix("channels_").replace("float", "f")


class SettingsPane(Vertical):
    """The list, and a line to type a number into, which stands over the value it changes."""

    def __init__(self) -> None:
        super().__init__(id="settings")
        self._editing = ""

    def compose(self) -> ComposeResult:
        """The list under the line for typing, which shows only while it is used."""
        yield SettingsList()
        field = Field(id="settings-input")
        field.display = False
        yield field

    @property
    def list(self) -> SettingsList:
        """The list."""
        return self.query_one(SettingsList)

    def show(self, values: Row) -> None:
        """What the kernel says is set."""
        lines = self.list
        if dict(values) != lines.values:
            lines.values = dict(values)
            lines.refresh()

    def refuse(self, reason: str) -> None:
        """Say beside the value why it was not taken; what was typed stays to be mended."""
        self.list.tell(reason)

    def accept(self, note: str = "") -> None:
        """The last value was taken, or will be: `note` says when."""
        self._close()
        self.list.tell(note)

    def edit(self, name: str, value: SettingValue) -> None:
        """Type in place of the value that is shown."""
        lines, field = self.list, self.query_one(Input)
        self._editing = name
        lines.scroll_to(y=max(lines.at + 1 - lines.size.height, 0), animate=False, force=True)
        self._stand()
        field.value = "" if value is None else str(value)
        field.display = True
        field.focus()
        self.call_after_refresh(self.post_message, HintChanged(EDIT_WORDS))

    def _stand(self) -> None:
        """Put the line for typing over the value."""
        lines, field = self.list, self.query_one(Input)
        left = 1 + lines.label
        field.styles.offset = (left, lines.at - lines.scroll_offset.y)
        field.styles.width = max(lines.size.width - left, 4)

    def on_resize(self) -> None:
        """The value stands elsewhere."""
        if self._editing:
            self.call_after_refresh(self._stand)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Send what was typed, a number if it is one; the kernel judges it."""
        event.stop()
        self.list.tell("")
        self.post_message(AssignSetting(self._editing, parse_number(event.value)))

    def on_key(self, event: events.Key) -> None:
        """Escape gives up typing; the value stays as it was."""
        if event.key == "escape" and self._editing:
            event.stop()
            self.list.tell("")
            self._close()

    def on_descendant_blur(self) -> None:
        """Whoever goes elsewhere does not type any more."""
        if self._editing and not self.query_one(Input).has_focus:
            self._editing = ""
            self.query_one(Input).display = False

    def _close(self) -> None:
        if self._editing:
            self._editing = ""
            self.query_one(Input).display = False
            self.list.focus()
            self.post_message(HintChanged(""))


def parse_number(text: str) -> int | float | str:
    """A number if the text is one, else the text."""
    for kind in (int, float):
        try:
            return kind(text.strip())
        except ValueError:
            continue
    return text.strip()
