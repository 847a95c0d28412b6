"""The value pane: what is shown, as cells, as a picture or as a graph, and its statistics."""

from __future__ import annotations

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.containers import Vertical

from kbench.tui.keys import keys
from kbench.tui.messages import FetchGraph, FetchPixel, PaneMessage, TitleChanged, ValueCommand
from kbench.tui.panes.graph.view import GraphView
from kbench.tui.panes.rows import ArrayPicture, ArrayWindow, NameRow, Statistics
from kbench.tui.panes.value import labels
from kbench.tui.panes.value import words as value_words
from kbench.tui.panes.value.slices import Target, cell_index, free_axes, stepped, with_cell
from kbench.tui.panes.value.trail import Trail
from kbench.tui.panes.value.views.curve import CurveView
from kbench.tui.panes.value.views.entries import EntriesPage, EntriesView
from kbench.tui.panes.value.views.grid import ValueGrid, WindowRequest
from kbench.tui.panes.value.views.picture import PictureRequest, PictureView
from kbench.tui.session.bars import Line
from kbench.tui.text.text import safe
from kbench.workbench.contents.address import root_of, split_cell
from kbench.workbench.core_types import Row
from kbench.workbench.protocol.arrays import Window
from kbench.workbench.protocol.graphs import GraphReply


