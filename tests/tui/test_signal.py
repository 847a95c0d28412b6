"""The Signal: who is told of what, and in which order."""

from __future__ import annotations

import pytest

from kbench.tui import signal


def test_those_who_want_a_class_are_told_in_the_order_in_which_they_subscribed() -> None:
    told: list[object] = []
    events = signal.Signal()
    events.subscribe(signal.Pushed, lambda event: told.append(("first", event.kind)))
    events.subscribe(signal.KernelLost, lambda _: told.append("another"))
    events.subscribe(signal.Pushed, lambda event: told.append(("second", event.data)))
    events.emit(signal.Pushed("nan", {"job": 1}))
    events.emit(signal.KernelStarted())
    assert told == [("first", "nan"), ("second", {"job": 1})]


def test_what_a_listener_raises_reaches_who_has_emitted() -> None:
    events = signal.Signal()

    def fail(_: signal.StateChanged) -> None:
        raise KeyError("x")

    events.subscribe(signal.StateChanged, fail)
    with pytest.raises(KeyError):
        events.emit(signal.StateChanged())
