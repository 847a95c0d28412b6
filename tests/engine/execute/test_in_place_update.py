"""New values of variables in the memory of the old ones: when, and that nobody notices."""

import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

from kbench import backend as K

SHAPE = (150, 200)
FEW = 40  # so few that they are stored in place only beside larger ones


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")


def counting(count: int = 3) -> tuple[list[Any], Any]:
    """Variables that hold the number of calls of the function, everywhere."""
    held = [K.variable(np.zeros(SHAPE)) for _ in range(count)]
    held.append(K.variable(np.zeros(FEW)))
    small = K.variable(0.0)
    updates = [K.update_add(one, 1.0) for one in (*held, small)]
    return [*held, small], K.function([], [K.sum(held[0])], updates=updates)


def place(variable: Any) -> int:
    return int(variable.peek().__array_interface__["data"][0])


def test_the_memory_is_used_again() -> None:
    held, step = counting()
    step([])
    before = [place(one) for one in held[:-1]]
    assert step([])[0] == SHAPE[0] * SHAPE[1]
    assert [place(one) for one in held[:-1]] == before
    assert [K.get_value(one).max() for one in held] == [2] * 5
    assert [one.version for one in held] == [2] * 5


def test_a_value_that_somebody_holds_stays() -> None:
    held, step = counting()
    step([])
    window = held[0].peek()
    part = held[1].peek()[3:5].T
    few = held[3].peek()[::2]
    for _ in range(3):
        step([])
    assert (window == 1).all() and (part == 1).all() and (few == 1).all()
    assert all((one.peek() == 4).all() for one in held)


def test_outputs_are_of_the_state_before() -> None:
    w = K.variable(np.ones(SHAPE))
    step = K.function([], [w, K.transpose(w), w * 2.0], updates=[(w, w * 3.0)])
    for power in range(4):
        whole, turned, double = step([])
        assert (whole == 3.0**power).all() and (turned == 3.0**power).all()
        assert (double == 2 * 3.0**power).all()
        assert (K.get_value(w) == 3.0 ** (power + 1)).all()


def test_variables_that_read_each_other() -> None:
    random = np.random.default_rng(0)
    first, second = (random.normal(size=(160, 160)).astype("float32") for _ in range(2))
    a, b = K.variable(first), K.variable(second)
    step = K.function([], [], updates=[(a, b + K.transpose(a)), (b, K.transpose(b) - a)])
    for _ in range(4):
        first, second = second + first.T, second.T - first
        step([])
        np.testing.assert_allclose(K.get_value(a), first, 1e-5)
        np.testing.assert_allclose(K.get_value(b), second, 1e-5)


def test_a_new_value_that_is_read_again_comes_first() -> None:
    w = K.variable(np.ones(SHAPE))
    new = w + 1.0
    step = K.function([], [K.sum(K.square(new))], updates=[(w, new)])
    for value in (2, 3, 4):
        assert step([])[0] == value**2 * SHAPE[0] * SHAPE[1]
        assert (K.get_value(w) == value).all()


@pytest.mark.parametrize("threads", [1, 3])
def test_an_optimizer_step(threads: int) -> None:
    before = K.num_threads()
    K.set_num_threads(threads)
    try:
        random = np.random.default_rng(2)
        p, m, v = (random.uniform(0.5, 1, SHAPE) for _ in range(3))
        g = random.normal(size=SHAPE)
        variables = [K.variable(one) for one in (p, m, v)]
        fed = K.placeholder(SHAPE)
        kp, km, kv = variables
        new_m, new_v = 0.9 * km + 0.1 * fed, 0.99 * kv + 0.01 * K.square(fed)
        new_p = kp - 0.1 * new_m / (K.sqrt(new_v) + 1e-7)
        step = K.function([fed], [], updates=[(km, new_m), (kv, new_v), (kp, new_p)])
        with K.record() as runs:
            step([g])
        assert [one.form for one in runs[0].steps] == ["fused"]
        moved = 7 * 4 * SHAPE[0] * SHAPE[1]
        assert moved <= runs[0].steps[0].bytes <= moved + 100
        for call in range(4):
            if call:
                step([g])
            m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
            p = p - 0.1 * m / (np.sqrt(v) + 1e-7)
            for variable, wanted in zip(variables, (p, m, v), strict=True):
                np.testing.assert_allclose(K.get_value(variable), wanted, 1e-5, 1e-6)
    finally:
        K.set_num_threads(before)


# Python tells of an interrupt within the callback of a weak reference (of any object that happens
# to be collected here), and drops it; it cannot be raised.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_leaves_all_or_none() -> None:
    held, step = counting(6)
    step([])

    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    old = signal.signal(signal.SIGALRM, stop)
    random = np.random.default_rng(0)
    stopped = 0
    try:
        for _ in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 6e-4))
                for _ in range(1000):
                    step([])
            except Stop:
                stopped += 1
            values = [K.get_value(one) for one in held]
            assert len({float(one) for value in values for one in (value.min(), value.max())}) == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert stopped > 100


def test_another_thread_sees_whole_values() -> None:
    held, step = counting(4)
    reading = K.function([], [K.max(held[0]) - K.min(held[0])])
    reading([])
    end = time.monotonic() + 1
    torn: list[Any] = []

    def read() -> None:
        while time.monotonic() < end:
            value = K.get_value(held[1])
            torn.append(value.max() - value.min())
            torn.append(reading([])[0])

    threads = [threading.Thread(target=read) for _ in range(2)]
    for one in threads:
        one.start()
    while time.monotonic() < end:
        step([])
    for one in threads:
        one.join()
    assert len(torn) > 10 and not np.any(torn)
