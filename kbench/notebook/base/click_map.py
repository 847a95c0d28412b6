"""Places of a picture that can be clicked: one control of ipywidgets, a button over each place.

The buttons are as the front end makes them, so they are heard by the kernel, reached by the Tab key
and read out under their labels wherever ipywidgets runs; style puts them where they belong.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import ipywidgets as widgets

from kbench.notebook.drawing.graph_svg import Box

_numbers = itertools.count()
_RULES = (
    ".kb-canvas{display:grid!important;overflow:auto!important;max-height:38em;"
    "grid-template-columns:max-content;resize:vertical}",
    ".kb-canvas>*{grid-area:1/1;margin:0!important;overflow:visible!important}",
    ".kb-canvas .kb-v{overflow:visible;max-width:none}.kb-canvas svg{display:block}",
    ".kb-canvas .kb-hits{position:relative;width:0!important;height:0!important;z-index:1}",
    ".kb-canvas .kb-hits .widget-label{display:none}",
    ".kb-canvas .kb-hits button{position:absolute;margin:0;padding:0;background:none;"
    "box-shadow:none;border:0;border-radius:4px;font-size:0;cursor:pointer;min-width:0}",
    ".kb-canvas .kb-hits button:hover{outline:1px solid var(--jp-brand-color1,Highlight)}",
    ".kb-canvas .kb-hits button.mod-active,.kb-canvas .kb-hits button:focus-visible{"
    "outline:3px solid var(--jp-brand-color1,Highlight)}",
)


class ClickMap(widgets.ToggleButtons):  # type: ignore[misc]
    """Buttons over a picture; `value` is the chosen one, or None."""

    value: Any  # traits of the base class, which has no types
    options: Any

    def __init__(self, words: str) -> None:
        self._class = f"kb-hits-{next(_numbers)}"
        super().__init__(options=[], description="node", tooltip=words)
        self.add_class("kb-hits")
        self.add_class(self._class)

    def show(
        self, places: Sequence[tuple[str, object]], tooltips: Iterable[str], wanted: object
    ) -> None:
        """Offer these places by label and value; `wanted` is chosen if it is among them."""
        if list(self.options) != list(places):
            self.value = None  # else the first one would be chosen for a moment
            self.tooltips = list(tooltips)
            self.options = list(places)
        values = [value for _, value in places]
        self.value = wanted if wanted in values else None

    def rules(self, boxes: Iterable[Box]) -> str:
        """The style that puts the buttons over boxes, in the order of the places."""
        return "".join(
            f".{self._class}.kb-hits button:nth-child({number}){{left:{box.left}px;"
            f"top:{box.top}px;width:{box.width}px;height:{box.height}px}}"
            for number, box in enumerate(boxes, 1)
        )


def canvas(picture: Any, places: ClickMap) -> Any:
    """The picture, an HTML widget, with what can be clicked over it."""
    made = widgets.Box([picture, places])
    made.add_class("kb-canvas")
    style = widgets.HTML(f"<style>{''.join(_RULES)}</style>")  # sent once
    return widgets.VBox([style, made])
