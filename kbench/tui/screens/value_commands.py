"""Keys of the value pane that open a dialog: axes, index, next NaN, full value, copy, export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.tui import slices
from kbench.tui.messages import CopyText
from kbench.tui.screens.axes import AxesScreen
from kbench.tui.screens.dialogs import Ask
from kbench.tui.slices import Target
from kbench.tui.widgets.value import ValuePane

if TYPE_CHECKING:
    from kbench.tui.screens.main import MainScreen


EXPORT = "__import__('kbench.workbench.export', fromlist=['value']).value"


def act(screen: MainScreen, what: str) -> None:
    """Do what the key asks for."""
    pane = screen.query_one(ValuePane)
    if pane.target is None:
        return
    if what == "axes":
        choose_axes(screen, pane)
    elif what == "index":
        ask_index(screen, pane)
    elif what == "next_nan":
        screen.background(screen.panes.next_nan)
    elif what == "full":
        screen.background(screen.panes.full_value)
    elif what == "copy":
        text = pane.grid.cell(*pane.grid.at)[0] or ""
        screen.post_message(CopyText(text, "the value"))
    elif what == "export":
        ask_export(screen, pane)


def choose_axes(screen: MainScreen, pane: ValuePane) -> None:
    """Which axes are rows and columns, and the index along the others."""
    here, window = pane.target, pane.grid.window
    if here is None or window is None or not window.shape:
        return

    def take(target: Target | None) -> None:
        if target is not None:
            pane.go(target)

    screen.app.push_screen(AxesScreen(pane.shown, window.shape, here), take)


def ask_index(screen: MainScreen, pane: ValuePane) -> None:
    """Go to an index, or write a slice."""
    here, window = pane.target, pane.grid.window
    if here is None or window is None:
        return

    def check(text: str) -> str:
        try:
            slices.parse(text, window.shape, here)
        except ValueError as error:
            return str(error)
        return ""

    def take(text: str | None) -> None:
        if text is not None:
            pane.go(slices.parse(text, window.shape, here))

    title = f"index into {slices.text_of(here)}, for example 0, :, :, 3 or 12, 5"
    screen.app.push_screen(Ask(title, check=check), take)


def ask_export(screen: MainScreen, pane: ValuePane) -> None:
    """Write the array to a file, in the kernel, which has it."""

    def take(path: str | None) -> None:
        if path:
            screen.conductor.run(f"{EXPORT}({name}, {path!r})")

    row = pane.row
    name = pane.shown if row is None else row.expression
    file = pane.shown if row is None or not row.code else row.label.replace("/", "_")
    title = f"write {name} to a file (.npy .csv .json .png)"
    screen.app.push_screen(Ask(title, f"{file}.npy"), take)
