"""Stopping what runs beside the program, where Python cannot raise at once."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import pytest

from kbench.workbench.kernel import sandbox
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


@pytest.mark.parametrize("in_cell", [False, True])
def test_what_has_not_begun_in_time_is_not_run(
    in_cell: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, a thread may begin when its time is over."""
    ran: list[str] = []
    may_begin = threading.Event()
    threads: list[threading.Thread] = []
    begin = sandbox._Job._run

    def late(job: sandbox._Job[None]) -> None:
        threads.append(threading.current_thread())
        while not may_begin.is_set():
            time.sleep(0.001)
        begin(job)

    monkeypatch.setattr(sandbox._Job, "_run", late)
    beside = Sandbox()
    run = beside.run_in_cell if in_cell else beside.run
    outcome = run(lambda: ran.append("at last"), 0.05)
    assert (outcome.stopped, outcome.value, outcome.error) == ("time", None, None)
    may_begin.set()
    threads[0].join(20.0)
    assert ran == []
    assert run(lambda: "soon", 20.0).value == "soon"


@pytest.mark.parametrize("early", [False, True])
def test_a_stop_at_the_ends_of_an_action_is_told(
    early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come at any line: before the action has begun, and when it has ended by itself."""

    class Evaluation:
        def __enter__(self) -> None:
            if early:
                busy(20.0)

        def __exit__(self, *_: object) -> None:
            if not early:
                busy(20.0)

    monkeypatch.setattr(sandbox.read_only, "evaluation", Evaluation)
    outcome = Sandbox().run(lambda: "done", 0.05)
    assert outcome.stopped == "time" and isinstance(outcome.error, Halted)


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
