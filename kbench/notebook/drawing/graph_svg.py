"""A graph as a drawing: inputs on top, dtypes and shapes on the edges; in the colour of the text.

SVG without style, script, link or id, so it is drawn alike wherever it is allowed, and in dark as
in light. Boxes are as wide and high as their words, which break at blanks, `_`, `/` and commas.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kbench.notebook.drawing.graph_layout import Layout, laid_out
from kbench.notebook.markup.markup import Html, element, escape, join
from kbench.workbench.analysis.graph_fold import COMPOSITE
from kbench.workbench.protocol.graphs import GraphNode

LAYER_GAP = 26
"""Pixels from one layer to the next, besides the lines that stand between."""
MIN_CHARACTERS, MAX_CHARACTERS = 12, 30
"""Of a line within a node; all nodes of a drawing are as wide as the widest."""
CHARACTER_PIXELS = 6.9
"""Of the widest common monospaced font at `_FONT_SIZE`, with a little to spare."""
LINE_PIXELS = 15
"""From one line within a node to the next."""
MARGIN = 4
"""Pixels around the drawing."""
_FONT_SIZE = 11
_EDGE_CHARACTER_PIXELS, _EDGE_LINE_PIXELS = 6.3, 12
"""Of what stands on edges, which is set smaller."""
_BESIDE_PIXELS = 5
"""From an edge to what stands on its right."""
_PADDING = 8
"""Pixels from the sides of a box to its words."""
_PITCH_WIDTHS = 1.16
"""Widths of a node from middle to middle."""
_FONT = "ui-monospace, Menlo, Consolas, monospace"
_BREAKS = re.compile(r"[^\s_/,]*[\s_/,]+|[^\s_/,]+")


class Box(NamedTuple):
    """Where a node is drawn, in pixels."""

    left: int
    top: int
    width: int
    height: int


class Drawing(NamedTuple):
    """The markup, its width in pixels, and where the nodes are by their ids."""

    svg: Html
    width: int
    boxes: dict[int, Box]

    @property
    def file(self) -> bytes:
        """A picture of its own, in black on white. Where SVG is not allowed, images mostly are."""
        head, _, rest = self.svg.partition(">")
        ground = element("rect", width="100%", height="100%", fill="#fff")
        return f"{head}>{ground}{rest}".encode()


def drawing(
    title: str, rows: Sequence[GraphNode], beside: Mapping[int, str], hidden: Mapping[int, int]
) -> Drawing:
    """The picture of rows with `id`, `inputs` (ids among the rows), `name`, `op`, `spec`.

    `beside` is told within a node (its variables), `hidden` how many nodes a folded one hides.
    """
    known = {row.id: row for row in rows}
    inputs = {
        key: [key for key in dict.fromkeys(row.inputs) if key in known]
        for key, row in known.items()
    }
    words = {
        key: _words(row, beside.get(key, ""), hidden.get(key, 0)) for key, row in known.items()
    }
    placed = _Placed(laid_out(inputs), known, words)
    lines = [_edge(placed, source, key) for key, sources in inputs.items() for source in sources]
    nodes = [
        _node(placed, row, words[key], beside.get(key, ""), bool(hidden.get(key)))
        for key, row in known.items()
    ]
    parts = [
        element("title", f"graph of {title}"),
        element("desc", description(rows)),
        join(lines),
        *nodes,
    ]
    svg = element(
        "svg",
        Html("\n".join(parts)),  # words that a site leaves without their SVG stay apart
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        aria_label=f"graph of {title}: {len(rows)} nodes, listed below",
        width=str(placed.wide),
        height=str(placed.high),
        viewBox=f"0 0 {placed.wide} {placed.high}",
        font_family=_FONT,
        font_size=str(_FONT_SIZE),
        fill="currentColor",
        stroke="none",
    )
    return Drawing(svg, placed.wide, {key: placed.box(key) for key in known})


def description(rows: Sequence[GraphNode]) -> str:
    """The drawing in a sentence."""
    ends = {source for row in rows for source in row.inputs}
    last = [row.name for row in rows if row.id not in ends]
    return f"{len(rows)} nodes in layers, from the inputs down to {', '.join(last[:4])}"


# ------------------------------------------------------------------ words and their room


def columns(text: str) -> int:
    """How many columns of a monospaced font a text takes."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def wrapped(text: str, most: int) -> list[str]:
    """The text in lines of at most `most` columns, none of it left out.

    >>> wrapped("batch_normalization float32[?, 28]", 20)
    ['batch_normalization', 'float32[?, 28]']
    """
    lines = [""]
    for piece in _BREAKS.findall(text):
        if columns((lines[-1] + piece).rstrip()) <= most:
            lines[-1] += piece
            continue
        if lines[-1]:
            lines.append("")
        for character in piece:
            if columns(lines[-1] + character) > most:
                lines.append("")
            lines[-1] += character
    return [line.strip() for line in lines if line.strip()]


def _words(row: GraphNode, beside: str, hidden: int) -> tuple[list[str], list[str]]:
    """The lines of a node: what it does in bold, then its name or the variables that it takes."""
    kind = row.kind or "layer"
    head = row.op if kind in ("tensor", "layer", COMPOSITE) else kind
    head += f" (+{hidden} folded)" if hidden else ""
    second = f"{row.bad} not finite!" if row.bad else beside or row.name.removesuffix(":0")
    return wrapped(head, MAX_CHARACTERS), wrapped(second, MAX_CHARACTERS)


