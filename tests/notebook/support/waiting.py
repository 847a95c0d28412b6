"""Waiting for what happens in another thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], there: Callable[[], object] | None = None) -> None:
    """Wait until the condition holds; a failure says what was `there` instead."""
    end = time.monotonic() + 30
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(there() if there is not None else "it did not happen")
        time.sleep(0.01)


def wait_for_words(words: str, text: Callable[[], str]) -> None:
    """Wait until a text has the words; a failure says which it has instead."""
    wait_for(lambda: words in text(), lambda: f"{words!r} did not come: {text()!r}")
