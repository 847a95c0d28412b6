"""What happens in the workbench, and who is told: one Signal for cells, variables and panes.

Whoever wants a class of events subscribes to it; whoever finds out that something has happened
emits it, and knows nobody who is told. Messages of panes (`messages.PaneMessage`) go the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from kbench.tui.transcript.cells import Block
    from kbench.workbench.session import events

Event = TypeVar("Event")


class Signal:
    """Listeners by the class of what they want; those of one class are told as they subscribed."""

    def __init__(self) -> None:
        self._listeners: dict[type[Any], list[Callable[[Any], None]]] = {}

    def subscribe(self, kind: type[Event], listener: Callable[[Event], None]) -> None:
        """Call `listener` with each event of exactly this class."""
        self._listeners.setdefault(kind, []).append(listener)

    def emit(self, event: object) -> None:
        """Tell all who have subscribed to the event's class, now; what one raises is not caught."""
        for listener in self._listeners.get(type(event), ()):
            listener(event)


class KernelStarted(Struct, frozen=True, eq=False):
    """A kernel answers: nothing is known yet of what it holds."""


class KernelLost(Struct, frozen=True, eq=False):
    """The kernel is gone, or about to be another: nothing of it can be asked any more."""


class KernelRestarted(Struct, frozen=True, eq=False):
    """There is another kernel; `replayed`: cells of this session run again in it."""

    replayed: bool


class StateChanged(Struct, frozen=True, eq=False):
    """A cell begins, or none runs any more."""


class CellTyped(Struct, frozen=True, eq=False):
    """A cell that was typed runs; `now`: by the key that runs it whatever it is."""

    block: Block
    now: bool


class CellEnded(Struct, frozen=True, eq=False):
    """A cell has ended; `block` is its place in the transcript, None for an unseen one."""

    event: events.CellDone
    block: Block | None


class UnseenFailed(Struct, frozen=True, eq=False):
    """A cell that the transcript does not show has raised."""

    event: events.Error


class InputWanted(Struct, frozen=True, eq=False):
    """A cell waits for a line, for which it shows `prompt`; one that is a password is not shown."""

    cell: int
    prompt: str
    password: bool


class VariablesChanged(Struct, frozen=True, eq=False):
    """The rows of these variables are old; with `many`, those of any may be."""

    names: Sequence[str]
    many: bool = False


class SettingsChanged(Struct, frozen=True, eq=False):
    """What is set, as the kernel says it."""

    settings: JsonObject


class Pushed(Struct, frozen=True, eq=False):
    """The kernel tells what it has found out beside the program: `kind` is "watch", "nan" ..."""

    kind: str
    data: JsonObject


class PanesMoved(Struct, frozen=True, eq=False):
    """Another set of panes is on the screen, or they have other sizes."""


class WidthsChanged(Struct, frozen=True, eq=False):
    """Widgets have their new sizes: lines that are cut to their width are to be written again."""


class PaneWanted(Struct, frozen=True, eq=False):
    """A pane is to come to the front, maybe one that is not there yet."""

    pane: str


class QuitWanted(Struct, frozen=True, eq=False):
    """The workbench is to be left, after a question where something runs."""
