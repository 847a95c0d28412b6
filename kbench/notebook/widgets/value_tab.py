"""The tab of values: a name to choose, and the view of what it holds."""

from __future__ import annotations

from kbench.engine.core.errors import ArgumentError
from kbench.notebook.base import given
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.namespace_widget import NONE, NamespaceWidget, name_options, sentence
from kbench.notebook.base.redraw import names
from kbench.notebook.widgets.tensor_view import TensorView
from kbench.workbench.protocol.messages import ProtocolError


class ValueTab(NamespaceWidget):
    """A name to choose, and the view of its value."""

    uses_inspector = False

    def __init__(self, namespace: dict[str, object] | None = None) -> None:
        super().__init__(namespace, [])
        self._names = names(namespace)
        self._wanted = ""
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
            held = sorted(key for key, value in found.items() if given.holds_numbers(value))
            name = self._wanted or next(iter(held), "")
            none = [] if name in held else [(NONE, None)]
            self._set_options(self.chosen, [*none, *name_options(held)], name)
            self._look(name)

    def _look(self, name: str) -> None:
        """Put the value called `name` on view; the one before it stops working."""
        try:
            value = None
            if name:
                value = self._names.get(name)
                if not given.holds_numbers(value):
                    self._names.array(name)  # refuses what has no array, in words
            if self.view is not None and self.view.shows(value, name):
                return
            made = None if value is None else TensorView(value, name)
            words = "" if made is not None else "no variable or array yet"
        except (ProtocolError, ArgumentError) as error:
            made, words = None, error.reason
        shown, self.view = self.view, made
        if shown is not None and made is not None:  # numbers stay as they were written
            made.form.value, made.digits.value = shown.form.value, shown.digits.value
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
        super().close()
        with self._lock:  # no view is made behind this
            if self.view is not None:
                self.view.close()

    def _static_text(self) -> str:
        return "nothing on view" if self.view is None else self.view._static_text()

    def _static_html(self) -> str:
        return self.html if self.view is None else self.view._static_html()
