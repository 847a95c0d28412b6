"""Static HTML of a list, tuple or dictionary, one line for each entry: gradients, say.

What is nested follows its container, each entry under the index that leads to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TypeGuard

from kbench.engine.inspect import describe
from kbench.notebook.html.allowance import ReadBudget
from kbench.notebook.markup.columns import wrapped
from kbench.notebook.markup.markup import MAX_OUTPUT_BYTES, Html, element, escape, table
from kbench.notebook.markup.style import STYLE
from kbench.workbench.inspector import summary

KINDS = (list, tuple, dict)
Values = list[object] | tuple[object, ...] | dict[object, object]
MAX_ENTRIES = 60
"""Entries that are looked at; as many lines of a table fit an output."""
MAX_NESTED_ENTRIES = 12
"""Entries shown of a container inside another, so that the first does not take all lines."""
MAX_DEPTH = 4
"""Containers inside each other; a list that contains itself ends there."""
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MAX_PLAIN_ENTRIES = 24
"""Entries of a nested list of plain values that are written on its line."""
_SUMMARY_CHARACTERS = 160
"""Characters of an entry's summary."""
_TABLE_BYTES = MAX_OUTPUT_BYTES - len(STYLE.encode()) - 800
"""Bytes for the table, beside the style sheet and the frame of an output."""


def is_collection(value: object) -> TypeGuard[Values]:
    """Whether `value` is of one of Python's own kinds; a subclass may do as it likes when asked."""
    return type(value) in KINDS


def text(value: Values) -> str:
    """One line for each entry, as text."""
    rows = _rows(value)
    lines = [f"  {key} {kind}  {what}" for key, kind, what in rows]
    cut = [f"  the first {MAX_ENTRIES} shown"] if len(value) > MAX_ENTRIES else []
    return "\n".join([summary.line(value), *lines, *cut])


def entries(value: Values) -> Html:
    """The entries as a table: where, what kind, and the summary line."""
    rows = [
        (key, kind, wrapped(escape(what, _SUMMARY_CHARACTERS))) for key, kind, what in _rows(value)
    ]
    total = len(rows)
    while True:
        content = _drawn(rows, total, value)
        if len(content.encode()) <= _TABLE_BYTES or len(rows) <= 1:
            return content
        rows = rows[: max(len(rows) * 3 // 4, 1)]


def _drawn(rows: list[tuple[str, str, Html]], total: int, value: Values) -> Html:
    count = len(value)
    words = f"{count} {'entry' if count == 1 else 'entries'}"
    cut = len(rows) < total or count > MAX_ENTRIES
    caption = f"the first {len(rows)} lines of {words}" if cut else words
    return element("div", table(caption, ("", "kind", "what"), rows), class_="kb-text")


def _rows(value: Values) -> list[tuple[str, str, str]]:
    """Place, kind and summary of the first entries and of those inside them, all printable."""
    found: list[tuple[str, str, str]] = []
    _add_rows(found, value, "", 1, ReadBudget())
    return found[:MAX_ENTRIES]


def _add_rows(
    found: list[tuple[str, str, str]], value: Values, path: str, depth: int, budget: ReadBudget
) -> None:
    pairs: Iterable[tuple[object, object]]
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    most = MAX_ENTRIES if depth == 1 else MAX_NESTED_ENTRIES
    for key, entry in islice(pairs, most):
        if len(found) >= MAX_ENTRIES:
            return
        place = f"{path}{_index(key)}"
        found.append(_row(place, entry, budget))
        if is_collection(entry) and depth < MAX_DEPTH and not _is_plain(entry):
            _add_rows(found, entry, place, depth + 1, budget)
    if depth > 1 and len(value) > most:
        found.append((f"{path}[…]", "", f"{len(value) - most} more"))


def _index(key: object) -> str:
    name = repr(key) if type(key) in (str, int, float, bool) else f"<{summary.type_name(key)}>"
    return describe.printable(f"[{name}]")


def _is_plain(value: Values) -> bool:
    """Whether a list or tuple has but a few numbers and texts, which fit its own line."""
    if isinstance(value, dict) or len(value) > _MAX_PLAIN_ENTRIES:
        return False
    return all(type(entry) in _PLAIN for entry in value)


def _row(place: str, value: object, budget: ReadBudget) -> tuple[str, str, str]:
    kind = str(value.kind) if describe.is_tensor(value) else summary.type_name(value)
    array = describe.held_array(value)
    if array is not None and not budget.take(array):
        what = f"{describe.spec_text(array.shape, str(array.dtype))} {describe.size(array.nbytes)}"
    elif isinstance(value, (str, bytes)) and type(value) in _PLAIN:
        what = repr(value[:_SUMMARY_CHARACTERS])
    elif is_collection(value) and value and _is_plain(value):
        what = repr(value)
    else:
        what = summary.line(value)
    return place, kind, describe.printable(what, _SUMMARY_CHARACTERS)
