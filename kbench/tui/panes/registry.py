"""Which panes there are: the one table that everything reads that lists them.

It names widgets and controllers and imports none, so that the layout and the keys can read it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from textual.widget import Widget

LESSON = "lesson"  # which is there only while a lesson is open
REGIONS = ("session", "left", "right", "stack", "foot", "corner", LESSON)
"""Where panes stand in three columns, in the order in which the focus goes round. The left column
is `left` over `corner`, the right one `right` over `stack`, whose panes share one place with tabs,
over `foot`. Two columns show `left` above, and below it one of all others that have a tab."""


@dataclass(frozen=True)
class Taker:
    """What takes the keys of a pane while it is shown."""

    widget: str  # its id
    places: tuple[str, ...]  # whose rows of the table of keys it has
    hints: Mapping[str, str]  # what the line below the prompt tells: words by the ids of keys


@dataclass(frozen=True)
class PaneSpec:
    """All that is known of a pane outside its own files."""

    id: str  # of its widget, and its name everywhere
    title: str  # in its frame, its help and the palette
    letter: str  # jumps to it
    about: str  # the first line of its help
    region: str  # one of REGIONS
    view: str  # its widget, as `module:class`
    takers: tuple[Taker, ...]  # the first that is shown takes the keys
    controller: str = ""  # what fills it, likewise
    tab: str = ""  # on its tab, where that is not the title
    shares: Mapping[str, int] = field(default_factory=dict)
    """Percent of its column, or from where on its neighbour has the rest, by the layout's kind."""

    def __post_init__(self) -> None:
        assert self.region in REGIONS and self.takers


GRAPH_HINTS = {
    "node_fold": "fold", "node_unfold": "unfold", "node_search": "find", "node_place": "line",
    "node_copy": "copy",
}  # fmt: skip

