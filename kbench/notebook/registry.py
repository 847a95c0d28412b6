"""The one list of the notebook's widgets; ipywidgets and matplotlib load when one is asked for.

`kbench.NAME`, `%kb WORD`, `show(x, widget=WORD)`, `%kb help`, the tabs of the explorer and the
table of docs/notebook.md are made of it. A new widget is a module and a line here.
"""

from __future__ import annotations

import importlib
from typing import Any, Literal

from msgspec import Struct

from kbench.engine.core.errors import ArgumentError


class WidgetSpec(Struct, frozen=True):
    """What is known of a widget before it is loaded."""

    name: str
    """Of the class or function: `kbench.NAME`."""
    word: str
    """After `%kb`, and in `show(x, widget=WORD)`."""
    home: str
    """Its module below `kbench.notebook`."""
    call: str
    """How it is called alone, for the documents and `%kb help`."""
    about: str
    """What it shows, in Markdown."""
    tab: str = ""
    """The title of its tab in the explorer; none without one."""
    part: tuple[str, str] | None = None
    """What stands in that tab, as module and name, where it is not the widget itself."""
    takes: Literal["value", "text", "nothing"] = "value"
    """What it is given: a value or its name, a text that it reads itself, or nothing."""
    needs_value: bool = False
    """Whether it shows nothing without one."""
    magic: str = ""
    """The magic of its own that reads what is typed, in place of `%kb WORD`."""


WIDGETS: tuple[WidgetSpec, ...] = (
    WidgetSpec(
        "VariableTable",
        "names",
        "widgets.variable_table",
        "VariableTable()",
        "every name: kind, dtype, shape, size, range, NaN and infinities, version; click on a head "
        "to sort, on a name to see its value",
        tab="Names",
        takes="text",
    ),
    WidgetSpec(
        "TensorView",
        "value",
        "widgets.tensor_view",
        "TensorView(x)",
        "any slice of an array or variable as numbers, heat map, image or histogram: two axes to "
        "see, a stepper for each other axis, or the slice as text; digits and format of the "
        "numbers; of a sparse value, places and numbers",
        tab="Value",
        part=("widgets.value_tab", "ValueTab"),
        needs_value=True,
    ),
    WidgetSpec(
        "WatchList",
        "watches",
        "widgets.watch_list",
        "WatchList()",
        "expressions with the value before and now",
        tab="Watches",
        takes="text",
    ),
    WidgetSpec(
        "GradPanel",
        "gradients",
        "widgets.grad_panel",
        "GradPanel()",
        "d loss / d variable: norm, share of zeros, dead and exploding ones marked; a look into "
        "each",
        tab="Gradients",
    ),
    WidgetSpec(
        "GraphView",
        "graph",
        "widgets.graph_view",
        "GraphView()",
        "the operations, with dtype and shape on every edge; what one call or layer computes is "
        "one node until it is clicked; a click on a node shows its line, its shape and the value "
        "of the last call; large graphs are folded",
        tab="Graph",
    ),
    WidgetSpec(
        "PlanTable",
        "plan",
        "widgets.plan_table",
        "PlanTable()",
        "the steps of the last calls: form, time and its share, bytes, speed, and what part of "
        "this machine's best that is; of a fit or map over a cluster what each worker has done",
        tab="Plan",
    ),
    WidgetSpec(
        "CompareView",
        "compare",
        "widgets.compare_view",
        "CompareView()",
        "one expression under two settings or engines, and where they differ",
        tab="A/B",
        takes="text",
    ),
    WidgetSpec(
        "ConfigPanel",
        "settings",
        "widgets.config_panel",
        "ConfigPanel()",
        "epsilon, floatx, image data format, learning phase, threads; bound both ways",
        tab="Settings",
        takes="nothing",
    ),
    WidgetSpec(
        "explore",
        "explore",
        "exploration.explore_panel",
        'explore("conv2d")',
        "any function of the API, with a control for each argument",
        magic="explore",
    ),
    WidgetSpec(
        "explorer",
        "explorer",
        "widgets.explorer",
        "explorer()",
        "all of the widgets that have a tab",
    ),
)
FUNCTIONS = {"progress": "ipython.progress_bar", "show": "ipython.show"}
"""Other public names of the notebook's package, and their modules."""


def names() -> list[str]:
    """The names of all widgets, sorted."""
    return sorted(spec.name for spec in WIDGETS)


def public() -> list[str]:
    """The public names of `kbench.notebook`, sorted."""
    return sorted([*names(), *FUNCTIONS])


def widget(name: str) -> Any:
    """The widget or function called `name`, one of `public()`; KeyError for another."""
    homes = {spec.name: spec.home for spec in WIDGETS}
    return _load({**homes, **FUNCTIONS}[name], name)


def find(word: str) -> WidgetSpec | None:
    """The widget of a word, or of a name."""
    return next((spec for spec in WIDGETS if word in (spec.word, spec.name)), None)


def words() -> str:
    """The words of all widgets, as a sentence lists them."""
    return ", ".join(spec.word for spec in WIDGETS)


def opened(word: str, values: tuple[object, ...]) -> Any:
    """The widget of a word on some values; each may be a name.

    Raises:
        ArgumentError: there is no such widget, or it does not take these values.
    """
    spec = find(word)
    if spec is None:
        raise ArgumentError(f"widget must be one of {words()}; got {word!r}", function="show")
    if spec.needs_value and not values:
        raise ArgumentError(f"widget {word!r} wants a value", function="show")
    if spec.takes == "nothing" and values:
        raise ArgumentError(f"widget {word!r} takes no value", function="show")
    several = len(values) > 1 and not spec.magic  # `explore` takes its values one by one
    return widget(spec.name)(*([list(values)] if several else values))


def tabs() -> list[WidgetSpec]:
    """The widgets that have a tab in the explorer, in the order of the tabs."""
    return [spec for spec in WIDGETS if spec.tab]


def tab_class(spec: WidgetSpec) -> Any:
    """What stands in the tab of a widget."""
    return _load(*(spec.part or (spec.home, spec.name)))


def typed(spec: WidgetSpec) -> str:
    """What opens a widget at the prompt."""
    what = {"value": " x", "text": " ...", "nothing": ""}[spec.takes]
    return f"%{spec.magic or f'kb {spec.word}'}{what}"


def document() -> str:
    """The table of the widgets as docs/notebook.md has it."""
    head = ["| widget | tab | typed | shows |", "|---|---|---|---|"]
    rows = [f"| `{spec.call}` | {spec.tab} | `{typed(spec)}` | {spec.about} |" for spec in WIDGETS]
    return "\n".join([*head, *rows]) + "\n"


def _load(home: str, name: str) -> Any:
    return getattr(importlib.import_module(f"kbench.notebook.{home}"), name)
