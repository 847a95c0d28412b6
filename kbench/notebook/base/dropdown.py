"""A dropdown that shows the choice which stands for None; that of ipywidgets is then blank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
from traitlets import observe

if TYPE_CHECKING:
    from kbench.notebook.base.widget_types import TraitChange


class Dropdown(widgets.Dropdown):  # type: ignore[misc]
    """As that of ipywidgets; the value None is the choice of that value, if there is one."""

    index: Any  # a trait of the base class, which has no types

    @observe("value")
    def _propagate_value(self, change: TraitChange) -> None:
        values = self._options_values
        if change.new is not None or None not in values:
            super()._propagate_value(change)
        elif self.index is None or values[self.index] is not None:
            self.index = values.index(None)
