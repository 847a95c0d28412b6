"""Where random nodes of this thread stand in their sequences, where somebody else decides it.

A step of training by several workers draws for each shard from a place that follows from the
step and the shard: whoever computes it, and however often, gets the same numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _ThreadState(threading.local):
    start: int | None = None
    drawn: dict[int, int] | None = None  # by stream, since the start


_thread = _ThreadState()


@contextmanager
def drawing_from(start: int) -> Iterator[None]:
    """Let every random node of this thread draw from run number `start` of its sequence on.

    What the nodes would draw next without it does not change.
    """
    before = _thread.start, _thread.drawn
    _thread.start, _thread.drawn = start, {}
    try:
        yield
    finally:
        _thread.start, _thread.drawn = before


def position(stream: int, count: int) -> int | None:
    """The first of the `count` runs that a stream of this thread is to draw; None for its own."""
    start, drawn = _thread.start, _thread.drawn
    if start is None or drawn is None:
        return None
    before = drawn.get(stream, 0)
    drawn[stream] = before + count
    return start + before
