"""Stopping what runs beside the program, where Python cannot raise at once."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest

from kbench.workbench.kernel.sandbox import Halted, Sandbox


def busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_a_stop_within_a_finalizer_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finalizers swallow what is raised in them, with a report that nobody has asked for."""
    reports: list[Any] = []
    hook = reports.append
    monkeypatch.setattr(sys, "unraisablehook", hook)
    met = threading.Event()

    class Slow:
        def __del__(self) -> None:
            try:
                busy(20.0)
            except Halted:
                met.set()
                raise

    def work() -> str:
        while not met.is_set():
            Slow()
        return "over"

    Sandbox().run(work, 0.2)
    assert met.wait(20.0)
    assert reports == [] and sys.unraisablehook is hook


def test_reports_of_others_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_type))

    class Faulty:
        def __del__(self) -> None:
            raise LookupError

    enough = threading.Event()
    threads: list[threading.Thread] = []

    def work() -> None:
        threads.append(threading.current_thread())
        while not enough.is_set():
            Faulty()

    try:
        assert Sandbox().run(work, 0.1).stopped == "time"
    finally:  # it may be in a finalizer whenever it is told to stop, and goes on then
        enough.set()
        threads[0].join(20.0)
        assert not threads[0].is_alive()
    assert set(reports) == {LookupError}
