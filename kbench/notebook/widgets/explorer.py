"""`explorer()`: every widget on the user's names in tabs; only the open tab works.

A name that is chosen in one tab is on view in the others as soon as they are opened.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ipywidgets as widgets

from kbench.engine.core.errors import ArgumentError
from kbench.engine.inspect import describe
from kbench.engine.runtime import config
from kbench.notebook.base import given, inspector_hub
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.namespace_widget import NONE, NamespaceWidget, name_options, sentence
from kbench.notebook.base.redraw import Undo, names, rows
from kbench.notebook.base.static_twin import WithStaticTwin
from kbench.notebook.html import views
from kbench.notebook.html.markup import MAX_OUTPUT_BYTES
from kbench.notebook.widgets.compare_view import CompareView
from kbench.notebook.widgets.config_panel import ConfigPanel
from kbench.notebook.widgets.grad_panel import GradPanel
from kbench.notebook.widgets.graph_view import GraphView
from kbench.notebook.widgets.plan_table import PlanTable
from kbench.notebook.widgets.tensor_view import TensorView
from kbench.notebook.widgets.variable_table import VariableTable
from kbench.notebook.widgets.watch_list import WatchList
from kbench.workbench.protocol.messages import ProtocolError

NEEDED = "a dictionary of names, a name, a tensor, an array, a K.function or a Keras model"
TITLES = ("Names", "Value", "Watches", "Gradients", "Graph", "Plan", "A/B", "Settings")


class ValueTab(NamespaceWidget):
    """A name to choose, and the view of its value."""

    uses_inspector = False

    def __init__(self, namespace: dict[str, object] | None = None) -> None:
        super().__init__(namespace, [])
        self._names = names(namespace)
        self._wanted = ""
        self._closed = False
        self.view: TensorView | None = None
        self.chosen = Dropdown(
            description="name",
            options=[(NONE, None)],
            tooltip="Which variable or array to look into",
        )
        self._on_change(self.chosen, self._chosen)
        self.children = (self.chosen, self._body)

    def choose(self, name: str) -> None:
        """Look into a name, if it holds an array."""
        self._wanted = name
        self._set_choice(self.chosen, name)
        if self.redraws.running:
            self.redraws.throttle.request_now()

    def _chosen(self, name: str | None) -> None:
        if name is not None:
            self._wanted = name
            self.picked.emit(name)
            self.refresh()

    def refresh(self) -> None:
        """Bring the choices in line with the names, and the view with the choice."""
        with self._lock:
            if self._closed:
                return
            found = self._names.values()
            held = sorted(
                key for key, value in found.items() if describe.held_array(value) is not None
            )
            name = self._wanted or next(iter(held), "")
            none = [] if name in held else [(NONE, None)]
            self._set_options(self.chosen, [*none, *name_options(held)], name)
            self._look(name)

    def _look(self, name: str) -> None:
        """Put the value called `name` on view; the one before it stops working."""
        try:
            value = None
            if name:
                self._names.array(name)  # refuses what has no array, in words
                value = self._names.get(name)
            if self.view is not None and self.view.shows(value, name):
                return
            made = None if value is None else TensorView(value, name)
            words = "" if made is not None else "no variable or array yet"
        except (ProtocolError, ArgumentError) as error:
            made, words = None, error.reason
        shown, self.view = self.view, made
        self.children = (self.chosen, self._body, *([] if made is None else [made]))
        self._draw(sentence(words) if words else "")
        if shown is not None:
            shown.close()
        self._only_view_works()

    def _only_view_works(self) -> None:
        if self.view is not None:
            self.view._container = self
            self.view._activate() if self.redraws.running else self.view._deactivate()

    def _activate(self) -> None:
        super()._activate()
        self._only_view_works()

    def _deactivate(self) -> None:
        super()._deactivate()
        self._only_view_works()

    def close(self) -> None:
        """Stop and remove the view with the tab."""
        with self._lock:  # no view is made behind this
            self._closed = True
            if self.view is not None:
                self.view.close()
        super().close()

    def _static_text(self) -> str:
        return "nothing on view" if self.view is None else self.view._static_text()

    def _static_html(self) -> str:
        return self.html if self.view is None else self.view._static_html()


class Explorer(WithStaticTwin, widgets.Tab):  # type: ignore[misc]
    """The widgets of this package side by side, over the user's names or a given namespace."""

    def __init__(self, namespace: dict[str, object] | None = None) -> None:
        self._names = names(namespace)
        self._hub = inspector_hub.acquire(namespace)
        self._shown, self._open = False, True
        self.table = VariableTable(namespace)
        self.values = ValueTab(namespace)
        self.watches = WatchList(namespace=namespace)
        self.gradients = GradPanel(namespace=namespace)
        self.graph = GraphView(namespace=namespace)
        self.plan = PlanTable(namespace=namespace)
        self.comparison = CompareView(namespace=namespace)
        self.settings = ConfigPanel()
        for view in (self.table._view, self.values._names):
            view.widget_values = self._hub.view.widget_values
        self._parts: tuple[NamespaceWidget, ...] = (
            self.table,
            self.values,
            self.watches,
            self.gradients,
            self.graph,
            self.plan,
            self.comparison,
        )
        self._tabs: tuple[NamespaceWidget | ConfigPanel, ...] = (*self._parts, self.settings)
        self._settings_changed: Undo | None = None
        super().__init__(self._tabs, titles=TITLES)
        self.add_class("kb-tabs")  # for the style sheet
        for tab in self._tabs:
            tab._container = self
        self.settings._deactivate()
        for part in self._parts:
            part.picked.subscribe(partial(self._picked, part))
        self.observe(lambda _change: self._only_open_tab_works(), "selected_index")
        self.selected_index = 0

    @property
    def view(self) -> TensorView | None:
        """What the tab of values looks into."""
        return self.values.view

    @property
    def chosen(self) -> Any:
        """The control by which the tab of values chooses."""
        return self.values.chosen

    def choose(self, name: str) -> None:
        """Put a name on view in every tab that can show it."""
        self._picked(None, name)

    def open_at(self, value: object) -> None:
        """Open the tab that shows most of a value, or of what has this name."""
        name = value if isinstance(value, str) else self._hub.name_of(value)
        try:
            found = self._hub.view.get(name)
        except ProtocolError as error:
            self.close()
            raise ArgumentError(error.reason, function="explorer") from None
        self.choose(name)
        held = describe.held_array(found) is not None
        tab = "Value" if held else "Plan" if describe.is_function(found) else "Graph"
        self.selected_index = TITLES.index(tab if held or given.has_graph(found) else "Names")

    def close(self) -> None:
        """Stop and remove every part."""
        if self._open:
            self._open = False
            self._deactivate()
            self._end_twin()
            for part in self._tabs:
                part.close()
            inspector_hub.release(self._hub)
        super().close()

    def _picked(self, here: NamespaceWidget | None, name: str) -> None:
        for part in self._parts:
            if part is not here:
                part.choose(name)

    def _only_open_tab_works(self) -> None:
        if not self._shown:
            return
        for place, part in enumerate(self._tabs):
            if place != self.selected_index:
                part._deactivate()
        if self.selected_index is not None:
            self._tabs[self.selected_index]._activate()
        self._update_twin()

    def _activate(self) -> None:
        if self._settings_changed is None:  # the picture below the widget tells the settings, too
            self._settings_changed = config.changed.subscribe(lambda _name: self._update_twin())
        self._shown = True
        self._only_open_tab_works()

    def _deactivate(self) -> None:
        for part in self._tabs:
            part._deactivate()
        self._shown = False
        stop, self._settings_changed = self._settings_changed, None
        if stop is not None:
            stop()

    def _static_text(self) -> str:
        return f"names: {', '.join(self._names.names()[:20])}"

    def _static_html(self) -> str:
        """The open tab, and the settings below it."""
        at = self.selected_index or 0
        open_ = views.names_table(rows(self._names))
        if 0 < at < len(self._parts):
            open_ = self._parts[at]._static_html()
        whole = open_ + views.settings()
        return whole if len(whole.encode()) <= MAX_OUTPUT_BYTES else open_


def explorer(namespace: Any = None) -> Explorer:
    """Names, values, watches, gradients, graphs, plans, A/B and settings as one widget of tabs.

    Arguments:
        namespace: a dictionary, None for the names of the running shell; or what to put on view
            first: a name, a tensor, an array, a K.function, a Keras model, a list of tensors.
    """
    if namespace is None or isinstance(namespace, dict):
        return Explorer(namespace)
    if not isinstance(namespace, str) and not given.is_watched(namespace):
        raise given.argument_error("explorer", "namespace", namespace, NEEDED)
    whole = Explorer()
    whole.open_at(namespace)
    return whole
