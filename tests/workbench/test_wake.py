"""Waking a thread, also by code that is interrupted on the way."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest

from kbench.workbench.wake import Wake


def test_what_was_set_before_or_while_waiting_lets_go() -> None:
    wake, seen = Wake(), threading.Semaphore(0)

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


# Python tells of an interrupt within the callback of a weak reference (of any object that happens
# to be collected here), and drops it; the loop then ends by itself.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_an_interrupt_locks_nothing() -> None:
    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        rung.append(True)
        raise Stop

    wake, stopped = Wake(), 0
    rung: list[bool] = []
    old, random = signal.signal(signal.SIGALRM, stop), np.random.default_rng(0)
    try:
        for _ in range(300):
            rung.clear()
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 3e-4))
                while not rung:
                    wake.set()
            except Stop:
                stopped += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert stopped > 290
    wake.set()
    wake.wait()
