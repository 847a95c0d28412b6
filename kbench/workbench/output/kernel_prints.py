"""What a kernel's cells print is sent on in pieces, and no faster than a front end can take it.

ipykernel gathers what is printed within a fifth of a second into one message, however long that
grows, and never makes a program wait. A loop that prints long lines then takes gigabytes, its
messages occupy a front end for seconds each, and those that are on their way outlive an interrupt.
IPython keeps all of it once more, for its magic `%notebook`, and forgets nothing.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from kbench.engine.core import fork_safety

if TYPE_CHECKING:
    from kbench.workbench.ipython_types import Shell

CHUNK_CHARACTERS = 1 << 17
"""Of one message."""
BURST_CHARACTERS = 32 * CHUNK_CHARACTERS
"""That are never held up; a cell shows less than these."""
CHARACTERS_PER_SECOND = 16_000_000
"""That are sent on after that."""
MAX_COPIED_CHARACTERS = 1_000_000
"""Of all cells together that IPython may keep."""
_MARK = "_kbench_printing"


class PrintThrottle:
    """Stands before the `write` of one of ipykernel's streams."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._write = stream.write
        self._gathered = 0  # several threads may count wrong, which only shifts a piece's end
        self._copied = 0
        self._lock = fork_safety.lock()
        self._room = float(BURST_CHARACTERS)
        self._at = time.monotonic()

    def begin(self) -> None:
        """A cell begins: IPython has put itself before `write`, and may stay while it has room."""
        if self._copied >= MAX_COPIED_CHARACTERS:
            self._stream.write = self.write

    def write(self, text: str) -> int:
        """As the stream's own, but what is long goes out at once, and waits for its turn."""
        if isinstance(text, str) and len(text) > CHUNK_CHARACTERS:
            for at in range(0, len(text), CHUNK_CHARACTERS):
                self.write(text[at : at + CHUNK_CHARACTERS])
            return len(text)
        self._write(text)
        self._gathered += len(text)
        if self._gathered >= CHUNK_CHARACTERS:
            sent, self._gathered = self._gathered, 0
            if self._copied < MAX_COPIED_CHARACTERS:
                self._copied += sent
                self.begin()
            self._stream.flush()
            self._wait(sent)
        return len(text)

    def _wait(self, sent: int) -> None:
        now = time.monotonic()
        with self._lock:
            gained = (now - self._at) * CHARACTERS_PER_SECOND
            self._room, self._at = min(BURST_CHARACTERS, self._room + gained) - sent, now
            debt = -self._room
        if debt > 0:
            time.sleep(debt / CHARACTERS_PER_SECOND)


def install(shell: Shell) -> None:
    """Put it before the standard streams of this kernel; a second time changes nothing."""
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        if hasattr(stream, "pub_thread") and not hasattr(stream, _MARK):
            printing = PrintThrottle(stream)
            setattr(stream, _MARK, printing)
            stream.write = printing.write
            shell.events.register("pre_run_cell", lambda _info, one=printing: one.begin())
