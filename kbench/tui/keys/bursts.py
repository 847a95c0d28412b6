"""Text pasted into a terminal that does not bracket it comes as keys, but all at once.

Typed, each of its line breaks would run what stands before it, and each line would be indented once
more. What the terminal has sent between two reads of the driver therefore counts as pasted where
nobody can have typed it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from kbench.tui.graphics.answers import Answers

MIN_BURST_CHARACTERS = 8
"""Characters of a burst at least: fewer, with Enter among them, may be typed ahead while the
program was busy for most of a second."""
LONG_BURST_CHARACTERS = 256
"""Characters that nobody types between two reads, line breaks or not."""
BURST_PAUSE_SECONDS = 0.05
"""Between two reads of one burst at most: a pseudo-terminal hands over 4 kB at a time."""


def drawable(data: str) -> bool:
    """Whether there is text alone, and no key such as an arrow or ctrl+C."""
    return all(character.isprintable() or character in "\r\n\t" for character in data)


def pasted(data: str) -> bool:
    """Whether characters that came at once are more than somebody types: lines behind a line."""
    if len(data) < MIN_BURST_CHARACTERS or not drawable(data):
        return False
    inner = data.strip("\r\n")
    return "\r" in inner or "\n" in inner or len(data) >= LONG_BURST_CHARACTERS


class BurstParser(XTermParser):
    """Textual's parser of what a terminal sends, to which each read of the driver is fed."""

    def __init__(
        self,
        debug: bool = False,
        clock: Callable[[], float] = time.monotonic,
        answers: Answers | None = None,
    ) -> None:
        super().__init__(debug)
        self._answers = answers
        self._clock = clock
        self._bracketed = False
        self._before = ""  # the end of the read before, in which a sequence may have begun
        self._burst_until = float("-inf")

    def feed(self, data: str) -> Iterable[Message]:
        """The events of one read."""
        if self._answers is not None and data:
            if not (data := self._answers.rest(data)):
                return []  # no characters would be the end of the input
        if self._is_burst(data):
            self._burst_until = self._clock() + BURST_PAUSE_SECONDS
            self._before = ""
            return [events.Paste(data.replace("\r\n", "\n").replace("\r", "\n"))]
        seen = self._before + data
        begun, ended = seen.rfind(BRACKETED_PASTE_START), seen.rfind(BRACKETED_PASTE_END)
        if begun != ended:
            self._bracketed = begun > ended
        self._before = seen[1 - len(BRACKETED_PASTE_START) :]
        return super().feed(data)

    def tick(self) -> Iterable[Message]:
        """The events of a pause."""
        if self._answers is not None and (keys := self._answers.overdue()):
            yield from super().feed(keys)
        yield from super().tick()

    def _is_burst(self, data: str) -> bool:
        if self._bracketed or "\x1b" in self._before[-1:]:
            return False
        return pasted(data) or (bool(data) and drawable(data) and self._clock() < self._burst_until)
