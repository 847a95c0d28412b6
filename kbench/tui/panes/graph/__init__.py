"""How a tensor is computed: `part` has the nodes, `view` draws, `controller` fetches by pages."""

from __future__ import annotations

from kbench.tui.keys.key import Key
from kbench.tui.panes.spec import PaneSpec, Taker

HINTS = {
    "node_value": "value", "node_fold": "fold", "node_unfold": "unfold", "node_search": "find",
    "node_place": "line", "node_copy": "copy",
}  # fmt: skip
KEYS = (
    Key("graph", "node_leave", "escape", "screen.pane('prompt')", "back to the prompt"),
    Key("graph", "node_up", "up,k", "move(-1)", "node above"),
    Key("graph", "node_down", "down,j", "move(1)", "node below"),
    Key("graph", "node_page_up", "pageup", "move_page(-1)", "a page up"),
    Key("graph", "node_page_down", "pagedown", "move_page(1)", "a page down"),
    Key("graph", "node_first", "g,home", "edge(0)", "first node"),
    Key("graph", "node_last", "G,end", "edge(1)", "last node"),
    Key("graph", "node_value", "enter", "value", "its value on what was fed last"),
    Key("graph", "node_place", "o", "place", "go to the line that made the node"),
    Key("graph", "node_toggle", "space", "turn", "fold or unfold what leads to the node"),
    Key("graph", "node_unfold", "right,l", "unfold", "unfold it, open a call, or go to its input"),
    Key("graph", "node_fold", "left,h", "fold", "fold it, close a call, or go to what uses it"),
    Key("graph", "node_fold_all", "minus", "fold_all(True)", "fold everything"),
    Key("graph", "node_unfold_all", "plus", "fold_all(False)", "unfold everything"),
    Key("graph", "node_search", "slash", "search", "find a node by name, operation or shape"),
    Key("graph", "node_next", "n", "search_again(1)", "find the next one"),
    Key("graph", "node_previous", "N", "search_again(-1)", "find the one before"),
    Key("graph", "node_copy", "y", "copy", "copy what is known of the node"),
)
SPEC = PaneSpec(
    id="graph",
    title="Graph",
    letter="r",
    about="The graph of a tensor, a function or a model: from the output down to the inputs.",
    region="stack",
    view="kbench.tui.panes.graph.view:GraphView",
    controller="kbench.tui.panes.graph.controller:GraphController",
    takers=(Taker("graph", ("graph",), HINTS),),
    keys=KEYS,
)  # fmt: skip
