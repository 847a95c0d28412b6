"""Where each public name lives; ipywidgets and matplotlib load when one is asked for."""

from __future__ import annotations

import importlib
from typing import Any

HOMES = {
    "CompareView": "compare_view",
    "ConfigPanel": "config_panel",
    "GradPanel": "grad_panel",
    "GraphView": "graph_view",
    "PlanTable": "plan_table",
    "TensorView": "tensor_view",
    "VariableTable": "variable_table",
    "WatchList": "watch_list",
    "explore": "explore_panel",
    "explorer": "exploring",
    "progress": "progress_bar",
    "show": "showing",
}


def widget(name: str) -> Any:
    """The widget called `name`, a key of `HOMES`."""
    return getattr(importlib.import_module(f"kbench.notebook.{HOMES[name]}"), name)
