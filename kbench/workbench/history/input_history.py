"""What was typed in every session, in one SQLite file shared by sessions that run at once."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from kbench.engine.core import fork_safety
from kbench.engine.runtime import paths

MAX_ENTRIES = 20_000
"""Inputs of all sessions; beyond these the oldest go."""
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
        base = sqlite3.connect(target, timeout=2.0, check_same_thread=False, isolation_level=None)
        try:
            base.execute("PRAGMA journal_mode=WAL")
            base.execute("PRAGMA synchronous=NORMAL")
            base.execute(_SCHEMA)
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
        """The newest entries in the order in which they were typed."""
        return self._read("SELECT code FROM entry ORDER BY id DESC LIMIT ?", (limit,))[::-1]

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


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
