"""Waiting for a coroutine on a loop of Dask: whatever ends the wait, none is left unawaited."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kbench.dask.training.polling import awaited


async def all_ended() -> None:
    """The others on this loop, which are cancelled, have ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 5)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    asyncio.run_coroutine_threadsafe(all_ended(), made).result(10)
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


def owner(loop: Any) -> Any:
    return SimpleNamespace(loop=SimpleNamespace(asyncio_loop=loop))


def nothing() -> None: ...


def test_the_loop_makes_the_coroutine(loop: asyncio.AbstractEventLoop) -> None:
    async def thread() -> threading.Thread:
        return threading.current_thread()

    made_in = []

    def make() -> Any:
        made_in.append(threading.current_thread())
        return thread()

    found = awaited(make, owner(loop), 0.01, nothing)
    assert made_in == [found] != [threading.current_thread()]


class Interrupting:
    """A loop in whose way an interrupt comes, before or after it is told what to begin."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tells: bool) -> None:
        self.loop, self.tells = loop, tells

    def call_soon_threadsafe(self, begin: Any) -> None:
        if self.tells:
            self.loop.call_soon_threadsafe(begin)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)


@pytest.mark.parametrize("tells", [False, True])
def test_an_interrupt_leaves_no_coroutine(loop: asyncio.AbstractEventLoop, tells: bool) -> None:
    """A coroutine that nothing awaits would be a warning, which is an error here."""
    for _ in range(50):
        with pytest.raises(KeyboardInterrupt):
            awaited(lambda: asyncio.sleep(60), owner(Interrupting(loop, tells)), 0.01, nothing)
    asyncio.run_coroutine_threadsafe(all_ended(), loop).result(10)
    gc.collect()


@pytest.mark.parametrize("error", [TimeoutError, OSError, KeyError])
def test_errors_of_the_work_and_of_the_look(
    loop: asyncio.AbstractEventLoop, error: type[Exception]
) -> None:
    async def fails() -> None:
        raise error("the work's")

    with pytest.raises(error, match="the work's"):
        awaited(fails, owner(loop), 0.01, nothing)

    def look() -> None:
        raise error("the look's")

    with pytest.raises(error, match="the look's"):
        awaited(lambda: asyncio.sleep(60), owner(loop), 0.01, look)
