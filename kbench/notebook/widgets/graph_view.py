"""How a tensor, function or Keras model is computed, drawn in layers.

What one call of K or one Keras layer made is one node, which a click opens. Nothing is evaluated
but the value of a node that was clicked, beside the program, on what was fed last.
"""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets as widgets

from kbench.engine.inspect import describe
from kbench.engine.runtime import config, profile
from kbench.notebook.base import click_map, given
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.namespace_widget import NamespaceWidget, button, name_options, sentence
from kbench.notebook.drawing import graph_svg
from kbench.notebook.html import graph_words, views
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES, Html, details, element, join
from kbench.notebook.markup.style import STYLE
from kbench.notebook.widgets.graph_node import NodeCard
from kbench.workbench.analysis.graph_fold import (
    COMPOSITE,
    Folds,
    composed,
    composite_id,
    members_of,
)
from kbench.workbench.protocol.graphs import GraphNode
from kbench.workbench.protocol.messages import ProtocolError

MAX_NODES = 2_000
"""Nodes that are asked for."""
MAX_DRAWN_NODES = 80
"""Nodes of a drawing, when all is unfolded."""
_FIRST_NODES = 30
"""Nodes that are drawn before anything is unfolded."""
_MAX_DRAWING_BYTES = 48_000
"""Bytes of a live drawing with its list, without style; what is saved is `MAX_OUTPUT_BYTES`."""
_FILE_GROWTH = 1.36
"""Of a drawing that becomes an image: base64, and its ground."""
NEEDED = "a tensor, a K.function, a Keras model or layer, a list of tensors, or a name"
EMPTY = "no graph yet: make a tensor, such as y = K.softmax(K.dot(x, w))"


