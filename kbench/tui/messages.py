"""What widgets and threads tell the main screen. Widgets never call one another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from kbench.tui.panes.registry import BY_ID
from kbench.workbench.core_types import SettingValue
from kbench.workbench.protocol.arrays import Window

if TYPE_CHECKING:
    from kbench.tui.panes.rows import NameRow
    from kbench.workbench.session.events import Event


class PaneMessage(Message):
    """What a widget of a pane asks for, and a controller of panes answers."""


class SessionEvent(Message):
    """Something the kernel session reports; `event` is one of `workbench.session.events`."""

    def __init__(self, event: Event) -> None:
        self.event = event
        super().__init__()


class LinkReady(Message):
    """The session exists (its kernel may still start); `older`: inputs of earlier ones."""

    def __init__(self, older: list[str], folder: Path | None) -> None:
        self.older = older
        self.folder = folder
        super().__init__()


class LinkFailed(Message):
    """The session could not be made or started."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__()


class Submitted(Message):
    """The prompt's text shall run; `now`: by the key that runs it whatever it is."""

    def __init__(self, code: str, now: bool = False) -> None:
        self.code = code
        self.now = now
        super().__init__()


class PromptResized(Message):
    """The prompt's text has another number of lines."""


class HintChanged(Message):
    """The line below the prompt shall show something else; '' for the default."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__()


class ShowValue(PaneMessage):
    """A name shall be opened in the value pane."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()


class TraceNan(Message):
    """What made the first NaN in a `name`, a cell's `code` or a recorded `function` is wanted."""

    def __init__(self, **wanted: str) -> None:
        self.wanted = wanted
        super().__init__()


class CompareWanted(Message):
    """An expression shall be compared on several engines or under several settings."""

    def __init__(self, expression: str) -> None:
        self.expression = expression
        super().__init__()


class InsertText(Message):
    """Text shall go into the prompt; `replace` empties it first."""

    def __init__(self, text: str, replace: bool = False) -> None:
        self.text = text
        self.replace = replace
        super().__init__()


class CopyText(Message):
    """Text shall go to the clipboard."""

    def __init__(self, text: str, what: str) -> None:
        self.text = text
        self.what = what
        super().__init__()


class AssignSetting(PaneMessage):
    """The user has chosen a value for a setting."""

    def __init__(self, name: str, value: SettingValue) -> None:
        self.name = name
        self.value = value
        super().__init__()


class ShowPane(Message):
    """A pane shall come to the front and take the focus."""

    def __init__(self, pane: str) -> None:
        self.pane = pane
        super().__init__()


class TitleChanged(Message):
    """A pane's title line has changed; `note` is what stands of it beside tabs."""

    def __init__(self, pane: str, title: str, note: str | None = None) -> None:
        self.pane = pane
        self.title = title
        self.note = note if note is not None else title.removeprefix(BY_ID[pane].title).lstrip(": ")
        super().__init__()


class RowsRead(PaneMessage):
    """The variables' rows by name, as they are now, and the names that are gone."""

    def __init__(self, rows: dict[str, NameRow], gone: set[str]) -> None:
        self.rows = rows
        self.gone = gone
        super().__init__()


class SettingRefused(PaneMessage):
    """The kernel has refused a setting after the fact."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__()


class FetchPixel(PaneMessage):
    """What the cursor in a picture is on is needed; `window` says where."""

    def __init__(self, window: Window | None) -> None:
        self.window = window
        super().__init__()


class FetchGraph(PaneMessage):
    """The graph of the name in the value pane is needed."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__()


class ValueCommand(PaneMessage):
    """A key of the value pane that needs the kernel or a dialog, such as axes, find, export."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__()
