"""A table of static HTML with heads that sort and rows that can be clicked, page by page.

Heads and first cells are the buttons of two controls of ipywidgets, which style puts into the grid
of the table's own cells: heard by the kernel and reached by the Tab key wherever ipywidgets runs.
What is saved is the table alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from kbench.notebook.base.redraw import OwnChanges
from kbench.notebook.html import views
from kbench.notebook.markup.columns import Columns, span
from kbench.notebook.markup.markup import element

_MAX_COLUMNS = 12
"""Of a table that can be put into a grid."""
_CLICK = {"event": "click"}  # what the front end says of each click, one without effect included
_PLACES = "".join(
    f".kb-grid td:nth-child({at}),.kb-heads button:nth-child({at}){{grid-column:{at}}}"
    for at in range(1, _MAX_COLUMNS + 1)
)
STYLE = (
    ".kb-cols{container-type:inline-size;width:100%}"
    ".kb-grid{display:grid!important;grid-auto-flow:dense;grid-auto-columns:max-content;"
    "overflow-x:auto!important;justify-content:start}"
    ".kb-grid>*,.kb-grid .widget-toggle-buttons>div,.kb-grid .widget-html-content,"
    ".kb-grid :is(.kb-v,.kb-cols,.kb-text,table,tbody,tr){display:contents!important}"
    ".kb-grid .kb-cols{container-type:normal}"
    ".kb-grid :is(.widget-label,caption,thead,tbody th,.kb-head,i){display:none!important}"
    ".kb-grid .kb-v>p{grid-column:1/-1}"
    ".kb-grid td{display:block;align-content:center}"
    f"{_PLACES}.kb-heads button{{grid-row:1}}.kb-firsts button{{grid-column:1}}"
    ".kb-grid button.jupyter-button{width:auto;height:auto;margin:0;padding:.1em .5em;"
    "min-height:0;max-width:24em;white-space:normal;overflow-wrap:anywhere;"
    "line-height:1.45!important;text-align:left;background:none;box-shadow:none;border:1px solid "
    "var(--jp-border-color2,#8888);color:inherit;font:inherit;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px)}"
    ".kb-grid .kb-heads button.jupyter-button{font-weight:600}"
    ".kb-grid button.jupyter-button:hover,.kb-grid button.mod-active.jupyter-button{"
    "background:var(--jp-layout-color2,#8883)}"
    ".kb-grid button.mod-active.jupyter-button{text-decoration:underline}"
)
"""Of all live tables."""


class LiveTable:
    """The controls of one table; `box` is the widget, `start` the first row of the page.

    Arguments:
        columns: those of the table.
        picture: the HTML widget that shows it.
        noun: what a row is, in the singular.
        page_rows: rows of a page.
        redraw: called when another page or order was asked for.
        own: says whether it is the program that sets a control.
    """

    def __init__(
        self,
        columns: Columns,
        picture: Any,
        noun: str,
        page_rows: int,
        redraw: Callable[[], None],
        own: OwnChanges,
    ) -> None:
        self.start, self.reversed = 0, False
        self._noun, self._page_rows, self._redraw = noun, page_rows, redraw
        self._total, self._own = 0, own
        self._fresh = False  # whether the last click chose another order
        self.sort = widgets.ToggleButtons(
            options=list(columns.heads),
            description="sort by",
            tooltip=f"Order of the {noun}s",
            tooltips=[f"Sort by {head}; again: the other way round" for head in columns.heads],
        )
        self.sort.add_class("kb-heads")
        self.rows = widgets.ToggleButtons(
            options=[], description="details of", tooltip=f"The {noun} whose details are shown"
        )
        self.rows.add_class("kb-firsts")
        grid = widgets.Box([self.sort, self.rows, picture])
        grid.add_class("kb-grid")
        framed = widgets.Box([grid])
        framed.add_class("kb-cols")
        framed.add_class(columns.class_)
        self._before = self._button("previous", -1)
        self._after = self._button("next", 1)
        self._words = widgets.HTML()
        self.pager = widgets.HBox([self._before, self._words, self._after])
        self._style = widgets.HTML(f"<style>{columns.style}{STYLE}</style>")  # sent once
        self.box = widgets.VBox([self._style, self.pager, framed])
        self.sort.observe(self._sorted, "value")
        self.sort.on_msg(self._clicked)

    def _button(self, words: str, step: int) -> Any:
        made = widgets.Button(
            description=words, tooltip=f"The {words} page", layout={"width": "auto"}
        )
        made.on_click(lambda _button: self._turn(step))
        return made

    def _turn(self, step: int) -> None:
        self.start = min(max(self.start + step * self._page_rows, 0), max(self._total - 1, 0))
        self._redraw()

    def _sorted(self, _change: object) -> None:
        if not self._own:
            self.start, self.reversed, self._fresh = 0, False, True
            self._redraw()

    def _clicked(self, _widget: object, content: object, _buffers: object) -> None:
        if content != _CLICK:
            return
        fresh, self._fresh = self._fresh, False
        if not fresh:
            self.start, self.reversed = 0, not self.reversed
            self._redraw()

    def show(self, names: Sequence[tuple[str, object]], total: int, wanted: object) -> None:
        """Say what is on the page: its rows by label and value, of how many; the chosen one."""
        self._total = total
        with self._own():
            if list(self.rows.options) != list(names):
                self.rows.value = None  # else the first one would be chosen for a moment
                self.rows.options = list(names)
            self.rows.value = wanted if wanted in [value for _, value in names] else None
        said = span(self.start, len(names), total, self._noun)
        shown = views.styled(element("p", said, role="status"))
        if self._words.value != shown:
            self._words.value = shown
        more = len(names) < total
        self._before.layout.display = self._after.layout.display = "" if more else "none"
        self._before.disabled = self.start == 0
        self._after.disabled = self.start + len(names) >= total
