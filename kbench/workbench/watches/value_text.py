"""The value of a watch in one line."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from kbench.engine.inspect import describe, sparse_summary
from kbench.workbench.core_types import JsonObject
from kbench.workbench.inspector import summary

MAX_TEXT_CHARACTERS = 200
"""Of a value."""
_COLLECTIONS = (list, tuple, dict, set, frozenset, range)
_MAX_ITEMS = 6
"""Of an array or a list that is shown whole."""


def value_text(value: object, depth: int = 0) -> str:
    """A value in one line: numbers and short lists as they are, an array by its range.

    No method of a user's object is called.
    """
    kind = type(value)
    if kind in (str, bytes) and isinstance(value, (str, bytes)):
        return describe.printable(repr(value[:MAX_TEXT_CHARACTERS]), 60)
    if kind in (bool, int, float, type(None), complex):
        return describe.number(value) if kind in (int, float) else str(value)
    held = describe.held_array(value)
    if held is not None:
        return _array_text(held, describe.array(held))
    matrix = sparse_summary.held_matrix(value)
    if matrix is None and kind in _COLLECTIONS and isinstance(value, _COLLECTIONS):
        return _collection_text(value, depth)
    return describe.printable(summary.line(value, ascii=True), MAX_TEXT_CHARACTERS)


def text_and_bins(value: object) -> tuple[str, list[int] | None]:
    """The same, and a histogram of the finite elements of an array that is not shown whole."""
    held = describe.held_array(value)
    if held is None or held.size <= _MAX_ITEMS:
        return value_text(value), None
    row = describe.array(held)
    return _array_text(held, row), row.get("histogram") or None


def _array_text(held: np.ndarray, row: JsonObject) -> str:
    if "refused" in row:
        return f"{describe.spec_text(row['shape'], row['dtype'])} {row['refused']}"
    if held.ndim == 0:
        return describe.number(held.item())
    spec = describe.spec_text(row["shape"], row["dtype"])
    if held.size == 0:
        return f"{spec} empty"
    if held.size <= _MAX_ITEMS and held.ndim == 1:
        return f"[{', '.join(describe.number(number) for number in held.tolist())}]"
    flags = summary.flags_text(row)
    if not row["finite"]:
        words = "no finite value"
    elif row["min"] == row["max"]:
        words = f"all {describe.number(row['min'])}"
    else:
        mark = "~" if row["sampled"] else ""
        low, high = describe.number(row["min"]), describe.number(row["max"])
        words = f"{mark}mean {describe.number(row['mean'])} [{low} .. {high}]"
    return "  ".join(part for part in (spec, words, flags) if part)


def _collection_text(value: Collection[object], depth: int) -> str:
    name, count = type(value).__name__, len(value)
    if depth or type(value) not in (list, tuple) or count > _MAX_ITEMS:
        return f"{name} of {count}"
    inner = ", ".join(value_text(item, depth + 1) for item in value)
    open_, close = "[]" if type(value) is list else "()"
    text = f"{open_}{inner}{close}"
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{name} of {count}"
