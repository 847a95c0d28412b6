"""What stands below a graph of the node that was clicked; the one value that a graph evaluates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe
from kbench.notebook.base.computed import ComputedValue
from kbench.notebook.html import graph_words, views
from kbench.notebook.markup.markup import Html, element, join
from kbench.workbench.analysis.graph_fold import COMPOSITE
from kbench.workbench.inspector import graph_verbs
from kbench.workbench.models import keras_models
from kbench.workbench.protocol.graphs import Graph, GraphNode
from kbench.workbench.protocol.messages import ProtocolError

if TYPE_CHECKING:
    import numpy as np

    from kbench.notebook.base.inspector_hub import InspectorHub
    from kbench.workbench.analysis.graph_fold import Folds

MAX_INNER_NODES = 30
"""Operations of a Keras layer that are listed."""
_MAX_INNER_CHARACTERS = 6_000
"""Of that list."""


class NodeCard:
    """Facts of one node in an HTML widget, `body`; `forget` it when another graph is on view.

    `namespace`: that of the hub, where what was fed is known.
    """

    def __init__(self, namespace: dict[str, object] | None) -> None:
        self.body: Any = widgets.HTML()
        self._namespace = namespace
        self._computed: tuple[int, ComputedValue] | None = None
        self._value_seen: np.ndarray | None = None  # of that node, while it cannot be computed

    def show(
        self, row: GraphNode | None, folds: Folds | None, title: str, hub: InspectorHub
    ) -> None:
        """Show a node of the graph of `title`, or nothing."""
        if row is None or folds is None:
            self.body.value = ""
            return
        value, reason = self._value(row, title, hub)
        found = graph_words.node(row, folds, value, reason)
        self.body.value = views.styled(join([found, _inside(row, title, hub)]))

    def _value(
        self, row: GraphNode, title: str, hub: InspectorHub
    ) -> tuple[np.ndarray | None, str]:
        """The value of a node on what was fed last, or why there is none."""
        if row.kind in ("", "update", COMPOSITE):
            return None, ""
        try:
            nodes = describe.nodes(graph_verbs.roots(hub.view.get(title)))
            if row.id >= len(nodes):  # the name is another graph by now
                return None, ""
            held = describe.held_array(nodes[row.id])
            if held is not None:
                return held, ""
            if self._computed is None or self._computed[0] != row.id:
                self.forget()
                self._computed = row.id, ComputedValue(nodes[row.id], self._namespace)
            found = self._computed[1].recompute()
            self._value_seen = self._value_seen if found is None else found
            return self._value_seen, ""
        except (ArgumentError, ProtocolError) as error:
            return None, error.reason

    def forget(self) -> None:
        """Compute no more."""
        if self._computed is not None:
            self._computed[1].close()
            self._computed = self._value_seen = None


def _inside(row: GraphNode, title: str, hub: InspectorHub) -> Html:
    """The operations of a Keras layer, as lines."""
    if row.kind:
        return Html("")
    try:
        parts = keras_models.parts(hub.view.get(title), title)
        layers = [part for part in parts if keras_models.is_layer(part.value)]
        own = [part for part in layers if keras_models.name_of(part.value) == row.name]
        rows = hub.ask(Graph(name=own[0].address)).rows if own else []
    except ProtocolError:
        rows = []
    if not rows:
        return Html("")
    lines = graph_words.text(row.name, rows[:MAX_INNER_NODES])
    return element("pre", views.lines(lines, _MAX_INNER_CHARACTERS))
