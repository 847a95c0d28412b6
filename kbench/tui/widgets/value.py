"""The value pane: what is shown, the grid, and the statistics below it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from kbench.tui.glyphs import human_bytes
from kbench.tui.messages import TitleChanged
from kbench.tui.palette import MUTED
from kbench.tui.rows import Row, Statistics, Window, number_text, shape_text
from kbench.tui.slices import Target, text_of
from kbench.tui.text import safe
from kbench.tui.widgets.bars import Line
from kbench.tui.widgets.graph import GraphView
from kbench.tui.widgets.value_grid import ValueGrid, View


class ValuePane(Vertical):
    """Shows one name; the main screen fetches windows and statistics for it."""

    class Fetch(Message):
        """A window of the shown name is needed."""

        def __init__(self, view: View) -> None:
            self.view = view
            super().__init__()

    class FetchGraph(Message):
        """The graph of the shown name is needed."""

        def __init__(self, name: str) -> None:
            self.name = name
            super().__init__()

    class Command(Message):
        """A key that needs the kernel or a dialog: axes, index, next_nan, full, copy, export."""

        def __init__(self, what: str) -> None:
            self.what = what
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="value")
        self.shown = ""
        self.row: Row | None = None
        self.stats: Statistics | None = None
        self.note = ""
        self.as_graph = False

    def compose(self) -> ComposeResult:
        """Head, axes, grid or graph, statistics."""
        yield Line("value-head")
        yield Line("value-axes")
        yield ValueGrid()
        yield GraphView()
        yield Line("value-foot")

    def on_mount(self) -> None:
        """Say what to do."""
        self.graph.display = False
        self._describe()

    @property
    def grid(self) -> ValueGrid:
        """The grid."""
        return self.query_one(ValueGrid)

    @property
    def graph(self) -> GraphView:
        """What stands in the place of the grid when there is no value."""
        return self.query_one(GraphView)

    def _fetch(self, row: Row) -> None:
        """Ask for the cells, or for the graph of what has none."""
        as_graph = row.symbolic and (self.as_graph or not row.held)
        had_focus = self.has_pseudo_class("focus-within")
        self.graph.display, self.grid.display = as_graph, not as_graph
        if had_focus and self.is_attached:
            (self.graph if as_graph else self.grid).focus()
        if as_graph:
            self.post_message(self.FetchGraph(row.name))
        elif row.held:
            self.post_message(self.Fetch(self.grid.view(row.name)))

    # ------------------------------------------------------------------ content

    def open(self, row: Row, as_graph: bool = False) -> None:
        """Show this name from its start; as a graph if asked, or if it has no value."""
        if row.name != self.shown:
            self.grid.clear()
            self.graph.clear()
            self.stats = None
        self.shown, self.row, self.note, self.as_graph = row.name, row, "", as_graph
        self._describe()
        self._fetch(row)

    def update_row(self, row: Row | None) -> bool:
        """The shown name has changed or is gone; True when its window must be fetched again."""
        if row is None:
            if self.row is not None:
                self.note = f"{self.row.expression} is gone"
            self.row = None
            self.grid.clear()
            self.graph.clear()
            self._describe()
            return False
        again = row.held or self.row is None or row.shape != self.row.shape
        self.row, self.note = row, ""
        self.stats = row.stats
        self._describe()
        return again

    def refetch(self) -> None:
        """Fetch the present window again."""
        if self.shown and self.row is not None:
            self._fetch(self.row)

    def show_graph(self, reply: Mapping[str, Any]) -> None:
        """Draw what was fetched."""
        self.note = ""
        self.graph.show(reply)
        self._describe()

    def show_window(self, window: Window) -> None:
        """Draw what was fetched."""
        self.note = ""
        self.grid.show(window)
        self._describe()

    def show_stats(self, stats: Statistics | None) -> None:
        """Numbers below the grid."""
        self.stats = stats
        self._describe()

    def fail(self, reason: str) -> None:
        """Say why there is nothing; the rest of the workbench goes on."""
        self.note = reason
        self._describe()

    def forget(self) -> None:
        """The kernel is another one."""
        if self.shown:
            self.update_row(None)

    # ------------------------------------------------------------------ where we are

    @property
    def target(self) -> Target | None:
        """The slice and cell on show."""
        window = self.grid.window
        if window is None:
            return None
        return Target(window.index, window.row_axis, window.col_axis, self.grid.at)

    def go(self, target: Target) -> None:
        """Show another slice or cell."""
        grid, here = self.grid, self.target
        if here is None:
            return
        same = replace(target, cell=None) == replace(here, cell=None)
        if target.cell is not None:
            grid.at = target.cell
        if same and target.cell is not None:
            grid.move_to(*target.cell)
            return
        view = replace(
            grid.view(self.shown),
            index=target.index,
            row_axis=target.row_axis,
            col_axis=target.col_axis,
        )
        if target.cell is not None:
            view = replace(
                view,
                row=max(target.cell[0] - view.rows // 2, 0),
                col=max(target.cell[1] - view.cols // 2, 0),
            )
        self.post_message(self.Fetch(view))

    def go_to_index(self, index: list[int]) -> None:
        """Show the slice that holds this element, with the cursor on it."""
        here = self.target
        if here is None:
            return
        row = index[here.row_axis] if here.row_axis is not None else 0
        col = index[here.col_axis] if here.col_axis is not None else 0
        fixed = tuple(
            0 if axis in (here.row_axis, here.col_axis) else number
            for axis, number in enumerate(index)
        )
        self.go(Target(fixed, here.row_axis, here.col_axis, (row, col)))

    def step_slice(self, step: int) -> None:
        """The next slice in C order over the axes that are not shown; stops at the ends."""
        here, window = self.target, self.grid.window
        if here is None or window is None:
            return
        index = list(here.index)
        free = [axis for axis in range(len(index)) if axis not in (here.row_axis, here.col_axis)]
        for axis in reversed(free):
            index[axis] += step
            if 0 <= index[axis] < window.shape[axis]:
                self.go(Target(tuple(index), here.row_axis, here.col_axis))
                return
            index[axis] = 0 if step > 0 else window.shape[axis] - 1
        self.app.bell()

    def full_index(self) -> tuple[int, ...]:
        """The index of the cell under the cursor in the whole array."""
        here = self.target
        if here is None or here.cell is None:
            return ()
        index = list(here.index)
        for axis, number in ((here.row_axis, here.cell[0]), (here.col_axis, here.cell[1])):
            if axis is not None:
                index[axis] = number
        return tuple(index)

    # ------------------------------------------------------------------ events

    def on_value_grid_wanted(self, event: ValueGrid.Wanted) -> None:
        """The grid has scrolled out of what it has."""
        event.stop()
        if self.shown:
            self.post_message(self.Fetch(replace(event.view, name=self.shown)))

    def on_value_grid_moved(self, event: ValueGrid.Moved) -> None:
        """The cursor's index is part of the words above the grid."""
        event.stop()
        self._describe()

    def on_value_grid_asked(self, event: ValueGrid.Asked) -> None:
        """Slices are stepped here, the rest goes to the screen."""
        event.stop()
        if event.what in ("slice_up", "slice_down"):
            self.step_slice(1 if event.what == "slice_up" else -1)
        elif self.shown and self.row is not None:
            self.post_message(self.Command(event.what))

    # ------------------------------------------------------------------ words

    def _describe(self) -> None:
        if not self.query("#value-foot"):
            return  # not composed yet
        row = self.row
        head, axes = self.query_one("#value-head", Line), self.query_one("#value-axes", Line)
        self.query_one("#value-foot", Line).show(self._foot())
        if row is None:
            words = self.note or "Press Enter on a variable to see its values."
            head.show(Content.styled(f" {safe(words)}", MUTED))
            axes.show(Content(""))
            self.post_message(TitleChanged("value", "Value"))
            return
        version = f"  v{row.version}" if row.version is not None else ""
        head.show(
            Content.assemble(
                (f" {self._title(row)} ", "bold"),
                f"{shape_text(row.shape)}  {row.dtype}  {human_bytes(row.nbytes)}{version}",
            )
        )
        axes.show(Content.styled(f" {self._axes_words(row)}", MUTED))
        self.post_message(TitleChanged("value", f"Value: {self._title(row)}"))

    def _title(self, row: Row) -> str:
        """`model.layers[0].weights[0] kernel` of a part, else the name."""
        label = f" {safe(row.label)}" if row.label and row.label != row.name else ""
        return safe(row.expression) + label

    def _axes_words(self, row: Row) -> str:
        if self.note:
            return safe(self.note)
        here = self.target
        if not row.held:
            made = f"made in {row.place}" if row.place else ""
            note = row.note or "a symbol; K.eval gives its value"
            return safe(", ".join(one for one in (note, made) if one))
        if here is None:
            return "reading"
        shown = [
            f"{word} {axis}"
            for word, axis in (("rows", here.row_axis), ("cols", here.col_axis))
            if axis is not None
        ]
        words = f"axes {' '.join(shown)}  {text_of(here)}" if shown else "a scalar"
        more = "  [ ] slice  a axes" if len(here.index) > 2 else ""
        cell = ", ".join(str(one) for one in self.full_index())
        if row.evaluated:
            more += "  of the last run"
        return f"{words}  at ({cell}){more}" if shown else words

    def _foot(self) -> Content:
        stats = self.stats or (self.row.stats if self.row else None)
        if stats is None or self.row is None or not self.row.held:
            return Content("")
        if stats.refused:
            return Content.styled(f" {stats.refused}", MUTED)
        zeros = f"{100 * stats.zeros / stats.count:.0f}%" if stats.count else "-"
        mark = "~" if stats.sampled else ""
        words = (
            f" {mark}mean {number_text(stats.mean)}  sd {number_text(stats.deviation)}  "
            f"[{number_text(stats.low)} .. {number_text(stats.high)}]  zeros {zeros}"
        )
        if stats.nan or stats.inf:
            flags = f" NaN {stats.nan}  Inf {stats.inf} !"
            return Content.assemble((flags, "bold $text-error"), "  n next ", words)
        return Content(words + "  all finite" * (not stats.sampled))
