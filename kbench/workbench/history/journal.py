"""The journal: what was typed and shown, as JSON lines on disk before anything can be lost.

Each session appends to a file of its own, which it holds while it lives. Cell boundaries are
forced to the disk, so that after a crash of kernel, front end or machine the file tells every cell
and what it had printed. A session that ends as its user wished writes so as its last row.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kbench.engine.core import fork_safety
from kbench.engine.runtime import paths
from kbench.workbench.core_types import JsonObject
from kbench.workbench.history.file_lock import try_lock
from kbench.workbench.output import picture

if TYPE_CHECKING:
    from kbench.workbench.session.events import Event

MAX_JOURNALS = 200
"""On disk; older ones are removed when a session starts."""
MAX_AGE_DAYS = 90
"""Of journals on disk."""
MAX_FOLDER_BYTES = 500_000_000
"""Of all journals on disk: ten of the largest."""
MAX_JOURNAL_BYTES = 50_000_000
"""Of one journal; then only cells are written, without their output."""
MAX_SPILL_FILES = 10
"""Files of long output on disk, each of up to 256 MB."""
_SYNCED_EVENTS = ("CellStarted", "CellDone", "Died")
"""Events that the disk must have before the session goes on."""
_UNRECORDED_EVENTS = ("Changed", "Busy", "Idle", "Stuck")
_OUTPUT_EVENTS = ("Stream", "Result", "Draft")
"""Events that a full journal leaves out."""
MAX_PICTURE_CHARACTERS = 400_000
"""Of one picture in a journal: ten times a usual figure."""
MAX_PICTURES_BYTES = MAX_JOURNAL_BYTES // 2
"""Of a journal from which on it takes no more pictures, so that text finds room."""
_MAX_FIELD_CHARACTERS = 100_000
"""Of a text in a row; as much as a front end is sent of one."""
ENDED = "Ended"


class Journal:
    """An append-only file of events. A folder that cannot be written gives a journal without one.

    `problem` then says why, for the front end to show; the session itself goes on.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.problem: str | None = None
        self._lock = fork_safety.lock()
        self._stream: IO[str] | None = None
        self._size = 0
        self.full = False  # what cells show is no longer written
        self.unfinished = False  # the kernel has died, or the front end has failed

    @classmethod
    def create(cls, folder: Path | None = None) -> Journal:
        """A journal with a fresh name in `folder`, by default below `paths.state_dir()`."""
        folder = folder or paths.state_dir() / "journal"
        stamp = time.strftime("%Y%m%d-%H%M%S")
        return cls(folder / f"{stamp}-{uuid.uuid4().hex[:8]}.jsonl")

    @property
    def folder(self) -> Path | None:
        """The folder for what is too long for the journal itself."""
        return None if self.path is None else self.path.parent

    def record(self, event: Event) -> None:
        """Append an event; never raises."""
        kind = type(event).__name__
        if kind in ("Died", "Started"):
            self.unfinished = kind == "Died"
        if self.path is None or kind in _UNRECORDED_EVENTS:
            return
        fields = {
            name: _storable(name, getattr(event, name), self._size)
            for name in event.__struct_fields__
        }
        self.write({"event": kind, **fields}, force=kind in _SYNCED_EVENTS)

    def write(self, row: JsonObject, force: bool = False) -> None:
        """Append one row; `force` waits until the disk has it."""
        line = json.dumps({"time": round(time.time(), 3), **row}, default=str)
        with self._lock:
            if self._size + len(line) > MAX_JOURNAL_BYTES and row["event"] in _OUTPUT_EVENTS:
                if self.full:
                    return
                self.full = True
                line = json.dumps({"event": "Full", "limit": MAX_JOURNAL_BYTES})
            try:
                stream = self._open()
                if stream is None:
                    return
                self._size += stream.write(line + "\n")
                stream.flush()
                if force:
                    os.fsync(stream.fileno())
            except (OSError, ValueError) as error:
                self.problem = f"{self.path}: {error}"
                self.path = None

    def _open(self) -> IO[str] | None:
        if self._stream is None and self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _remove_old(self.path.parent)
            stream = open(self.path, "a", encoding="utf-8", errors="backslashreplace")
            if not try_lock(stream, wait=True):
                stream.close()
                raise OSError("another session writes this journal")
            self._stream = stream
        return self._stream

    def end(self) -> None:
        """The session ends as its user wished, unless something has died on the way."""
        if not self.unfinished and (self._stream is not None or self._size):
            self.write({"event": ENDED}, force=True)
        self.close()

    def close(self) -> None:
        """Close the file; later rows open it again."""
        with self._lock:
            if self._stream is not None:
                self._stream.close()
                self._stream = None


def is_locked(path: Path) -> bool:
    """Whether a session that lives writes this journal."""
    if not path.is_file():
        return False
    try:
        with open(path, "rb") as stream:
            return not try_lock(stream)
    except OSError:
        return False


def read(path: Path) -> list[JsonObject]:
    """The rows of a journal. What a crash has damaged or cut off is left out."""
    rows = []
    if not path.is_file():  # a pipe would be waited for
        raise OSError(f"{path} is not a regular file")
    with open(path, "rb") as stream:
        for line in stream.read(2 * MAX_JOURNAL_BYTES).splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(line.decode("utf-8"))
                if isinstance(row, dict):
                    rows.append(row)
    return rows


def _storable(name: str, value: object, written: int) -> object:
    """A field as it is written, into a journal of so many bytes.

    Long texts are cut, but never code, which may be run again.
    """
    if isinstance(value, str) and len(value) > _MAX_FIELD_CHARACTERS and name != "code":
        return value[:_MAX_FIELD_CHARACTERS] + f"… ({len(value)} characters)"
    if isinstance(value, dict) and "text/plain" in value:  # of a MIME bundle the text, a picture
        return {"text/plain": value["text/plain"], **_picture(value, written)}
    return value


def _picture(data: JsonObject, written: int) -> JsonObject:
    form = picture.form_of(data)
    fits = form and len(data[form]) <= MAX_PICTURE_CHARACTERS and written < MAX_PICTURES_BYTES
    return {form: data[form]} if fits else {}


def _remove_old(folder: Path) -> None:
    """Keep to the bounds of number, age and size; never touches what a living session writes."""
    for pattern, kept in (("*.jsonl", MAX_JOURNALS), ("*-cell-*.txt", MAX_SPILL_FILES)):
        found = sorted(folder.glob(pattern), reverse=True)  # their names begin with the time
        oldest, room = time.time() - MAX_AGE_DAYS * 86_400, MAX_FOLDER_BYTES
        for number, path in enumerate(found):
            with contextlib.suppress(OSError):
                known = path.stat()
                journal = path.suffix == ".jsonl"
                too_much = number >= kept or (
                    journal and (room < known.st_size or known.st_mtime < oldest)
                )
                if too_much and not is_locked(path):
                    path.unlink()
                else:
                    room -= known.st_size
