"""Watched expressions with their old and new value; evaluated only when something has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import ipywidgets as widgets

from kbench.engine.graph import variables
from kbench.engine.runtime import config
from kbench.notebook.base import given
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.namespace_widget import NamespaceWidget, button, name_options
from kbench.notebook.drawing import loss_picture
from kbench.notebook.html import views
from kbench.notebook.markup.columns import wrapped
from kbench.notebook.markup.markup import Html, element, join
from kbench.workbench.core_types import JsonObject
from kbench.workbench.kernel import live_sampling
from kbench.workbench.progress.course import Curve
from kbench.workbench.protocol.findings import Watch, WatchRow
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.watches import watches
from kbench.workbench.watches.watch_lines import line, words

if TYPE_CHECKING:
    from kbench.notebook.base.redraw import Undo

EMPTY = "no watches yet: add an expression such as K.mean(w)"
NEEDED = "an expression, a tensor, an array, a K.function, a Keras model, or a list of such"
HELD = "values from before the running cell"
_MIN_DRAWN = 3
"""Values of a watch from which on their course is drawn."""


class WatchList(NamespaceWidget):
    """Expressions that are evaluated beside the program after each change.

    While a cell trains, they are evaluated between its calls, and the loss is drawn as a curve.

    Arguments:
        expressions: what to watch at first: an expression, a tensor, an array, a K.function or a
            Keras model, or a list of such.
        namespace: a dictionary, or None for the names of the running shell.
    """

    def __init__(
        self, expressions: object = (), namespace: dict[str, object] | None = None
    ) -> None:
        super().__init__(namespace, [variables.changed, config.changed], [self._listen])
        self._follow_cells(self._sample, self._look)
        self.expressions: list[str] = []
        self._known: dict[str, WatchRow] = {}
        self._courses: dict[str, Curve] = {}
        self._message = ""
        self._make_controls()
        wanted = [expression for expression in given.as_list(expressions) if expression is not None]
        for text in [
            self._name_of_argument("expressions", expression, given.is_watched, NEEDED)
            for expression in wanted
        ]:
            self.add(text)
        self._list()

    def _make_controls(self) -> None:
        self.expression = widgets.Text(
            description="expression",
            placeholder="K.mean(w)",
            tooltip="A Python expression that only reads; Enter watches it",
            continuous_update=False,
        )
        self.chosen = Dropdown(
            description="watch", options=[("-", None)], tooltip="The watch that the buttons act on"
        )
        buttons = [
            button("add", "Watch the expression", lambda: self._typed(self.expression.value)),
            button("remove", "Stop watching the chosen one", self._remove_chosen),
            button("evaluate", "Evaluate the chosen one, however long it takes", self._force),
        ]
        self.add_button, self.remove_button, self.evaluate_button = buttons
        self._on_change(self.expression, self._typed)
        self.children = (
            widgets.HBox([self.expression, buttons[0]], layout={"flex_flow": "row wrap"}),
            widgets.HBox([self.chosen, *buttons[1:]], layout={"flex_flow": "row wrap"}),
            self._body,
        )

    # -------------------------------------------------------------- the list

    def add(self, expression: str) -> None:
        """Watch one more expression."""
        text = expression.strip()
        with self._lock:
            if not text or text in self.expressions:
                self._message = f"{text} is watched already" if text else ""
            elif len(self.expressions) >= watches.MAX_WATCHES:
                self._message = f"the limit is {watches.MAX_WATCHES} watches; remove one first"
            else:
                self.expressions.append(text)
                self._message = ""
        self._list(text)

    def remove(self, expression: str) -> None:
        """Watch it no longer."""
        with self._lock:
            if expression in self.expressions:
                self.expressions.remove(expression)
                self._known.pop(expression, None)
                self._courses.pop(expression, None)
        self._list()

    def choose(self, name: str) -> None:
        """Put a name into the field, where one press watches it."""
        with self._own_changes():
            self.expression.value = name

    def _typed(self, text: str) -> None:
        if text.strip():
            self.add(text)
            with self._own_changes():
                self.expression.value = ""

    def _remove_chosen(self) -> None:
        if self.chosen.value is not None:
            self.remove(self.chosen.value)

    def _force(self) -> None:
        if self.chosen.value is not None:
            self._ask([self.chosen.value])

    def _list(self, value: str | None = None) -> None:
        """Bring choices and table in line with the list."""
        kept = self.chosen.value if value is None else value
        self._set_options(self.chosen, name_options(self.expressions), kept)
        if self.redraws.running:
            self.redraws.throttle.request_now()
        else:
            self._show()

    # -------------------------------------------------------------- values

    def refresh(self) -> None:
        """Have evaluated what has changed."""
        self._ask([])

    def _ask(self, force: list[str]) -> None:
        with self._lock:
            wanted = list(self.expressions)
        if not wanted:
            self._show()
            return
        try:
            data = self.hub.ask(Watch(expressions=wanted, force=force))
        except ProtocolError as error:
            self._message = error.reason
            self._show()
            return
        if data.held and self._sampled:  # they are told as soon as they are evaluated
            return
        news = [row.replaced(changed=False) for row in data.rows if row.state != "new"]
        self._take(news, HELD if data.held else "")

    def _listen(self) -> Undo:
        return self.hub.pushes["watch"].subscribe(self._while_open(self._told))

    def _told(self, data: JsonObject) -> None:
        self._take([WatchRow.from_json(row) for row in data["rows"]], "")

    def _settle(self) -> None:
        if self.expressions:
            self._take(self.hub.inspector.sample_watches(list(self.expressions)), "")

    def _sample(self) -> None:
        """Show what the watches are between two calls of the running cell."""
        with self._lock:
            wanted = list(self.expressions)
        if wanted:
            self._take(self.hub.inspector.sample_watches(wanted), live_sampling.WORDS)
        else:
            self._show()

    def _look(self) -> None:
        """The same beside a cell that makes no calls; only what is cheap."""
        with self._lock:
            wanted = list(self.expressions)
        rows = self.hub.inspector.look_at_watches(wanted)
        if rows:
            self._take(rows, live_sampling.WORDS)

    def _take(self, rows: Sequence[WatchRow], note: str) -> None:
        """News of some watches: a reply and what is told later may cross."""
        with self._lock:
            for row in rows:
                name = row.expression
                known = self._known.get(name) or WatchRow(expression=name)
                if name in self.expressions and (row.count or 0) >= (known.count or 0):
                    self._known[name] = row
                    if row.count != known.count:
                        self._keep(row)
            self._held = note
        self._show()

    def _keep(self, row: WatchRow) -> None:
        """Note the value of a number for its course."""
        try:
            value = float(row.text) if row.state == "value" else None
        except ValueError:
            value = None
        if value is None:
            self._courses.pop(row.expression, None)
        else:
            self._courses.setdefault(row.expression, Curve()).add(value)

    _held = ""

    def _static_html(self) -> str:
        with self._lock:
            rows = [
                self._known.get(expression) or WatchRow(expression=expression)
                for expression in self.expressions
            ]
            message = self._message or self._held
            courses = [self._drawn(row.expression) for row in rows]
        hub = self._hub
        losses = Html("") if hub is None else hub.losses()
        if not rows:
            said = element("p", views.long(message or EMPTY), class_="kb-note", role="status")
            return views.styled(join([said, losses]))
        lines: list[tuple[object, ...]] = [
            (row.expression, views.long(row.before), wrapped(views.long(_value(row))))
            for row in rows
        ]
        heads: tuple[str, ...] = ("watch", "before", "now")
        if any(courses):
            heads = (*heads, "course")
            lines = [(*line, course) for line, course in zip(lines, courses, strict=True)]
        return views.listing("watches", heads, lines, message, losses or None)

    def _drawn(self, expression: str) -> Html:
        """The course of a watched number."""
        course = self._courses.get(expression)
        if course is None or course.count < _MIN_DRAWN:
            return Html("")
        words = f"{expression}: {course.count} values, the last {course.last:.4g}"
        size = loss_picture.SMALL_WIDTH, loss_picture.SMALL_HEIGHT
        return loss_picture.curve(course, words, *size)

    def _static_text(self) -> str:
        with self._lock:
            rows = [
                self._known.get(expression) or WatchRow(expression=expression)
                for expression in self.expressions
            ]
        hub = self._hub
        losses = [] if hub is None else hub.losses_text()
        head = ["watches", *(line(row) for row in rows)] if rows else [EMPTY]
        return "\n".join([*head, *losses])


def _value(row: WatchRow) -> str:
    """The value in words, or why there is none yet."""
    if row.state == "new":
        return "not evaluated yet"
    if row.state == "slow":
        return f"{row.note}; choose it and press evaluate  {row.text}".strip()
    mark = "changed: " if row.changed else ""
    return f"{mark}{words(row)}"
