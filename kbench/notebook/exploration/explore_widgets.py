"""The widgets that hold the values of an exploration's controls."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from kbench.notebook.exploration.explore_controls import Choice, Control, Fixed, Flag, Number, Text

if TYPE_CHECKING:
    from kbench.notebook.base.widget_types import TraitChange

WIDE = {"description_width": "9em"}
_LAYOUT = {"width": "26em", "max_width": "100%"}
_FIELD = {"width": "16em"}
_DRAG = {"width": "16em"}


def widget_of(name: str, control: Control, about: str) -> tuple[Any, Any]:
    """The widget that holds a control's value, and what stands on the page for it.

    A number has a field and beside it a slider to drag; a value that stays has neither.
    """
    common: dict[str, Any] = {
        "description": name, "tooltip": about, "style": WIDE, "layout": _LAYOUT
    }  # fmt: skip
    if isinstance(control, Number):
        return _number(control, {**common, "layout": _FIELD})
    if isinstance(control, Fixed):
        return None, None
    made: Any
    if isinstance(control, Flag):
        made = widgets.Checkbox(value=control.start, indent=True, **common)
    elif isinstance(control, Text):
        made = widgets.Text(value=control.start, continuous_update=False, **common)
    else:
        options = [(label, at) for at, (label, _) in enumerate(control.options)]
        made = widgets.Dropdown(options=options, value=control.start, **common)
    return made, made


def _number(control: Number, common: dict[str, Any]) -> tuple[Any, Any]:
    """A field, and a slider to drag that follows it in the front end.

    The slider of ipywidgets cannot be given a name, so the style sheet leaves it to the mouse: by
    keyboard and screen reader there is the field alone, which goes the same way by the arrow keys.
    """
    number = int if control.whole else float
    low, high, step = (number(value) for value in (control.low, control.high, control.step))
    ends = {"min": 10.0**low, "max": 10.0**high} if control.log else {"min": low, "max": high}
    value = min(max(number(control.start), ends["min"]), ends["max"])
    more = {"readout": False, "tooltip": common["tooltip"], "layout": _DRAG}
    field: Any
    slider: Any
    if control.log:
        field = widgets.BoundedFloatText(value=value, **{**ends, "min": 0.0}, **common)
        slider = widgets.FloatLogSlider(min=low, max=high, step=step, value=value, **more)
        keep = partial(_by_its_digit, field, ends["min"])
        field.observe(keep, "value")
        keep()
    else:
        kinds = (widgets.BoundedIntText, widgets.IntSlider)
        text, drag = kinds if control.whole else (widgets.BoundedFloatText, widgets.FloatSlider)
        field = text(value=value, step=step, **ends, **common)
        slider = drag(min=low, max=high, step=step, value=value, **more)
    slider.add_class("kb-drag")  # for the style sheet
    widgets.jslink((field, "value"), (slider, "value"))
    field.observe(_rounded, "value")
    return field, widgets.HBox([field, slider], layout={"flex_flow": "row wrap"})


def _by_its_digit(field: Any, low: float, _change: object = None) -> None:
    """Have the arrow keys change the first digit: 0.1, 0.2 ... 1, 2 ...; steps count from 0."""
    if field.value < low:
        field.value = low
    field.step = 10.0 ** (math.ceil(round(math.log10(field.value), 9)) - 1)


def _rounded(change: TraitChange) -> None:
    """What a slider adds up in steps has digits that nobody means, such as 0.05000000000000004."""
    if isinstance(change.new, float):
        meant = float(f"{change.new:.6g}")
        if meant != change.new:
            change.owner.value = meant


def value_of(control: Control, widget: Any) -> Any:
    """What a control stands at."""
    if isinstance(control, Choice):
        return control.options[widget.value][1]
    return widget.value
