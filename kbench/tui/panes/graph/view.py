"""The graph of a tensor or a model: nodes from the output down, with the shapes they hand on."""

from __future__ import annotations

from msgspec import Struct
from textual import events
from textual.content import Content

from kbench.tui.keys import keys
from kbench.tui.messages import CopyText, PaneMessage
from kbench.tui.panes.graph.part import GraphPart
from kbench.tui.text.glyphs import human_seconds
from kbench.tui.text.lines import LineView
from kbench.tui.text.table import cut
from kbench.tui.text.text import safe
from kbench.tui.themes import MUTED
from kbench.workbench.analysis import graph_text
from kbench.workbench.analysis.graph_fold import COMPOSITE
from kbench.workbench.analysis.graph_text import GraphLine
from kbench.workbench.protocol.graphs import GraphNode, GraphReply

MAX_RAIL_CELLS = 24
"""Cells of rails before the names; wider ones are cut, so that the words keep most of the line."""
MAX_NAME_CELLS = 32
"""Cells of a node's name; longer ones are cut."""
LAYERS = "layers, output first"
BAD = "bold $text-error"


class DrawnLine(Struct, frozen=True):
    """One line: words, or a node of a part of the graph, or rails that join."""

    words: str = ""
    part: int = 0
    line: GraphLine | None = None

    @property
    def key(self) -> int | None:
        """The node on the line."""
        return self.line.row.id if self.line is not None and self.line.row else None


