"""A line to type into; its keys act before what is typed behind them."""

from __future__ import annotations

from textual import events
from textual.widget import Widget
from textual.widgets import Input


async def act_on(widget: Widget, key: str) -> bool:
    """Run what `key` is bound to in the focused widget, at once.

    Textual would look for the binding after the event has bubbled up to the app, and by then the
    characters typed behind it would be in the text already.
    """
    found = widget.screen.active_bindings.get(key)
    if found is None or found.node is not widget or not found.enabled:
        return False
    await widget.run_action(found.binding.action)
    return True


class Field(Input):
    """The line of dialogs and of the settings."""

    def __init__(
        self,
        value: str = "",
        *,
        placeholder: str = "",
        password: bool = False,
        id: str | None = None,
    ) -> None:
        super().__init__(value, placeholder, password=password, id=id, compact=True)

    async def _on_key(self, event: events.Key) -> None:
        if not event.is_printable and await act_on(self, event.key):
            event.stop()
            event.prevent_default()
