"""Waiting for work on an event loop of Dask's, in a thread that has other things to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def awaited(
    work: Coroutine[Any, Any, Any], owner: Any, seconds: float, look: Callable[[], None]
) -> Any:
    """What a coroutine gives on the loop of a client or worker of Dask, its `owner`.

    `look` is called every `seconds` until then. When it raises, or an interrupt comes, the work is
    cancelled, and the error is this function's.
    """
    future = asyncio.run_coroutine_threadsafe(work, owner.loop.asyncio_loop)
    try:
        while True:
            try:
                return future.result(seconds)
            except TimeoutError:
                if future.done():  # the work's own
                    raise
            look()
    finally:
        future.cancel()
