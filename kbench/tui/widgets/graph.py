"""How a symbol or a layer comes about, as a text tree; stands in the place of the grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.content import Content

from kbench.tui.lines import LineView
from kbench.tui.palette import MUTED
from kbench.tui.text import safe
from kbench.workbench import graph_text
from kbench.workbench.graph_text import GraphLine

MOST_RAILS = 24  # cells; wider rails are cut


class GraphView(LineView):
    """Lines from the output down to the inputs; scrolls with the arrow keys."""

    def __init__(self) -> None:
        super().__init__(id="graph")
        self._lines: list[Content] = []

    def show(self, reply: Mapping[str, Any]) -> None:
        """Draw the reply to `graph`: of a layer first the layers, then its own operations."""
        layers, rows = reply.get("layers") or [], reply.get("rows") or []
        drawn: list[Content] = []
        if layers:
            drawn += [self._title("layers, output first"), *self._tree(layers)]
            drawn += self._more(reply.get("layers_cut"), "layers")
        if rows:
            if layers:
                drawn += [Content(""), self._title("inside this layer")]
            drawn += self._tree(rows)
            drawn += self._more(reply.get("cut"), "nodes")
        self._lines = drawn
        self.scroll_to(y=0, animate=False)
        self.refit()

    def clear(self) -> None:
        """Nothing is shown."""
        self._lines = []
        self.refit()

    def _title(self, words: str) -> Content:
        return Content.styled(f" {words}", MUTED)

    def _more(self, cut: object, what: str) -> list[Content]:
        return [self._title(f"({cut} more {what})")] if cut else []

    def _tree(self, rows: Sequence[Mapping[str, Any]]) -> list[Content]:
        ascii = self.glyphs.ellipsis != "…"
        lines = graph_text.lines(rows, ascii)
        rails = min(max(len(one.rails) for one in lines), MOST_RAILS)
        name = max(len(_name(one)) for one in lines)
        spec = max(len(_spec(one)) for one in lines)
        return [self._line(one, rails, name, spec) for one in lines]

    def _line(self, line: GraphLine, rails: int, name: int, spec: int) -> Content:
        left = f" {line.rails[:rails]:<{rails}} "
        if line.row is None:
            return Content.styled(left.rstrip(), MUTED)
        mark = "  (input)" if line.row.get("end") else ""
        beside = f"  with {safe(line.beside)}" if line.beside else mark
        return Content.assemble(
            (left, MUTED),
            (f"{_name(line):<{name}} ", "bold"),
            f"{_spec(line):<{spec}} {_op(line)}",
            (beside, MUTED),
        )

    def row_count(self) -> int:
        """As many as there are lines."""
        return len(self._lines)

    def row(self, y: int) -> Content:
        """One line, cut to the width."""
        line, width = self._lines[y], max(self.text_width, 4)
        if line.cell_length <= width:
            return line
        return line.truncate(width - len(self.glyphs.ellipsis)) + self.glyphs.ellipsis


def _name(line: GraphLine) -> str:
    return "" if line.row is None else safe(str(line.row["name"])).removesuffix(":0")


def _spec(line: GraphLine) -> str:
    return "" if line.row is None else safe(str(line.row["spec"]))


def _op(line: GraphLine) -> str:
    if line.row is None:
        return ""
    return "" if line.row.get("kind") in ("placeholder", "variable") else safe(str(line.row["op"]))
