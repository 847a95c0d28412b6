"""The workbench as controllers see it: the `Bench` of panes, and what those beside the panes need.

It is the one way from a controller to the screen, and knows no controller.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from textual.css.query import NoMatches
from textual.geometry import Region, Size
from textual.screen import Screen

from kbench.tui.arrangement import Arrangement
from kbench.tui.messages import CopyText, TitleChanged
from kbench.tui.panes.bench import Answer, Event, View
from kbench.tui.prompt.prompt import Prompt
from kbench.tui.session.link import Link, Work
from kbench.tui.session.session_state import SessionState
from kbench.tui.signal import Pushed, SettingsChanged, Signal
from kbench.tui.text.text import safe
from kbench.tui.transcript.transcript import Transcript
from kbench.tui.workbench import Workbench, workbench
from kbench.workbench.core_types import JsonObject
from kbench.workbench.protocol.question import Question, ReplyData

if TYPE_CHECKING:
    from textual.notifications import SeverityLevel
    from textual.timer import Timer
    from textual.widget import Widget
    from textual.worker import Worker


class ScreenBench:
    """Hands on to the screen, the app, the link and the signal."""

    def __init__(self, screen: Screen[None], arrangement: Arrangement, events: Signal) -> None:
        self._screen = screen
        self._signal = events
        self.arrangement = arrangement
        self.session = SessionState()

    # ------------------------------------------------------------------ what there is

    @property
    def app(self) -> Workbench:
        """The app, with its own members."""
        return workbench(self._screen)

    @property
    def link(self) -> Link:
        """To the kernel session."""
        return self.app.link

    @property
    def state(self) -> str:
        """The kernel's state."""
        return self.session.state

    @property
    def size(self) -> Size:
        """Of the screen."""
        return self._screen.size

    @property
    def region(self) -> Region:
        """Of the screen."""
        return self._screen.region

    @property
    def in_front(self) -> bool:
        """Whether no dialog is open."""
        return self._screen.app.screen is self._screen

    @property
    def prompt(self) -> Prompt:
        """The editor."""
        return self._screen.query_one(Prompt)

    @property
    def transcript(self) -> Transcript:
        """The cells."""
        return self._screen.query_one(Transcript)

    def view(self, kind: type[View], name: str = "") -> View | None:
        """The first widget of a class."""
        found = self._screen.query(f"#{name}" if name else kind)
        return found.first(kind) if found else None

    def one(self, kind: type[View]) -> View:
        """The widget of a class; raises NoMatches."""
        return self._screen.query_one(kind)

    def views(self, kind: type[View]) -> Iterable[View]:
        """All widgets of a class: none before they are mounted."""
        return self._screen.query(kind)

    def has(self, name: str) -> bool:
        """Whether there is a widget of a name."""
        return bool(self._screen.query(f"#{name}"))

    async def mount(self, widget: Widget) -> None:
        """Put one more widget on the screen."""
        await self._screen.mount(widget)

    # ------------------------------------------------------------------ doing

    def run(
        self, work: Work, opens: bool = False, group: str = "default", exclusive: bool = False
    ) -> None:
        """Run something on the event loop; exclusive work takes the place of its group's.

        `opens`: it ends with a dialog, for which keys that are typed meanwhile wait.
        """

        async def begin() -> None:
            waiting = self.app.key_queue.opening() if opens else contextlib.nullcontext()
            with self.while_it_stands(), waiting:
                await work()

        _: Worker[None] = self._screen.run_worker(begin, group=group, exclusive=exclusive)

    @contextlib.contextmanager
    def while_it_stands(self) -> Iterator[None]:
        """Around what may come to widgets late, when the workbench is left and they are gone."""
        try:
            yield
        except NoMatches:
            if self._screen.app.is_running:
                raise

    def later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call something once."""
        return self._screen.set_timer(seconds, call)

    def every(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Call something again and again."""
        return self._screen.set_interval(seconds, call)

    def after_refresh(self, call: Callable[[], object]) -> None:
        """Call something once what has changed is on the screen."""
        self._screen.call_after_refresh(call)

    async def ask(self, question: Question[ReplyData], timeout: float = 5.0) -> ReplyData:
        """The inspector's answer."""
        return await self.link.ask(question, timeout)

    def clock(self) -> float:
        """Seconds of the app."""
        return self.app.clock()

    def exit(self) -> None:
        """Leave the workbench."""
        self._screen.app.exit(0)

    # ------------------------------------------------------------------ panes

    def shows(self, pane: str) -> bool:
        """Whether a pane is on the screen."""
        return self.arrangement.shows(pane)

    def go(self, pane: str) -> None:
        """Bring a pane to the front."""
        self.arrangement.go(pane)

    def title(self, pane: str, words: str) -> None:
        """What stands in a pane's frame."""
        self.arrangement.title(TitleChanged(pane, words))

    def bring(self, text: str) -> None:
        """Put other code into the prompt; what stood there is kept among the inputs."""
        if self.prompt.keep():
            self.notify(f"{self.key_word('undo')} restores your input", 4)
        self.prompt.put(text)

    def show_place(self, place: str) -> None:
        """Go to the cell of a place."""
        if not place:
            self.notify("the line that made this is not known", 2)
        elif self.transcript.show_place(place):
            self.go("transcript")
            self.notify(safe(place), 3)
        else:
            self._screen.app.copy_to_clipboard(place)
            self.notify(f"{safe(place)} (copied)", 5)

    # ------------------------------------------------------------------ words

    def notify(
        self, words: str, seconds: float | None = None, warning: bool = False, error: bool = False
    ) -> None:
        """Tell the user something."""
        severity: SeverityLevel = "error" if error else "warning" if warning else "information"
        self._screen.notify(words, severity=severity, timeout=seconds, markup=False)

    def open(
        self, dialog: Screen[Answer], take: Callable[[Answer | None], None] | None = None
    ) -> None:
        """Open a dialog."""
        self._screen.app.push_screen(dialog, take)

    def copy(self, text: str, what: str) -> None:
        """Put a text on the clipboard."""
        self._screen.post_message(CopyText(text, what))

    def key_word(self, ident: str) -> str:
        """The key of an action."""
        return self.app.key_word(ident)

    # ------------------------------------------------------------------ what is kept and told

    def save(self) -> None:
        """Write down what is kept."""
        self.app.save_state()

    def take_settings(self, settings: JsonObject) -> None:
        """The kernel has told its settings, shown at once."""
        if settings:
            self.session.settings = dict(settings)
            self.tell(SettingsChanged(self.session.settings))

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
