"""Printed text on its way to a front end: gathered to 30 pieces a second, and capped per cell.

What exceeds the cap goes to a file, and the front end is told which; a runaway loop can fill
neither the screen's memory nor, beyond `MAX_SPILL_CHARACTERS`, the disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from msgspec import Struct

from kbench.workbench.core_types import JsonObject
from kbench.workbench.output.terminal_lines import latest, visible_length, without_colours
from kbench.workbench.session.events import ClearOutput, Error, Result, Stream

FLUSH_SECONDS = 1 / 30
"""Between two pieces of printed text: 30 a second look like a stream."""
MAX_LINES = 10_000
"""Of one cell that are shown."""
MAX_CHARACTERS = 2_000_000
"""Of one cell that are shown."""
MAX_SPILL_CHARACTERS = 256_000_000
"""Of one cell that go to a file."""
MAX_TEXT_CHARACTERS = 100_000
"""Of the text of a value."""
MAX_MIME_CHARACTERS = 5_000_000
"""Of any other form of a value, such as a picture."""
MAX_TRACEBACK_CHARACTERS, MAX_TRACEBACK_LINES = 20_000, 200
"""Of an error's words and of each line, and how many lines."""


class _Shown(Struct):
    lines: int = 0
    characters: int = 0
    open: int = 0  # characters of the last line, which a carriage return takes back
    cut: bool = False
    spilled: int = 0
    dropped: int = 0  # bytes that were never read
    path: Path | None = None
    file: IO[str] | None = None


class Output:
    """Collects the printed text of cells; the owner calls `flush` when `due` says so."""

    def __init__(self, emit: Callable[[Stream], None], folder: Path | None) -> None:
        self._emit = emit
        self._folder = folder
        self._pending: list[tuple[int, str, list[str]]] = []
        self._last_flush = 0.0
        self._shown: dict[int, _Shown] = {}

    def add(self, cell: int, name: str, text: str) -> None:
        """Take printed text; it is emitted at once if nothing was within the last interval."""
        shown = self._shown.setdefault(cell, _Shown())
        kept = "" if shown.cut else _head(text, shown)
        if kept:
            shown.lines += kept.count("\n")
            more, shown.open = visible_length(kept, shown.open)
            shown.characters += more
            self._gather(cell, name, kept)
        if len(kept) < len(text):
            if not shown.file and not shown.spilled:
                self._open_spill(cell, shown)
            where = f"; the rest goes to {shown.path}" if shown.path is not None else ""
            self._cut(cell, shown, where)
            self._spill(shown, text[len(kept) :])
        if self.due() == 0.0:
            self.flush()

    def drop(self, cell: int, size: int) -> None:
        """Take note of printed text that was not read; what follows it is not shown, either."""
        shown = self._shown.setdefault(cell, _Shown())
        self._cut(cell, shown, ": it comes faster than it can be shown")
        shown.dropped += size

    def _cut(self, cell: int, shown: _Shown, why: str) -> None:
        """From here on nothing is shown."""
        if not shown.cut:
            shown.cut = True
            self._gather(cell, "notice", f"\noutput cut after {shown.lines:,} lines{why}\n")

    def _gather(self, cell: int, name: str, text: str) -> None:
        if self._pending and self._pending[-1][:2] == (cell, name):
            self._pending[-1][2].append(text)
        else:
            self._pending.append((cell, name, [text]))

    def due(self) -> float | None:
        """Seconds until `flush` should be called, None when nothing waits."""
        if not self._pending:
            return None
        return max(0.0, self._last_flush + FLUSH_SECONDS - time.monotonic())

    def flush(self) -> None:
        """Emit what was gathered."""
        pending, self._pending = self._pending, []
        self._last_flush = time.monotonic()
        for cell, name, parts in pending:
            self._emit(Stream(cell, name, latest("".join(parts))))

    def close(self, cell: int) -> None:
        """Emit the rest of a cell and say how much of it went elsewhere."""
        self.flush()
        shown = self._shown.pop(cell, None)
        if shown is None or not shown.cut:
            return
        if shown.file is not None:
            shown.file.close()
        words = []
        if shown.spilled:
            kept = min(shown.spilled, MAX_SPILL_CHARACTERS)
            where = f"in {shown.path}" if shown.path is not None else "not kept"
            lost = f"; only {kept:,} of them" if kept < shown.spilled and shown.path else ""
            words.append(f"{shown.spilled:,} more characters {where}{lost}")
        if shown.dropped:
            words.append(f"{shown.dropped / 1e6:,.1f} MB came too fast and were dropped")
        self._emit(Stream(cell, "notice", "\n".join(words) + "\n"))

    def _open_spill(self, cell: int, shown: _Shown) -> None:
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            stamp = time.strftime("%Y%m%d-%H%M%S")
            shown.path = self._folder / f"{stamp}-cell-{cell}.txt"
            shown.file = open(shown.path, "a", encoding="utf-8", errors="backslashreplace")
        except OSError:
            shown.path = shown.file = None

    def _spill(self, shown: _Shown, text: str) -> None:
        room = MAX_SPILL_CHARACTERS - shown.spilled
        shown.spilled += len(text)
        if shown.file is not None and room > 0:
            try:
                shown.file.write(text[:room])
            except OSError:
                shown.file = None


def cut(text: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """The text, or its beginning and how long it was."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text):,} characters, cut)"


def result(cell: int, content: JsonObject, updates: bool = False) -> Result:
    """The event of a value or display: text is cut, other forms beyond the limit left out."""
    data, count = content["data"], content.get("execution_count")
    display_id = str((content.get("transient") or {}).get("display_id") or "")
    text = cut(str(data.get("text/plain", "")))
    kept = {
        str(kind): value
        for kind, value in data.items()
        if not isinstance(value, (str, bytes)) or len(value) <= MAX_MIME_CHARACTERS
    }
    return Result(cell, text, {**kept, "text/plain": text}, count, display_id, updates)


def error(cell: int, name: str, value: str, traceback: list[str], detail: JsonObject) -> Error:
    """The event of an exception, its texts cut."""
    lines = [cut(str(line), MAX_TRACEBACK_CHARACTERS) for line in traceback[:MAX_TRACEBACK_LINES]]
    words = cut(without_colours(value), MAX_TRACEBACK_CHARACTERS)
    return Error(cell, cut(name, 200), words, lines, detail)


def _head(text: str, shown: _Shown) -> str:
    """The part of a text that still fits under the cell's cap."""
    kept = text[: MAX_CHARACTERS - shown.characters]
    lines = MAX_LINES - shown.lines
    if kept.count("\n") <= lines:
        return kept
    return "".join(f"{line}\n" for line in kept.split("\n", lines)[:lines])


def rich(
    cell: int, kind: str, content: JsonObject, detail: JsonObject
) -> Result | ClearOutput | Error | None:
    """What a message of a kernel other than printed text shows; `detail` belongs to an error."""
    if kind in ("execute_result", "display_data", "update_display_data"):
        return result(cell, content, updates=kind == "update_display_data")
    if kind == "clear_output":
        return ClearOutput(cell, bool(content.get("wait")))
    if kind == "error":
        name, value = str(content["ename"]), str(content["evalue"])
        return error(cell, name, value, content["traceback"], detail)
    return None
