"""Calls like the one before: the same results and notes, and whatever is unusual is noticed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import kbench as K
from kbench.engine.core import cancel
from kbench.engine.core.errors import FeedError, ShapeError
from kbench.engine.execute import steady
from kbench.engine.execute.function import Function
from kbench.engine.jit.service import service
from kbench.engine.runtime import profile

RNG = np.random.default_rng(3)


def drawn(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("float32")


def _product() -> tuple[Function, Callable[[], list[np.ndarray]]]:
    """One step, of a kernel."""
    x, y = K.placeholder((None, 90)), K.placeholder((90, None))
    return K.function([x, y], [K.dot(x, y)]), lambda: [drawn(90, 90), drawn(90, 90)]


def _several() -> tuple[Function, Callable[[], list[np.ndarray]]]:
    """Several steps and results, a variable among the operands."""
    x, w = K.placeholder((None, 8)), K.variable(drawn(8, 4))
    y = K.dot(x, w)
    return K.function([x], [K.sum(y), y + 1]), lambda: [drawn(5, 8)]


def _loop() -> tuple[Function, Callable[[], list[np.ndarray]]]:
    """One loop, which reads what is fed in another order, and constants."""
    x, y, row = K.placeholder((None, 100)), K.placeholder((None, 100)), K.constant(drawn(100))
    outputs = [K.relu(y) * 2.0 - x * row]
    return K.function([x, y], outputs), lambda: [drawn(300, 100), drawn(300, 100)]


def _fold() -> tuple[Function, Callable[[], list[np.ndarray]]]:
    """One fold of a loop, on several threads, in parts that are joined."""
    x = K.placeholder((None, 100))
    return K.function([x], [K.sum(K.square(x))]), lambda: [drawn(3000, 100)]


def _largest() -> tuple[Function, Callable[[], list[np.ndarray]]]:
    """The same of the largest number; some arrays have NaN."""

    def feeds() -> list[np.ndarray]:
        x = drawn(3000, 100)
        x[RNG.integers(0, 3000), 7] = RNG.choice([np.nan, 9.0, np.inf])
        return [x]

    x = K.placeholder((None, 100))
    return K.function([x], [K.max(x)]), feeds


def _row_fold() -> tuple[Function, Callable[[], list[np.ndarray]]]:
    """A result for each row, which needs no joining."""
    x = K.placeholder((None, 100))
    return K.function([x], [K.max(x, axis=-1)]), lambda: [drawn(300, 100)]


def _rows() -> tuple[Function, Callable[[], list[np.ndarray]]]:
    """A program of rows, which reads what is fed in another order, and a constant."""
    x, y, row = K.placeholder((None, 100)), K.placeholder((None, 100)), K.constant(drawn(100))
    return K.function([x, y], [K.softmax(y) * row + x]), lambda: [drawn(300, 100), drawn(300, 100)]


def _views() -> tuple[Function, Callable[[], list[np.ndarray]]]:
    """Results that are views of what is fed, or of each other, and must be copied."""
    x, y = K.placeholder((None, 100)), K.placeholder((None, 100))
    outputs = [K.reverse(x, 1), x, K.transpose(y), K.reshape(x + y, (-1, 50))]
    return K.function([x, y], outputs), lambda: [drawn(300, 100), drawn(300, 100)]


def _stack() -> tuple[Function, Callable[[], list[np.ndarray]]]:
    """Copies by a kernel."""
    x, y = K.placeholder((None, 100)), K.placeholder((None, 100))
    return K.function([x, y], [K.stack([x, y], 1)]), lambda: [drawn(300, 100), drawn(300, 100)]


@pytest.fixture(
    params=[_product, _several, _loop, _fold, _largest, _row_fold, _rows, _stack, _views],
    ids=["product", "several", "loop", "fold", "largest", "row_fold", "rows", "stack", "views"],
)
def made(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Function, Callable[[], list[np.ndarray]]]:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    function, feeds = request.param()
    for _ in range(4):
        function(feeds())
    assert function._steady is not None
    return function, feeds


Made = tuple[Function, Callable[[], list[np.ndarray]]]


def usual(function: Function, given: list[np.ndarray]) -> list[np.ndarray]:
    """What another function gives, which knows of no call before."""
    return Function(function.inputs, function.outputs)(given)


def test_results_are_right_and_nobody_elses(made: Made) -> None:
    function, feeds = made
    before: list[np.ndarray] = []
    for _ in range(4):
        given = feeds()
        results = function(given)
        for got, want in zip(results, usual(function, given), strict=True):
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)
        assert not any(np.may_share_memory(a, b) for a in results for b in before + given)
        before += results


def test_other_arrays_are_noticed(made: Made) -> None:
    function, feeds = made
    given = feeds()
    rows = [3 if K.int_shape(node)[0] is None else None for node in function.inputs]
    others = [
        [array[:most] for array, most in zip(given, rows, strict=True)],
        [array.astype("float64") for array in given],
        [np.asfortranarray(array) for array in given],
        [array[::-1] for array in given],
        [array.astype(">f4") for array in given],
        [array.tolist() for array in given],
        tuple(given),
    ]
    for other in others:
        for _ in range(3):
            want = usual(function, [np.asarray(array, "float32") for array in other])
            for got, right in zip(function(other), want, strict=True):
                np.testing.assert_allclose(got, right, 1e-4, 1e-4)
    with pytest.raises(FeedError):
        function([array[:, :3] for array in given])


def test_what_is_noted_is_that_of_a_usual_call(made: Made) -> None:
    function, feeds = made
    count = profile.calls.count
    for node in (*function.inputs, *function.outputs):
        node.last = None
    results = function(feeds())
    assert profile.calls.count == count + 1
    for node, array in zip(function.outputs, results, strict=True):
        assert node.last is not None and node.last[0] == array.shape
        assert (node.last[1] is not None) == (array.size <= steady.MAX_KEPT_ELEMENTS)
    assert all(node.last is not None for node in function.inputs)


def test_recordings_and_listeners_are_told(made: Made) -> None:
    function, feeds = made
    with K.record() as runs:
        function(feeds())
    assert len(runs) == 1
    told: list[object] = []
    for signal in (profile.call_ended, profile.inputs_fed):
        stop = signal.subscribe(told.append)
        function(feeds())
        stop()
    assert len(told) == 2


def test_an_earlier_request_to_stop_is_forgotten(made: Made) -> None:
    function, feeds = made
    cancel.request()
    assert len(function(feeds())) == len(function.outputs)
    assert not cancel.requested()


def test_kernels_may_be_turned_off(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    function, feeds = made
    given = feeds()
    want = function(given)
    monkeypatch.setenv("KBENCH_JIT", "off")
    for got, before in zip(function(given), want, strict=True):
        np.testing.assert_allclose(got, before, 1e-4, 1e-4)


def test_variables_are_those_of_now() -> None:
    x, w = K.placeholder((None, 8)), K.variable(np.zeros((8, 4), "float32"))
    function = K.function([x], [K.dot(x, w)])
    given = [drawn(5, 8)]
    for number in range(5):
        K.set_value(w, np.full((8, 4), number, "float32"))
        np.testing.assert_allclose(function(given)[0], given[0] @ K.get_value(w), 1e-5, 1e-5)


def test_updates_and_flags_go_the_usual_way() -> None:
    x, w = K.placeholder((3,)), K.variable(np.zeros(3, "float32"))
    function = K.function([x], [K.sum(w)], [(w, w + x)])
    for number in range(5):
        assert function([np.ones(3, "float32")])[0] == 3 * number
    assert function._steady is None


@pytest.mark.parametrize("build", [_loop, _fold, _largest, _row_fold, _rows, _stack])
def test_loops_are_made_again(
    build: Callable[[], tuple[Function, Callable[[], list[np.ndarray]]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With as many threads as there are now, by several threads of Python at a time."""
    monkeypatch.setenv("KBENCH_JIT", "wait")
    function, feeds = build()
    before = K.num_threads()
    try:
        for threads in (2, 1, 2):
            K.set_num_threads(threads)
            given = [feeds() for _ in range(4)]
            wanted = [usual(function, one) for one in given]
            for _ in range(3):
                function(given[0])
            service.wait_idle()  # while a compiler is at work, calls go the usual way
            assert function._steady is not None
            direct = function._steady.executable.direct
            assert any(direct(given[1]) is not None for _ in range(4))
            wrong: list[int] = []

            def work(number: int, given=given, wanted=wanted, wrong=wrong) -> None:
                for _ in range(50):
                    found = function(given[number])
                    if not np.allclose(found[0], wanted[number][0], 1e-5, 1e-5, equal_nan=True):
                        wrong.append(number)

            workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            assert not wrong
    finally:
        K.set_num_threads(before)


