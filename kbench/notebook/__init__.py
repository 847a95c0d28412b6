"""The notebook side: static HTML, widgets and magics. Importing the package loads none of them."""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "ConfigPanel": "config_panel",
    "VariableTable": "variable_table",
    "TensorView": "tensor_view",
    "explorer": "exploring",
}

__all__ = ["ConfigPanel", "TensorView", "VariableTable", "explorer"]


def __getattr__(name: str) -> Any:
    """Load a widget when it is first asked for; ipywidgets and matplotlib come with it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
