"""`explore(fn)`: a function with a control for each argument; what it gives follows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from kbench.engine.core import fork_safety
from kbench.engine.core.errors import ArgumentError
from kbench.engine.graph import variables
from kbench.engine.inspect import describe
from kbench.engine.runtime import config
from kbench.notebook.base.redraw import OwnChanges, Throttle, use_requested_subshell
from kbench.notebook.base.slicing import Slice, first, parse
from kbench.notebook.base.static_twin import WithStaticTwin
from kbench.notebook.exploration import explore_view
from kbench.notebook.exploration.explore_functions import functions
from kbench.notebook.exploration.explore_pictures import OF_IMAGES
from kbench.notebook.exploration.explore_run import Outcome, Runner
from kbench.notebook.exploration.explore_subject import subject
from kbench.notebook.exploration.explore_widgets import WIDE, value_of, widget_of
from kbench.notebook.html import views
from kbench.notebook.markup.markup import join

if TYPE_CHECKING:
    from kbench.notebook.base.widget_types import TraitChange

MODES = ("numbers", "heat map", "images")
IMAGES = MODES[2]


class Exploration(WithStaticTwin, widgets.VBox):  # type: ignore[misc]
    """Calls a function again whenever one of the controls for its arguments is moved.

    Arguments:
        fn: a function of the API or its name, a function of the user's, a `K.function`, or None.
        values: what it is called with, from the first argument on; samples take the place of
            what is missing.
        ranges: for an argument (low, high) or (low, high, step), a list of choices, or a value
            that stays.
    """

    def __init__(self, fn: Any = None, values: tuple[Any, ...] = (), **ranges: Any) -> None:
        super().__init__()
        self._lock = fork_safety.lock()
        self._runner = Runner()
        self._rerun = Throttle(self.refresh)
        self._stops: list[Callable[[], None]] = []
        self._painter: Any = None
        self.controls: dict[str, Any] = {}
        self.now: Outcome | None = None  # what the last call gave
        self.good: Outcome | None = None  # the last call that gave something
        self._slice: Slice | None = None
        try:
            self.subject = subject(fn, values, ranges)
        except Exception:
            super().close()
            raise
        self._choosers: tuple[Any, ...] = ()
        if self.subject.public and not values and not ranges:
            self._choosers = self._make_choosers()
        self._make_parts()
        self._arrange()
        self.refresh()
        if not self.subject.public and not values and self.subject.inputs:
            self._try_arrays()

    @property
    def line(self) -> str:
        """The Python that does what is shown."""
        return self.subject.line(self.values())

    def values(self) -> dict[str, Any]:
        """What the controls stand at, by argument."""
        with self._lock:
            return {
                name: value_of(self.subject.controls[name], widget)
                for name, widget in self.controls.items()
            }

    def refresh(self) -> None:
        """Call the function with what the controls stand at, and show what it gives."""
        with self._lock:
            explored, values = self.subject, self.values()
        self._epoch = config.epoch()
        outcome = self._runner.run(explored, values)
        with self._lock:
            if explored is not self.subject:
                return
            self.now = outcome
            if not outcome.words:
                self.good = outcome
            self._draw()

    def close(self) -> None:
        """Stop following and remove the controls."""
        for stop in self._stops:
            stop()
        self._stops = []
        self._rerun.stop()
        self._end_twin()
        for part in (*self.controls.values(), *self.children):
            part.close()
        super().close()

    def choose(self, name: str) -> None:
        """Explore another function of the API."""
        chosen = subject(name, (), {})
        with self._lock:
            images = self.subject.name in OF_IMAGES
            self.subject, self.now, self.good, self._slice = chosen, None, None, None
            if (chosen.name in OF_IMAGES) != images:
                self.mode.value = MODES[0] if images else IMAGES
            self._arrange()
        self.refresh()

    def _try_arrays(self) -> None:
        """A function that does not take tensors may be one of arrays."""
        if self.now is None or not self.now.words or describe.is_function(self.subject.function):
            return
        first = self.now
        self.subject.use_arrays(True)
        self.refresh()
        if self.now.words:
            self.subject.use_arrays(False)
            self.now = first
            self._redraw()

    # -------------------------------------------------------------- parts

    def _make_choosers(self) -> tuple[Any, ...]:
        known = functions()
        family = next(name for name, there in known.items() if self.subject.name in there)
        families = widgets.Dropdown(
            options=list(known), value=family, description="family", style=WIDE,
            tooltip="Which part of the API to choose from",
        )  # fmt: skip
        picked = widgets.Dropdown(
            options=known[family], value=self.subject.name, description="function", style=WIDE,
            tooltip="Which function to explore",
        )  # fmt: skip

        def other(change: TraitChange) -> None:
            picked.options = known[change.new]

        families.observe(other, "value")
        picked.observe(lambda change: self.choose(change.new), "value")
        return families, picked

    def _make_parts(self) -> None:
        self.mode = widgets.ToggleButtons(
            options=MODES,
            value=IMAGES if self.subject.name in OF_IMAGES else MODES[0],
            tooltips=[f"Show the result as {mode}" for mode in MODES],
            style={"button_width": "8em"},
        )
        self.index = widgets.Text(
            description="index", continuous_update=False, style=WIDE,
            tooltip="Which slice of the result, such as 0, :, :, 3; press Enter",
        )  # fmt: skip
        self.output = widgets.Dropdown(
            description="output", style=WIDE, tooltip="Which of the results to look into"
        )
        self._own_changes = OwnChanges()
        self._code, self._message, self._body = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.mode.observe(lambda _change: self._redraw(), "value")
        self.index.observe(lambda change: self._typed(change.new), "value")
        self.output.observe(lambda _change: None if self._own_changes else self._redraw(), "value")

    def _arrange(self) -> None:
        """Controls for the arguments of the function that is explored."""
        for old in self.controls.values():
            old.close()
        self.controls, rows = {}, []
        for name, control in self.subject.controls.items():
            made, shown = widget_of(name, control, explore_view.argument_words(self.subject, name))
            if made is not None:
                made.observe(lambda _change: self._rerun.request(), "value")
                self.controls[name] = made
                rows.append(shown)
        self.children = (
            *([_row(*self._choosers)] if self._choosers else []),
            widgets.VBox(rows),
            self._code,
            self._message,
            _row(self.mode, self.index, self.output),
            self._body,
        )
        use_requested_subshell(self)

    # -------------------------------------------------------------- drawing

    def _redraw(self) -> None:
        with self._lock, describe.reading_once():
            self._draw()

    def _draw(self) -> None:
        now, good = self.now, self.good
        if now is None:
            return
        pictured = explore_view.inputs(self.subject, self._data_format())
        self._code.value = views.styled(join([explore_view.head(self.subject, now.line), pictured]))
        self._message.value = explore_view.failure(now)
        array = self._chosen()
        self._show_slice(array)
        png = b""
        if self.mode.value == "heat map" and array is not None and array.size:
            png = self._heat(array)
        maps = "" if good is None else self._maps(good)
        self.index.layout.display = "none" if maps else ""  # which shows all there is
        if good is None:
            self._body.value = ""
        else:
            self._body.value = maps or explore_view.result(
                good, self._slice, good is not now, png, self.output.value
            )
        self._update_twin()

    def _maps(self, good: Outcome) -> str:
        """The pictures of the mode for images; '' in another one, or for what is no image."""
        if self.mode.value != IMAGES or good is not self.now:
            return ""
        return explore_view.maps(self.subject, good, self._data_format(), self.output.value)

    def _chosen(self) -> Any:
        """The array on view; the list of those that there are is brought up to date."""
        held = explore_view.arrays(self.good)
        with self._own_changes():
            if tuple(held) != tuple(self.output.options):
                kept = self.output.value
                self.output.options = tuple(held)
                self.output.value = kept if kept in held else next(iter(held), None)
            self.output.layout.display = "" if len(held) > 1 else "none"
        return held.get(self.output.value)

    def _heat(self, array: Any) -> bytes:
        if describe.array(array).get("refused"):
            return b""
        if self._painter is None:
            from kbench.notebook.drawing.heatmap import (
                SlicePainter,  # matplotlib: on first need only
            )

            self._painter = SlicePainter()
        assert self._slice is not None
        axes = (self._slice.row_axis, self._slice.col_axis)
        labels = tuple("" if axis is None else f"axis {axis}" for axis in axes)
        drawn: bytes = self._painter.heat(self._slice.of(array), labels)
        return drawn

    def _show_slice(self, array: Any) -> None:
        """Keep the slice where the result still has it, else begin with the first one."""
        shape = () if array is None else array.shape
        chosen = self._slice
        if 0 in shape:
            self._slice = None
        elif chosen is None or len(chosen.index) != len(shape):
            self._slice = self._first_slice(shape)
        elif any(at >= size for at, size in zip(chosen.index, shape, strict=True)):
            self._slice = self._first_slice(shape)
        with self._own_changes():
            self.index.value = "" if self._slice is None else str(self._slice)
            self.index.disabled = len(shape) < 1

    def _first_slice(self, shape: tuple[int, ...]) -> Slice:
        """Of an image the first channel; else the last two axes with more than one entry."""
        return explore_view.first_slice(self.subject, shape, self._data_format()) or first(shape)

    def _data_format(self) -> str:
        return str(self.values().get("data_format") or config.image_data_format())

    def _typed(self, text: str) -> None:
        if self._own_changes:
            return
        with self._lock:
            array = self._chosen()
            if array is None:
                return
            try:
                self._slice = parse(text, array.shape)
            except ArgumentError as error:
                self._message.value = explore_view.failure(
                    Outcome(self.line, words=(error.reason,))
                )
                self._show_slice(array)
                return
            self._draw()

    # -------------------------------------------------------------- showing

    def _activate(self) -> None:
        if not self._stops:
            self._stops = [
                config.changed.subscribe(lambda _name: self._rerun.request()),
                variables.changed.subscribe(self._stored),
            ]
            if config.epoch() != self._epoch:
                self.refresh()

    def _stored(self, variable: Any) -> None:
        if any(variable is given for given in self.subject.given.values()):
            self._rerun.request()

    def _static_text(self) -> str:
        with self._lock:
            return explore_view.text(self.subject, self.good, self.now)

    def _static_html(self) -> str:
        with self._lock:
            name = self.output.value
            return explore_view.portrait(self.subject, self.good, self.now, self._slice, name)

    def __repr__(self) -> str:
        return self._static_text()


def explore(fn: Any = None, *values: Any, **ranges: Any) -> Exploration:
    """Try a function out: a control for each argument, and its result beside them.

    Arguments:
        fn: a function of the API or its name, a function of your own that takes tensors, or a
            `K.function`; None lets you choose.
        values: what to call it with, from the first argument on. Where there are none, samples
            are made.
        ranges: how an argument may be changed: (low, high) or (low, high, step), a list of
            choices, or a value that stays. What is not named gets a control that fits it.
    Returns:
        A widget; as text, in a terminal, what the function gives.
    Raises:
        ArgumentError: no function, or values and ranges that it does not take.
    """
    return Exploration(fn, values, **ranges)


def _row(*parts: Any) -> Any:
    return widgets.HBox(parts, layout={"flex_flow": "row wrap"})
