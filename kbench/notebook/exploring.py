"""`explorer()`: settings, names and a look into one of them, in tabs; only the open tab works."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from kbench.engine import describe
from kbench.engine.errors import ArgumentError
from kbench.notebook import views
from kbench.notebook.config_panel import ConfigPanel
from kbench.notebook.live import names, rows
from kbench.notebook.tensor_view import TensorView
from kbench.notebook.twin import WithTwin
from kbench.notebook.variable_table import VariableTable
from kbench.workbench.protocol import ProtocolError

_TITLES = ("Names", "Value", "Settings")


class Explorer(WithTwin, widgets.Tab):  # type: ignore[misc]
    """The widgets of this package side by side, over the user's names or a given namespace."""

    def __init__(self, namespace: dict[str, Any] | None = None) -> None:
        self._names = names(namespace)
        self._shown = False
        self.table = VariableTable(namespace)
        self.settings = ConfigPanel()
        self.table._whole = self.settings._whole = self
        self.view: TensorView | None = None
        self.chosen = widgets.Dropdown(
            description="name", options=["-"], tooltip="Which variable or array to look into"
        )
        self._value = widgets.VBox([self.chosen])
        super().__init__([self.table, self._value, self.settings], titles=_TITLES)
        self.chosen.observe(lambda change: self._look(change.new), "value")
        self.observe(lambda _change: self._only_open_tab_works(), "selected_index")
        self.selected_index = 0

    def close(self) -> None:
        """Stop and remove every part."""
        self._end()
        for part in (self.table, self.settings, self.view):
            if part is not None:
                part.close()
        super().close()

    def _look(self, name: str) -> None:
        """Put the value called `name` on view; the one before it stops working."""
        if self.view is not None:
            self.view.close()
            self.view = None
        try:
            self.view = TensorView(self._names.get(name), name)
        except (ProtocolError, ArgumentError):
            self._value.children = (self.chosen,)
            return
        self._value.children = (self.chosen, self.view)
        self._only_open_tab_works()

    def _list_choices(self) -> None:
        found = self._names.values().items()
        held = sorted(name for name, value in found if describe.held_array(value) is not None)
        options = held or ["-"]
        if tuple(options) != tuple(self.chosen.options):
            kept = self.chosen.value
            self.chosen.options = options
            self.chosen.value = kept if kept in options else options[0]
        if self.view is None:
            self._look(self.chosen.value)

    def _only_open_tab_works(self) -> None:
        if not self._shown:
            return
        if self.selected_index == 1 and self.view is None:
            self._list_choices()
        for place, part in ((0, self.table), (1, self.view)):
            if part is not None:
                part.live.start() if place == self.selected_index else part.live.stop()
        if self.selected_index == 1:
            self._list_choices()

    def _begin(self) -> None:
        self._shown = True
        self._only_open_tab_works()

    def _label(self) -> str:
        return f"names: {', '.join(self._names.names()[:20])}"

    def _portrait(self) -> str:
        return views.names_table(rows(self._names)) + views.settings()


def explorer(namespace: dict[str, Any] | None = None) -> Explorer:
    """Settings, names and values as one widget with three tabs."""
    return Explorer(namespace)
