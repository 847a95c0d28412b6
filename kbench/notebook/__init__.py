"""The notebook side: static HTML, widgets and magics. Importing the package loads none of them."""

from __future__ import annotations

import os
from typing import Any

from kbench.engine.core import errors
from kbench.notebook import registry

__all__ = registry.public()

errors.see_through(os.path.dirname(os.path.abspath(__file__)))  # an error tells the user's line


def __getattr__(name: str) -> Any:
    if name not in registry.public():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return registry.widget(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *registry.public()])
