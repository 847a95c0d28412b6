"""Static HTML of a list, tuple or dictionary, one line for each entry: gradients, say."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeGuard

from kbench.engine.inspect import describe
from kbench.notebook.html.allowance import ReadBudget
from kbench.notebook.html.markup import MAX_OUTPUT_BYTES, Html, element, escape, table
from kbench.notebook.html.style import STYLE
from kbench.workbench.inspector import summary

KINDS = (list, tuple, dict)
Values = list[object] | tuple[object, ...] | dict[object, object]
MAX_ENTRIES = 60
"""Entries that are looked at; as many lines of a table fit an output."""
_SUMMARY_CHARACTERS = 160
"""Characters of an entry's summary."""
_TABLE_BYTES = MAX_OUTPUT_BYTES - len(STYLE.encode()) - 800
"""Bytes for the table, beside the style sheet and the frame of an output."""


def is_collection(value: object) -> TypeGuard[Values]:
    """Whether `value` is of one of Python's own kinds; a subclass may do as it likes when asked."""
    return type(value) in KINDS


def text(value: Values) -> str:
    """One line for each entry, as text."""
    rows = [f"  {key} {kind}  {what}" for key, kind, what in _rows(value)]
    cut = [f"  the first {len(rows)} shown"] if len(value) > len(rows) else []
    return "\n".join([summary.line(value), *rows, *cut])


def entries(value: Values) -> Html:
    """The entries as a table: where, what kind, and the summary line."""
    rows = [(key, kind, escape(what, _SUMMARY_CHARACTERS)) for key, kind, what in _rows(value)]
    while True:
        content = _drawn(rows, len(value))
        if len(content.encode()) <= _TABLE_BYTES or len(rows) <= 1:
            return content
        rows = rows[: max(len(rows) * 3 // 4, 1)]


def _drawn(rows: list[tuple[str, str, Html]], total: int) -> Html:
    words = f"{total} {'entry' if total == 1 else 'entries'}"
    caption = words if len(rows) == total else f"the first {len(rows)} of {words}"
    return element("div", table(caption, ("", "kind", "what"), rows), class_="kb-text")


def _rows(value: Values) -> list[tuple[str, str, str]]:
    """Place, kind and summary of the first entries, all printable."""
    budget = ReadBudget()
    pairs: Iterable[tuple[object, object]]
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return [_row(key, entry, budget) for key, entry in islice(pairs, MAX_ENTRIES)]


def _row(key: object, value: object, budget: ReadBudget) -> tuple[str, str, str]:
    name = repr(key) if type(key) in (str, int, float, bool) else f"<{summary.type_name(key)}>"
    kind = str(value.kind) if describe.is_tensor(value) else summary.type_name(value)
    array = describe.held_array(value)
    if array is None or budget.take(array):
        what = summary.line(value)
    else:
        what = f"{describe.spec_text(array.shape, str(array.dtype))} {describe.size(array.nbytes)}"
    return describe.printable(f"[{name}]"), kind, describe.printable(what, _SUMMARY_CHARACTERS)
