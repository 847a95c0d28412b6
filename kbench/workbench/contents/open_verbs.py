"""The inspector's verb that opens a value: a page of its entries, of its lines, or of its bytes."""

from __future__ import annotations

from kbench.engine.inspect import describe
from kbench.workbench.contents import entries, lines, preview
from kbench.workbench.contents.entries import Entry
from kbench.workbench.core_types import JsonObject
from kbench.workbench.inspector import namespace, summary, variable_rows
from kbench.workbench.protocol import messages
from kbench.workbench.protocol.contents import Open, OpenReply
from kbench.workbench.protocol.names import VariableRow
from kbench.workbench.protocol.question import Served

MAX_ROWS = 500
"""Of one page; a tall terminal shows some 60."""
MAX_RANGE_ELEMENTS = 1 << 16
"""Of all arrays of one page whose range is told: about a millisecond."""


class OpenVerbs:
    """Serves the names of one view."""

    def __init__(self, view: namespace.View) -> None:
        self._view = view

    def served(self) -> list[Served]:
        """The questions that are answered here."""
        return [Open.served_by(self._open)]

    def _open(self, asked: Open) -> OpenReply:
        value = self._view.get(asked.name)
        start, count = max(asked.start, 0), max(1, min(asked.count, MAX_ROWS))
        row = self._view.row_of(asked.name, value)
        if lines.is_text(value):
            found = lines.page(value, start, start + count, asked.width)
            form = "bytes" if issubclass(type(value), (bytes, bytearray)) else "lines"
            rows = [VariableRow(name=label, kind=form, text=text) for label, text in found.rows]
            total, words = found.total, ""
        else:
            form, total = "entries", entries.count(value)
            page = entries.page(value, start, start + count)
            rows, words = _rows(page, asked.name), _words(value, total)
        return OpenReply(
            name=asked.name,
            form=form,
            row=row,
            rows=_fitting(rows),
            start=start,
            total=total,
            words=words,
        )


def _words(value: object, total: int) -> str:
    """What people should know of a value without entries."""
    if total:
        return ""
    if summary.safe_length(value) == 0:
        return "empty"
    return f"{preview.text(value)} has no attributes to show"


def _rows(page: list[Entry], name: str) -> list[VariableRow]:
    room = MAX_RANGE_ELEMENTS
    rows = []
    for entry in page:
        if entry.kind == entries.PROPERTY:
            row = _head(entry, name) | {"kind": entry.kind, "text": "a property, not evaluated"}
            rows.append(VariableRow.built(row))
            continue
        held = describe.held_array(entry.value)
        size = 0 if held is None else int(held.size)
        ranged = 0 < size <= room
        room -= size if ranged else 0
        rows.append(_row(entry, name, ranged))
    return rows


def _head(entry: Entry, name: str) -> JsonObject:
    return {"name": describe.printable(entry.label), "key": name + entry.step}


def _row(entry: Entry, name: str, ranged: bool) -> VariableRow:
    value = entry.value
    row = _head(entry, name)
    try:
        facts = variable_rows.facts(value)
        if facts.pop("held", False) and ranged:
            facts.update(variable_rows.range_of(describe.array(describe.held_array(value))))
        row |= facts
    except Exception as error:  # whatever a user's object does, the other rows must come
        row |= {"kind": "object", "type": summary.type_name(value)}
        row["problem"] = summary.type_name(error)
    if row["kind"] in ("sequence", "object", "scalar") and row.get("shape") is None:
        row["text"] = preview.text(value)
    return VariableRow.built(row)


def _fitting(rows: list[VariableRow]) -> list[VariableRow]:
    """As many of the first rows as one reply holds."""
    room = messages.MAX_PAGE_BYTES - 2_000  # for the row of the value itself
    for at, row in enumerate(rows):
        room -= messages.size(row) + 2
        if room < 0 and at:
            return rows[:at]
    return rows
