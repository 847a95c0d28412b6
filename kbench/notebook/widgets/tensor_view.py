"""Any slice of an array or variable as numbers, heat map or image; follows changes."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import ipywidgets as widgets
import numpy as np

from kbench.engine.core import csr, fork_safety
from kbench.engine.core.errors import ArgumentError
from kbench.engine.core.type_errors import describe_operand
from kbench.engine.graph import variables
from kbench.engine.inspect import describe, sparse_summary
from kbench.engine.inspect.number_format import MAX_DIGITS, STYLES, NumberFormat
from kbench.engine.runtime import config
from kbench.notebook.base import given
from kbench.notebook.base.computed import ComputedValue
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.redraw import OwnChanges, Redraws, names, use_requested_subshell
from kbench.notebook.base.slicing import Slice, first, parse
from kbench.notebook.base.static_twin import WithStaticTwin
from kbench.notebook.drawing import drawable
from kbench.notebook.html import html, views
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES, Html, element, join
from kbench.workbench.inspector import summary
from kbench.workbench.protocol.messages import ProtocolError

if TYPE_CHECKING:
    from kbench.engine.graph.tensor import Tensor

_WRAPPED = {"flex_flow": "row wrap"}
NAME = "TensorView"
MAX_DENSE_ELEMENTS = 1 << 20
"""Of a sparse value that may be shown dense: 8 MB of float64."""
MODES = ("numbers", "heat map", "image", "histogram")


class TensorView(WithStaticTwin, widgets.VBox):  # type: ignore[misc]
    """Looks into a variable, tensor or array through controls for its axes.

    Arguments:
        value: what to look at: a variable, an array, numbers, a name. A symbolic tensor is computed
            beside the program on what was fed last. Of a Keras model or layer, a K.function, a
            list or a dictionary one tensor at a time, which a control chooses.
        name: what to call it.
        mode: "numbers", "heat map", "image" (channels where `image_data_format` says, or where
            there are 1, 3 or 4; else one channel at a time) or "histogram" (of the slice on view).
    """

    def __init__(self, value: object, name: str | None = None, mode: str = "numbers") -> None:
        super().__init__()
        self.redraws = Redraws(self._refresh_if_open, [variables.changed, config.changed])
        self.redraws.wanted = self._wanted
        self._computed: ComputedValue | None = None
        self._matrix: Any = None  # a sparse value, whose stored numbers are on view
        self._dense = False
        self._inside: list[tuple[str, Any]] = []
        self._name = name or ""
        try:
            if mode not in MODES:
                raise ArgumentError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
            self._take(*self._chosen(value))
        except ArgumentError as error:
            self.close()
            raise error if error.function else ArgumentError(error.reason, function=NAME) from None
        self._lock = fork_safety.lock()
        self._own_changes = OwnChanges()
        self._painter: Any = None
        self._undrawn = False  # whether the message says why there is no picture
        self._png = b""
        self._picture = Html("")  # the same as an image
        self._body = widgets.HTML()
        self._message = widgets.HTML()
        self.mode = widgets.ToggleButtons(
            options=MODES,
            value=mode,
            tooltips=[f"Show as {mode}" for mode in MODES],
            style={"button_width": "8em"},
        )
        self.mode.observe(lambda _change: self._choose(self.slice), "value")
        self.which = Dropdown(
            options=[(text, at) for at, (text, _) in enumerate(self._inside)],
            description="tensor",
            tooltip="Which of the tensors inside is on view",
        )
        self.which.observe(lambda change: self._other(change.new), "value")
        self.form = Dropdown(
            options=list(STYLES),
            description="format",
            tooltip="How numbers are written; hex is for integers",
        )
        self.digits = Dropdown(
            options=[("auto", None), *((str(at), at) for at in range(1, MAX_DIGITS + 1))],
            description="digits",
            tooltip="Significant digits of each number",
        )
        for control in (self.form, self.digits):
            control.observe(lambda _change: self.redraws.throttle.request_now(), "value")
        self._make_controls()
        self.refresh()
        use_requested_subshell(self)

    def _chosen(self, value: object) -> tuple[Any, str]:
        """The value to show first, and what to call it."""
        own = self._name
        if isinstance(value, str):
            own = own or value
            try:
                value = names().get(value.strip())
            except ProtocolError as error:
                raise ArgumentError(error.reason) from None
        elif not own and (describe.is_tensor(value) or describe.is_function(value)):
            own = str(value.name)
        found = given.values_inside(value, own)
        if found is None:
            return value, own or "array"
        if not found:
            raise ArgumentError(f"no tensor or array in {describe_operand(value)}")
        self._inside = found
        for text, inner in found:  # the first one that can be shown
            with suppress(ArgumentError):
                self._take(inner, text)
                return inner, text
        return found[0][1], found[0][0]

    def _take(self, value: object, name: str) -> None:
        """Look at a value; ArgumentError, and nothing changes, when it has no numbers."""
        self._dense = False
        array = self._stored(value)
        computed = None
        if array is None:
            # What holds no numbers is a symbol.
            computed = ComputedValue(cast("Tensor", value), kept_sparse=True)
            try:
                array = self._stored(computed.compute_now())
            except ArgumentError:
                computed.close()
                raise
        if self._computed is not None:
            self._computed.close()
        assert array is not None  # a value that was computed holds its numbers
        self._value, self._name, self._computed = value, name, computed
        self._array = array
        self.slice = first(array.shape)

    def _stored(self, value: object) -> np.ndarray | None:
        """The numbers of a value; of a sparse one those that it stores, until it is made dense."""
        found = sparse_summary.held_matrix(value)
        self._matrix = None if found is None or self._dense else csr.as_csr(found)
        if self._matrix is not None:
            return np.asarray(self._matrix.data)
        return given.array_of(value if found is None else found.toarray())

    def _make_dense(self) -> None:
        """Show a sparse value as the array that it stands for."""
        with self._lock:
            self._dense = True
            self._array = self._read()
            self.slice = first(self._array.shape)
            self._make_controls()
            use_requested_subshell(self)
        self._choose(self.slice)

    def _other(self, at: int) -> None:
        """Show another of the tensors inside."""
        text, value = self._inside[at]
        with self._lock:
            shape = self._array.shape
            try:
                self._take(value, text)
            except ArgumentError as error:
                self._set_message(error.reason)
                return
            if self._array.shape != shape:
                self._make_controls()
                use_requested_subshell(self)
        self._choose(self.slice)

    def _wanted(self, payload: Any) -> bool:
        """Whether an event may have changed what is on view."""
        if payload == "image_data_format" or payload is self._value:
            return True
        return self._computed is not None and not isinstance(payload, str)

    @property
    def picture(self) -> bytes:
        """The PNG on view, empty when the mode is "numbers" or there is nothing to draw."""
        return self._png

    def look_at(self, text: str) -> None:
        """Show the slice that `text` says, such as `0, :, :, 3`; a bad one leaves all as it was."""
        try:
            self._choose(parse(text, self._array.shape))
        except ArgumentError as error:
            self._set_message(error.reason)
            self._show_slice()

    def replace(self, value: object, name: str) -> bool:
        """Look at another value of the same shape in the same way; False when it has another."""
        array = None if sparse_summary.held_matrix(value) is not None else given.array_of(value)
        if array is None or array.shape != self._array.shape or self._matrix is not None:
            return False
        with self._lock:
            self._take(value, name)
        self.redraws.throttle.request_now()
        return True

    def shows(self, value: object, name: str) -> bool:
        """Whether it looks at this value, or can go on in the same slice with what has its name.

        Raises:
            ArgumentError: the value is symbolic.
        """
        return value is self._value or (name == self._name and self.replace(value, name))

    def _refresh_if_open(self) -> None:
        """As `refresh`; a view that is closed meanwhile has nothing to say."""
        try:
            self.refresh()
        except Exception:
            if self.comm is not None:
                raise

    def refresh(self) -> None:
        """Read the value again and draw the chosen slice."""
        with self._lock, describe.reading_once():
            self._array = self._read()
            mode = self.mode.value
            self._png, self._picture = b"", Html("")
            if mode == "numbers":
                shown = self._numbers()
            else:
                shown = self._drawn(mode)
            if self._body.value != shown:
                self._body.value = shown
                self._update_twin()

    def _read(self) -> np.ndarray:
        """The value as it is now; of a symbol the last one that is known."""
        try:
            computed = self._computed  # which another thread may close
            if computed is None:
                found = self._stored(self._value)
            else:
                known = computed.recompute()
                found = None if known is None else self._stored(known)
        except ArgumentError as error:
            self._set_message(error.reason)
            return self._array
        if found is None or (found.ndim != self._array.ndim and not self._dense):
            return self._array
        if found.shape != self._array.shape:  # fed another batch
            self._array = found
            self.slice = first(found.shape)
            self._make_controls()
        return found

    def close(self) -> None:
        """Stop following and remove the view."""
        self.redraws.stop()
        if self._computed is not None:
            self._computed.close()
            self._computed = None
        self._end_twin()
        super().close()

    # -------------------------------------------------------------- drawing

    def _numbers(self) -> str:
        form = NumberFormat(self.form.value, self.digits.value)
        if self._matrix is not None:
            return html.sparse_view(self._matrix, self._name, self.entry.value, form)
        return html.array_view(self._array, self._name, self.slice, form)

    def _drawn(self, mode: str) -> str:
        """The picture with what it cannot show in words below it."""
        try:
            self._png, style, said = self._draw(mode)
        except ArgumentError as error:
            self._set_message(error.reason)
            self._undrawn = True
            return ""
        if self._undrawn:  # what could not be drawn before is drawn now
            self._set_message("")
            self._undrawn = False
        words = f"{mode} of {self._name}{self._index()}"
        picture = self._picture = views.picture(self._png, words, mode != "image", style)
        notes = views.alerts(describe.array(self._array))
        lines = [element("p", views.long(one)) for one in said if one]
        return views.styled(join([picture, *lines, notes]))

    def _draw(self, mode: str) -> tuple[bytes, str, list[str]]:
        """A picture, its CSS, and what it makes of the numbers in words, some of them empty."""
        from kbench.notebook.drawing import heatmap  # matplotlib: on first need only

        if self._painter is None:
            self._painter = heatmap.SlicePainter()
        said = [drawable.words(self._array)]
        if mode == "image":
            pixels, words = self._pixels()
            thin = heatmap.thinned(pixels)
            said += [words, heatmap.stretching(thin), heatmap.thinning(pixels)]
            return self._painter.image(thin), heatmap.image_style(thin), said
        part = drawable.numbers(self.slice.of(self._array))
        if mode == "histogram":
            drawn: bytes = self._painter.histogram(part, str(self.slice))
        else:
            labels = (_axis_label(self.slice.row_axis), _axis_label(self.slice.col_axis))
            drawn = self._painter.heat(part, labels)
        return drawn, "max-width:100%", said

    def _pixels(self) -> tuple[np.ndarray, str]:
        """The image chosen by the other axes, channels last, and what is to be said of it."""
        if self._array.ndim < 2:
            raise ArgumentError("an image needs at least two axes")
        return drawable.pixels(self._array, self.slice.index, config.image_data_format())

    # -------------------------------------------------------------- controls

    def _make_controls(self) -> None:
        shape = self._array.shape
        axes = [(_axis_label(axis, size), axis) for axis, size in enumerate(shape)]
        choices = [("none", None), *axes]
        self.rows = Dropdown(
            options=choices, description="rows", tooltip="Axis that runs down the page"
        )
        self.cols = Dropdown(
            options=choices, description="columns", tooltip="Axis that runs across the page"
        )
        self.steppers = [
            widgets.BoundedIntText(
                description=_axis_label(axis),
                min=0,
                max=max(size - 1, 0),
                tooltip=f"Index on axis {axis}, 0 to {size - 1}",
                layout={"width": "11em"},
            )
            for axis, size in enumerate(shape)
        ]
        self.index = widgets.Text(
            description="index",
            tooltip="The slice as text, such as 0, :, :, 3; press Enter",
            continuous_update=False,
        )
        self._show_slice()
        self._observe()
        axes_row = widgets.HBox([self.rows, self.cols, self.index], layout=_WRAPPED)
        steppers_row = widgets.HBox(self.steppers, layout=_WRAPPED)
        chooser = [self.which] if self._inside else []
        self.entry = widgets.BoundedIntText(
            description="from entry",
            min=0,
            max=max(self._array.size - 1, 0),
            step=html.MAX_ENTRIES,
            tooltip="The first stored value on view",
        )
        self.entry.observe(lambda _change: self.redraws.throttle.request_now(), "value")
        self.dense_button = widgets.Button(
            description="to dense", tooltip="Show it as an array, zeros included"
        )
        self.dense_button.on_click(lambda _button: self._make_dense())
        written = widgets.HBox([self.form, self.digits], layout=_WRAPPED)
        places: tuple[Any, ...] = (axes_row, steppers_row)
        if self._matrix is not None:
            small = np.prod(self._matrix.shape, dtype=object) <= MAX_DENSE_ELEMENTS
            self.dense_button.disabled = not small
            places = (widgets.HBox([self.entry, self.dense_button], layout=_WRAPPED),)
        controls = widgets.VBox([self.mode, *chooser, *places, written])
        self.children = (controls, self._message, self._body)

    def _observe(self) -> None:
        self.rows.observe(lambda _change: self._axes_chosen("row"), "value")
        self.cols.observe(lambda _change: self._axes_chosen("col"), "value")
        self.index.observe(lambda change: self._typed(change.new), "value")
        for stepper in self.steppers:
            stepper.observe(lambda _change: self._stepped(), "value")

    def _typed(self, text: str) -> None:
        if not self._own_changes:
            self.look_at(text)

    def _stepped(self) -> None:
        if not self._own_changes:
            index = tuple(stepper.value for stepper in self.steppers)
            self._choose(Slice(index, self.slice.row_axis, self.slice.col_axis))

    def _axes_chosen(self, changed: str) -> None:
        """Take over chosen axes; choosing the axis that the other has makes the two swap."""
        if self._own_changes:
            return
        row, col = self.rows.value, self.cols.value
        if row is not None and row == col:
            if changed == "row":
                col = self.slice.row_axis
            else:
                row = self.slice.col_axis
        index = tuple(stepper.value for stepper in self.steppers)
        self._choose(Slice(index, row, col))

    def _choose(self, chosen: Slice) -> None:
        self.slice = chosen
        self._set_message("")
        self._show_slice()
        self.redraws.throttle.request_now()

    def _show_slice(self) -> None:
        """Bring every control in line with the slice, without hearing of it."""
        shown = self._axes()
        pixels = self.mode.value == "image"
        row, col = self.slice.row_axis, self.slice.col_axis
        if pixels and self._array.ndim > 1:
            row, col, _channels = drawable.image_axes(self._array.shape, config.image_data_format())
        with self._own_changes():
            self.rows.value, self.cols.value = row, col
            self.index.value = self._index()
            for control in (self.rows, self.cols, self.index):
                control.disabled = pixels  # the axes of an image go by the image_data_format
            for axis, stepper in enumerate(self.steppers):
                stepper.value = self.slice.index[axis]
                stepper.disabled = axis in shown

    def _axes(self) -> set[int | None]:
        """The axes that are shown whole."""
        rank = self._array.ndim
        if self.mode.value == "image" and rank > 1:
            return {*drawable.shown_axes(self._array.shape, config.image_data_format())}
        return {self.slice.row_axis, self.slice.col_axis}

    def _index(self) -> str:
        """What is shown, as text."""
        shown = self._axes()
        texts = [":" if at in shown else str(index) for at, index in enumerate(self.slice.index)]
        return f"[{', '.join(texts)}]"

    def _set_message(self, text: str) -> None:
        said = element("p", views.long(text), class_="kb-bad", role="status")
        self._message.value = views.styled(said) if text else ""

    def _activate(self) -> None:
        self.redraws.start()

    def _deactivate(self) -> None:
        self.redraws.stop()

    def _static_text(self) -> str:
        name = describe.printable(self._name)
        if self._matrix is not None:
            return f"{name}: {summary.line(self._matrix)}"
        return f"{name}{self.slice}: {summary.line(self._array)}"

    def _static_html(self) -> str:
        """The numbers, below the picture if that has room."""
        numbers = self._numbers()
        drawn = numbers.replace("</style>", f"</style>{element('p', self._picture)}", 1)
        fits = self._picture and len(drawn.encode()) <= MAX_OUTPUT_BYTES
        return drawn if fits else numbers


def _axis_label(axis: int | None, size: int | None = None) -> str:
    if axis is None:
        return ""
    return f"axis {axis}" if size is None else f"axis {axis} ({size})"
