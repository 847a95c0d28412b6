"""What the widgets on a namespace have in common: its hub, one lock, and the name on view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from kbench.engine.core import fork_safety
from kbench.engine.inspect import describe
from kbench.engine.runtime.signal import Signal
from kbench.notebook.base import given, inspector_hub
from kbench.notebook.base.redraw import OwnChanges, Redraws, Undo
from kbench.notebook.base.static_twin import WithStaticTwin
from kbench.notebook.html import views
from kbench.notebook.markup.markup import element
from kbench.workbench.errors import explanation
from kbench.workbench.progress import courses
from kbench.workbench.protocol.messages import ProtocolError

if TYPE_CHECKING:
    from kbench.notebook.base.widget_types import ChoiceControl, Control, TraitChange

NONE = "-"
Option = tuple[str, object]


class NamespaceWidget(WithStaticTwin, widgets.VBox):  # type: ignore[misc]
    """A widget on the names of a namespace; `refresh` draws it, on whatever thread.

    `uses_inspector`: whether it asks the hub, which then knows what is fed from now on.

    `picked` tells a name that the user has chosen here; `choose` takes one chosen elsewhere.
    """

    uses_inspector = True
    _closed = False

    def __init__(
        self,
        namespace: dict[str, object] | None,
        sources: Sequence[Signal],
        also: Sequence[Callable[[], Undo]] = (),
    ) -> None:
        super().__init__()
        self.picked = Signal("widget.picked")
        self._hub: inspector_hub.InspectorHub | None = (
            inspector_hub.acquire(namespace) if self.uses_inspector else None
        )
        self._lock = fork_safety.lock()
        self._own_changes = OwnChanges()
        self._given: dict[str, object] = {}  # what has no name of the user's
        self._body = widgets.HTML()
        self.redraws = Redraws(self._refresh_if_open, sources, also)

    def _follow_cells(
        self, sample: Callable[[], None], look: Callable[[], None] | None = None
    ) -> None:
        """Have `sample` called while a cell trains and the widget is shown.

        `look` is called beside a cell that makes no calls.

        Signals that come in a running cell lead to one redraw, which says what is old, and no more:
        a thread that draws beside a loop takes its time.
        """
        self._redrawn = False  # in the running cell

        def wanted(_payload: object) -> bool:
            busy = self._hub is not None and self._hub.busy
            first, self._redrawn = not busy or not self._redrawn, busy
            return first

        def noted(action: Callable[[], None]) -> Callable[[], None]:
            def act() -> None:
                self._sampled_cell = self.hub.inspector.sampling.cell
                action()

            return self._while_open(act)

        between, beside = noted(sample), None if look is None else noted(look)
        self.redraws.wanted = wanted
        self.redraws.add(lambda: self.hub.inspector.sampling.add(between, beside))
        self.redraws.add(courses.program.listen)

    _sampled_cell = 0

    @property
    def _sampled(self) -> bool:
        """Whether the widget has followed the running cell."""
        return self._sampled_cell == self.hub.inspector.sampling.cell

    @property
    def hub(self) -> inspector_hub.InspectorHub:
        """What answers; none once the widget is closed."""
        hub = self._hub  # which another thread may give back
        if hub is None:
            raise ProtocolError("closed", "this widget is closed")
        return hub

    @property
    def html(self) -> str:
        """What the widget shows below its controls at present."""
        return str(self._body.value)

    def _name_of_argument(
        self, argument: str, value: object, accepts: given.Accepts, needed: str
    ) -> str:
        """The name of what the widget was given, by name or as it is; '' for nothing.

        Raises:
            ArgumentError: it is nothing that the widget can show; the widget is closed then.
        """
        if value is None:
            return ""
        if isinstance(value, str):
            return value.strip()
        if not accepts(value):
            self.close()
            raise given.argument_error(type(self).__name__, argument, value, needed)
        name = self.hub.name_of(value)
        if name in self.hub.view.widget_values:
            self._given[name] = value
        return name

    def _current_name(self, name: str) -> str:
        """The name of what was given without one, or another where the user has taken it since."""
        value = self._given.get(name)
        if value is None or self.hub.view.snapshot().get(name) is value:
            return name
        found = self.hub.name_of(value)
        self._given[found] = value
        return found

    def refresh(self) -> None:
        """Ask for what is shown, and draw it."""
        raise NotImplementedError

    def _while_open(self, action: Callable[..., None]) -> Callable[..., None]:
        """`action`, for any thread: a widget that is closed meanwhile has nothing to say."""

        def act(*arguments: object) -> None:
            try:
                action(*arguments)
            except Exception:
                if not self._closed:
                    raise

        return act

    def _refresh_if_open(self) -> None:
        """As `refresh`; a widget that is closed meanwhile has nothing to say."""
        try:
            self.refresh()
        except Exception as error:
            if self._closed:
                return
            words = f"not shown: {type(error).__name__}: {explanation.safe_text(error)}"
            self._draw(sentence(words, "kb-bad"))
            raise

    def choose(self, name: str) -> None:
        """Show `name`, which was chosen elsewhere, if it is something to show here."""

    def close(self) -> None:
        """Stop following and remove the widget."""
        self._closed = True
        self.redraws.stop()
        self._end_twin()
        kept, self._hub = self._hub, None
        if kept is not None:
            inspector_hub.release(kept)
        super().close()

    def _activate(self) -> None:
        if not self._closed:
            self.redraws.start()

    def _deactivate(self) -> None:
        self.redraws.stop()

    def _show(self) -> None:
        """Draw what is known now; of two threads the later one has the last word."""
        with self._lock:
            self._draw(self._static_html())

    def _draw(self, markup: str) -> None:
        """Show something else; the same again is not sent."""
        if self._body.value != markup:
            self._body.value = markup
            self._update_twin()

    def _set_options(
        self, control: ChoiceControl, options: Iterable[Option], value: object
    ) -> None:
        """Give a control new choices and one of them as its value, unheard."""
        with self._lock, self._own_changes():  # a choice and its value go together
            found = list(options) or [(NONE, None)]
            values = [choice for _, choice in found]
            if list(control.options) != found:
                control.options = found
            wanted = value if value in values else values[0]
            if control.value != wanted:
                control.value = wanted

    def _set_choice(self, control: ChoiceControl, name: str) -> None:
        """Have a control show a choice that it offers, unheard.

        A widget that is not on view does so at once: when its tab opens, a user may choose before
        it is drawn anew, and what the control showed already would count as no choice.
        """
        if name in [choice for _, choice in control.options]:
            self._set_options(control, control.options, name)

    def _on_change(
        self, control: Control, action: Callable[[Any], None], trait: str = "value"
    ) -> None:
        """Call `action` with what a user has set a control to."""

        def hear(change: TraitChange) -> None:
            if not self._own_changes:
                action(change.new)

        control.observe(hear, trait)


def name_options(names: Iterable[str]) -> list[Option]:
    """Names as choices, safe to show."""
    return [(describe.printable(name), name) for name in names]


def button(words: str, tooltip: str, action: Callable[[], None]) -> Any:
    """A button that says what it does."""
    made = widgets.Button(description=words, tooltip=tooltip, layout={"width": "auto"})
    made.on_click(lambda _button: action())
    return made


def sentence(words: str, style: str = "kb-note") -> str:
    """A line in place of a picture, told to those who do not see it."""
    return views.styled(element("p", views.long(words), class_=style, role="status"))
