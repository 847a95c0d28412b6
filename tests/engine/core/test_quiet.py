"""Calls without warnings of NumPy: within one another, from many threads, whatever they raise."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import warnings

import numpy as np
import pytest

import kbench as K
from kbench.engine.core import quiet
from kbench.engine.core.quiet import quietly


def _divided(depth: int) -> float:
    """One by zero, at the bottom of so many quiet calls; the settings are looked at on the way."""
    assert set(np.geterr().values()) == {"ignore"}
    below = quietly(_divided, depth - 1) if depth else 0.0
    assert set(np.geterr().values()) == {"ignore"}
    return below + float(np.float32(1) / np.float32(0))


@pytest.mark.parametrize("contexts", [True, False])
def test_nothing_warns_within_and_all_is_as_it_was_behind(
    contexts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet, "_HAS_CONTEXTS", contexts and quiet._HAS_CONTEXTS)
    before = np.geterr()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quietly(_divided, 3) == np.inf
    assert np.geterr() == before
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        np.float32(1) / np.float32(0)


def test_an_error_leaves_no_trace() -> None:
    before, count = np.geterr(), len(quiet._spare)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            quietly(lambda: 1 // 0)
    assert np.geterr() == before
    assert len(quiet._spare) <= max(count, 1)


def test_many_threads_at_once() -> None:
    wrong: list[object] = []

    def work() -> None:
        try:
            for _ in range(200):
                assert quietly(_divided, 2) == np.inf
                assert "ignore" not in {np.geterr()["divide"], np.geterr()["invalid"]}
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_print_sees_the_context_of_its_caller(capsys: pytest.CaptureFixture[str]) -> None:
    """Notebooks find the cell that a text belongs to by a variable of the context."""
    cell: contextvars.ContextVar[str] = contextvars.ContextVar("cell", default="none")
    seen: list[str] = []
    x = K.placeholder((3,))
    loud = K.function([x], [K.print_tensor(x * 2, "x")])

    class Out:
        def write(self, text: str) -> int:
            seen.append(cell.get())
            return len(text)

        def flush(self) -> None:
            pass

    token = cell.set("mine")
    try:
        with contextlib.redirect_stdout(Out()):  # type: ignore[type-var]
            loud([np.ones(3, "float32")])
    finally:
        cell.reset(token)
    assert seen and set(seen) == {"mine"}