PANES: tuple[PaneSpec, ...] = (
    PaneSpec(
        id="prompt",
        title="Prompt",
        letter="p",
        about="Type Python. Enter runs it once it is complete; K is the backend.",
        region="session",
        view="kbench.tui.prompt.prompt:Prompt",
        takers=(Taker("prompt", ("prompt",), {"complete": "complete", "search": "search"}),),
    ),
    PaneSpec(
        id="transcript",
        title="Session",
        letter="t",
        about="The cells of this session. Up and down choose one; letters go to the prompt.",
        region="session",
        view="kbench.tui.transcript.transcript:Transcript",
        takers=(
            Taker(
                "transcript",
                ("transcript",),
                {
                    "cell_leave": "prompt", "cell_fold": "fold", "cell_edit": "to prompt",
                    "explain": "explain error", "trace_newest": "trace NaN", "cell_copy": "copy",
                },
            ),
        ),
    ),
    PaneSpec(
        id="variables",
        title="Variables",
        tab="Vars",
        letter="v",
        about="Your names, as the kernel pushes them. Enter shows a value, or unfolds a model.",
        region="left",
        shares={"two": 45},
        view="kbench.tui.panes.variables.view:VariablesTable",
        controller="kbench.tui.panes.variables.controller:VariablesController",
        takers=(
            Taker(
                "variables",
                ("table", "variables"),
                {
                    "row_open": "value", "derive": "gradients", "graph": "graph",
                    "watch_name": "watch", "trace_name": "trace NaN", "filter": "filter",
                    "sort": "sort",
                },
            ),
        ),
    ),
    PaneSpec(
        id="value",
        title="Value",
        letter="a",
        about="A slice of an array of any size; of a symbol or layer, the graph that leads to it.",
        region="right",
        shares={"three": 50},
        view="kbench.tui.panes.value.view:ValuePane",
        controller="kbench.tui.panes.value.controller:ValueController",
        takers=(
            Taker(
                "grid",
                ("grid",),
                {
                    "axes": "axes", "index": "index", "find": "find", "next_nan": "next NaN",
                    "image": "picture", "export": "export", "full": "full value",
                },
            ),
            Taker(
                "picture",
                ("picture",),
                {
                    "picture_cells": "numbers", "picture_before": "before", "picture_after": "next",
                    "channel_after": "channel", "picture_index": "index", "colours": "colours",
                    "picture_export": "export",
                },
            ),
            Taker("value-graph", ("graph",), GRAPH_HINTS),
        ),
    ),
    PaneSpec(
        id="watch",
        title="Watch",
        letter="w",
        about="Expressions, evaluated again when something has changed: old and new value.",
        region="corner",
        shares={"three": 35},  # from below, without the settings
        view="kbench.tui.panes.watch.view:WatchTable",
        controller="kbench.tui.panes.watch.controller:WatchController",
        takers=(
            Taker(
                "watch",
                ("table", "watch"),
                {
                    "watch_add": "add", "watch_edit": "edit", "watch_remove": "remove",
                    "watch_full": "all of the value",
                },
            ),
        ),
    ),
    PaneSpec(
        id="gradient",
        title="Grad",
        letter="g",
        about="How a loss changes with each variable, on what was fed last. Enter shows values.",
        region="stack",
        view="kbench.tui.panes.gradient.view:GradientTable",
        controller="kbench.tui.panes.gradient.controller:GradientController",
        takers=(
            Taker(
                "gradient",
                ("table", "gradient"),
                {"row_open": "values", "gradient_loss": "loss", "gradient_now": "compute"},
            ),
        ),
    ),
    PaneSpec(
        id="graph",
        title="Graph",
        letter="r",
        about=(
            "How a tensor, a function or a model comes about: from the output down to the inputs."
        ),
        region="stack",
        view="kbench.tui.panes.graph.view:GraphView",
        controller="kbench.tui.panes.graph.controller:GraphController",
        takers=(Taker("graph", ("graph",), GRAPH_HINTS),),
    ),
    PaneSpec(
        id="plan",
        title="Plan",
        letter="l",
        about="What a run did, step by step. Enter shows the source of a step, [ an earlier run.",
        region="foot",
        view="kbench.tui.panes.plan.view:PlanPane",
        controller="kbench.tui.panes.plan.controller:PlanController",
        takers=(
            Taker(
                "plan-run",
                ("table", "plan"),
                {
                    "row_open": "source", "plan_place": "line", "plan_unfold": "parts",
                    "plan_earlier": "run before", "plan_sort": "slowest",
                    "trace_run": "trace NaN", "plan_details": "details",
                    "plan_workers": "workers",
                },
            ),
            Taker(
                "workers",
                ("table", "workers"),
                {
                    "row_open": "worker", "workers_turn": "last run", "workers_sort": "slowest",
                    "workers_details": "details", "workers_earlier": "job before",
                },
            ),
        ),
    ),
    PaneSpec(
        id="settings",
        title="Config",
        letter="c",
        about="Changed in the kernel at once; what the kernel refuses is not shown as set.",
        region="corner",
        view="kbench.tui.panes.settings.view:SettingsPane",
        controller="kbench.tui.panes.settings.controller:SettingsController",
        takers=(
            Taker(
                "settings-list",
                ("settings",),
                {"setting_edit": "change", "setting_less": "less", "setting_more": "more"},
            ),
        ),
    ),
    PaneSpec(
        id=LESSON,
        title="Lesson",
        letter="s",
        about="A step of the lesson. Its code stands in the prompt: change it, Enter runs it.",
        region=LESSON,
        shares={"compact": 50, "two": 40, "three": 36},
        view="kbench.tui.lesson.lesson:LessonPane",
        takers=(
            Taker(
                "lesson-text",
                ("lesson",),
                {
                    "step_next": "on", "step_back": "back", "lesson_check": "check",
                    "lesson_hint": "hint", "lesson_fold": "fold", "step_leave_text": "prompt",
                },
            ),
        ),
    ),
)  # fmt: skip
BY_ID: Mapping[str, PaneSpec] = {pane.id: pane for pane in PANES}
SESSION = tuple(pane.id for pane in PANES if pane.region == "session")
SIDE_PANES = tuple(pane.id for pane in PANES if pane.region != "session")
"""Those with a tab; alt and the place of one among them, counted from 1, brings it to the front."""
STACK = tuple(pane.id for pane in PANES if pane.region == "stack")
FOCUS_ORDER = tuple(
    pane.id for pane in sorted(PANES, key=lambda pane: REGIONS.index(pane.region))
)  # panes of one region stay as they are


def new_view(pane: str) -> Widget:
    """A widget for a pane, to be mounted; its module loads now."""
    module, _, name = BY_ID[pane].view.partition(":")
    widget = cast("Widget", getattr(importlib.import_module(module), name)())
    return widget.add_class("pane")
