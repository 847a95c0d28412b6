"""A graph as a drawing: inputs on top, dtypes and shapes on the edges; in the colour of the text.

SVG without style, script, link or id, so it is drawn alike wherever it is allowed, and in dark as
in light.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbench.notebook.drawing.graph_layout import Layout, laid_out
from kbench.notebook.html.markup import Html, element, escape, join
from kbench.workbench.protocol.graphs import GraphNode

NODE_WIDTH, NODE_HEIGHT = 190, 44
"""Pixels of a node."""
LAYER_GAP = 40
"""Pixels from one layer to the next."""
_PITCH_WIDTHS = 1.16
"""Widths of a node from middle to middle."""
_NODE_CHARACTERS = 27
"""Characters of a line within a node."""
_EDGE_CHARACTERS = 24
"""Characters on an edge, beside the line."""
_FOOT_PIXELS = 24
"""Pixels below the last layer, where its dtypes and shapes stand."""
_FONT = "ui-monospace, Menlo, Consolas, monospace"


def drawing(
    title: str, rows: Sequence[GraphNode], beside: Mapping[int, str], hidden: Mapping[int, int]
) -> Html:
    """The picture of rows with `id`, `inputs` (ids among the rows), `name`, `op`, `spec`.

    `beside` is told within a node (its variables), `hidden` how many nodes a folded one hides.
    """
    known = {row.id: row for row in rows}
    inputs = {
        key: [key for key in dict.fromkeys(row.inputs) if key in known]
        for key, row in known.items()
    }
    layout = laid_out(inputs)
    wide = round(layout.width * NODE_WIDTH * _PITCH_WIDTHS) + 8
    high = layout.layers * (NODE_HEIGHT + LAYER_GAP) - LAYER_GAP + _FOOT_PIXELS
    lines = [_edge(layout, source, key) for key, sources in inputs.items() for source in sources]
    nodes = [
        _node(layout, row, beside.get(key, ""), hidden.get(key, 0)) for key, row in known.items()
    ]
    parts = [
        element("title", f"graph of {title}"),
        element("desc", description(rows)),
        join(lines),
        join(nodes),
    ]
    return element(
        "svg",
        join(parts),
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_label=f"graph of {title}: {len(rows)} nodes, listed below",
        width=str(wide),
        height=str(high),
        viewBox=f"0 0 {wide} {high}",
        font_family=_FONT,
        font_size="11",
        fill="currentColor",
        stroke="none",
    )


def description(rows: Sequence[GraphNode]) -> str:
    """The drawing in a sentence."""
    ends = {source for row in rows for source in row.inputs}
    last = [row.name for row in rows if row.id not in ends]
    return f"{len(rows)} nodes in layers, from the inputs down to {', '.join(last[:4])}"


def _middle(layout: Layout, place: float) -> float:
    return place * NODE_WIDTH * _PITCH_WIDTHS + 4


def _top(layer: int) -> float:
    return layer * (NODE_HEIGHT + LAYER_GAP) + 4


def _node(layout: Layout, row: GraphNode, beside: str, hidden: int) -> Html:
    """A box with the operation, the name, and what is told beside it."""
    key = row.id
    left, top = _middle(layout, layout.place[key]) - NODE_WIDTH / 2, _top(layout.layer[key])
    kind = row.kind or "layer"
    dashes = {"stroke_dasharray": "4 3"} if hidden else {}
    rounded = "18" if kind in ("placeholder", "variable", "constant") else "3"
    box = element(
        "rect",
        x=f"{left:.0f}",
        y=f"{top:.0f}",
        width=str(NODE_WIDTH),
        height=str(NODE_HEIGHT),
        rx=rounded,
        fill="none",
        stroke="currentColor",
        stroke_width="1.2",
        **dashes,
    )
    more = f" (+{hidden} folded)" if hidden else ""
    head = f"{row.op if kind == 'tensor' else kind}{more}"
    if kind == "layer":
        head = row.op
    second = row.name.removesuffix(":0")
    if beside:
        second = beside
    middle = left + NODE_WIDTH / 2
    texts = [
        _text(middle, top + down, words, _NODE_CHARACTERS, font_weight=weight)
        for words, down, weight in ((head, 18, "700"), (_seen(row) or second, 34, "400"))
        if words
    ]
    spec = element(
        "text",
        escape(row.spec, _EDGE_CHARACTERS),
        x=f"{middle + 5:.0f}",
        y=f"{top + NODE_HEIGHT + 14:.0f}",
        font_size="10",
    )
    whole = "  ".join(str(text) for text in (row.name, row.op, row.spec, beside) if text)
    return element("g", join([element("title", escape(whole, 300)), box, *texts, spec]))


def _seen(row: GraphNode) -> str:
    """What a run saw of a node that is not finite, which matters more than its name."""
    return f"{row.bad} not finite!" if row.bad else ""


def _edge(layout: Layout, source: int, key: int) -> Html:
    """The line from a node to one that takes it, past the layers in between."""
    x, y = _middle(layout, layout.place[source]), _top(layout.layer[source]) + NODE_HEIGHT
    path = f"M{x:.0f} {y:.0f}"
    for place, layer in layout.bends.get((source, key), []):
        path += _curve(x, y, _middle(layout, place), _top(layer))
        x, y = _middle(layout, place), _top(layer) + NODE_HEIGHT
        path += f"L{x:.0f} {y:.0f}"
    to_x, to_y = _middle(layout, layout.place[key]), _top(layout.layer[key])
    path += _curve(x, y, to_x, to_y)
    path += f"M{to_x - 4:.0f} {to_y - 6:.0f}L{to_x:.0f} {to_y:.0f}L{to_x + 4:.0f} {to_y - 6:.0f}"
    return Html(f'<path d="{path}" fill="none" stroke="currentColor" opacity="0.6"></path>')


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (y + to_y) / 2
    return f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"


def _text(x: float, y: float, words: str, most: int, **attributes: str) -> Html:
    return element(
        "text", escape(words, most), x=f"{x:.0f}", y=f"{y:.0f}", text_anchor="middle", **attributes
    )
