"""What a terminal says of itself. The answers come among the keys, and are taken out of them.

Nothing waits for them: a terminal that never answers is one without graphics.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable

QUESTIONS = "\x1b[>0q\x1b[16t\x1b[c"
"""Name and version, the size of a cell in pixels, the features. Every terminal answers the last."""
COLOUR_QUESTION = "\x1b[?1;1;0S\x1b[c"
"""Colours of sixel pictures; xterm as a VT340 has 16. Asked only where there are sixels."""
SIXEL_FEATURE = 4
_ANSWER = re.compile(
    r"\x1bP>\|(?P<name>[^\x1b\x07]{0,200})(?:\x1b\\|\x07)"
    r"|\x1b\[6;(?P<height>\d+);(?P<width>\d+)t"
    r"|\x1b\[\?1;0;(?P<colours>\d+)S"
    r"|\x1b\[\?1;[1-3](?:;\d*)*S"
    r"|\x1b\[\?(?P<features>[\d;]*)c"
)
_BEGUN = re.compile(r"\x1b(?:P(?:>[^\x1b\x07]{0,200}\x1b?)?|\[(?:\?[\d;]*|6(?:;[\d;]*)?)?)?\Z")
_KEYS = ("\x1b", "\x1bP", "\x1b[")
"""Beginnings of answers that may be keys: Escape, alt+P, alt+[."""
MAX_HELD_SECONDS = 0.1
"""For which a key that may begin an answer waits."""


class Answers:
    """Those of one terminal, read by the thread of the keys."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = 0.0
        self.name = ""
        self.cell = (0, 0)  # width and height in pixels
        self.colours = 0
        self.features: frozenset[int] = frozenset()
        self._begun = ""
        self._done: deque[Callable[[], None]] = deque()  # of each question not yet answered

    def expect(self, done: Callable[[], None]) -> None:
        """Look for answers; the thread of the keys calls `done` after the last of a question."""
        self._done.append(done)

    def rest(self, data: str) -> str:
        """What of the characters that came are keys."""
        if not self._done:
            return data
        data, self._begun = self._begun + data, ""
        data = _ANSWER.sub(self._take, data)
        begun = _BEGUN.search(data) if self._done else None
        if begun is not None:
            self._begun, data = begun.group(), data[: begun.start()]
            self._since = self._clock()
        return data

    def overdue(self) -> str:
        """What was held back and is a key after all, as nothing has come behind it."""
        if self._begun not in _KEYS or self._clock() - self._since < MAX_HELD_SECONDS:
            return ""
        keys, self._begun = self._begun, ""
        return keys

    def _take(self, answer: re.Match[str]) -> str:
        found = answer.groupdict()
        if found["name"] is not None:
            self.name = found["name"]
        elif found["height"]:
            self.cell = int(found["width"]), int(found["height"])
        elif found["colours"]:
            self.colours = int(found["colours"])
        elif found["features"] is not None:
            self.features = frozenset(map(int, filter(None, found["features"].split(";"))))
            if self._done:
                self._done.popleft()()
        return ""
