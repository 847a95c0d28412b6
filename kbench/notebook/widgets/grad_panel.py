"""Gradients of a loss to its variables: norm, share of zeros, what is wrong, and a look into one.

Computed beside the program on what was fed last, while the panel is shown; in a cell that trains,
between its calls (`workbench/kernel/live_sampling.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ipywidgets as widgets

from kbench.engine.graph import variables
from kbench.engine.inspect import describe
from kbench.engine.runtime import config
from kbench.notebook.base import given
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.namespace_widget import NamespaceWidget, button, name_options
from kbench.notebook.html import views
from kbench.notebook.markup.columns import Columns
from kbench.notebook.markup.markup import Html, element, join
from kbench.notebook.widgets.tensor_view import TensorView
from kbench.workbench.analysis.gradients import PREFIX
from kbench.workbench.core_types import JsonObject, Row
from kbench.workbench.kernel import live_sampling
from kbench.workbench.models import keras_models
from kbench.workbench.protocol.findings import Gradient
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.watches.watches import describe_seconds

if TYPE_CHECKING:
    from kbench.notebook.base.redraw import Undo

EMPTY = "no loss yet: make a scalar tensor, such as loss = K.mean(K.square(y - t))"
NEEDED = "a tensor that depends on variables, a K.function, a compiled Keras model, or a name"
COLUMNS = Columns(
    "kb-grads",
    ("variable", "dtype[shape]", "norm", "norm / |variable|", "zeros", "min", "max", "mark"),
    {"min": 760, "max": 760, "norm / |variable|": 580, "zeros": 430},
)
"""The mark, which says what is wrong, stays longest."""
NEWEST = ("the newest scalar", "")
_STATES = {
    "computing": "computing",
    "held": "computed when the running cell ends",
    "live": live_sampling.WORDS,
    "slow": "slow: press compute",
    "stopped": "stopped: press compute",
}


class GradPanel(NamespaceWidget):
    """d loss / d variable for every trainable variable that a loss reaches.

    Arguments:
        loss: a scalar tensor, a compiled Keras model, a K.function, of which the first scalar
            result is meant, a list of these to choose from, or a name; '' takes the newest scalar.
        namespace: a dictionary, or None for the names of the running shell.
    """

    def __init__(self, loss: object = "", namespace: dict[str, object] | None = None) -> None:
        super().__init__(namespace, [variables.changed, config.changed], [self._listen])
        self._follow_cells(self._sample)
        self.view: TensorView | None = None
        names = [
            self._name_of_argument("loss", value, _is_loss, NEEDED) for value in given.as_list(loss)
        ]
        self._losses = [name for name in names if name]  # that were asked for
        self._loss = self._losses[0] if self._losses else ""
        self._data: JsonObject = {}
        self._note, self._newest_number = "", 0
        self._looked: str | None = None  # the gradient that a user looks into
        self._make_controls()
        self._show()

    def _make_controls(self) -> None:
        self.loss = Dropdown(
            description="loss",
            options=[NEWEST, *name_options(self._losses)],
            value=self._loss,
            tooltip="The scalar whose gradients are shown",
        )
        self.look = Dropdown(
            description="look into", options=[("-", None)], tooltip="A gradient to look into"
        )
        self.compute_button = button(
            "compute", "Compute the gradients now, however long it takes", self.compute
        )
        self.stop_button = button("stop", "Stop computing", self._stop)
        self._on_change(self.loss, self._loss_chosen)
        self._on_change(self.look, self._look_chosen)
        top = [self.loss, self.compute_button, self.stop_button]
        self._top = widgets.HBox(top, layout={"flex_flow": "row wrap"})
        self.children = (self._top, self._body, self.look)

    # -------------------------------------------------------------- computing

    def refresh(self) -> None:
        """Have the gradients computed anew."""
        self._ask(force=False)

    def compute(self) -> None:
        """Compute now, with as much time as it takes."""
        self._ask(force=True)

    def choose(self, name: str) -> None:
        """Take a name as the loss if it can be one."""
        from kbench.workbench.analysis.gradients import losses

        if name != self._loss and name in losses(self.hub.view):
            self._loss = name
            self._set_choice(self.loss, name)
            if self.redraws.running:
                self.redraws.throttle.request()

    def _loss_chosen(self, name: str) -> None:
        self._loss = name
        if name:
            self.picked.emit(name)
        self.redraws.throttle.request_now()

    def _ask(self, force: bool) -> None:
        self._loss = self._current_name(self._loss)
        try:
            reply = self.hub.ask(Gradient(loss=self._loss, force=force))
        except ProtocolError as error:
            self._fail(error.reason)
            return
        asked = [name for name in (*self._losses, self._loss) if name]
        names = dict.fromkeys([*asked, *reply.losses])
        self._set_options(self.loss, [NEWEST, *name_options(names)], self._loss)
        if reply.state == "held" and self._sampled:
            return
        if reply.state == "none":
            self._fail("")
        else:
            number, computing = reply.number or 0, reply.state == "computing"
            with self._lock:  # what was computed may be told before this reply, or meanwhile
                if number > self._newest_number or (
                    not computing and number == self._newest_number
                ):
                    self._set_note(_STATES.get(reply.state, ""), reply.loss)

    def _stop(self) -> None:
        self.hub.ask(Gradient(loss=self._loss, stop=True))
        self._set_note(_STATES["stopped"], self._data.get("loss", ""))

    def _listen(self) -> Undo:
        return self.hub.pushes["gradient"].subscribe(self._while_open(self._take))

    def _settle(self) -> None:
        self._loss = self._current_name(self._loss)
        data = self.hub.inspector.sample_gradients(self._loss, force=True)
        if data is not None:
            self._take(data)

    def _sample(self) -> None:
        """Show what the gradients are between two calls of the running cell."""
        data = self.hub.inspector.sample_gradients(self._loss)
        if data is not None:
            self._take(data, _STATES["live"])
        else:
            self._show()  # the losses

    def _take(self, data: JsonObject, note: str = "") -> None:
        """The gradients were computed, or were not."""
        with self._lock:
            self._newest_number = int(data.get("number") or 0)
        if data.get("stopped"):
            words = "held" if data["stopped"] == "cell" else "stopped"
            self._set_note(_STATES[words], data["loss"])
        elif data.get("error"):
            self._fail(str(data["error"]))
        else:
            with self._lock:
                self._data, self._note = data, note
            self._list()
            self._show()

    def _fail(self, reason: str) -> None:
        with self._lock:
            self._data, self._note = {}, reason
        self._list()
        self._show()

    def _set_note(self, words: str, loss: str) -> None:
        """Why the rows may be old; those of another loss go."""
        with self._lock:
            if loss != self._data.get("loss"):
                self._data = {}
            self._note = words
        self._show()

    # -------------------------------------------------------------- one gradient

    def _list(self) -> None:
        rows = self._data.get("rows") or []
        options = [("-", None), *((describe.printable(row["name"]), row["key"]) for row in rows)]
        self._set_options(self.look, options, self._looked)
        self._look(self.look.value)

    def _look_chosen(self, key: str | None) -> None:
        self._looked = key
        self._look(key)
        if key is not None:
            self.picked.emit(key.removeprefix(PREFIX))

    def _look(self, key: str | None) -> None:
        """Show one gradient, in the slice that was on view if it is the same one's."""
        with self._lock:
            if self._closed:
                return
            try:
                value = None if key is None else self.hub.view.get(key)
            except ProtocolError:
                value = None
            name = f"d {self._data.get('loss')} / d {str(key).removeprefix(PREFIX)}"
            if value is None:
                shown, self.view = self.view, None
            elif self.view is not None and self.view.replace(value, name):
                return
            else:
                shown, self.view = self.view, TensorView(value, name)
            parts = () if self.view is None else (self.view,)
            self.children = (self._top, self._body, self.look, *parts)
        if shown is not None:
            shown.close()

    def close(self) -> None:
        """Stop following and remove the panel."""
        super().close()
        with self._lock:
            if self.view is not None:
                self.view.close()

    # -------------------------------------------------------------- drawing

    def _title(self) -> str:
        data = self._data
        whole = "the sum of " if data.get("sum") else ""
        took = describe_seconds(float(data.get("seconds") or 0.0))
        name = data["loss"]
        return f"d {name} / d variable; {whole}{name} is {data['value']}; {took}"

    def _static_html(self) -> str:
        with self._lock:
            data, note = self._data, self._note
        hub = self._hub
        losses = Html("") if hub is None else hub.losses()
        if not data:
            style = "kb-bad" if note and not _is_state(note) else "kb-note"
            said = element("p", views.long(note or EMPTY), class_=style, role="status")
            return views.styled(join([said, losses]))
        lines: list[tuple[object, ...]] = [cells(row) for row in data["rows"]]
        lines += [(name, *[""] * 6, "no path") for name in data["unreached"]]
        fed = f"on {', '.join(data['fed'])}" if data["fed"] else ""
        notes = "; ".join(word for word in (note, fed, data["origin"]) if word)
        return views.listing(self._title(), COLUMNS, lines, notes, losses or None)

    def _static_text(self) -> str:
        if not self._data:
            return self._note or EMPTY
        found = [(*map(str, cells(row)), mark(row)) for row in self._data["rows"]]
        rows = [(one[0], one[1], f"norm {one[2]}", f"zeros {one[4]}", one[-1]) for one in found]
        for name in self._data["unreached"]:
            rows.append((describe.printable(name), "", "", "", "no path"))
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:<{size}}" for cell, size in zip(row, wide, strict=True)).rstrip()
            for row in rows
        ]
        fed = [f"on {', '.join(self._data['fed'])}"] if self._data["fed"] else []
        notes = [self._note] if self._note else []
        return "\n".join([self._title(), *(f"  {line}" for line in lines), *fed, *notes])


def cells(row: Row) -> tuple[object, ...]:
    """What is told of one gradient; what is wrong in words."""
    zeros, bad = row["zeros"], mark(row)
    words = join([element("span", f"{bad} !", class_="kb-bad")]) if bad else ""
    numbers = [describe.number(row[key]) for key in ("norm", "ratio", "min", "max")]
    return (
        row["name"],
        describe.spec_text(row["shape"], row["dtype"]),
        numbers[0],
        numbers[1],
        "-" if zeros is None else f"{100 * float(zeros):.0f}%",
        numbers[2],
        numbers[3],
        words,
    )


def mark(row: Row) -> str:
    """What is wrong with one gradient: `dead`, `not finite 3`; empty where nothing is."""
    bad = f" {row['bad']}" if row["bad"] else ""
    return f"{row['mark']}{bad}" if row["mark"] else ""


def _is_loss(value: object) -> bool:
    if describe.is_tensor(value):
        return str(value.kind) == "tensor"
    return keras_models.is_model(value) or describe.is_function(value)


def _is_state(note: str) -> bool:
    return note in _STATES.values()
