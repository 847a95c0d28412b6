"""The axis picker: which axes are rows and columns, and where the slice cuts the others."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content

from kbench.tui.dialogs.dialogs import key_hints
from kbench.tui.dialogs.modal import Modal
from kbench.tui.keys import keys
from kbench.tui.panes.value.slices import Target, text_of
from kbench.tui.text.lines import LineView


class AxesList(LineView):
    """One line per axis."""

    BINDINGS = keys.bindings("axis")

    def __init__(self, shape: Sequence[int], target: Target) -> None:
        super().__init__()
        self._shape = tuple(shape)
        self.index = list(target.index)
        self.row_axis = target.row_axis
        self.col_axis = target.col_axis
        self._at = 0

    @property
    def target(self) -> Target:
        """What has been chosen."""
        shown = (self.row_axis, self.col_axis)
        index = tuple(0 if axis in shown else at for axis, at in enumerate(self.index))
        return Target(index, self.row_axis, self.col_axis)

    def row_count(self) -> int:
        """One line per axis and one for the slice."""
        return len(self._shape) + 1

    def row(self, y: int) -> Content:
        """What an axis is used for."""
        if y == len(self._shape):
            return Content.styled(f"  {text_of(self.target)}", "bold")
        use = f"< {self.index[y]} >"
        if y == self.row_axis:
            use = "rows"
        elif y == self.col_axis:
            use = "columns"
        mark = ">" if y == self._at else " "
        size = str(self._shape[y])
        line = Content(f"{mark} axis {y:<3} size {size:<10} {use}")
        if line.cell_length > self.size.width:
            line = Content(f"{mark} {y} {size} {use}").truncate(max(self.size.width, 1))
        return line.stylize("bold $text-accent") if y == self._at else line

    def action_move(self, step: int) -> None:
        """Another axis."""
        self._at = max(0, min(self._at + step, len(self._shape) - 1))
        self.refresh()

    def action_turn(self, step: int) -> None:
        """Another index along an axis that is not shown."""
        if self._at not in (self.row_axis, self.col_axis):
            last = self._shape[self._at] - 1
            self.index[self._at] = max(0, min(self.index[self._at] + step, last))
            self.refresh()

    def action_take(self, use: str) -> None:
        """Make the axis rows or columns; the axis that had that part takes this one's."""
        row, col, at = self.row_axis, self.col_axis, self._at
        if use == "row":
            self.row_axis, self.col_axis = at, (row if at == col else col)
        else:
            self.row_axis, self.col_axis = (col if at == row else row), at
        self.refresh()


class AxesScreen(Modal[Target | None]):
    """Enter takes over what was chosen."""

    BINDINGS = keys.bindings("axes")

    def __init__(self, name: str, shape: Sequence[int], target: Target) -> None:
        super().__init__()
        self._name = name
        self._list = AxesList(shape, target)

    def compose(self) -> ComposeResult:
        """The axes in a frame."""
        with Vertical(classes="dialog axes") as frame:
            frame.border_title = Content(f"axes of {self._name}")
            frame.border_subtitle = key_hints(
                self.app,
                axis_rows="rows",
                axis_columns="columns",
                axis_less="and",
                axis_more="index",
                axes_show="show",
            )
            yield self._list

    def on_mount(self) -> None:
        """The list has the keys."""
        self._list.focus()

    def action_accept(self) -> None:
        """Show what was chosen."""
        self.dismiss(self._list.target)

    def action_cancel(self) -> None:
        """Leave it as it was."""
        self.dismiss(None)
