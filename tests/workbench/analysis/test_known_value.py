"""Tensors whose inputs are all known show their value; all else says what it waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import kbench as K
from kbench.engine.runtime import profile
from kbench.notebook.html import html
from kbench.workbench.analysis import known_value
from kbench.workbench.inspector import summary


def _controlled() -> Any:
    total = K.variable([0.0], name="total")
    with K.control_dependencies([K.update_add(total, [1.0])]):
        return K.ones((2,)) * 2


def _one_of(make: Callable[[Any], Any]) -> Any:
    return K.map_fn(make, K.constant([1.0, 2.0]))


VALUES = [
    (lambda: K.softmax(K.variable([[1.0, 2.0]])), [[0.26894143, 0.73105857]]),
    (lambda: K.constant([1.0]) + K.variable([2.0]), [3.0]),
    (lambda: K.sum(K.ones((3, 4)), axis=1), [4.0, 4.0, 4.0]),
    (lambda: K.shape(K.zeros((2, 3))), [2, 3]),
    (lambda: K.gradients(K.sum(K.square(W := K.variable([1.0, 2.0]))), [W])[0], [2.0, 4.0]),
    (lambda: _one_of(lambda one: one * 2), [2.0, 4.0]),
    (lambda: K.dot(K.ones((300, 300)), K.ones((300, 1)))[0], [300.0]),
    (lambda: K.random_normal_variable((2,), 5.0, 0.0) * 2, [10.0, 10.0]),
    (lambda: K.concatenate([K.variable(scipy.sparse.eye(2)), K.zeros((2, 1))]), None),
]


@pytest.mark.parametrize(("make", "wanted"), VALUES, ids=range(len(VALUES)))
def test_a_value_that_needs_no_feed_is_shown(make: Callable[[], Any], wanted: Any) -> None:
    found = known_value.known(make())
    if wanted is None:
        assert found.value.shape == (2, 3) and not found.reason
        return
    assert found.value.dtype.kind in "fi" and found.reason == ""
    np.testing.assert_allclose(found.value, wanted, rtol=1e-6)


REASONS = [
    (lambda: K.random_normal((2,)), "it draws random numbers"),
    (lambda: K.dropout(K.ones((2,)), 0.5) + 1, "it draws random numbers"),
    (lambda: _one_of(lambda one: one * K.random_uniform(())), "it draws random numbers"),
    (lambda: K.update(K.variable(0.0, name="n"), 1.0), "it stores to 'n"),
    (lambda: K.update_add(K.variable(0.0, name="n"), 1.0) + 1, "it stores to 'n"),
    (lambda: K.moving_average_update(K.variable(0.0, name="n"), 1.0, 0.9), "it stores to 'n"),
    (_controlled, "it waits for what is stored before it"),
    (lambda: K.print_tensor(K.ones((2,))) + 1, "it prints"),
    (lambda: K.ones((6000, 6000)) + 1, "it takes 137 MB of memory"),
    (lambda: K.arange(0, K.variable(9, dtype="int32")), "its size is known only"),
]


@pytest.mark.parametrize(("make", "words"), REASONS, ids=range(len(REASONS)))
def test_what_would_change_something_or_is_large_waits(
    make: Callable[[], Any], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    value = make()
    before = {id(one): one.get_value() for one in _variables(value)}
    drawn = K.eval(K.random_uniform((), seed=5))
    text = html.bundle(value)["text/plain"]
    assert f"not computed, {words}" in text and "K.eval(x)" in text
    assert capsys.readouterr().out == ""
    for one in _variables(value):
        assert np.array_equal(one.get_value(), before[id(one)])
    assert drawn == K.eval(K.random_uniform((), seed=5))


def _variables(root: Any) -> list[Any]:
    from kbench.engine.graph.traverse import walk

    return [one for one in walk([root]) if K.is_variable(one)]


@pytest.mark.parametrize(
    "make",
    [
        lambda: K.placeholder((2,)) + 1,
        lambda: K.in_train_phase(K.ones((2,)), K.zeros((2,))),
        lambda: K.random_normal((2,)) * K.placeholder((2,)),
    ],
)
def test_what_is_fed_says_nothing_new(make: Callable[[], Any]) -> None:
    value = make()
    assert known_value.known(value) is summary.NO_VALUE
    assert html.bundle(value)["text/plain"] == summary.text(value)


def test_looking_leaves_no_trace() -> None:
    value = K.ones((64, 65)) * 2
    heard: list[Any] = []
    stop = profile.run_finished.subscribe(heard.append)
    calls = profile.calls.count
    try:
        with K.record() as runs:
            assert "all 2" in html.bundle(value)["text/plain"]
    finally:
        stop()
    assert (runs, heard, profile.calls.count - calls) == ([], [], 0)
    assert value.last is None and value._functions is None


def test_the_time_is_a_budget_of_all_that_is_shown_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_value, "_computed", lambda value: time.sleep(0.01) or _forever())
    budget = known_value.Budget(0.1)
    began = time.perf_counter()
    texts = [budget.known(K.ones((2,)) * 2).reason for _ in range(3)]
    assert time.perf_counter() - began < 5
    assert "takes longer than 1 s" in texts[0]
    assert texts[1:] == ["not computed: other tensors took the time"] * 2


def _forever() -> None:
    while True:
        pass


def test_an_error_of_the_value_is_told_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_value: Any) -> None:
        raise MemoryError("no room\nat all")

    monkeypatch.setattr(known_value, "_computed", fail)
    text = html.bundle(K.ones((2,)) * 2)["text/plain"]
    assert text.endswith(")  not computed, MemoryError: no room")


def test_an_interrupt_ends_the_wait_and_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_value, "_computed", lambda _value: _forever())
    value = K.ones((2,)) * 2
    real = threading.Event.wait
    seen = []

    def wait(self: threading.Event, timeout: float | None = None) -> bool:
        if timeout is not None and timeout > 0.9 and not seen:
            seen.append(timeout)
            raise KeyboardInterrupt
        return real(self, timeout)

    monkeypatch.setattr(threading.Event, "wait", wait)
    with pytest.raises(KeyboardInterrupt):
        known_value.known(value)
    monkeypatch.undo()
    running = [one for one in threading.enumerate() if one.name == "kbench-beside"]
    assert seen and not any(one.is_alive() for one in running)
    assert known_value.known(value).value.tolist() == [2.0, 2.0]


def test_html_shows_the_cells() -> None:
    shown = html.bundle(K.variable([[1.5, 2.5]]) * 2)["text/html"]
    assert "<td" in shown and ">3<" in shown and ">5<" in shown
