"""The workbench as controllers of panes see it: their `Bench`, on the main screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.screen import Screen

from kbench.tui.messages import CopyText, TitleChanged
from kbench.tui.panes.bench import Answer, Event, View
from kbench.tui.session.link import Work
from kbench.tui.signal import Pushed, Signal
from kbench.tui.text.text import safe
from kbench.tui.transcript.transcript import Transcript
from kbench.workbench.core_types import JsonObject

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel

    from kbench.tui.main_screen import MainScreen


class ScreenBench:
    """Hands on to the screen, the app, the link and the signal."""

    def __init__(self, screen: MainScreen, signal: Signal) -> None:
        self._screen = screen
        self._signal = signal

    @property
    def state(self) -> str:
        """The kernel's state."""
        return self._screen.session_controller.state

    def run(self, work: Work, opens: bool = False) -> None:
        """Run something on the event loop."""
        self._screen.background(work, opens=opens)

    async def ask(self, verb: str, timeout: float = 5.0, **arguments: object) -> JsonObject:
        """The inspector's answer."""
        return await self._screen.bench.link.ask(verb, timeout, **arguments)

    def clock(self) -> float:
        """Seconds of the app."""
        return self._screen.bench.clock()

    def view(self, kind: type[View], name: str = "") -> View | None:
        """The first widget of a class."""
        found = self._screen.query(f"#{name}" if name else kind)
        return found.first(kind) if found else None

    def shows(self, pane: str) -> bool:
        """Whether a pane is on the screen."""
        return self._screen.shows(pane)

    def go(self, pane: str) -> None:
        """Bring a pane to the front."""
        self._screen.action_pane(pane)

    def title(self, pane: str, words: str) -> None:
        """What stands in a pane's frame."""
        self._screen.on_title_changed(TitleChanged(pane, words))

    def notify(self, words: str, seconds: float | None = None, warning: bool = False) -> None:
        """Tell the user something."""
        severity: SeverityLevel = "warning" if warning else "information"
        self._screen.notify(words, severity=severity, timeout=seconds, markup=False)

    def open(
        self, dialog: Screen[Answer], take: Callable[[Answer | None], None] | None = None
    ) -> None:
        """Open a dialog."""
        self._screen.app.push_screen(dialog, take)

    def copy(self, text: str, what: str) -> None:
        """Put a text on the clipboard."""
        self._screen.post_message(CopyText(text, what))

    def show_place(self, place: str) -> None:
        """Go to the cell of a place."""
        screen = self._screen
        if not place:
            self.notify("it is not known which line made this", 2)
        elif screen.query_one(Transcript).show_place(place):
            screen.action_pane("transcript")
            self.notify(safe(place), 3)
        else:
            screen.app.copy_to_clipboard(place)
            self.notify(f"{safe(place)} (copied)", 5)

    def key_word(self, ident: str) -> str:
        """The key of an action."""
        return self._screen.bench.key_word(ident)

    def save(self) -> None:
        """Write down what is kept."""
        self._screen.bench.save_state()

    def take_settings(self, settings: JsonObject) -> None:
        """The kernel has told its settings."""
        self._screen.session_controller.take_settings(settings)

    def on(self, kind: type[Event], handler: Callable[[Event], None]) -> None:
        """Subscribe to a class of events."""
        self._signal.subscribe(kind, handler)

    def tell(self, event: object) -> None:
        """Tell those who have subscribed."""
        self._signal.emit(event)

    def told(self, kind: str, handler: Callable[[JsonObject], None]) -> None:
        """Subscribe to one kind of what the kernel pushes."""

        def take(event: Pushed) -> None:
            if event.kind == kind:
                handler(event.data)

        self._signal.subscribe(Pushed, take)
