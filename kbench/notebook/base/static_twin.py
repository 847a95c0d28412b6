"""The static picture below each widget: what is left of it where no live widget can be shown.

A notebook that is exported, reopened without its kernel or read on a code hosting site has no live
widgets, only their static twins. A twin is an output of its own, follows its widget at most once
a second, and is hidden by style as long as the live widget stands above it; where there is none,
the style hides the front end's complaint about that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.display import display

from kbench.engine.inspect import describe
from kbench.notebook.base.redraw import Throttle, in_terminal, use_requested_subshell
from kbench.notebook.markup.markup import element, escape, page
from kbench.notebook.markup.style import OUTPUT

if TYPE_CHECKING:
    from IPython.display import DisplayHandle

    from kbench.notebook.base.widget_types import TraitChange

_UPDATE_SECONDS = 1.0
"""Seconds between two updates of a static twin, which goes into the saved notebook."""
_LIVE = ".jupyter-widgets .jupyter-widgets"  # a widget inside its output; alone it is an error
_HIDE = (
    f"<style>{OUTPUT}:has({_LIVE})+{OUTPUT}:has(.kb-twin),"
    f"{OUTPUT}:has(+{OUTPUT} .kb-twin):not(:has({_LIVE})){{display:none}}</style>"
)


class WithStaticTwin:
    """Mixin of the widgets: shows the widget, and its picture below it.

    A widget says what it is in `_static_text`, draws itself in `_static_html`, works from
    `_activate` to `_deactivate`, and calls `_update_twin` whenever its picture would look
    different. It stops working when the front end has no view of it left: the output was cleared,
    or the notebook closed.
    """

    _handle: DisplayHandle | None = None
    _view_count: int | None
    _throttle: Throttle | None = None
    _container: WithStaticTwin | None = None  # the widget that this one is a part of

    def _static_text(self) -> str:
        raise NotImplementedError

    def _static_html(self) -> str:
        raise NotImplementedError

    def _activate(self) -> None:
        """Called when the widget is shown."""

    def _settle(self) -> None:
        """Called before it is shown once, as it is then: what is computed beside is awaited."""
        refresh = getattr(self, "refresh", None)
        if refresh is not None:
            refresh()

    def __repr__(self) -> str:
        """What it shows, in words."""
        try:
            return f"{type(self).__name__}: {self._static_text()}"
        except Exception:  # it is not made yet, or closed
            return type(self).__name__

    def _deactivate(self) -> None:
        """Called when nobody sees the widget any more."""

    def _watch_views(self) -> None:
        """Have the front end tell how many views there are, and work while there is any."""
        if self._view_count is None:
            self._view_count = 0
            self.observe(self._views_changed, "_view_count")  # type: ignore[attr-defined]

    def _views_changed(self, change: TraitChange) -> None:
        if not change.new:
            self._deactivate()
        elif not change.old:
            self._activate()

    def _update_twin(self) -> None:
        throttle = self._throttle  # which another thread may end
        if throttle is not None:
            throttle.request()
        if self._container is not None:
            self._container._update_twin()

    def _end_twin(self) -> None:
        """Stop following; the picture stays as it is."""
        if self._throttle is not None:
            self._throttle.stop()
            self._throttle = None

    def _ipython_display_(self, **_kwargs: object) -> None:
        if in_terminal():  # there is only text, and nothing to follow
            self._settle()
            display({"text/plain": self._static_text()}, raw=True)
            return
        bundle = self._repr_mimebundle_()
        if bundle is None:
            return
        live = {kind: data for kind, data in bundle.items() if kind != "text/html"}
        display({**live, "text/plain": type(self).__name__}, raw=True)
        self._handle = display(self._static_bundle(), raw=True, display_id=True)
        self._throttle = Throttle(self._update, _UPDATE_SECONDS)

    def _mime_(self) -> tuple[str, str]:
        """What marimo shows, which has no ipywidgets: the picture, as it is now."""

        def now() -> str:
            self._settle()
            return self._static_html()

        with describe.reading_once():
            return "text/html", _drawn(now)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any] | None:
        use_requested_subshell(self)
        self._watch_views()
        self._activate()
        bundle: dict[str, Any] | None = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if bundle is not None:
            bundle.update(self._static_bundle())
        return bundle

    def _static_bundle(self) -> dict[str, str]:
        with describe.reading_once():
            return {"text/plain": self._static_text(), "text/html": _framed(self._static_html)}

    def _update(self) -> None:
        if self._handle is not None:
            self._handle.update(self._static_bundle(), raw=True)


def _framed(draw: Callable[[], str]) -> str:
    """The picture in an element by which the style finds it."""
    return f'{_HIDE}<div class="kb-twin">{_drawn(draw)}</div>'


def _drawn(draw: Callable[[], str]) -> str:
    """The picture; it never spoils the widget."""
    try:
        return draw()
    except Exception as error:
        words = escape(f"not shown: {type(error).__name__}")
        return page(element("p", words, class_="kb-head"), [])
