"""Where each public widget lives; ipywidgets and matplotlib load when one is asked for."""

from __future__ import annotations

import importlib
from typing import Any

HOMES = {
    "ConfigPanel": "config_panel",
    "TensorView": "tensor_view",
    "VariableTable": "variable_table",
    "explorer": "exploring",
}


def widget(name: str) -> Any:
    """The widget called `name`, a key of `HOMES`."""
    return getattr(importlib.import_module(f"kbench.notebook.{HOMES[name]}"), name)