class ValuePane(Vertical):
    """Shows one name; its controller fetches windows, pages, pictures, graphs and statistics."""

    BINDINGS = keys.bindings("value")

    class Fetch(PaneMessage):
        """A window of the shown name is needed."""

        def __init__(self, request: WindowRequest) -> None:
            self.request = request
            super().__init__()

    class FetchPicture(PaneMessage):
        """A picture of the shown name is needed."""

        def __init__(self, request: PictureRequest) -> None:
            self.request = request
            super().__init__()

    def __init__(self) -> None:
        super().__init__(id="value")
        self.shown = ""
        self.trail = Trail()
        self.when = ""  # after which cells it is what is shown, where that is the past
        self.row: NameRow | None = None
        self.stats: Statistics | None = None
        self.note = ""
        self.as_graph = self.as_picture = False
        self._index: tuple[int, ...] = ()  # of the picture that is wanted
        self._axes: tuple[int | None, int | None] = (None, None)  # of pictures, once chosen
        self._colours = True
        self._heading: Target | None = None  # the slice that has been asked for

    def compose(self) -> ComposeResult:
        """Head, axes; cells, picture, graph or entries; histogram, statistics."""
        yield Line("value-head")
        yield Line("value-axes")
        yield ValueGrid()
        yield CurveView()
        yield PictureView()
        yield GraphView("value-graph")
        yield EntriesView()
        yield Line("value-histogram")
        yield Line("value-foot")

    def on_mount(self) -> None:
        """Say what to do."""
        self.graph.display = self.picture.display = self.entries.display = False
        self._describe()

    def on_resize(self) -> None:
        """There may be room for the histogram now."""
        self._describe()

    @property
    def grid(self) -> ValueGrid:
        """The cells."""
        return self.query_one(ValueGrid)

    @property
    def picture(self) -> PictureView:
        """The array as a picture."""
        return self.query_one(PictureView)

    @property
    def graph(self) -> GraphView:
        """What stands in the place of the grid when there is no value."""
        return self.query_one("#value-graph", GraphView)

    @property
    def entries(self) -> EntriesView:
        """What is inside a value that is no array."""
        return self.query_one(EntriesView)

    def _fetch(self, row: NameRow) -> None:
        """Ask for the cells, for the picture, for the entries, or for the graph of a symbol."""
        as_graph = row.symbolic and (self.as_graph or not row.held)
        shown: GraphView | PictureView | EntriesView | ValueGrid
        shown = self.graph if as_graph else self.picture if self.as_picture else self.grid
        shown = self.entries if row.openable else shown
        had_focus = self.has_pseudo_class("focus-within")
        self.query_one(CurveView).outdate()
        for view in (self.grid, self.picture, self.graph, self.entries):
            view.display = view is shown
        if had_focus and self.is_attached:
            shown.focus()
        if as_graph:
            self.post_message(FetchGraph(row.name))
        elif row.openable:
            self.entries.open(row.name)
        elif row.held and self.as_picture:
            self.call_after_refresh(self._ask_picture)  # when its room is known
        elif row.held:
            self.post_message(self.Fetch(self.grid.request(row.name)))

    def _ask_picture(self) -> None:
        if self.as_picture and self.shown:
            room = self.picture.room()
            request = PictureRequest(self.shown, room, self._index, *self._axes, self._colours)
            self.post_message(self.FetchPicture(request))

    # ------------------------------------------------------------------ content

    def open(self, row: NameRow, as_graph: bool = False) -> None:
        """Show this name from its start; as a graph if asked, or if it has no value."""
        self.trail.clear()
        self.when = ""
        self._open(row, as_graph)

    def enter(self, row: NameRow) -> None:
        """Show what is inside that which is shown; `action_back` leads back."""
        if self.row is not None:
            at = (self.entries.at, 0) if self.row.openable else self.grid.at
            self.trail.push(self.row, at)
        self._open(row)

    def action_back(self) -> None:
        """Show what was open before, with the cursor where it was."""
        before = self.trail.pop()
        if before is None:
            self.app.bell()
            return
        row, at = before
        self._open(row)
        self.entries.place(at[0])
        self.grid.at = at

    def action_ask(self, what: str) -> None:
        """The controller knows what to do."""
        self.post_message(ValueCommand(what))

    def set_when(self, words: str) -> None:
        """Say when what is shown was what it is."""
        self.when = words
        self._describe()

    def travel(self, row: NameRow, when: str) -> None:
        """Show what is shown as it was after another cell, in the same place if it has that."""
        root = root_of(row.name)
        self.trail.move(root)
        alike = self.row is not None and (row.shape, row.dtype) == (self.row.shape, self.row.dtype)
        at = self.entries.at
        if alike:
            self.shown, self.row, self.note, self.stats = row.name, row, "", row.stats
            self._fetch(row)
        else:
            self._open(row)
            self.entries.place(at)
        self.when = when
        self._describe()

    def _open(self, row: NameRow, as_graph: bool = False) -> None:
        self.when = self.when if split_cell(row.name)[1] is not None else ""
        if row.name != self.shown:
            self._clear()
            self.stats = None
        self.shown, self.row, self.note, self.as_graph = row.name, row, "", as_graph
        self._describe()
        self._fetch(row)

    def _clear(self) -> None:
        for view in (self.grid, self.picture, self.graph, self.entries):
            view.clear()
        self.as_picture, self._index, self._axes, self._colours = False, (), (None, None), True
        self._heading = None

    def update_row(self, row: NameRow | None) -> bool:
        """The shown name has changed or is gone; True when its window must be fetched again."""
        if row is None:
            if self.row is not None:
                self.note = f"{self.row.expression} is gone"
            self.row = None
            self._clear()
            self._describe()
            return False
        if self.row is not None and row.shape != self.row.shape:
            self._index, self._axes = (), (None, None)
        again = row.held or row.openable or self.row is None or row.shape != self.row.shape
        self.row, self.note = row, ""
        self.stats = row.stats
        self._describe()
        return again

    def refetch(self) -> None:
        """Fetch what is shown again."""
        if self.shown and self.row is not None:
            self._fetch(self.row)

    def show_graph(self, reply: GraphReply) -> None:
        """Draw what was fetched."""
        self.note = ""
        self.graph.show(reply)
        self._describe()

    def show_entries(self, page: EntriesPage, row: NameRow) -> None:
        """Draw what was fetched; what it is of may have changed since."""
        if row.openable:
            self.note, self.row = "", row
            self.entries.show(page)
            self._describe()
        elif self.update_row(row):  # an array by now
            self.refetch()

    def show_window(self, window: ArrayWindow) -> None:
        """Draw what was fetched."""
        self.note, self._heading = "", None
        self.grid.show(window)
        self._describe()

    def show_picture(self, picture: ArrayPicture) -> None:
        """Draw what was fetched."""
        if self.as_picture:
            self.note, self._index, self._heading = "", picture.index, None
            self.picture.show(picture)
            self.on_picture_view_moved()

    def show_pixel(self, window: Window, text: str) -> None:
        """What stands in the array where the cursor is, if that is still there."""
        if window == self.picture.window(self.shown):
            self.picture.value = text
            self._describe()

    def on_picture_view_moved(self) -> None:
        """The words tell where the cursor is, and soon what stands there."""
        self.picture.value = ""
        self.post_message(FetchPixel(self.picture.window(self.shown)))
        self._describe()

    def refuse_picture(self, reason: str) -> None:
        """There is no such picture: back to the cells, and say why."""
        self.picture.clear()
        self.as_picture = False
        self.refetch()
        self.app.notify(safe(reason), severity="warning", markup=False)

    def settings_changed(self, settings: Row) -> None:
        """Where the channels are may have changed."""
        shown = self.picture.picture if self.is_mounted and self.as_picture else None
        if shown is not None and shown.data_format != settings.get("image_data_format"):
            self.refetch()

    def show_stats(self, stats: Statistics | None) -> None:
        """Numbers below the grid."""
        self.stats = stats
        self._describe()

    def set_note(self, note: str) -> None:
        """Words in the place of those about the axes: what goes on, or why there is nothing."""
        self.note, self._heading = note, None
        self._describe()

    def forget(self) -> None:
        """The kernel is another one."""
        if self.shown:
            self.update_row(None)

    # ------------------------------------------------------------------ where we are

    @property
    def target(self) -> Target | None:
        """The slice and cell on show."""
        picture, window = self.picture.picture, self.grid.window
        if self.as_picture and picture is not None:
            return Target(picture.index, picture.axes[0], picture.axes[1], self.picture.at)
        if self.as_picture or window is None:
            return None
        return Target(window.index, window.row_axis, window.col_axis, self.grid.at)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is drawn."""
        drawn = self.picture.picture if self.as_picture else self.grid.window
        return () if drawn is None else drawn.shape

    def go(self, target: Target) -> None:
        """Show another slice or cell."""
        grid, here = self.grid, self.target
        if here is None:
            return
        if self.as_picture and target.row_axis is not None:
            self._index = cell_index(target)
            if target.cell is not None:
                self.picture.aim = self._index
            if (target.row_axis, target.col_axis) != (here.row_axis, here.col_axis):
                self._axes = target.row_axis, target.col_axis
            self._heading = replace(target, index=self._index, cell=None)
            self._ask_picture()
            return
        self._leave_picture()
        same = replace(target, cell=None) == replace(here, cell=None)
        if target.cell is not None:
            grid.at = target.cell
        if same and target.cell is not None:
            grid.jump_to(*target.cell)
            return
        request = replace(grid.request(self.shown), index=target.index)
        request = replace(request, row_axis=target.row_axis, col_axis=target.col_axis)
        if target.cell is not None:
            request = replace(
                request,
                row=max(target.cell[0] - request.rows // 2, 0),
                col=max(target.cell[1] - request.cols // 2, 0),
            )
        self._heading = replace(target, cell=None)
        self.post_message(self.Fetch(request))

    def go_to_index(self, index: list[int]) -> None:
        """Show the slice that holds this element, with the cursor on it."""
        here = self.target
        if here is not None:
            self.go(with_cell(index, here))

    def step_slice(self, step: int) -> None:
        """The next slice in C order over the axes that are not shown; stops at the ends."""
        here, picture = self.target, self.picture.picture
        if self.as_picture and picture is not None:
            self._step(picture.free_axes, step)
        elif here is not None:
            self._step(free_axes(here), step)

    def _step(self, axes: list[int], step: int) -> None:
        """From where we are, or are on the way to, so that quick keys are all obeyed."""
        here = self._heading or self.target
        index = None if here is None else stepped(here.index, self.shape, axes, step)
        if here is None or index is None:
            self.app.bell()
        else:
            self.go(Target(index, here.row_axis, here.col_axis))

    def full_index(self) -> tuple[int, ...]:
        """The index of the cell under the cursor in the whole array."""
        here = self.target
        return () if here is None else cell_index(here)

    # ------------------------------------------------------------------ pictures

    def toggle_picture(self) -> None:
        """The cells as a picture, or the picture as cells; both of the same place."""
        if self.row is None or not self.row.held:
            return
        here = self.target
        if self.as_picture:
            self._leave_picture()
            if here is not None:
                self.go(here)
        else:
            self._index, self.as_picture = self.full_index(), True
            self.picture.aim = self._index
            self._fetch(self.row)

    def _leave_picture(self) -> None:
        if self.as_picture:
            self.as_picture = False
            had_focus = self.has_pseudo_class("focus-within")
            self.picture.display, self.grid.display = False, True
            if had_focus:
                self.grid.focus()

    def on_picture_view_wanted(self, event: PictureView.Wanted) -> None:
        """Other pixels fit."""
        event.stop()
        self._ask_picture()

    def on_picture_view_asked(self, event: PictureView.Asked) -> None:
        """Another picture, another channel, or a key that goes to the screen."""
        event.stop()
        picture = self.picture.picture
        if event.what == "picture":
            self.toggle_picture()
        elif picture is None:
            return
        elif event.what == "slice":
            self.step_slice(event.step)
        elif event.what == "channel":
            if picture.axes[2] is not None and not (picture.colours and self._colours):
                self._step([picture.axes[2]], event.step)
        elif event.what == "colours":
            self._colours = not self._colours
            self._ask_picture()
        else:
            self.post_message(ValueCommand(event.what))

    # ------------------------------------------------------------------ events

    def on_value_grid_wanted(self, event: ValueGrid.Wanted) -> None:
        """The grid has scrolled out of what it has."""
        event.stop()
        if self.shown:
            self.post_message(self.Fetch(replace(event.request, name=self.shown)))

    def on_value_grid_moved(self, event: ValueGrid.Moved) -> None:
        """The cursor's index is part of the words above the grid."""
        event.stop()
        self._describe()

    def on_value_grid_asked(self, event: ValueGrid.Asked) -> None:
        """Slices are stepped here, the rest goes to the screen."""
        event.stop()
        if event.what in ("slice_up", "slice_down"):
            self.step_slice(1 if event.what == "slice_up" else -1)
        elif event.what == "picture":
            self.toggle_picture()
        elif self.shown and self.row is not None:
            self.post_message(ValueCommand(event.what))

    def on_entries_view_moved(self, event: EntriesView.Moved) -> None:
        """Which entry it is stands above them."""
        event.stop()
        self._describe()

    # ------------------------------------------------------------------ words

    def _describe(self) -> None:
        if not self.query("#value-foot"):
            return  # not composed yet
        self.query_one(CurveView).follow(self.grid, self.row)
        labels.write(self)
        title = f"Value: {value_words.title(self.row)}" if self.row is not None else "Value"
        self.post_message(TitleChanged("value", title))
