"""Long tables of which a plain run takes a part; `-m slow` runs the rest, as CI does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

TURNS = 3
"""Rows of one kind that share what they are run with."""


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


def in_turns(
    rows: Iterable[Any], key: Callable[[Any], Any], choices: Callable[[Any], Sequence[Any]]
) -> list[tuple[Any, list[Any]]]:
    """Rows, each with a third of its choices: those with the same key take turns at them.

    So every row has some of its choices, and every choice of a key has a row. Where a key has
    fewer than `TURNS` rows, each has as many choices more.
    """
    found, all_rows = [], list(rows)
    count, place = Counter(map(key, all_rows)), Counter[Any]()
    for row in all_rows:
        turns = min(TURNS, count[key(row)], len(choices(row)))
        found.append((row, list(choices(row))[place[key(row)] % turns :: turns]))
        place[key(row)] += 1
    return found
