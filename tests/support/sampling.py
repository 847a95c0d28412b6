"""Long tables of which a plain run takes a part; `-m slow` runs the rest, as CI does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def every(step: int, rows: Iterable[Any]) -> list[Any]:
    """The rows as parameters: the first of each `step` is quick, those between carry `slow`."""
    found = []
    for number, row in enumerate(rows):
        values = row if isinstance(row, tuple) else (row,)
        found.append(pytest.param(*values, marks=[pytest.mark.slow] if number % step else []))
    return found


def first_of_each(key: Callable[[Any], Any], rows: Iterable[Any]) -> list[Any]:
    """The rows as parameters: the first of those with the same key is quick, the others slow."""
    found, seen = [], set()
    for row in rows:
        is_new = key(row) not in seen
        seen.add(key(row))
        values = row if isinstance(row, tuple) else (row,)
        found.append(pytest.param(*values, marks=[] if is_new else [pytest.mark.slow]))
    return found
