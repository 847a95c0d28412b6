"""A/B: an expression on two engines or under several settings, side by side.

Runs on the program's own thread between cells, since it sets what the whole program sees; nothing
is stored, and every setting is as before behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets

from kbench.engine.core import cancel
from kbench.engine.core.errors import KbenchError
from kbench.engine.inspect import describe
from kbench.engine.runtime import profile
from kbench.notebook.base import given
from kbench.notebook.base.dropdown import Dropdown
from kbench.notebook.base.namespace_widget import NamespaceWidget, button, sentence
from kbench.notebook.base.redraw import between_cells
from kbench.notebook.html import comparing, views
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES, details, element
from kbench.workbench.analysis import compare as comparison
from kbench.workbench.errors import explanation
from kbench.workbench.models import keras_models

EMPTY = "type an expression, choose what differs, and press compare"
NEEDED = "Python as text, a tensor, an array, a list of these, a K.function or a Keras model"
QUEUED = "compared when the running cell ends"
_TYPED = ("what is typed", "")
_MAX_LINES = 60
"""Lines of values side by side."""
_LINE_CHARACTERS = 100
"""Characters of each."""


class CompareView(NamespaceWidget):
    """Compares the values, times and forms of an expression under variants.

    Arguments:
        expression: Python on the user's names, with `K`; such as "K.sqrt(x + K.epsilon())". Or a
            tensor, an array, a list of these, or a K.function or Keras model, for its results.
        variants: as typed, such as "epsilon=1e-7,1e-3" or "engine=kbench,numpy".
        namespace: a dictionary, or None for the names of the running shell.
    """

    def __init__(
        self,
        expression: object = "",
        variants: str = comparison.VARIANTS[0][2],
        namespace: dict[str, object] | None = None,
    ) -> None:
        super().__init__(namespace, [])
        self.comparison: Any = None  # the last one, a `kbench.api.differences.Comparison`
        self._message = ""
        self._runs = False
        self._make_controls(
            self._name_of_argument("expression", expression, _is_value, NEEDED), variants
        )
        self._show()

    def _make_controls(self, expression: str, variants: str) -> None:
        self.expression = widgets.Text(
            value=expression,
            description="expression",
            placeholder="K.softmax(x)",
            tooltip="The expression that is compared; names of yours, and K",
            continuous_update=False,
        )
        self.preset = Dropdown(
            description="differ in",
            options=[*((words, text) for _, words, text in comparison.VARIANTS), _TYPED],
            tooltip="What the two sides differ in",
            layout={"width": "34em", "max_width": "100%"},
        )
        self.variants = widgets.Text(
            value=variants,
            description="variants",
            tooltip="name=value,value: engine, or settings; several names make combinations",
            continuous_update=False,
        )
        self._variants_typed(variants)
        self.compare_button = button("compare", "Evaluate the expression each way", self.compare)
        self.stop_button = button("stop", "Stop comparing", self.stop)
        self._on_change(self.preset, self._preset_chosen)
        self._on_change(self.variants, self._variants_typed)
        for field in (self.expression, self.variants):
            self._on_change(field, lambda _text: self._show_wanted())
        boxes = [[self.expression, self.preset], [self.variants]]
        boxes[1] += [self.compare_button, self.stop_button]
        rows = [widgets.HBox(box, layout={"flex_flow": "row wrap"}) for box in boxes]
        self.children = (*rows, self._body)

    def choose(self, name: str) -> None:
        """Put a name into the field of the expression, unless something else was typed there."""
        typed = self.expression.value.strip()
        if not typed or typed in self.hub.view.names():
            self.expression.value = name

    def _preset_chosen(self, text: str) -> None:
        if text:
            self.variants.value = text

    def _variants_typed(self, text: str) -> None:
        known = [text for _, text in self.preset.options]
        self._set_options(self.preset, self.preset.options, text if text in known else "")

    def _show_wanted(self) -> None:
        if self.comparison is None and self._message in ("", EMPTY):
            self._set_message("")

    def refresh(self) -> None:
        """Nothing is compared unasked."""

    # -------------------------------------------------------------- comparing

    def _settle(self) -> None:
        if self.comparison is None and self.expression.value.strip():
            self.compare(at_once=True)

    def compare(self, at_once: bool = False) -> None:
        """Have it compared as soon as no cell runs; `at_once`: now, by the cell that asks."""
        expression = self.expression.value.strip()
        try:
            wanted = comparison.parse_beside_now(self.variants.value)
        except comparison.VariantsError as error:
            self._fail(str(error))
            return
        problem = comparison.problem(expression) if expression else EMPTY
        if problem:
            self._fail(problem)
            return
        with self._lock:
            if self._runs:
                return
            self._runs = True
        self._set_message(QUEUED)
        if at_once:
            self._run(expression, *wanted)
        else:
            between_cells(lambda: self._run(expression, *wanted))

    def stop(self) -> None:
        """Ask what is being compared to stop."""
        if self._runs:
            cancel.request()

    def _run(self, expression: str, engines: Sequence[str] | None, settings: Any) -> None:
        """On the program's thread. Whatever happens, what is shown says so."""
        from kbench.api.comparison import compare

        find = comparison.feed_finder(self.hub.inspector.recorder)
        try:
            function = comparison.function(expression, self.hub.view.snapshot())
            profile.fed_value_sources.append(find)
            try:
                self.comparison = compare(function, engines, settings=settings or None)
            finally:
                profile.fed_value_sources.remove(find)
            words = ""
        except KeyboardInterrupt:
            words = "stopped"
        except KbenchError as error:
            words = error.reason
        except Exception as error:
            words = f"{type(error).__name__}: {explanation.safe_text(error)}"
        finally:
            self._runs = False
        if words:
            self._fail(words)
        else:
            self._set_message("")

    def _fail(self, words: str) -> None:
        self.comparison = None
        self._set_message(words)

    def _set_message(self, words: str) -> None:
        self._message = words
        self._show()

    # -------------------------------------------------------------- drawing

    def _static_html(self) -> str:
        found, message = self.comparison, self._message
        if found is None or message:
            calm = message in ("", QUEUED, EMPTY)
            said = sentence(message or self._wanted(), "kb-note" if calm else "kb-bad")
            return said if message == EMPTY else self._head() + said
        text = "\n".join(comparison.lines(found, _LINE_CHARACTERS)[:_MAX_LINES])
        values = element("pre", views.lines(text, 4_000), aria_label="values side by side")
        whole = f"{comparing.comparison(found)}{views.styled(details('side by side', values))}"
        head = self._head()
        fits = len(whole.encode()) + len(head.encode()) <= MAX_OUTPUT_BYTES
        return head + whole if fits else comparing.comparison(found)

    def _head(self) -> str:
        """The expression, which a reader without the field does not see elsewhere."""
        expression = self.expression.value.strip()
        return views.styled(element("p", element("code", views.long(expression)))) * bool(
            expression
        )

    def _wanted(self) -> str:
        """What has to be done before anything is compared."""
        given = bool(self.expression.value.strip())
        return f"not compared yet under {self.variants.value}: press compare" if given else EMPTY

    def _static_text(self) -> str:
        if self.comparison is None:
            return self._message or self._wanted()
        return str(self.comparison.text(_LINE_CHARACTERS))


def _is_value(value: object) -> bool:
    if describe.is_function(value) or keras_models.is_model(value):
        return True
    several = given.as_list(value)
    return bool(several) and all(
        describe.is_tensor(item) or describe.held_array(item) is not None for item in several
    )
