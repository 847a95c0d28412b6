"""Keys of the value pane that open a dialog or ask the kernel: axes, index, find, copy, export."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from textual.content import Content

from kbench.tui.dialogs.axes import AxesScreen
from kbench.tui.dialogs.dialogs import ChoiceDialog, InputDialog, Pager
from kbench.tui.panes.bench import Bench
from kbench.tui.panes.value import slices
from kbench.tui.panes.value.actions import copy
from kbench.tui.panes.value.actions.export import Exporter
from kbench.tui.panes.value.actions.search import ValueSearch
from kbench.tui.panes.value.slices import Target
from kbench.tui.panes.value.view import ValuePane
from kbench.tui.text.text import safe
from kbench.workbench.analysis import conditions


class ValueTools(Struct, frozen=True):
    """What the commands work with besides the pane."""

    bench: Bench
    search: ValueSearch
    exporter: Exporter
    exact: Callable[[str], None]  # has the statistics of every element of a name computed


def act(tools: ValueTools, pane: ValuePane, what: str) -> None:
    """Do what the key asks for."""
    if what == "stop":
        if not (tools.search.running or tools.exporter.running):
            tools.bench.go("prompt")
        tools.search.stop()
        tools.exporter.stop()
    elif what == "entry":
        ask_entry(tools, pane)
    elif pane.target is None:
        return  # nothing has come yet
    elif 0 in pane.shape and what not in ("axes", "export"):
        tools.bench.notify("the array has no elements", 2)
    else:
        COMMANDS[what](tools, pane)


def choose_axes(tools: ValueTools, pane: ValuePane) -> None:
    """Which axes are rows and columns, and the index along the others."""
    here = pane.target
    if here is None or not pane.shape:
        return

    def take(target: Target | None) -> None:
        if target is not None:
            pane.go(target)

    tools.bench.open(AxesScreen(pane.shown, pane.shape, here), take)


def ask_index(tools: ValueTools, pane: ValuePane) -> None:
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
    tools.bench.open(InputDialog(title, check=check), take)


# ------------------------------------------------------------------ finding


def ask_find(tools: ValueTools, pane: ValuePane) -> None:
    """What to look for; from the cursor on."""
    search = tools.search

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
    tools.bench.open(InputDialog(title, search.condition, check=check), take)


def find_again(tools: ValueTools, pane: ValuePane) -> None:
    """The same once more; the first time it is asked for."""
    if tools.search.condition:
        tools.search.find(pane, tools.search.condition)
    else:
        ask_find(tools, pane)


def next_nan(tools: ValueTools, pane: ValuePane) -> None:
    """The next NaN or infinity."""
    tools.search.find(pane, "bad", "every value is finite")


# ------------------------------------------------------------------ reading and copying


def expression(pane: ValuePane) -> str:
    """What to type for the array."""
    return pane.shown if pane.row is None else pane.row.expression


def cell_expression(pane: ValuePane) -> str:
    """What to type for the element under the cursor."""
    place = ", ".join(str(index) for index in pane.full_index())
    return f"{expression(pane)}[{place}]" if place else expression(pane)


def show_full(tools: ValueTools, pane: ValuePane) -> None:
    """The element under the cursor in full precision."""

    async def work() -> None:
        part = await copy.cells(tools.bench, pane, (pane.grid.at[0], 1), (pane.grid.at[1], 1))
        if part is not None:
            window = pane.grid.window
            kind = "" if window is None else window.dtype
            lines = [Content(safe(part.text)), Content(""), Content(safe(kind))]
            tools.bench.open(Pager(cell_expression(pane), lines))

    tools.bench.run(work, opens=True)


def copy_cell(tools: ValueTools, pane: ValuePane) -> None:
    """The element under the cursor in full precision."""
    _copy(tools, pane, (pane.grid.at[0], 1), (pane.grid.at[1], 1), "the value")


def copy_more(tools: ValueTools, pane: ValuePane) -> None:
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
            tools.bench.copy(cell_expression(pane), "the index")
        elif answer == "v":
            copy_cell(tools, pane)
        elif answer == "r":
            _copy(tools, pane, (row, 1), (0, cols), "the row")
        elif answer == "c":
            _copy(tools, pane, (0, rows), (col, 1), "the column")
        elif answer == "w":
            _copy(tools, pane, visible_rows, visible_cols, "what is on the screen")

    tools.bench.open(ChoiceDialog("Copy, tab-separated and in full precision", answers), take)


def _copy(
    tools: ValueTools, pane: ValuePane, rows: tuple[int, int], cols: tuple[int, int], what: str
) -> None:
    async def work() -> None:
        part = await copy.cells(tools.bench, pane, rows, cols)
        if part is None:
            return
        if part.whole:
            words = what if part.count == 1 else f"{what}, {part.count} values"
        else:
            words = f"the first {part.count} values; e writes all of them to a file"
        tools.bench.copy(part.text, words)

    tools.bench.run(work)


# ------------------------------------------------------------------ writing


def exact(tools: ValueTools, pane: ValuePane) -> None:
    """Statistics of every element."""
    tools.exact(pane.shown)


def ask_export(tools: ValueTools, pane: ValuePane) -> None:
    """Write the array, or what is shown of it, to a file; in the kernel, which has it."""
    row = pane.row
    name = pane.shown if row is None or not row.code else row.label.replace("/", "_")
    part = "the picture" if pane.as_picture else "the slice"
    rank = len(pane.shape)
    answers = [
        ("a", f"the array {expression(pane)}"),
        ("s", f"{part} on show"),
    ]

    def ask(whole: bool) -> None:
        drawn = rank == 2 or (pane.shape[-1] in (1, 3, 4) and rank == 3 if whole else rank > 2)
        kinds = ".npy .csv .json" + " .png" * drawn
        file = f"{name}.png" if pane.as_picture and not whole else f"{name}.npy"
        title = f"write {expression(pane) if whole else part} to a file ({kinds})"

        def take(path: str | None) -> None:
            if path and path.strip():
                tools.exporter.write(pane, path.strip(), whole)

        tools.bench.open(InputDialog(title, file), take)

    def choose(answer: str | None) -> None:
        if answer in ("a", "s"):
            ask(answer == "a")

    if rank <= 2 and not pane.as_picture:
        ask(True)
    else:
        tools.bench.open(ChoiceDialog("Write to a file", answers), choose)


def ask_entry(tools: ValueTools, pane: ValuePane) -> None:
    """Go to an entry or a row of text by its number; below 0 it counts from the end."""
    page = pane.entries.page
    if page is None or not page.total:
        return
    first = 1 if page.texts else 0
    last = page.total - 1 + first
    title = f"a number from {first} to {last}, or from the end, as -1"

    def check(text: str) -> str:
        number = int(text) if text.strip().lstrip("-").isdecimal() else None
        inside = number is not None and (first <= number <= last or -page.total <= number < 0)
        return "" if inside else title

    def take(text: str | None) -> None:
        if text is not None:
            number = int(text)
            pane.entries.go(number - first if number >= 0 else number + page.total)

    tools.bench.open(InputDialog(title, check=check), take)


COMMANDS = {
    "axes": choose_axes,
    "index": ask_index,
    "find": ask_find,
    "find_again": find_again,
    "next_nan": next_nan,
    "full": show_full,
    "open": show_full,
    "copy": copy_cell,
    "copy_more": copy_more,
    "exact": exact,
    "export": ask_export,
}