class _Placed:
    """A layout in pixels."""

    def __init__(
        self,
        layout: Layout,
        known: Mapping[int, GraphNode],
        words: Mapping[int, tuple[list[str], list[str]]],
    ) -> None:
        self.layout = layout
        lines = [line for heads, others in words.values() for line in (*heads, *others)]
        widest = max([MIN_CHARACTERS, *map(columns, lines)])
        self.node_width = round(widest * CHARACTER_PIXELS) + 2 * _PADDING
        self.pitch = self.node_width * _PITCH_WIDTHS
        room = int((self.pitch - 12) / _EDGE_CHARACTER_PIXELS)
        self.specs = {key: wrapped(row.spec, room) for key, row in known.items()}
        self.heights = {
            key: (len(heads) + len(others)) * LINE_PIXELS + 12
            for key, (heads, others) in words.items()
        }
        self.tops: list[int] = []
        self.layer_heights: list[int] = []
        top = MARGIN
        for layer in range(layout.layers):
            there = [key for key in known if layout.layer[key] == layer]
            between = max((len(self.specs[key]) for key in there), default=0) * _EDGE_LINE_PIXELS
            self.tops.append(top)
            self.layer_heights.append(max((self.heights[key] for key in there), default=0))
            top += self.layer_heights[-1] + between + LAYER_GAP
        ends = [
            self.middle(layout.place[key])
            + _BESIDE_PIXELS
            + max(map(columns, lines)) * _EDGE_CHARACTER_PIXELS
            for key, lines in self.specs.items()
            if lines
        ]
        self.wide = round(max([layout.width * self.pitch + MARGIN, *ends])) + MARGIN
        self.high = top - LAYER_GAP + 2 * MARGIN

    def middle(self, place: float) -> float:
        return place * self.pitch + MARGIN

    def box(self, key: int) -> Box:
        left = self.middle(self.layout.place[key]) - self.node_width / 2
        top = self.tops[self.layout.layer[key]]
        return Box(round(left), top, self.node_width, self.heights[key])


# ------------------------------------------------------------------ nodes and edges


def _node(
    placed: _Placed,
    row: GraphNode,
    words: tuple[list[str], list[str]],
    beside: str,
    is_folded: bool,
) -> Html:
    """A box with its words, and its dtype and shape below; a composite has a double border."""
    box = placed.box(row.id)
    borders = [_border(box, row, is_folded, 0)]
    if row.kind == COMPOSITE:
        borders.append(_border(box, row, is_folded, 3))
    middle, down = box.left + box.width / 2, box.top + LINE_PIXELS + 2
    texts = []
    for number, line in enumerate([*words[0], *words[1]]):
        weight = "700" if number < len(words[0]) else "400"
        x, y = f"{middle:.0f}", f"{down + number * LINE_PIXELS:.0f}"
        texts.append(
            element("text", escape(line), x=x, y=y, text_anchor="middle", font_weight=weight)
        )
    below = box.top + box.height + 13
    texts += [
        element(
            "text",
            escape(line),
            x=f"{middle + _BESIDE_PIXELS:.0f}",
            y=str(below + number * _EDGE_LINE_PIXELS),
            font_size="10",
        )
        for number, line in enumerate(placed.specs[row.id])
    ]
    title = element("title", escape(told(row, beside), 300))
    return element("g", Html("\n".join([title, *borders, *texts])))


def told(row: GraphNode, beside: str) -> str:
    """A node in one line: all of what a box may have had to break."""
    return "  ".join(str(text) for text in (row.name, row.op, row.spec, beside) if text)


def _border(box: Box, row: GraphNode, is_folded: bool, inset: int) -> Html:
    dashes = {"stroke_dasharray": "4 3"} if is_folded else {}
    rounded = "18" if row.kind in ("placeholder", "variable", "constant") else "3"
    return element(
        "rect",
        x=str(box.left + inset),
        y=str(box.top + inset),
        width=str(box.width - 2 * inset),
        height=str(box.height - 2 * inset),
        rx=rounded,
        fill="none",
        stroke="currentColor",
        stroke_width="0.8" if inset else "1.2",
        **dashes,
    )


def _edge(placed: _Placed, source: int, key: int) -> Html:
    """The line from a node to one that takes it, past the layers in between."""
    start, end = placed.box(source), placed.box(key)
    x, y = start.left + start.width / 2, float(start.top + start.height)
    path = f"M{x:.0f} {y:.0f}"
    y += len(placed.specs[source]) * _EDGE_LINE_PIXELS + 4  # past what stands beside the edge
    path += f"L{x:.0f} {y:.0f}"
    for place, layer in placed.layout.bends.get((source, key), []):
        top = placed.tops[layer]
        path += _curve(x, y, placed.middle(place), top)
        x, y = placed.middle(place), top + placed.layer_heights[layer]
        path += f"L{x:.0f} {y:.0f}"
    to_x, to_y = end.left + end.width / 2, end.top
    path += _curve(x, y, to_x, to_y)
    path += f"M{to_x - 4:.0f} {to_y - 6:.0f}L{to_x:.0f} {to_y:.0f}L{to_x + 4:.0f} {to_y - 6:.0f}"
    return Html(f'<path d="{path}" fill="none" stroke="currentColor" opacity="0.6"></path>')


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (y + to_y) / 2
    return f"C{x:.0f} {middle:.0f} {to_x:.0f} {middle:.0f} {to_x:.0f} {to_y:.0f}"
