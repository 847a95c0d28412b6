"""How much printed text of somebody else's kernel is taken in.

A kernel of our own makes a loop that prints wait (kernel_prints.py). Another's does not: it sends
what was printed within a fifth of a second in one message, of hundreds of megabytes if need be.
Reading that would keep a front end for seconds and cost several times as much memory, to show none
of it.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable

from kbench.workbench.core_types import JsonObject

MAX_MESSAGE_BYTES = 1 << 20
"""Of one message that are read."""
BURST_BYTES = 1 << 23
"""That are read however fast they come."""
BYTES_PER_SECOND = 1 << 25
"""That are read after that."""
MAX_WHOLE_BYTES = 1 << 16
"""Of a message that is always read whole, so that what comes last is seen."""
DROPPED_FIELD = "kbench_dropped"
"""In the content of a message: how many bytes were not read."""
_MAX_ESCAPE_BYTES = 12
"""A character beyond the first plane, as JSON writes it."""
_CONTENT = re.compile(rb'\{"name": *"(stdout|stderr)", *"text": *"')


class RateLimit:
    """Decides message by message; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._room = float(BURST_BYTES)
        self._at = clock()

    def cut(self, content: memoryview) -> JsonObject | None:
        """The content of a `stream` message without what is too much; None: it is read whole.

        Those of at most SMALL bytes are not even counted.
        """
        now = self._clock()
        self._room = min(BURST_BYTES, self._room + (now - self._at) * BYTES_PER_SECOND)
        self._at = now
        size = len(content)
        allowed = max(int(min(MAX_MESSAGE_BYTES, self._room)), 0)
        if size <= max(allowed, MAX_WHOLE_BYTES):
            self._room -= size
            return None
        self._room -= allowed
        head = _head(bytes(content[:allowed]))
        return None if head is None else {**head, DROPPED_FIELD: size - allowed}


def _head(part: bytes) -> JsonObject | None:
    """What the beginning of a message's content says; None where it is of another form."""
    begun = _CONTENT.match(part)
    if begun is None:
        return None if part else {"name": "stdout", "text": ""}
    for end in range(len(part), max(begun.end(), len(part) - _MAX_ESCAPE_BYTES) - 1, -1):
        with contextlib.suppress(ValueError):  # within a character or an escape
            content = json.loads(part[:end] + b'"}')
            if isinstance(content, dict) and not "\ud800" <= content["text"][-1:] <= "\udbff":
                return content
    return None
