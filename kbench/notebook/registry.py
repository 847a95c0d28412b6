"""Where each public name lives; ipywidgets and matplotlib load when one is asked for."""

from __future__ import annotations

import importlib
from typing import Any

HOMES = {
    "CompareView": "widgets.compare_view",
    "ConfigPanel": "widgets.config_panel",
    "GradPanel": "widgets.grad_panel",
    "GraphView": "widgets.graph_view",
    "PlanTable": "widgets.plan_table",
    "TensorView": "widgets.tensor_view",
    "VariableTable": "widgets.variable_table",
    "WatchList": "widgets.watch_list",
    "explore": "exploration.explore_panel",
    "explorer": "widgets.explorer",
    "progress": "ipython.progress_bar",
    "show": "html.show",
}


def widget(name: str) -> Any:
    """The widget called `name`, a key of `HOMES`."""
    return getattr(importlib.import_module(f"kbench.notebook.{HOMES[name]}"), name)