class GraphView(LineView):
    """Nodes under a cursor; the line at the top says all that is known of the one it is on."""

    BINDINGS = keys.bindings("graph")
    COMPONENT_CLASSES = {"table--cursor", "table--header"}
    header_rows = 0  # 2 while there is a graph

    class PlaceWanted(PaneMessage):
        """The line of the program that made a node shall be shown."""

        def __init__(self, place: str) -> None:
            self.place = place
            super().__init__()

    class ValueWanted(PaneMessage):
        """The value of a node of the graph of `root` shall be shown, of a layer or an operation."""

        def __init__(self, view: GraphView, node: GraphNode, layers: bool) -> None:
            self.view = view
            self.root = view.root
            self.node = node
            self.layers = layers
            super().__init__()

    class SearchWanted(PaneMessage):
        """Words to look for shall be asked for."""

        def __init__(self, view: GraphView) -> None:
            self.view = view
            super().__init__()

    def __init__(self, id: str = "graph") -> None:
        super().__init__(id=id)
        self.root = ""  # whose graph it is
        self._parts: list[GraphPart] = []
        self._drawn: list[DrawnLine] = []
        self._widths = (0, 0, 0)
        self._at = 0
        self.search_text = ""
        self.empty_rows = [
            "No graph yet: press {graph} on a tensor, a function",
            "or a model among the variables.",
        ]

    # ------------------------------------------------------------------ content

    def show(self, reply: GraphReply, again: bool = False) -> None:
        """Draw the reply to `graph`: of a layer first the layers, then its own operations.

        `again`: the same graph after a run, or with more of its nodes; cursor and folds stay.
        """
        former, on = self._parts, self.current
        layers, rows = reply.layers or [], reply.rows
        self._parts = []
        if layers:
            self._parts.append(GraphPart(layers, LAYERS, _more(reply.layers_cut, "layers")))
        if rows:
            title = "inside this layer" if layers else ""
            self._parts.append(GraphPart(rows, title, _more(reply.cut, "nodes")))
        if again and on is not None:
            for part, before in zip(self._parts, former, strict=False):
                part.take_over(before)
            self._redraw(on)
            return
        self._at = 0
        self._redraw(None)
        self._at = next((at for at, entry in enumerate(self._drawn) if entry.key is not None), 0)
        self.scroll_to(y=0, animate=False)

    def clear(self) -> None:
        """Nothing is shown."""
        self._parts, self._drawn, self._at = [], [], 0
        self.header_rows = 0
        self.refit()

    def _redraw(self, on: tuple[int, int] | None) -> None:
        """Lay the lines out again, with the cursor on this node if it is drawn."""
        ascii = self.glyphs.ellipsis != "…"
        drawn: list[DrawnLine] = []
        for number, part in enumerate(self._parts):
            if number:
                drawn.append(DrawnLine(" "))
            if part.title:
                drawn.append(DrawnLine(part.title))
            lines = graph_text.lines(part.folds.visible(), ascii)
            drawn += [DrawnLine(part=number, line=line) for line in lines]
            if part.more:
                drawn.append(DrawnLine(part.more))
        self._drawn = drawn
        self.header_rows = 2 if drawn else 0
        nodes = [entry for entry in drawn if entry.line is not None]
        self._widths = (
            min(
                max((len(entry.line.rails) for entry in nodes if entry.line), default=0),
                MAX_RAIL_CELLS,
            ),
            min(max((len(self._label(entry)) for entry in nodes), default=0), MAX_NAME_CELLS),
            max((len(_spec(entry.line)) for entry in nodes if entry.line), default=0),
        )
        if on is not None:
            places = [at for at, entry in enumerate(drawn) if (entry.part, entry.key) == on]
            self._at = places[0] if places else min(self._at, max(len(drawn) - 1, 0))
        self.refit()

    # ------------------------------------------------------------------ lines

    def _label(self, entry: DrawnLine) -> str:
        """The name, and whether there is more below it."""
        if entry.line is None or entry.line.row is None or entry.key is None:
            return ""
        part = self._parts[entry.part]
        mark = "+" if entry.key in part.folds.folded or part.operations(entry.key) else " "
        return f"{mark}{_short(entry.line.row)}"

    def row_count(self) -> int:
        """As many as there are lines."""
        return len(self._drawn) or len(self.folded(self.empty_rows))

    def row(self, y: int) -> Content:
        """One line, cut to the width."""
        if not self._drawn:
            return self.folded(self.empty_rows)[y]
        entry = self._drawn[y]
        content = (
            Content.styled(f" {entry.words}", MUTED) if entry.line is None else self._node(entry)
        )
        mark = ">" if y == self._at and self.has_focus else " "
        return self._fit(Content.assemble(mark, content))

    def _fit(self, line: Content) -> Content:
        width = max(self.text_width, 4)
        return line if line.cell_length <= width else cut(line, width, self.glyphs.ellipsis)

    def _node(self, entry: DrawnLine) -> Content:
        line = entry.line
        assert line is not None
        rails, name, spec = self._widths
        left = f"{line.rails[:rails]:<{rails}} "
        if line.row is None:
            return Content.styled(left.rstrip(), MUTED)
        row = line.row
        label = cut(Content(self._label(entry)), name, self.glyphs.ellipsis).plain
        part = self._parts[entry.part]
        made, hidden = part.operations(row.id), part.folds.hidden(row.id)
        said = f"  ({made} ops)" if made else ""
        said += f"  ({hidden} folded)" if hidden else ""
        seen, bad = _seen(row)
        beside = f"  with {safe(line.beside)}" if line.beside else ""
        mark = "  (input)" if row.end else ""
        return Content.assemble(
            (left, MUTED),
            (f"{label:<{name}} ", "bold"),
            f"{_spec(line):<{spec}}{_op(row)}",
            (said, "bold"),
            f"  = {seen}" if seen else "",
            (f"  {bad}" if bad else "", BAD),
            (beside or mark, MUTED),
            (_took(row), MUTED),
        )

    def header(self, y: int) -> Content:
        """What is known of the node under the cursor, in two lines."""
        here = self.current
        if here is None:
            return Content("")
        part = self._parts[here[0]]
        folds = part.folds
        row = folds.rows[here[1]]
        if y == 0:
            known = [folds.rows[key] for key in row.inputs if key in folds.rows]
            taken = ", ".join(f"{_short(row)} {safe(row.spec)}" for row in known[:8])
            words = f"{safe(row.op)}({taken}) -> {safe(row.spec)}"
            return self._fit(Content.styled(f" {words}", "bold"))
        users = len(folds.users[here[1]])
        parts = [safe(row.place)] if row.place else []
        if made := part.operations(row.id):
            parts.append(f"one call, {made} operations, gives {safe(row.name).removesuffix(':0')}")
        elif row.called:
            parts.append(f"part of {safe(row.called)}")
        if row.ran is not None:
            words = f"{row.ran.form} {human_seconds(row.ran.seconds)}"
            parts.append(f"within a step: {words}" if row.ran.within else words)
        parts += [f"{users} uses"] if users > 1 else []
        return self._fit(Content.styled(f" {'  '.join(parts)}", MUTED))

    def restyle(self, y: int) -> str:
        """The cursor stands out."""
        return "table--cursor" if self._drawn and y == self._at and self.has_focus else ""

    # ------------------------------------------------------------------ the cursor

    @property
    def current(self) -> tuple[int, int] | None:
        """The part and node that the keys refer to."""
        entry = self._drawn[self._at] if self._at < len(self._drawn) else None
        return None if entry is None or entry.key is None else (entry.part, entry.key)

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def _go(self, at: int, step: int = 1) -> None:
        """Put the cursor on the nearest node from a line on, and bring it into view."""
        if not self._drawn:
            return
        at = max(0, min(at, len(self._drawn) - 1))
        ways = (range(at, len(self._drawn)), range(at, -1, -1))
        for way in ways if step > 0 else ways[::-1]:
            found = next((at for at in way if self._drawn[at].key is not None), None)
            if found is not None:
                self._at = found
                break
        height = max(self.size.height - self.header_rows, 1)
        top = self.scroll_offset.y
        if self._at < top:
            self.scroll_to(y=self._at if self._at > 2 else 0, animate=False)
        elif self._at >= top + height:
            self.scroll_to(y=self._at - height + 1, animate=False)
        self.refresh()

    def action_move(self, step: int) -> None:
        """Up or down."""
        self._go(self._at + step, step)

    def action_move_page(self, step: int) -> None:
        """A page up or down."""
        self._go(self._at + step * max(self.size.height - self.header_rows - 1, 1), step)

    def action_edge(self, end: int) -> None:
        """To the first or last node."""
        self._go(len(self._drawn) - 1 if end else 0, -1 if end else 1)

    def on_click(self, event: events.Click) -> None:
        """The clicked node gets the cursor; a double click folds it, or opens a call."""
        at = event.y - self.header_rows + self.scroll_offset.y
        if 0 <= at < len(self._drawn) and self._drawn[at].key is not None:
            self._go(at)
            if event.chain == 2:
                self.action_open_or_fold()

    # ------------------------------------------------------------------ folding, searching, copying

    def action_turn(self) -> None:
        """Fold or unfold the node."""
        if (here := self.current) is not None:
            self._parts[here[0]].folds.toggle(here[1])
            self._redraw(here)

    def action_open_or_fold(self) -> None:
        """Open the call; fold or unfold another node."""
        here = self.current
        if here is not None and self._parts[here[0]].operations(here[1]):
            self.action_unfold()
        else:
            self.action_turn()

    def action_unfold(self) -> None:
        """Unfold the node, or open the call; of one that is neither go to its input."""
        here = self.current
        if here is None:
            return
        part = self._parts[here[0]]
        if here[1] in part.folds.folded:
            self.action_turn()
        elif (result := part.open(here[1])) is not None:
            self._redraw((here[0], result))
        else:
            self.action_move(1)

    def action_fold(self) -> None:
        """Close the call or fold the node; of one that cannot be folded go to what uses it."""
        here = self.current
        if here is None:
            return
        part = self._parts[here[0]]
        if (call := part.close(here[1])) is not None:
            self._redraw((here[0], call))
            return
        folds = part.folds
        if here[1] not in folds.folded and folds.inputs[here[1]]:
            self.action_turn()
            return
        users = set(folds.users[here[1]])
        places = (at for at, entry in enumerate(self._drawn) if entry.part == here[0])
        found = next((at for at in places if self._drawn[at].key in users), None)
        if found is not None:
            self._go(found)

    def action_fold_all(self, fold: bool) -> None:
        """Fold everything and close each call, or neither."""
        here = self.current
        for part in self._parts:
            part.close_all() if fold else part.open_all()
            part.folds.fold_all() if fold else part.folds.unfold_all()
        self._redraw(here)
        self._go(0 if fold else self._at)

    def action_search(self) -> None:
        """Ask what to look for."""
        if self._drawn:
            self.post_message(self.SearchWanted(self))

    def action_search_again(self, step: int) -> None:
        """The next or the last node that was looked for."""
        if not self.search(self.search_text, step) and self.search_text:
            self.app.notify(f"no node has {self.search_text!r}", timeout=2, markup=False)

    def search(self, words: str, step: int = 0) -> bool:
        """Go to a node that has these words; with `step` 0 the first at the cursor or below."""
        self.search_text = words
        found = [
            (number, key) for number, part in enumerate(self._parts) for key in part.matches(words)
        ]
        if not found:
            return False
        here = self.current
        at = found.index(here) + step if here in found else 0 if step >= 0 else -1
        number, key = found[at % len(found)]
        self._parts[number].reveal(key)
        self._redraw((number, key))
        self._go(self._at)
        return True

    def action_value(self) -> None:
        """Show the value of the node on what was fed last."""
        if (here := self.current) is not None:
            part = self._parts[here[0]]
            self.post_message(self.ValueWanted(self, part.node(here[1]), part.title == LAYERS))

    def action_place(self) -> None:
        """Show the line of the program that made the node."""
        here = self.current
        place = "" if here is None else self._parts[here[0]].folds.rows[here[1]].place
        if place:
            self.post_message(self.PlaceWanted(place))
        else:
            self.app.notify("the line that made this is not known", timeout=2, markup=False)

    def action_copy(self) -> None:
        """Copy what is known of the node."""
        if self.current is not None:
            text = "  ".join(self.header(y).plain.strip() for y in range(2))
            self.post_message(CopyText(text.strip(), "the node"))


def _more(count: int, what: str) -> str:
    return f"({count} more {what})" if count else ""


def _short(row: GraphNode) -> str:
    """What a node is called: a call by its function, all else by name."""
    return safe(row.called if row.kind == COMPOSITE else row.name).removesuffix(":0")


def _spec(line: GraphLine) -> str:
    return "" if line.row is None else safe(line.row.spec)


def _op(row: GraphNode) -> str:
    """The operation, unless the name tells it."""
    op = safe(row.op)
    named = row.kind in ("placeholder", "variable") or _short(row).startswith(op)
    return "" if named else f" {op}"


def _took(row: GraphNode) -> str:
    """How long the step took whose result a node is."""
    return "" if row.ran is None or row.ran.within else f"  {human_seconds(row.ran.seconds)}"


def _seen(row: GraphNode) -> tuple[str, str]:
    """What the last run saw of a node: value or shape; and how many entries are no numbers."""
    text = "" if row.last is None else safe(row.last.text or "")
    if not text and row.last is not None and "?" in row.spec:
        text = f"({', '.join(str(size) for size in row.last.shape)})"
    return text, f"{row.bad} NaN or Inf !" if row.bad else ""
