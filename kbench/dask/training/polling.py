"""Waiting for work on an event loop of Dask's, in a thread that has other things to look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any


def awaited(
    make: Callable[[], Coroutine[Any, Any, Any]],
    owner: Any,
    seconds: float,
    look: Callable[[], None],
) -> Any:
    """What the coroutine of `make` gives on the loop of a client or worker of Dask, its `owner`.

    `look` is called every `seconds` until then. When it raises, or an interrupt comes, the work is
    cancelled, and the error is this function's. The loop makes the coroutine: an interrupt in this
    thread could come before the loop has it, and nothing would ever await it.
    """
    loop = owner.loop.asyncio_loop
    begun: Future[Future[Any]] = Future()

    async def work() -> Any:
        return await make()

    def begin() -> None:
        if begun.set_running_or_notify_cancel():
            begun.set_result(asyncio.run_coroutine_threadsafe(work(), loop))

    try:
        loop.call_soon_threadsafe(begin)
        return _result(_result(begun, seconds, look), seconds, look)
    finally:
        if not begun.cancel():
            begun.result().cancel()


def _result(future: Future[Any], seconds: float, look: Callable[[], None]) -> Any:
    while True:
        try:
            return future.result(seconds)
        except TimeoutError:
            if future.done():  # the work's own
                raise
        look()
