"""The table of names: kind, static and last shape, size, range, flags, version; follows changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from kbench.engine import variables
from kbench.notebook import views
from kbench.notebook.live import Live, names, rows
from kbench.notebook.twin import WithTwin

_SORTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "name": lambda row: row["name"],
    "size": lambda row: (-(row.get("bytes") or 0), row["name"]),
    "kind": lambda row: (row["kind"], row["name"]),
}


class VariableTable(WithTwin, widgets.VBox):  # type: ignore[misc]
    """The names of a namespace (by default the user's), always up to date.

    Arguments:
        namespace: a dictionary, or None for the names of the running shell.
        pattern: glob that names must match; the field above the table changes it.
    """

    def __init__(self, namespace: dict[str, Any] | None = None, pattern: str = "*") -> None:
        self._view = names(namespace)
        self.filter = widgets.Text(
            value=pattern,
            description="filter",
            tooltip="Names to show; * stands for anything",
            continuous_update=False,
        )
        self.sort = widgets.Dropdown(
            options=list(_SORTS), description="sort by", tooltip="Order of the rows"
        )
        self._table = widgets.HTML()
        super().__init__([widgets.HBox([self.filter, self.sort]), self._table])
        self.live = Live(self.refresh, [variables.changed])
        for control in (self.filter, self.sort):
            control.observe(lambda _change: self.refresh(), "value")

    @property
    def html(self) -> str:
        """What the table shows at present."""
        return str(self._table.value)

    def refresh(self) -> None:
        """Read the names again; statistics are taken only of what has changed."""
        self._table.value = views.names_table(self._rows())
        self._redrawn()

    def close(self) -> None:
        """Stop following and remove the table."""
        self.live.stop()
        self._end()
        super().close()

    def _rows(self) -> list[dict[str, Any]]:
        found = rows(self._view, self.filter.value.strip() or None)
        return sorted(found, key=_SORTS[self.sort.value])

    def _begin(self) -> None:
        self.live.start()

    def _label(self) -> str:
        found = self._rows()
        return f"{len(found)} names: {', '.join(row['name'] for row in found[:20])}"

    def _portrait(self) -> str:
        return views.names_table(self._rows())