@pytest.mark.parametrize(
    "formula", [lambda x: K.relu(x) + 1.0, K.transpose, lambda x: K.sum(x, axis=0), K.softmax]
)
@pytest.mark.parametrize("calls", range(6))
def test_as_many_numbers_in_another_shape(
    formula: Callable[[K.Tensor], K.Tensor], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the function was called with the shape before."""
    monkeypatch.setenv("KBENCH_JIT", "wait")
    x = K.placeholder((None, None))
    function = K.function([x], [formula(x)])
    for _ in range(calls):
        function([drawn(400, 100)])
    for given in (drawn(100, 400), drawn(400, 100), drawn(200, 200)):
        for _ in range(3):
            (got,), (want,) = function([given]), usual(function, [given])
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_what_a_kernel_refuses_is_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index out of range, in the call after many good ones, names the operation."""
    monkeypatch.setenv("KBENCH_JIT", "wait")
    table, rows = K.placeholder((500, 64)), K.placeholder((400,), dtype="int64")
    function = K.function([table, rows], [K.gather(table, rows)])
    values, places = drawn(500, 64), np.arange(400)
    for _ in range(5):
        np.testing.assert_array_equal(function([values, places])[0], values[:400])
    before = values.copy()
    for wrong in (500, -1):
        with pytest.raises(ShapeError, match=f"gather: index {wrong} is out of range for 500 rows"):
            function([values, np.where(places == 7, wrong, places)])
    np.testing.assert_array_equal(values, before)


@pytest.mark.parametrize("formula", [lambda x: K.relu(x) + 1.0, lambda x: K.dot(x, x)])
@pytest.mark.parametrize("place", [0, 1])
def test_what_is_not_read_is_looked_at_as_well(
    formula: Callable[[K.Tensor], K.Tensor], place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_JIT", "wait")
    nodes = [K.placeholder((None, 200)), K.placeholder((None, 200))]
    function = K.function(nodes, [formula(nodes[place])])
    for _ in range(5):
        given = [drawn(200, 200), drawn(200, 200)]
        want = usual(K.function([nodes[place]], function.outputs), [given[place]])
        np.testing.assert_allclose(function(given)[0], want[0], 1e-4, 1e-4)
    given[1 - place] = drawn(200, 199)
    with pytest.raises(FeedError):
        function(given)
