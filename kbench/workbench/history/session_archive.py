"""Earlier sessions: their journals found, read as far as they are whole, and adopted.

A journal is offered when no session holds it and a cell is in it: those first that do not say that
their session ended. Whoever adopts one writes its rows into its own journal first, so that nothing
is lost if that session ends badly, too; the old one is then offered no more.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from kbench.engine.runtime import paths as known_paths
from kbench.workbench.core_types import JsonObject
from kbench.workbench.history import journal
from kbench.workbench.history.journal import Journal
from kbench.workbench.history.output_store import Displays
from kbench.workbench.session import events
from kbench.workbench.session.cell import Cell

MAX_SESSIONS = 20
"""Journals offered, newest first: a page of the terminal."""
_TAIL_BYTES = 4_096
"""Of a journal, in which its last row is looked for; the row that ends a session is shorter."""
ORIGIN = "earlier session"
_STATES = ("ok", "error", "interrupted", "past", "lost")
_EVENT_TYPES: dict[str, type[events.Shown | events.ClearOutput]] = {
    "Stream": events.Stream,
    "Result": events.Result,
    "Error": events.Error,
    "ClearOutput": events.ClearOutput,
}


class EarlierSession(Struct, frozen=True):
    """What a session has left: its cells, and a text that it did not run."""

    path: Path
    began: float
    ended: float
    cells: list[Cell]
    draft: str = ""
    finished: bool = False  # it was left as its user wished

    @property
    def when(self) -> str:
        """'Sat 21 Nov 18:02'."""
        return time.strftime("%a %d %b %H:%M", time.localtime(self.began))

    @property
    def words(self) -> str:
        """'Sat 21 Nov 18:02, 12 cells; last: loss = K.mean(y)'."""
        count = len(self.cells)
        last = self.cells[-1].code.strip().split("\n")[0] if self.cells else self.draft
        return f"{self.when}, {count} cell{'s' * (count != 1)}; last: {last}"


def folder() -> Path:
    """Where journals are."""
    return known_paths.state_dir() / "journal"


def resumable(where: Path | None = None) -> list[EarlierSession]:
    """Sessions that did not end; where there are none, those that did."""
    return unfinished(where) or _kept(where, ended=True)


def unfinished(where: Path | None = None) -> list[EarlierSession]:
    """Sessions that did not end, newest first; those that cannot be read are left out."""
    return _kept(where, ended=False)


def _kept(where: Path | None, ended: bool) -> list[EarlierSession]:
    found: list[EarlierSession] = []
    try:
        paths = sorted((where or folder()).glob("*.jsonl"), reverse=True)
    except OSError:
        return []
    for path in paths:
        if len(found) == MAX_SESSIONS:
            break
        try:
            last = _last_row(path)
            if (last.get("event") == journal.ENDED) != ended or last.get("dismissed"):
                continue
            if journal.is_locked(path):
                continue
            past = load(path)
        except OSError:
            continue
        if past.cells or past.draft.strip():
            found.append(past)
    return found


def _last_row(path: Path) -> JsonObject:
    """The last row, which tells the regular end of its session; empty if it is no whole row."""
    if not path.is_file():  # a pipe would be waited for
        raise OSError(f"{path} is not a regular file")
    with open(path, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(size - _TAIL_BYTES, 0))
        last = stream.read().strip().split(b"\n")[-1]
    try:
        row = json.loads(last)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def load(path: Path) -> EarlierSession:
    """The cells of a journal and what they showed.

    Raises:
        OSError: the file cannot be read.
    """
    rows = journal.read(path)
    cells: dict[int, Cell] = {}
    displays = Displays()
    draft = ""
    for row in rows:
        if row.get("event") == "Draft":
            draft = str(row.get("text") or "")
        else:
            _take(cells, displays, row)
    for cell in cells.values():
        if cell.status in ("running", "queued"):
            cell.status = "lost" if cell.status == "running" else "withdrawn"
        cell.origin = cell.origin or ORIGIN
    times = [_seconds(row.get("time")) for row in rows] or [0.0]
    began, ended = times[0], times[-1]
    finished = bool(rows) and rows[-1].get("event") == journal.ENDED
    return EarlierSession(path, began, ended, list(cells.values()), draft, finished)


def _take(cells: dict[int, Cell], displays: Displays, row: JsonObject) -> None:
    """Play one row; one that does not fit what stands before it is left out."""
    kind, number = row.get("event"), row.get("cell")
    if kind == "Restarted":  # the namespace of the cells before has gone
        for earlier in cells.values():
            earlier.status = "past" if earlier.status in ("ok", "error") else earlier.status
    if type(number) is not int:
        return
    if kind in ("Queued", "CellStarted") and type(row.get("code")) is str:
        of = row.get("replay_of")
        cell = Cell(number, row["code"], replay_of=of if type(of) is int else None)
        cell.status = "queued" if kind == "Queued" else "running"
        cell.origin = str(row.get("origin") or "")
        cells[number] = cell
        return
    known = cells.get(number)
    if known is None:
        return
    if kind == "CellDone":
        status, count = row.get("status"), row.get("count")
        known.status = status if status in _STATES else "lost"
        known.count = count if type(count) is int else None
        known.seconds = _seconds(row.get("seconds"))
    elif (event := _event(row)) is not None:
        if isinstance(event, events.ClearOutput):
            known.outputs.clear()
        elif isinstance(event, events.Result) and event.updates:
            list(displays.updated(event))
        else:
            known.outputs.append(event)
            displays.add(known, event)


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 1e12 else 0.0


def _event(row: JsonObject) -> events.Shown | events.ClearOutput | None:
    """The event that a row was made of, None when its fields are not what they must be."""
    kind = _EVENT_TYPES.get(str(row.get("event")))
    if kind is None:
        return None
    fields = {name: row[name] for name in kind.__struct_fields__ if name in row}
    texts = ("text", "name", "value", "display_id")
    if any(type(fields[name]) is not str for name in texts if name in fields):
        return None
    if type(fields.get("data", {})) is not dict or type(fields.get("detail", {})) is not dict:
        return None
    if type(fields.get("traceback", [])) is not list:
        return None
    try:
        return kind(**fields)
    except TypeError:
        return None


class Adopter(Protocol):
    """A session, or what else has a journal and numbers its cells."""

    journal: Journal

    def adopt(self, cells: list[Cell]) -> list[Cell]: ...


def adopt(session: Adopter, past: EarlierSession) -> list[Cell]:
    """Make the cells those of `session`, its journal included; the old one is not offered again."""
    taken = session.adopt(past.cells)
    write = session.journal.write
    for cell in taken:
        started = events.CellStarted(cell.ident, cell.code, cell.replay_of, cell.origin)
        session.journal.record(started)
        for event in cell.outputs:
            session.journal.record(event)
        if cell.status not in ("lost", "withdrawn"):
            ok = cell.status in ("ok", "past")
            done = events.CellDone(cell.ident, cell.count, ok, cell.seconds, cell.status)
            session.journal.record(done)
    write({"event": "Resumed", "journal": past.path.name}, force=True)
    if session.journal.path is not None:
        dismiss(past)
    return taken


def dismiss(past: EarlierSession) -> None:
    """Offer the journal no more; it stays on the disk as long as others do."""
    row = json.dumps({"time": round(time.time(), 3), "event": journal.ENDED, "dismissed": True})
    try:
        with open(past.path, "a", encoding="utf-8") as stream:
            stream.write(f"\n{row}\n")
    except OSError:
        return


def runnable(cells: list[Cell]) -> list[Cell]:
    """Those that a user may want to run again, in order: of a repeated cell the repetition."""
    repeated = {cell.replay_of for cell in cells}
    ours = [cell for cell in cells if cell.origin == ORIGIN and cell.status != "past"]
    return [cell for cell in ours if cell.ident not in repeated]


def finished_cells(cells: list[Cell]) -> list[Cell]:
    """Of these, what runs again without a question: no cell that was stopped or lost its kernel."""
    return [cell for cell in cells if cell.status in ("ok", "error", "withdrawn")]
