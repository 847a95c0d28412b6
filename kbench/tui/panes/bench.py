"""What fills a pane, and all that it sees of the workbench: no screen, and no other controller.

`Panes` makes one controller for each pane that names one, and subscribes it to what happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from textual.screen import Screen
from textual.widget import Widget

from kbench.tui import signal
from kbench.tui.session.link import Work
from kbench.workbench.core_types import JsonObject
from kbench.workbench.protocol.question import Question, ReplyData

View = TypeVar("View", bound=Widget)
Answer = TypeVar("Answer")
Event = TypeVar("Event")


class Bench(Protocol):
    """The workbench as a controller sees it."""

    @property
    def state(self) -> str:
        """The kernel's: 'starting', 'idle', 'busy', 'dead' or 'failed'."""

    def run(self, work: Work, opens: bool = False) -> None:
        """Run something on the event loop; `opens`: it ends with a dialog."""

    async def ask(self, question: Question[ReplyData], timeout: float = 5.0) -> ReplyData:
        """The inspector's answer; raises AskFailed."""

    def clock(self) -> float:
        """Seconds, as the workbench counts them."""

    def view(self, kind: type[View], name: str = "") -> View | None:
        """The widget of a class, with a name where there are several; None while there is none."""

    def shows(self, pane: str) -> bool:
        """Whether a pane is on the screen."""

    def go(self, pane: str) -> None:
        """Bring a pane to the front and give it the focus."""

    def title(self, pane: str, words: str) -> None:
        """What stands in a pane's frame, or beside its tab."""

    def notify(self, words: str, seconds: float | None = None, warning: bool = False) -> None:
        """Tell the user something for a while."""

    def open(
        self, dialog: Screen[Answer], take: Callable[[Answer | None], None] | None = None
    ) -> None:
        """Open a dialog; `take` gets its answer."""

    def copy(self, text: str, what: str) -> None:
        """Put a text on the clipboard, and say so."""

    def show_place(self, place: str) -> None:
        """Go to the cell of a place like `In [3] line 2`; of a file, say and copy where."""

    def key_word(self, ident: str) -> str:
        """The key of an action, as people write it."""

    def save(self) -> None:
        """Write down what is kept for the next session."""

    def take_settings(self, settings: JsonObject) -> None:
        """The kernel has told its settings."""

    def on(self, kind: type[Event], handler: Callable[[Event], None]) -> None:
        """Have `handler` called for each event of a class: one of `tui/signal.py`, or a message of
        a pane, whichever it comes from."""

    def tell(self, event: object) -> None:
        """Have all handlers of an event called now."""

    def told(self, kind: str, handler: Callable[[JsonObject], None]) -> None:
        """Have `handler` called with what the kernel pushes of a kind."""


class PaneController:
    """What all controllers are told. Asks only for what is on the screen and may be another."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def subscribe(self) -> None:
        """Be told, from now on, of what happens to the kernel, its cells and its variables."""
        on = self.bench.on
        on(signal.KernelStarted, lambda _: self.started())
        on(signal.KernelLost, lambda _: self.forget())
        on(signal.VariablesChanged, lambda event: self.changed(event.names, event.many))
        on(signal.CellEnded, lambda _: self.cell_done())
        on(signal.StateChanged, lambda _: self.state_changed())
        on(signal.SettingsChanged, lambda event: self.settings_changed(event.settings))
        on(signal.PanesMoved, lambda _: self.refresh())

    def mounted(self) -> None:
        """The widgets of all panes are there, and empty."""

    def started(self) -> None:
        """A kernel answers: nothing is known of what it holds."""
        self.changed()

    def changed(self, names: Sequence[str] | None = None, many: bool = False) -> None:
        """Something is another: these names, or with None or `many` any of them."""
        self.refresh()

    def cell_done(self) -> None:
        """A cell has ended, which may have run anything."""
        self.changed()

    def state_changed(self) -> None:
        """A cell begins, or none runs any more."""

    def settings_changed(self, settings: JsonObject) -> None:
        """What is set, as the kernel says it."""

    def forget(self) -> None:
        """The kernel is another one, or gone: nothing of it can be asked any more."""

    def refresh(self) -> None:
        """Ask for what is on the screen and may be another: other panes may be shown now."""
