"""The four settings as controls, bound both ways to the engine's configuration.

The engine is the single source. A change there moves the controls; a change in a control goes
through `config.assign`, which validates it, and a refusal puts the control back and says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from kbench.engine.core import fork_safety
from kbench.engine.core.errors import KbenchError
from kbench.engine.runtime import config
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.static_twin import WithStaticTwin
from kbench.notebook.html import views
from kbench.notebook.markup.markup import element

NOTE = (
    "Variables keep the dtype they were made with; "
    "graphs keep the epsilon and the layout they were built with."
)
_WIDE = {"description_width": "10em"}
_LAYOUT = {"width": "28em", "max_width": "100%"}  # the longest choice is read whole
_PHASES = (("per call (test unless fed)", None), ("0, test", 0), ("1, training", 1))


class ConfigPanel(WithStaticTwin, widgets.VBox):  # type: ignore[misc]
    """Shows and sets epsilon, floatx, image_data_format, learning_phase and num_threads."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._local = threading.local()  # .pulling: this thread is setting the controls
        self._unsubscribe: Callable[[], None] | None = None
        self.fields = _make_fields()
        self._message = widgets.HTML()
        super().__init__([*self.fields.values(), self._message])
        self._set_message(NOTE)
        self._pull()
        for name, field in self.fields.items():
            field.observe(lambda change, name=name: self._push(name, change.new), "value")
        self._activate()

    @property
    def message(self) -> str:
        """What the line below the controls says: a refusal, or what changes do not reach."""
        return self._message_text

    def close(self) -> None:
        """Unbind from the engine and remove the controls."""
        self._deactivate()
        self._end_twin()
        super().close()

    def _activate(self) -> None:
        with self._lock:
            if self._unsubscribe is None:
                self._unsubscribe = config.changed.subscribe(lambda _name: self._pull())
        self._pull()

    def _deactivate(self) -> None:
        with self._lock:
            unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()

    def _static_text(self) -> str:
        known = config.snapshot().items()
        return "settings: " + ", ".join(
            f"{name} {views.setting(name, value)}" for name, value in known
        )

    def _static_html(self) -> str:
        return views.settings()

    def _pull(self) -> None:
        """Engine to controls; what this sets is not sent back."""
        with self._lock:
            self._local.pulling = True
            try:
                for name, value in config.snapshot().items():
                    field = self.fields.get(name)
                    shown = f"{value:g}" if name == "epsilon" else value
                    if field is not None and field.value != shown:
                        field.value = shown
            finally:
                self._local.pulling = False
        self._update_twin()

    def _push(self, name: str, value: object) -> None:
        """Control to engine, validated there; a refusal puts the control back.

        Holds no lock: the engine tells every panel, and each takes its own lock for that.
        """
        if getattr(self._local, "pulling", False):
            return
        try:
            config.assign(name, value)
            self._set_message(NOTE)
        except KbenchError as error:
            self._set_message(f"{name} was not changed: {error.reason}", bad=True)
        self._pull()

    def _set_message(self, text: str, bad: bool = False) -> None:
        self._message_text = text
        style = "kb-bad" if bad else "kb-note"
        content = element("p", views.long(text), class_=style, role="status")
        self._message.value = views.styled(content)


def _make_fields() -> dict[str, Any]:
    """One labelled control for each setting, reachable by keyboard, with a tooltip."""
    return {
        "epsilon": widgets.Text(
            description="epsilon",
            tooltip="Fuzz factor: keeps divisions and logarithms away from zero",
            continuous_update=False,
            style=_WIDE,
            layout=_LAYOUT,
        ),
        "floatx": Dropdown(
            description="floatx",
            options=["float16", "float32", "float64"],
            value="float32",
            tooltip="Default float dtype of new tensors",
            style=_WIDE,
            layout=_LAYOUT,
        ),
        "image_data_format": Dropdown(
            description="image_data_format",
            options=["channels_last", "channels_first"],
            tooltip="Which axis holds the channels, in calls without data_format",
            style=_WIDE,
            layout=_LAYOUT,
        ),
        "learning_phase": Dropdown(
            description="learning_phase",
            options=_PHASES,
            tooltip="Whether layers run in training or in test mode",
            style=_WIDE,
            layout=_LAYOUT,
        ),
        "num_threads": widgets.BoundedIntText(
            description="num_threads",
            min=1,
            max=1024,
            tooltip="Threads that parallel kernels use",
            style=_WIDE,
            layout=_LAYOUT,
        ),
    }
