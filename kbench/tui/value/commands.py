"""Keys of the value pane that open a dialog or ask the kernel: axes, index, find, copy, export."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from kbench.tui.dialogs.axes import AxesScreen
from kbench.tui.dialogs.dialogs import ChoiceDialog, InputDialog
from kbench.tui.dialogs.overlays import show_text
from kbench.tui.messages import CopyText
from kbench.tui.text.text import safe
from kbench.tui.value import copy, slices
from kbench.tui.value.slices import Target
from kbench.tui.value.value import ValuePane
from kbench.workbench.analysis import conditions

if TYPE_CHECKING:
    from kbench.tui.main_screen import MainScreen


def act(screen: MainScreen, what: str) -> None:
    """Do what the key asks for."""
    pane = screen.query_one(ValuePane)
    if what == "stop":
        if not (screen.panes.search.running or screen.panes.exporter.running):
            screen.action_pane("prompt")
        screen.panes.search.stop()
        screen.panes.exporter.stop()
    elif pane.target is None:
        if pane.row is not None and not pane.row.held:
            screen.notify(f"{safe(pane.shown)} has no cells", timeout=2, markup=False)
    elif 0 in pane.shape and what not in ("axes", "export"):
        screen.notify("the array has no elements", timeout=2, markup=False)
    else:
        COMMANDS[what](screen, pane)


def choose_axes(screen: MainScreen, pane: ValuePane) -> None:
    """Which axes are rows and columns, and the index along the others."""
    here = pane.target
    if here is None or not pane.shape:
        return

    def take(target: Target | None) -> None:
        if target is not None:
            pane.go(target)

    screen.app.push_screen(AxesScreen(pane.shown, pane.shape, here), take)


def ask_index(screen: MainScreen, pane: ValuePane) -> None:
    """Go to an index, or write a slice."""
    here, shape = pane.target, pane.shape
    if here is None:
        return

    def check(text: str) -> str:
        try:
            slices.parse(text, shape, here)
        except ValueError as error:
            return str(error)
        return ""

    def take(text: str | None) -> None:
        if text is not None:
            pane.go(slices.parse(text, shape, here))

    title = f"index into {slices.text_of(here)}, for example 0, :, :, 3 or 12, 5"
    screen.app.push_screen(InputDialog(title, check=check), take)


# ------------------------------------------------------------------ finding


def ask_find(screen: MainScreen, pane: ValuePane) -> None:
    """What to look for; from the cursor on."""
    search = screen.panes.search

    def check(text: str) -> str:
        try:
            conditions.parse(text)
        except ValueError as error:
            return str(error)
        return ""

    def take(text: str | None) -> None:
        if text is not None:
            search.condition = text
            search.find(pane, text)

    title = f"find in {expression(pane)}: 3, > 0.5, != 0, 0.1 .. 0.2, abs > 10, nan"
    screen.app.push_screen(InputDialog(title, search.condition, check=check), take)


def find_again(screen: MainScreen, pane: ValuePane) -> None:
    """The same once more; the first time it is asked for."""
    if screen.panes.search.condition:
        screen.panes.search.find(pane, screen.panes.search.condition)
    else:
        ask_find(screen, pane)


def next_nan(screen: MainScreen, pane: ValuePane) -> None:
    """The next NaN or infinity."""
    screen.panes.search.find(pane, "bad", "every value is finite")


# ------------------------------------------------------------------ reading and copying


def expression(pane: ValuePane) -> str:
    """What to type for the array."""
    return pane.shown if pane.row is None else pane.row.expression


def cell_expression(pane: ValuePane) -> str:
    """What to type for the element under the cursor."""
    place = ", ".join(str(index) for index in pane.full_index())
    return f"{expression(pane)}[{place}]" if place else expression(pane)


def show_full(screen: MainScreen, pane: ValuePane) -> None:
    """The element under the cursor in full precision."""

    async def work() -> None:
        part = await copy.cells(screen, pane, (pane.grid.at[0], 1), (pane.grid.at[1], 1))
        if part is not None:
            window = pane.grid.window
            kind = "" if window is None else window.dtype
            lines = [Content(safe(part.text)), Content(""), Content(safe(kind))]
            show_text(screen, cell_expression(pane), lines)

    screen.background(work, opens=True)


def copy_cell(screen: MainScreen, pane: ValuePane) -> None:
    """The element under the cursor in full precision."""
    _copy(screen, pane, (pane.grid.at[0], 1), (pane.grid.at[1], 1), "the value")


def copy_more(screen: MainScreen, pane: ValuePane) -> None:
    """A choice of what to copy."""
    grid = pane.grid
    rows, cols = grid.totals
    visible_rows, visible_cols = grid.on_screen
    answers = [
        ("v", "the value"),
        ("r", f"the row, {cols} values"),
        ("c", f"the column, {rows} values"),
        ("w", f"what is on the screen, {visible_rows[1]} x {visible_cols[1]} values"),
        ("i", f"the index, {cell_expression(pane)}"),
    ]

    def take(answer: str | None) -> None:
        row, col = grid.at
        if answer == "i":
            screen.post_message(CopyText(cell_expression(pane), "the index"))
        elif answer == "v":
            copy_cell(screen, pane)
        elif answer == "r":
            _copy(screen, pane, (row, 1), (0, cols), "the row")
        elif answer == "c":
            _copy(screen, pane, (0, rows), (col, 1), "the column")
        elif answer == "w":
            _copy(screen, pane, visible_rows, visible_cols, "what is on the screen")

    screen.app.push_screen(ChoiceDialog("Copy, tab-separated and in full precision", answers), take)


def _copy(
    screen: MainScreen, pane: ValuePane, rows: tuple[int, int], cols: tuple[int, int], what: str
) -> None:
    async def work() -> None:
        part = await copy.cells(screen, pane, rows, cols)
        if part is None:
            return
        if part.whole:
            words = what if part.count == 1 else f"{what}, {part.count} values"
        else:
            words = f"the first {part.count} values; e writes all of them to a file"
        screen.post_message(CopyText(part.text, words))

    screen.background(work)


# ------------------------------------------------------------------ writing


def exact(screen: MainScreen, pane: ValuePane) -> None:
    """Statistics of every element."""
    screen.background(partial(screen.panes.exact, pane.shown))


def ask_export(screen: MainScreen, pane: ValuePane) -> None:
    """Write the array, or what is shown of it, to a file; in the kernel, which has it."""
    row = pane.row
    name = pane.shown if row is None or not row.code else row.label.replace("/", "_")
    part = "the picture" if pane.as_picture else "the slice"
    rank = len(pane.shape)
    answers = [
        ("a", f"the array {expression(pane)}: .npy .csv .json"),
        ("s", f"{part} on show: .npy .csv .json .png"),
    ]

    def ask(whole: bool) -> None:
        kinds = ".npy .csv .json" + " .png" * (rank <= 2 or not whole)
        file = f"{name}.png" if pane.as_picture and not whole else f"{name}.npy"
        title = f"write {expression(pane) if whole else part} to a file ({kinds})"

        def take(path: str | None) -> None:
            if path and path.strip():
                screen.panes.exporter.write(pane, path.strip(), whole)

        screen.app.push_screen(InputDialog(title, file), take)

    def choose(answer: str | None) -> None:
        if answer in ("a", "s"):
            ask(answer == "a")

    if rank <= 2 and not pane.as_picture:
        ask(True)
    else:
        screen.app.push_screen(ChoiceDialog("Write to a file", answers), choose)


COMMANDS = {
    "axes": choose_axes,
    "index": ask_index,
    "find": ask_find,
    "find_again": find_again,
    "next_nan": next_nan,
    "full": show_full,
    "copy": copy_cell,
    "copy_more": copy_more,
    "exact": exact,
    "export": ask_export,
}
