"""The base of all dialogs: closed once, and the mouse does not take the keys from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from textual.screen import ModalScreen

if TYPE_CHECKING:
    from textual.await_complete import AwaitComplete
    from textual.widget import Widget

Result = TypeVar("Result")


class ClosesOnce:
    """A second Escape, or a click on its way, finds the dialog closed, or another one above it.

    Textual would take whatever is on top off the screen, and fail when that is the main screen.
    """

    def dismiss(self, result: Any = None) -> AwaitComplete | None:
        """Close with a result, if the dialog is the one on top."""
        if not self.is_active:  # type: ignore[attr-defined]
            return None
        closing: AwaitComplete = super().dismiss(result)  # type: ignore[misc]
        return closing


class Modal(ClosesOnce, ModalScreen[Result]):  # type: ignore[misc]
    """A dialog."""

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        """What has the focus keeps it where the mouse leaves the screen."""
        now = self.focused
        if widget is None and self.app.app_focus and now is not None and now.is_on_screen:
            return
        super().set_focus(widget, scroll_visible, from_app_focus)
