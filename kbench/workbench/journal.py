"""The journal: what was typed and shown, as JSON lines on disk before anything can be lost.

Each session appends to a file of its own. Cell boundaries are forced to the disk, so that after a
crash of kernel, front end or machine the file tells every cell and what it had printed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
import time
import uuid
from pathlib import Path
from typing import IO, Any

from kbench.engine import config

KEPT = 200  # journals kept on disk; older ones are removed when a session starts
SPILLS_KEPT = 10  # files of long output, likewise
_BOUNDARIES = ("CellStarted", "CellDone", "Died")
_SILENT = ("Changed", "Busy", "Idle", "Stuck")
_TEXT_LIMIT = 100_000


class Journal:
    """An append-only file of events. A folder that cannot be written gives a journal without one.

    `problem` then says why, for the front end to show; the session itself goes on.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.problem: str | None = None
        self._lock = threading.Lock()
        self._stream: IO[str] | None = None

    @classmethod
    def create(cls, folder: Path | None = None) -> Journal:
        """A journal with a fresh name in `folder`, by default below `config.state_dir()`."""
        folder = folder or config.state_dir() / "journal"
        stamp = time.strftime("%Y%m%d-%H%M%S")
        return cls(folder / f"{stamp}-{uuid.uuid4().hex[:8]}.jsonl")

    @property
    def folder(self) -> Path | None:
        """The folder for what is too long for the journal itself."""
        return None if self.path is None else self.path.parent

    def record(self, event: Any) -> None:
        """Append an event; never raises."""
        kind = type(event).__name__
        if self.path is None or kind in _SILENT:
            return
        fields = {
            field.name: _storable(getattr(event, field.name))
            for field in dataclasses.fields(event)
        }
        self.write({"event": kind, **fields}, force=kind in _BOUNDARIES)

    def write(self, row: dict[str, Any], force: bool = False) -> None:
        """Append one row; `force` waits until the disk has it."""
        line = json.dumps({"time": round(time.time(), 3), **row}, default=str)
        with self._lock:
            try:
                stream = self._open()
                if stream is None:
                    return
                stream.write(line + "\n")
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
            self._stream = open(self.path, "a", encoding="utf-8", errors="backslashreplace")
        return self._stream

    def close(self) -> None:
        """Close the file; later rows open it again."""
        with self._lock:
            if self._stream is not None:
                self._stream.close()
                self._stream = None


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a journal; a last line that a crash cut off is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows


def _storable(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _TEXT_LIMIT:
        return value[:_TEXT_LIMIT] + f"… ({len(value)} characters)"
    if isinstance(value, dict) and "text/plain" in value:  # of a MIME bundle only the text
        return {"text/plain": value["text/plain"]}
    return value


def _remove_old(folder: Path) -> None:
    for pattern, kept in (("*.jsonl", KEPT), ("*-cell-*.txt", SPILLS_KEPT)):
        found = sorted(folder.glob(pattern))  # their names begin with the time
        for path in found[: max(len(found) - kept, 0)]:
            with contextlib.suppress(OSError):
                path.unlink()