class GraphView(NamespaceWidget):
    """The graph above a name: operations in boxes, dtypes and shapes on the edges.

    A click on a box shows the node's line, shape and value; on one with a double border, which
    stands for all operations of a call, it opens them.

    Arguments:
        name: a tensor, a K.function, a model or layer of Keras, a list of tensors, or the name of
            one of these; '' takes the newest.
        namespace: a dictionary, or None for the names of the running shell.
    """

    def __init__(self, name: object = "", namespace: dict[str, object] | None = None) -> None:
        super().__init__(namespace, [profile.inputs_fed, config.changed])
        self._card = NodeCard(namespace)
        self._name = self._name_of_argument("name", name, given.has_graph, NEEDED)
        self._title = ""
        self._rows: list[GraphNode] = []
        self._opened: set[int] = set()  # calls whose operations are drawn one by one
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
        self.find = widgets.Text(
            description="find",
            placeholder="name, operation or shape",
            tooltip="Find a node by name, operation or shape",
            continuous_update=False,
        )
        self.node = click_map.ClickMap("The nodes of the drawing")
        self.fold_button = button("fold", "Hide what only the node uses, or show it", self._fold)
        self.close_button = button("close", "Draw the call of the node as one again", self._close)
        self.all_button = button("unfold all", "Show every node that there is room for", self._all)
        self.none_button = button("fold all", "Show the outputs alone", self._none)
        self._words = widgets.HTML()
        self._on_change(self.chosen, self._chosen)
        self._on_change(self.find, self._search)
        self._on_change(self.node, self._clicked)
        first = [self.chosen, self.find]
        second = [self.fold_button, self.close_button, self.all_button, self.none_button]
        boxes = [widgets.HBox(box, layout={"flex_flow": "row wrap"}) for box in (first, second)]
        drawn_in = click_map.canvas(self._body, self.node)
        self.children = (*boxes, drawn_in, self._card.body, self._words)

    @property
    def html(self) -> str:
        """What the widget shows below its controls at present."""
        return f"{self._body.value}{self._card.body.value}{self._words.value}"

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
        """Read the graph again; what was folded or opened stays so."""
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
        self._total = len(rows) + found.layers_cut
        if not found.layers:
            self._total = found.total
        before, self._rows = self._rows, rows
        if self._title == name and self._folds is not None and _built(before) == _built(rows):
            self._compose()
        else:
            self._opened, self._folds = set(), None
            self._card.forget()
            fold_far(self._compose(), _FIRST_NODES)
        self._title, self._message = name, ""

    def _compose(self) -> Folds:
        """Bring the nodes in line with which calls are open; what was folded stays so."""
        before, found = self._folds, Folds(composed(self._rows, self._opened))
        if before is not None:
            found.folded = {key for key in before.folded if found.inputs.get(key)}
        self._folds = found
        return found

    # -------------------------------------------------------------- a click, folding

    def _clicked(self, key: int | None) -> None:
        """Show what is known of a node; open one that stands for a call."""
        with self._lock:
            row = None if key is None or self._folds is None else self._folds.rows.get(key)
            if row is not None and row.kind == COMPOSITE and row.call is not None:
                key = self._open(row.call)
        self._show(key)

    def _open(self, call: int) -> int:
        """Draw the operations of a call one by one; the result of the call."""
        self._opened.add(call)
        own = members_of(self._rows)[call]
        folds = self._compose()
        if len(drawn(folds)) > MAX_DRAWN_NODES:
            fold_far(folds, MAX_DRAWN_NODES)
        return own[0].id

    def _close(self) -> None:
        with self._lock:
            key = self.node.value
            row = None if key is None or self._folds is None else self._folds.rows.get(key)
            if row is not None and row.call in self._opened:
                self._opened.discard(row.call)
                key = composite_id(row.call)
                self._compose()
        self._show(key)

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
        key = None
        with self._lock:
            found = Folds(self._rows).matches(words) if self._folds is not None else []
            if found:
                key, row = found[0], next(row for row in self._rows if row.id == found[0])
                if row.call is not None:
                    self._opened.add(row.call)
                self._compose().reveal(key)
            self._message = "" if found else f"no node has {words!r}"
        self._show(key)

    # -------------------------------------------------------------- drawing

    def _show(self, key: int | None = None) -> None:
        """Draw; `key` is the node to choose, by default the one that is chosen."""
        with self._lock:
            folds = self._folds
            wanted = self.node.value if key is None else key
            picture, words = self._page(_MAX_DRAWING_BYTES)
            places = [] if picture is None else list(picture.boxes)
            rows = {} if folds is None else folds.rows
            with self._own_changes():
                labels = [(_label(rows[place]), place) for place in places]
                tips = [graph_svg.told(rows[place], "") for place in places]
                self.node.show(labels, tips, wanted)
            style = ""
            if picture is not None:
                style = f"<style>{self.node.rules(picture.boxes.values())}</style>"
                words = words.replace(f"<style>{STYLE}</style>", "")  # it is in the picture's
            shown = "" if picture is None else views.styled(picture.svg) + style
            if self._words.value != words:
                self._words.value = words
                self._update_twin()
            self._draw(shown)
            self._show_card()

    def _show_card(self) -> None:
        """What is known of the chosen node."""
        key, folds = self.node.value, self._folds
        row = None if key is None or folds is None else folds.rows.get(key)
        self.close_button.disabled = row is None or row.call not in self._opened
        self.fold_button.disabled = row is None or folds is None or not folds.inputs.get(row.id)
        self._card.show(row, folds, self._title, self.hub)

    def close(self) -> None:
        """Stop following and remove the widget."""
        with self._lock:
            self._card.forget()
        super().close()

    def _page(self, limit: int, growth: float = 1.0) -> tuple[graph_svg.Drawing | None, str]:
        """The drawing, and what stands below it: as much of them as `limit` bytes hold.

        A byte of the drawing becomes `growth` bytes.
        """

        def fits(picture: graph_svg.Drawing, words: str) -> bool:
            return growth * len(picture.svg.encode()) + len(words.encode()) <= limit

        folds = self._folds
        if folds is None:
            words = self._message or EMPTY
            return None, sentence(words, "kb-bad" if self._message else "kb-note")
        found = self._drawing(folds)
        for most in (20, 12, 6):
            if fits(*found):
                return found
            fewer = Folds(list(folds.rows.values()))
            fold_far(fewer, most)
            found = self._drawing(fewer)
        if fits(*found):
            return found
        rows, besides, hidden = _drawn_parts(folds)
        listed = graph_words.listing(rows[:_FIRST_NODES], besides, hidden)
        return None, views.styled(join([self._notes(folds, len(rows)), listed]))

    def _drawing(self, folds: Folds) -> tuple[graph_svg.Drawing, str]:
        rows, besides, hidden = _drawn_parts(folds)
        picture = graph_svg.drawing(describe.printable(self._title), rows, besides, hidden)
        title = f"graph of {describe.printable(self._title)} as a list"
        listed = details(title, graph_words.listing(rows, besides, hidden))
        return picture, views.styled(join([self._notes(folds, len(rows)), listed]))

    def _notes(self, folds: Folds, shown: int) -> Html:
        """How much of the graph is on view, and what the last action had to say."""
        left = len(folds.rows) - len(folds.inline) - shown + self._total - len(self._rows)
        told = f"{shown} nodes shown, {left} folded" if left > 0 else ""
        notes = [note for note in (told, self._message) if note]
        return join([element("p", views.long(note), role="status") for note in notes])

    def _static_html(self) -> str:
        with self._lock:
            picture, words = self._page(MAX_OUTPUT_BYTES, _FILE_GROWTH)
            if picture is None:
                return words
            title = describe.printable(self._title)
            shown = views.picture(picture.file, f"graph of {title}, listed below", kind="svg+xml")
            return words.replace("</style>", f"</style>{element('p', shown)}", 1)

    def _static_text(self) -> str:
        with self._lock:
            folds = self._folds
        if folds is None:
            return self._message or EMPTY
        return graph_words.text(self._title, folds.visible()[: 2 * MAX_DRAWN_NODES])


def _built(rows: Sequence[GraphNode]) -> list[tuple[int, list[int | None], int | None]]:
    """What of rows says how the graph is built, and not what ran."""
    return [(row.id, row.inputs, row.call) for row in rows]


def _label(row: GraphNode) -> str:
    return describe.printable(f"{row.name.removesuffix(':0')} {row.op}")


def drawn(folds: Folds) -> list[GraphNode]:
    """The nodes in boxes: those that are not folded away, and not told beside another."""
    return [row for row in folds.visible() if row.id not in folds.inline][: 2 * MAX_DRAWN_NODES]


def _drawn_parts(folds: Folds) -> tuple[list[GraphNode], dict[int, str], dict[int, int]]:
    """The nodes in boxes, what is told beside them, and how many nodes each hides."""
    rows = drawn(folds)
    hidden = {row.id: folds.hidden(row.id) for row in rows if row.id in folds.folded}
    return rows, {row.id: graph_words.beside(row, folds) for row in rows}, hidden


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
