"""Waking a thread, also by code that is interrupted on the way."""

from __future__ import annotations

import gc
import signal
import threading

import numpy as np
import pytest

from kbench.workbench.session.async_safe_event import AsyncSafeEvent


def test_what_was_set_before_or_while_waiting_lets_go() -> None:
    wake, seen = AsyncSafeEvent(), threading.Semaphore(0)

    def watch() -> None:
        for _ in range(2):
            wake.wait()
            seen.release()

    wake.set()
    wake.set()
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    assert seen.acquire(timeout=10)
    assert not seen.acquire(timeout=0.05), "both were seen at once"
    wake.set()
    assert seen.acquire(timeout=10)
    thread.join(10)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_an_interrupt_locks_nothing() -> None:
    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    wake, stopped = AsyncSafeEvent(), 0
    old, random = signal.signal(signal.SIGALRM, stop), np.random.default_rng(0)
    gc.collect()  # or an alarm could fall into the callback of a weak reference to what other
    gc.disable()  # tests left, where Python drops what is raised
    try:
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 3e-4))
                while True:
                    wake.set()
            except Stop:
                stopped += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        gc.enable()
    assert stopped == 300
    wake.set()
    wake.wait()
