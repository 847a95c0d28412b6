"""What was typed in every session, in one SQLite file shared by sessions that run at once."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from kbench.engine.core import fork_safety
from kbench.engine.runtime import paths

MAX_ENTRIES = 20_000
"""Inputs of all sessions; beyond these the oldest go."""
MAX_LOADED_CHARACTERS = 2_000_000
"""Of the inputs that Up walks through: cells of megabytes would delay the start."""
LOCK_WAIT_SECONDS = 2.0
"""For another session that writes, which takes it a millisecond."""
_SCHEMA = "CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, at REAL, code TEXT NOT NULL)"


class History:
    """Entries, newest last, over all sessions. A repetition of the newest entry is not added.

    A file that is no database is renamed aside; where nothing can be written, entries live in
    memory. `problem` says so then, for the front end to show.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or paths.state_dir() / "history.sqlite"
        self.problem: str | None = None
        self._lock = fork_safety.lock()
        self._base = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.path.exists() and not self.path.is_file():  # a pipe, say
                raise OSError("not a regular file")
            return self._connect(str(self.path))
        except sqlite3.DatabaseError as error:
            if not isinstance(error, sqlite3.OperationalError) and self.path.is_file():
                aside = self.path.with_suffix(f".broken-{int(time.time())}")
                self.path.replace(aside)
                self.problem = f"history was unreadable; kept as {aside.name}"
                return self._connect(str(self.path))
            self.problem = f"history is kept in memory only: {error}"
        except OSError as error:
            self.problem = f"history is kept in memory only: {error}"
        return self._connect(":memory:")

    @staticmethod
    def _connect(target: str) -> sqlite3.Connection:
        base = sqlite3.connect(
            target, timeout=LOCK_WAIT_SECONDS, check_same_thread=False, isolation_level=None
        )
        try:
            for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL", _SCHEMA):
                _execute(base, statement)
        except sqlite3.Error:
            base.close()
            raise
        return base

    def add(self, code: str) -> None:
        """Append an entry; blank text is ignored. Never raises."""
        if not code.strip():
            return
        text = code.encode("utf-8", "backslashreplace").decode("utf-8")
        with self._lock:
            try:
                row = self._base.execute("SELECT code FROM entry ORDER BY id DESC LIMIT 1")
                if (row.fetchone() or (None,))[0] == text:
                    return
                cursor = self._base.execute(
                    "INSERT INTO entry (at, code) VALUES (?, ?)", (time.time(), text)
                )
                oldest = (cursor.lastrowid or 0) - MAX_ENTRIES
                self._base.execute("DELETE FROM entry WHERE id <= ?", (oldest,))
            except sqlite3.Error as error:
                self.problem = f"history was not written: {error}"

    def search(self, words: str = "", limit: int = 200) -> list[str]:
        """Distinct entries that contain every word, newest first."""
        parts = words.split()
        where = " AND ".join(["code LIKE ? ESCAPE '\\'"] * len(parts)) or "1"
        query = f"SELECT code FROM entry WHERE {where} GROUP BY code ORDER BY MAX(id) DESC LIMIT ?"
        return self._read(query, (*(f"%{_escaped(word)}%" for word in parts), limit))

    def latest(self, limit: int = 1000) -> list[str]:
        """The newest entries in the order in which they were typed, within `MAX_LOADED_CHARACTERS`.

        A cell of a tenth of that is left out, so that the others fit; `search` finds it.
        """
        newest = "SELECT id, code FROM entry ORDER BY id DESC LIMIT ?"
        sizes = "SELECT id, code, SUM(LENGTH(code)) OVER (ORDER BY id DESC) AS size"
        query = f"SELECT code FROM ({sizes} FROM ({newest}) WHERE LENGTH(code) <= ?)"
        values = (limit, MAX_LOADED_CHARACTERS // 10, MAX_LOADED_CHARACTERS)
        return self._read(f"{query} WHERE size <= ? ORDER BY id", values)

    def _read(self, query: str, values: tuple[object, ...]) -> list[str]:
        with self._lock:
            try:
                return [str(row[0]) for row in self._base.execute(query, values)]
            except sqlite3.Error as error:
                self.problem = f"history was not read: {error}"
                return []

    def close(self) -> None:
        with self._lock:
            self._base.close()


def _execute(base: sqlite3.Connection, statement: str) -> None:
    """Run a statement of the set-up, for which SQLite itself waits for no other session.

    To change the journal's mode takes the whole file; two sessions that make it at once collide.
    """
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            base.execute(statement)
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
