"""The notebook side: static HTML, widgets and magics. Importing the package loads none of them."""

from __future__ import annotations

import os
from typing import Any

from kbench.engine.core import errors
from kbench.notebook.registry import HOMES, widget

# The keys of HOMES, as a plain list for type checkers; a test compares both with `kbench.__init__`.
__all__ = [
    "CompareView",
    "ConfigPanel",
    "GradPanel",
    "GraphView",
    "PlanTable",
    "TensorView",
    "VariableTable",
    "WatchList",
    "explore",
    "explorer",
    "progress",
    "show",
]

errors.see_through(os.path.dirname(os.path.abspath(__file__)))  # an error tells the user's line


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return widget(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
