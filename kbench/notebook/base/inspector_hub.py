"""What widgets ask of a namespace: the inspector that answers the terminal's panes, shared by them.

There is one for each namespace while any widget on it is open. It knows which values were fed since
then, or since `%load_ext kbench`, and evaluates only what a shown widget asks for, between cells.
"""

from __future__ import annotations

import time

from kbench.engine.core import fork_safety
from kbench.engine.runtime.signal import Signal
from kbench.notebook.base import given, recording, redraw
from kbench.notebook.drawing import loss_picture
from kbench.notebook.markup.markup import Html
from kbench.workbench.core_types import JsonObject
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.inspector.namespace import View
from kbench.workbench.kernel.live_sampling import RATE
from kbench.workbench.progress import courses
from kbench.workbench.protocol.graphs import Graph, GraphReply
from kbench.workbench.protocol.question import Question, ReplyData

PUSHES = ("watch", "gradient", "jobs")


class InspectorHub:
    """An inspector, and signals that carry what it tells unasked, by the kind of news."""

    def __init__(self, names: dict[str, object], hidden: dict[str, object] | None) -> None:
        self.pushes = {kind: Signal(f"hub.{kind}") for kind in PUSHES}
        self.inspector = Inspector(names, self._publish, hidden)
        before = recording.earlier()
        if before is not None:
            self.inspector.recorder.adopt(before)
        self._recording = recording.Recording(self.inspector.recorder)
        self._loss_text: tuple[int, float, Html] | None = None  # calls, when, as drawn
        self.users = 0
        if redraw.in_cell():
            self.inspector.cell_started()
        self._ends = [
            redraw.on_cells("pre_run_cell", self._cell_started),
            redraw.on_cells("pre_run_cell", self.inspector.cell_started),
            redraw.on_cells("post_run_cell", self._cell_ended),
            redraw.on_cells("post_run_cell", self.inspector.cell_ended),
        ]

    def _cell_started(self) -> None:
        courses.program.cell_started(self.view.snapshot().values())

    def _cell_ended(self) -> None:
        courses.program.cell_ended(self.view.snapshot().values())

    @property
    def view(self) -> View:
        """The names."""
        return self.inspector.view

    def ask(self, question: Question[ReplyData]) -> ReplyData:
        """What the inspector answers.

        Raises:
            ProtocolError: it refuses; the reason is for the user.
        """
        request = {"id": 0, "verb": question.verb, **question.arguments()}
        return question.answer(self.inspector.handle(request))

    def graph(self, name: str, most: int) -> GraphReply:
        """All pages of a graph, up to `most` nodes."""
        whole = page = self.ask(Graph(name=name, start=0))
        while page.next is not None and len(whole.rows) < most:
            page = self.ask(Graph(name=name, start=page.next))
            whole.rows.extend(page.rows)
        return whole

    def name_of(self, value: object) -> str:
        """The name of a value; one that has none gets one, for the widgets alone."""
        for name, known in self.view.values().items():
            if known is value:
                return name
        name = given.unique_name(given.identifier_of(value), self.view.snapshot())
        self.view.widget_values[name] = value
        return name

    @property
    def busy(self) -> bool:
        """Whether a cell runs."""
        return self.inspector.busy

    def losses(self) -> Html:
        """The losses of the last cell that trained, as curves with their numbers.

        While a cell runs, they are drawn anew at most `RATE` times a second.
        """
        curves = courses.program.shown()
        calls, now = sum(found.curve.count for found in curves), time.monotonic()
        drawn = self._loss_text
        rested = drawn is None or now >= drawn[1] + 1 / RATE or not self.busy
        if drawn is None or (rested and drawn[0] != calls):
            drawn = self._loss_text = calls, now, loss_picture.losses(curves, self._called)
        return drawn[2]

    def losses_text(self) -> list[str]:
        """The same in words."""
        return loss_picture.lines(courses.program.shown(), self._called)

    def _called(self, value: object) -> str | None:
        return next((name for name, known in self.view.values().items() if known is value), None)

    def record(self) -> redraw.Undo:
        """Have every call recorded until the returned function is called."""
        return self._recording.record_all()

    def _publish(self, message: JsonObject) -> None:
        signal = self.pushes.get(str(message.get("push")))
        if signal is not None:
            signal.emit(message["data"])

    def close(self) -> None:
        """Answer no more."""
        for end in self._ends:
            end()
        self._recording.end()
        self.inspector.close()


_lock = fork_safety.lock()
_hubs: dict[int, InspectorHub] = {}


def acquire(namespace: dict[str, object] | None) -> InspectorHub:
    """The hub of a namespace, by default the user's; whoever has it gives it back to `release`."""
    names, hidden = redraw.named(namespace)
    with _lock:
        hub = _hubs.get(id(names))
        if hub is None:
            hub = _hubs[id(names)] = InspectorHub(names, hidden)
        hub.users += 1
        return hub


def release(hub: InspectorHub) -> None:
    """One user less; without any the hub ends."""
    with _lock:
        hub.users -= 1
        if hub.users:
            return
        for key in [key for key, other in _hubs.items() if other is hub]:
            del _hubs[key]
    hub.close()
