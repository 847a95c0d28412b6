"""Text that was typed and has not run: in the journal while it is typed, in a file when leaving.

One file per draft, so that workbenches that run at once neither mix nor lose theirs; each start
takes the newest.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.engine.runtime import paths

if TYPE_CHECKING:
    from textual.timer import Timer

    from kbench.tui.screen_bench import ScreenBench

JOURNAL_PAUSE_SECONDS = 1.0
"""Seconds without a key after which the draft goes to the journal."""
FOLDER = "drafts"
MAX_FILES = 20
"""Files that are kept: the newest, for as many workbenches that were left at once."""
MAX_CHARACTERS = 1_000_000
"""Characters of a draft that are kept."""


class UnsentInput:
    """Follows the prompt of one screen."""

    def __init__(self, bench: ScreenBench) -> None:
        self.bench = bench
        self.text = ""
        self._written = ""
        self._timer: Timer | None = None

    def typed(self) -> None:
        """The prompt has changed; what it holds is written down once the user pauses."""
        prompt = self.bench.prompt
        self.text = "" if prompt.as_given else prompt.own_text
        if self._timer is None:
            self._timer = self.bench.later(JOURNAL_PAUSE_SECONDS, self._pause)
        else:
            self._timer.reset()

    def _pause(self) -> None:
        self._timer = None
        if self.text.strip() != self._written.strip():
            self.bench.run(self._write)

    async def _write(self) -> None:
        session = self.bench.link.session
        if session is not None:
            self._written = self.text
            row = {"event": "Draft", "text": self.text[:MAX_CHARACTERS]}
            await self.bench.link.call(session.journal.write, row)

    def restore(self, folder: Path) -> None:
        """Give the prompt the text with which an earlier workbench was left."""
        prompt = self.bench.prompt
        if not prompt.text and (text := take(folder)):
            prompt.put(text)
            words = "what you had typed when you left is in the prompt; ctrl+C clears it"
            self.bench.notify(words)


def keep(folder: Path, text: str) -> str:
    """Write a text down for the next start; returns what went wrong, '' if nothing."""
    if not text.strip():
        return ""
    path = folder / FOLDER / f"{time.time_ns():020d}-{os.getpid()}.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text[:MAX_CHARACTERS], encoding="utf-8", errors="backslashreplace")
        for old in sorted(path.parent.glob("*.txt"))[:-MAX_FILES]:
            old.unlink(missing_ok=True)
    except OSError as error:
        return f"{path}: {error}"
    return ""


def take(folder: Path) -> str:
    """The newest text that was kept, and no longer is; '' without one."""
    for path in sorted((folder / FOLDER).glob("*.txt"), reverse=True):
        ours = path.with_suffix(f".taken-{os.getpid()}")
        if not path.is_file():  # a pipe would be waited for
            continue
        try:
            path.rename(ours)  # of two that start at once only one succeeds
            text = paths.read_regular(ours, paths.MAX_TEXT_BYTES).decode("utf-8", "replace")
            ours.unlink()
        except OSError:
            continue
        return text
    return ""
