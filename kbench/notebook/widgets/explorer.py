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
from kbench.notebook import registry
from kbench.notebook.base import given, inspector_hub
from kbench.notebook.base.namespace_widget import NamespaceWidget
from kbench.notebook.base.redraw import Undo, names, rows
from kbench.notebook.base.static_twin import WithStaticTwin
from kbench.notebook.html import views
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES
from kbench.workbench.protocol.messages import ProtocolError

NEEDED = "a dictionary of names, a name, a tensor, an array, a K.function or a Keras model"


class Explorer(WithStaticTwin, widgets.Tab):  # type: ignore[misc]
    """The widgets of this package side by side, over the user's names or a given namespace."""

    def __init__(self, namespace: dict[str, object] | None = None) -> None:
        self._names = names(namespace)
        self._hub = inspector_hub.acquire(namespace)
        self._shown, self._open = False, True
        self.tabs: dict[str, Any] = {
            spec.word: _made(registry.tab_class(spec), namespace) for spec in registry.tabs()
        }
        """The widgets of the tabs, by their words in `notebook/registry.py`."""
        self._tabs = tuple(self.tabs.values())
        self._parts = tuple(tab for tab in self._tabs if isinstance(tab, NamespaceWidget))
        for view in (self.tabs["names"]._view, self.tabs["value"]._names):
            view.widget_values = self._hub.view.widget_values
        self._settings_changed: Undo | None = None
        super().__init__(self._tabs, titles=[spec.tab for spec in registry.tabs()])
        self.add_class("kb-tabs")  # for the style sheet
        for tab in self._tabs:
            tab._container = self
        self.tabs["settings"]._deactivate()
        for part in self._parts:
            part.picked.subscribe(partial(self._picked, part))
        self.observe(lambda _change: self._only_open_tab_works(), "selected_index")
        self.selected_index = 0

    @property
    def view(self) -> Any:
        """What the tab of values looks into, a `TensorView`; None for nothing."""
        return self.tabs["value"].view

    @property
    def chosen(self) -> Any:
        """The control by which the tab of values chooses."""
        return self.tabs["value"].chosen

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
        held = given.holds_numbers(found)
        tab = "value" if held else "plan" if describe.is_function(found) else "graph"
        self.open_tab(tab if held or given.has_graph(found) else "names")

    def open_tab(self, word: str) -> None:
        """Open the tab of a word, one of `tabs`."""
        self.selected_index = list(self.tabs).index(word)

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
        tab = self._tabs[self.selected_index or 0]
        open_ = views.names_table(rows(self._names))
        if tab is not self.tabs["names"] and isinstance(tab, NamespaceWidget):
            open_ = tab._static_html()
        whole = open_ + views.settings()
        return whole if len(whole.encode()) <= MAX_OUTPUT_BYTES else open_


def _made(kind: Any, namespace: dict[str, object] | None) -> Any:
    """The widget of a tab; settings are of no namespace."""
    return kind(namespace=namespace) if issubclass(kind, NamespaceWidget) else kind()


def explorer(namespace: Any = None) -> Explorer:
    """Names, values, watches, gradients, graphs, plans, A/B and settings as one widget of tabs.

    Arguments:
        namespace: a dictionary, None for the names of the running shell; or what to put on view
            first: a name, a tensor, an array, a K.function, a Keras model, a list of tensors.
    """
    if namespace is None or isinstance(namespace, dict):
        return Explorer(namespace)
    if not isinstance(namespace, str) and not (
        given.is_watched(namespace) or given.holds_numbers(namespace)
    ):
        raise given.argument_error("explorer", "namespace", namespace, NEEDED)
    whole = Explorer()
    whole.open_at(namespace)
    return whole
