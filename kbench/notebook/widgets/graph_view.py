"""How a tensor, function or Keras model comes about, drawn in layers; never evaluates anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ipywidgets as widgets

from kbench.engine.inspect import describe
from kbench.engine.runtime import config, profile
from kbench.notebook.base import given
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.namespace_widget import NamespaceWidget, button, name_options, sentence
from kbench.notebook.drawing import graph_svg
from kbench.notebook.html import views
from kbench.notebook.html.markup import MAX_OUTPUT_BYTES, Html, details, element, join
from kbench.workbench.analysis import graph_text
from kbench.workbench.analysis.graph_fold import Folds
from kbench.workbench.protocol.graphs import GraphNode
from kbench.workbench.protocol.messages import ProtocolError

MAX_NODES = 2_000
"""Nodes that are asked for."""
MAX_DRAWN_NODES = 80
"""Nodes of a drawing, when all is unfolded."""
_FIRST_NODES = 30
"""Nodes that are drawn before anything is unfolded."""
_MAX_DRAWING_BYTES = 60_000
"""Bytes of a live drawing with its list; what is saved is held to `MAX_OUTPUT_BYTES`."""
_MAX_INLINE_VARIABLES = 2
"""Variables named within a node: what a line of it holds."""
NEEDED = "a tensor, a K.function, a Keras model or layer, a list of tensors, or a name"
EMPTY = "no graph yet: make a tensor, such as y = K.softmax(K.dot(x, w))"


class GraphView(NamespaceWidget):
    """The graph above a name: operations in boxes, dtypes and shapes on the edges.

    Arguments:
        name: a tensor, a K.function, a model or layer of Keras, a list of tensors, or the name of
            one of these; '' takes the newest.
        namespace: a dictionary, or None for the names of the running shell.
    """

    def __init__(self, name: object = "", namespace: dict[str, object] | None = None) -> None:
        super().__init__(namespace, [profile.inputs_fed, config.changed])
        self._name = self._name_of_argument("name", name, given.has_graph, NEEDED)
        self._title = ""
        self._folds: Folds | None = None
        self._total = 0
        self._message = ""
        self._make_controls()
        self.refresh()

    def _make_controls(self) -> None:
        self.chosen = Dropdown(
            description="graph of",
            options=[("-", None)],
            tooltip="The tensor, function or model whose graph is drawn",
        )
        self.node = Dropdown(
            description="node", options=[("-", None)], tooltip="The node that is folded or unfolded"
        )
        self.find = widgets.Text(
            description="find",
            placeholder="name, operation or shape",
            tooltip="Find a node by name, operation or shape",
            continuous_update=False,
        )
        self.fold_button = button("fold", "Hide what only the node uses, or show it", self._fold)
        self.all_button = button("unfold all", "Show every node that there is room for", self._all)
        self.none_button = button("fold all", "Show the outputs alone", self._none)
        self._on_change(self.chosen, self._chosen)
        self._on_change(self.find, self._search)
        first = [self.chosen, self.find]
        second = [self.node, self.fold_button, self.all_button, self.none_button]
        boxes = [widgets.HBox(box, layout={"flex_flow": "row wrap"}) for box in (first, second)]
        self.children = (*boxes, self._body)

    # -------------------------------------------------------------- what is shown

    def choose(self, name: str) -> None:
        """Draw the graph of a name if it has one."""
        if name != self._name and name in self._names():
            self._name = name
            self._set_choice(self.chosen, name)
            if self.redraws.running:
                self.redraws.throttle.request()

    def _chosen(self, name: str | None) -> None:
        if name is not None:
            self._name = name
            self.picked.emit(name)
            self.redraws.throttle.request_now()

    def _names(self) -> list[str]:
        """Names that have a graph, the newest last."""
        return [name for name, value in self.hub.view.values().items() if given.has_graph(value)]

    def refresh(self) -> None:
        """Read the graph again; what was folded stays so."""
        names = self._names()
        self._name = self._current_name(self._name)
        values = self.hub.view.values()
        single = [name for name in names if type(values.get(name)) not in (list, tuple)]
        name = self._name or next(reversed(single), "")
        choices = names if not name or name in names else [name, *names]
        self._set_options(self.chosen, name_options(choices), name)
        with self._lock:
            if not name:
                self._folds, self._message = None, ""
            else:
                self._read(name)
        self._show()

    def _read(self, name: str) -> None:
        try:
            found = self.hub.graph(name, MAX_NODES)
        except ProtocolError as error:
            self._folds, self._message = None, error.reason
            return
        rows = found.layers or found.rows
        before, self._folds = self._folds, Folds(rows)
        self._total = len(rows) + found.layers_cut
        if not found.layers:
            self._total = found.total
        if self._title == name and before is not None and before.inputs == self._folds.inputs:
            self._folds.folded = before.folded
        else:
            fold_far(self._folds, _FIRST_NODES)
        self._title, self._message = name, ""

    # -------------------------------------------------------------- folding

    def _fold(self) -> None:
        with self._lock:
            if self._folds is not None and self.node.value is not None:
                self._folds.toggle(self.node.value)
        self._show()

    def _all(self) -> None:
        with self._lock:
            if self._folds is not None:
                fold_far(self._folds, MAX_DRAWN_NODES)
        self._show()

    def _none(self) -> None:
        with self._lock:
            if self._folds is not None:
                self._folds.fold_all()
        self._show()

    def _search(self, words: str) -> None:
        if not words.strip():
            return
        with self._lock:
            found = [] if self._folds is None else self._folds.matches(words)
            if found and self._folds is not None:
                self._folds.reveal(found[0])
            self._message = "" if found else f"no node has {words!r}"
        self._show()
        if found:
            self._set_options(self.node, self.node.options, found[0])

    # -------------------------------------------------------------- drawing

    def _show(self) -> None:
        with self._lock:
            folds = self._folds
            shown = [] if folds is None else drawn(folds)
            options = [(_option(row, folds), row.id) for row in shown if folds is not None]
            kept = self.node.value
            self._draw(self._page(_MAX_DRAWING_BYTES))
            self._set_options(self.node, options, kept)

    def _page(self, limit: int) -> str:
        """The drawing and the list, or as much of them as `limit` bytes hold."""
        folds = self._folds
        if folds is None:
            return sentence(self._message or EMPTY, "kb-bad" if self._message else "kb-note")
        text = self._drawing(folds)
        for most in (20, 12, 6):
            if len(text.encode()) <= limit:
                return text
            fewer = Folds(list(folds.rows.values()))
            fold_far(fewer, most)
            text = self._drawing(fewer)
        return text if len(text.encode()) <= limit else views.styled(self._words(folds))

    def _drawing(self, folds: Folds) -> str:
        rows, beside, hidden = _drawn_parts(folds)
        picture = graph_svg.drawing(describe.printable(self._title), rows, beside, hidden)
        listed = details("as a list", _list(rows, beside, hidden))
        return views.styled(join([picture, self._notes(folds, len(rows)), listed]))

    def _words(self, folds: Folds) -> Html:
        """What is left where no drawing is small enough."""
        rows, beside, hidden = _drawn_parts(folds)
        return join([self._notes(folds, len(rows)), _list(rows[:_FIRST_NODES], beside, hidden)])

    def _notes(self, folds: Folds, shown: int) -> Html:
        """How much of the graph is on view, and what the last action had to say."""
        left = self._total - len(folds.inline) - shown
        told = f"{shown} nodes shown, {left} folded" if left > 0 else ""
        notes = [note for note in (told, self._message) if note]
        return join([element("p", views.long(note), role="status") for note in notes])

    def _static_html(self) -> str:
        with self._lock:
            return self._page(MAX_OUTPUT_BYTES)

    def _static_text(self) -> str:
        with self._lock:
            folds = self._folds
        if folds is None:
            return self._message or EMPTY
        lines = graph_text.lines(folds.visible()[: 2 * MAX_DRAWN_NODES])
        texts = (f"{line.rails}  {_line(line.row, line.beside)}" for line in lines)
        return "\n".join([f"graph of {describe.printable(self._title)}", *texts])


def _line(row: GraphNode | None, beside: str) -> str:
    if row is None:
        return ""
    return "  ".join(str(text) for text in (row.name, row.op, row.spec, beside) if text)


def drawn(folds: Folds) -> list[GraphNode]:
    """The nodes in boxes: those that are not folded away, and not told beside another."""
    return [row for row in folds.visible() if row.id not in folds.inline][: 2 * MAX_DRAWN_NODES]


def _drawn_parts(folds: Folds) -> tuple[list[GraphNode], dict[int, str], dict[int, int]]:
    """The nodes in boxes, what is told beside them, and how many nodes each hides."""
    rows = drawn(folds)
    hidden = {row.id: folds.hidden(row.id) for row in rows if row.id in folds.folded}
    return rows, {row.id: _beside(row, folds) for row in rows}, hidden


def fold_far(folds: Folds, most: int) -> None:
    """Unfold from the outputs on, nearest first, until `most` nodes are on view."""
    folds.unfold_all()
    if len(drawn(folds)) <= most:
        return
    folds.fold_all()
    queue = list(folds.roots)
    shown = len(queue)
    seen = set(queue)
    for key in queue:  # grows while it is read
        new = [source for source in folds.inputs[key] if source not in seen]
        if shown + len(new) > most:
            continue
        folds.folded.discard(key)
        shown += len(new)
        seen.update(new)
        queue += new


def _beside(row: GraphNode, folds: Folds) -> str:
    """The variables that a node takes, in words."""
    texts = [
        f"{folds.rows[source].name.removesuffix(':0')} {folds.rows[source].spec}"
        for source in row.inputs
        if source in folds.inline
    ]
    more = (
        f" and {len(texts) - _MAX_INLINE_VARIABLES} more"
        if len(texts) > _MAX_INLINE_VARIABLES
        else ""
    )
    return ", ".join(texts[:_MAX_INLINE_VARIABLES]) + more


def _option(row: GraphNode, folds: Folds | None) -> str:
    mark = "+ " if folds is not None and row.id in folds.folded else ""
    return describe.printable(f"{mark}{row.name} {row.op}", 48)


def _list(rows: Sequence[GraphNode], beside: Mapping[int, str], hidden: Mapping[int, int]) -> Html:
    """The nodes from the outputs to the inputs, in words."""
    names = {row.id: row.name.removesuffix(":0") for row in rows}
    items = []
    for row in rows:
        takes = [names[source] for source in row.inputs if source in names]
        words = [
            f"{names[row.id]}: {row.op} {row.spec}",
            f"takes {', '.join(takes)}" if takes else "",
            f"with {beside[row.id]}" if beside.get(row.id) else "",
            f"{hidden[row.id]} nodes folded" if hidden.get(row.id) else "",
            f"last {row.last.shape}" if row.last is not None else "",
            f"ran as {row.ran.form}" if row.ran is not None else "",
            f"{row.bad} not finite" if row.bad else "",
            row.place or "",
        ]
        items.append(element("li", views.long(", ".join(word for word in words if word))))
    return element("ul", join(items))
