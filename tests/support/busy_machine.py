"""Limits of time that hold on a busy machine, too: they grow as much as a thread is slowed down."""

from __future__ import annotations

import time
from collections.abc import Callable

PROBE_SECONDS = 0.05
"""Of a processor, for a look at how busy the machine is: several turns of its scheduler."""


def slowdown() -> float:
    """How many times longer a thread takes now than alone; 1 where a processor is free."""
    begin, used = time.monotonic(), time.thread_time()
    while time.thread_time() - used < PROBE_SECONDS:
        pass
    return max((time.monotonic() - begin) / PROBE_SECONDS, 1.0)


def is_within(taken: float, seconds: float) -> bool:
    """Whether what has taken some time has not taken longer than so many seconds, if alone."""
    return taken < seconds or taken < seconds * slowdown()


def until(condition: Callable[[], bool], seconds: float = 30.0) -> float:
    """The seconds until it holds, which is asked again and again."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds, "it never came to that"
        time.sleep(0.001)
    return time.monotonic() - begin
