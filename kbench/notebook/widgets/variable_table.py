"""The table of names: kind, static and last shape, size, range, flags, version; follows changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from kbench.engine.graph import variables
from kbench.engine.inspect import describe
from kbench.notebook.base import given
from kbench.notebook.base.live_table import LiveTable
from kbench.notebook.base.namespace_widget import NamespaceWidget, name_options
from kbench.notebook.base.redraw import NameRows, names, rows
from kbench.notebook.html import html, views
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.names import VariableRow

NEEDED = "a dictionary of names, a Keras model, a K.function, a tensor, a list of these, or a text"
PAGE_ROWS = 25
"""Names of a page: what an output holds, and is sent ten times a second while a loop runs."""
_MAX_LIVE_BYTES = 40_000
"""Of a live page, which is whole even with the longest names; one that is saved is cut."""
_SORTS: dict[str, Callable[[VariableRow], Any]] = {
    "name": lambda row: row.name,
    "dtype[shape]": lambda row: (views.spec_of(row), row.name),
    "size": lambda row: (-(row.bytes or 0), row.name),
    "range": lambda row: (row.text or "", row.name),
    "kind": lambda row: (row.kind, row.name),
    "last shape": lambda row: (row.last is None, "" if row.last is None else str(row.last.shape)),
    "version": lambda row: (-(row.version or 0), row.name),
}


class VariableTable(NamespaceWidget):
    """The names of a namespace (by default the user's), always up to date.

    Arguments:
        namespace: a dictionary, or None for the names of the running shell; or what holds values: a
            Keras model or layer, a K.function, a tensor, a list of these. A text is a pattern.
        pattern: glob that names must match; the field above the table changes it.
    """

    uses_inspector = False

    def __init__(self, namespace: Any = None, pattern: str = "*") -> None:
        if isinstance(namespace, str):
            namespace, pattern = None, namespace
        found = _names_of(namespace)
        super().__init__(found, [variables.changed])
        if found is None and namespace is not None:
            self.close()
            raise given.argument_error("VariableTable", "namespace", namespace, NEEDED)
        namespace = found
        self._view = names(namespace)
        self.filter = widgets.Text(
            value=pattern,
            description="filter",
            tooltip="Names to show; * stands for anything",
            continuous_update=False,
        )
        self.table = LiveTable(
            views.NAMES,
            self._body,
            "name",
            PAGE_ROWS,
            self.redraws.throttle.request_now,
            self._own_changes,
        )
        self.sort, self.chosen = self.table.sort, self.table.rows
        self._wanted = ""  # a name whose page is to be turned to
        self._details = widgets.HTML()
        self.children = (self.filter, self.table.box, self._details)
        self._on_change(self.filter, self._filtered)
        self._on_change(self.chosen, self._chosen)

    def _filtered(self, _pattern: str) -> None:
        self.table.start = 0
        self.redraws.throttle.request_now()

    def refresh(self) -> None:
        """Read the names again; statistics are taken only of what has changed."""
        with self._lock:
            found = self._rows(self._wanted)
            wanted = self._wanted or self.chosen.value
            self.table.start, self._wanted = found.start, ""
            self._draw(views.names_table(found, "names", _MAX_LIVE_BYTES))
            self.table.show(name_options(row.key for row in found), found.total, wanted)
            self._detail()

    def choose(self, name: str) -> None:
        """Show the details of a name."""
        self._wanted = name
        if name in [choice for _, choice in self.chosen.options]:
            with self._own_changes():
                self.chosen.value = name
        if self.redraws.running:
            self.refresh()

    def _chosen(self, name: str | None) -> None:
        self._detail()
        if name is not None:
            self.picked.emit(name)

    def _detail(self) -> None:
        name = self.chosen.value
        try:
            self._details.value = "" if name is None else html.show(self._view.get(name))
        except ProtocolError:  # deleted meanwhile
            self._details.value = ""

    def _rows(self, holding: str = "") -> NameRows:
        return rows(
            self._view,
            self.filter.value.strip() or None,
            _SORTS[self.sort.value or "name"],
            self.table.reversed,
            (self.table.start, PAGE_ROWS),
            holding or None,
        )

    def _static_text(self) -> str:
        found = self._rows()
        return f"{found.total} names: {', '.join(row.name for row in found[:20])}"

    def _static_html(self) -> str:
        return views.names_table(self._rows())


def _names_of(value: object) -> dict[str, Any] | None:
    """The names to show: of a namespace, or of the values within; None where there are none."""
    if value is None or type(value) is dict:
        return value
    found = given.values_inside(value, "")
    if found is None and (describe.is_tensor(value) or given.holds_numbers(value)):
        found = [(given.identifier_of(value), value)]
    if found is None:
        return value if isinstance(value, dict) else None  # a namespace of a class of its own
    return dict(found)
