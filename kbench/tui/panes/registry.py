"""Which panes there are: the one list that everything reads that lists them.

What a pane says of itself stands in the `__init__` of its folder. No widget is imported for it, so
that the layout and the keys can read it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from kbench.tui import lesson, prompt, transcript
from kbench.tui.panes import gradient, graph, plan, settings, value, variables, watch
from kbench.tui.panes.spec import REGIONS, PaneSpec

if TYPE_CHECKING:
    from textual.widget import Widget

PANES: tuple[PaneSpec, ...] = (
    prompt.SPEC,
    transcript.SPEC,
    variables.SPEC,
    value.SPEC,
    watch.SPEC,
    gradient.SPEC,
    graph.SPEC,
    plan.SPEC,
    settings.SPEC,
    lesson.SPEC,
)
LESSON = lesson.SPEC.id  # which is there only while a lesson is open
BY_ID: Mapping[str, PaneSpec] = {pane.id: pane for pane in PANES}
SESSION = tuple(pane.id for pane in PANES if pane.region == "session")
SIDE_PANES = tuple(pane.id for pane in PANES if pane.region != "session")
"""Those with a tab."""
NUMBERS = {str(number): pane for number, pane in enumerate(SIDE_PANES, 1)}
"""The same by the numbers that tabs show: alt and one of them brings its pane to the front."""
STACK = tuple(pane.id for pane in PANES if pane.region == "stack")
FOCUS_ORDER = tuple(
    pane.id for pane in sorted(PANES, key=lambda pane: REGIONS.index(pane.region))
)  # panes of one region stay as they are


def loaded(place: str) -> Any:
    """What stands at `module:name`; the module loads now."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def new_view(pane: str) -> Widget:
    """A widget for a pane, to be mounted; its controller may give it a longer title."""
    view = cast("Widget", loaded(BY_ID[pane].view)()).add_class("pane")
    if pane in SIDE_PANES and not view.border_title:
        view.border_title = BY_ID[pane].title
    return view
