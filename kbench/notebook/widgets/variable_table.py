"""The table of names: kind, static and last shape, size, range, flags, version; follows changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from kbench.engine.graph import variables
from kbench.engine.inspect import describe
from kbench.notebook.base import given
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.namespace_widget import NONE, NamespaceWidget, name_options
from kbench.notebook.base.redraw import NameRows, names, rows
from kbench.notebook.html import html, views
from kbench.workbench.protocol.messages import ProtocolError
from kbench.workbench.protocol.names import VariableRow

NEEDED = "a dictionary of names, a Keras model, a K.function, a tensor, a list of these, or a text"
_SORTS: dict[str, Callable[[VariableRow], Any]] = {
    "name": lambda row: row.name,
    "size": lambda row: (-(row.bytes or 0), row.name),
    "kind": lambda row: (row.kind, row.name),
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
        self.sort = Dropdown(
            options=list(_SORTS), description="sort by", tooltip="Order of the rows"
        )
        self.chosen = Dropdown(
            options=[(NONE, None)],
            description="details of",
            tooltip="The name whose details are shown below the table",
        )
        self._details = widgets.HTML()
        controls = [self.filter, self.sort, self.chosen]
        row = widgets.HBox(controls, layout={"flex_flow": "row wrap"})
        self.children = (row, self._body, self._details)
        for control in (self.filter, self.sort):
            self._on_change(control, lambda _value: self.redraws.throttle.request_now())
        self._on_change(self.chosen, self._chosen)

    def refresh(self) -> None:
        """Read the names again; statistics are taken only of what has changed."""
        with self._lock:
            found = self._rows()
            options = [(NONE, None), *name_options(row.key for row in found)]
            self._set_options(self.chosen, options, self.chosen.value)
            self._draw(views.names_table(found))
            self._detail()

    def choose(self, name: str) -> None:
        """Show the details of a name."""
        self._set_options(self.chosen, self.chosen.options, name)
        if self.redraws.running:
            self._detail()

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

    def _rows(self) -> NameRows:
        return rows(self._view, self.filter.value.strip() or None, _SORTS[self.sort.value])

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
    if found is None and (describe.is_tensor(value) or describe.held_array(value) is not None):
        found = [(given.identifier_of(value), value)]
    if found is None:
        return value if isinstance(value, dict) else None  # a namespace of a class of its own
    return dict(found)
