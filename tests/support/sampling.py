"""Long tables of which a plain run takes a part; `-m slow` runs the rest, as CI does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def every(step: int, rows: Iterable[Any]) -> list[Any]:
    """The rows as parameters: the first of each `step` is quick, those between carry `slow`."""
    found = []
    for number, row in enumerate(rows):
        values = row if isinstance(row, tuple) else (row,)
        found.append(pytest.param(*values, marks=[pytest.mark.slow] if number % step else []))
    return found
