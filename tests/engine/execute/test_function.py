"""Functions: updates together or not at all, results of their own, plans by shape, threads."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from kbench import backend as K
from kbench.engine.core import cancel
from kbench.engine.core.errors import FeedError
from kbench.engine.runtime import config, profile


def value(x: Any) -> Any:
    return K.get_value(x).tolist()


# ------------------------------------------------------------------ updates


def test_updates_see_the_state_before_the_call() -> None:
    a, b = K.variable(1.0), K.variable(2.0)
    swap = K.function([], [a, b, a + b], updates=[(a, b), (b, a)])
    assert [one.item() for one in swap([])] == [1.0, 2.0, 3.0]
    assert (value(a), value(b)) == (2.0, 1.0)
    swap([])
    assert (value(a), value(b)) == (1.0, 2.0)


def test_an_update_among_the_outputs_gives_the_new_value() -> None:
    v = K.variable([1.0, 2.0])
    compiled = K.function([], [K.update(v, v * 10), v])
    new, old = compiled([])
    assert new.tolist() == [10.0, 20.0]
    assert old.tolist() == [1.0, 2.0]
    assert value(v) == [10.0, 20.0]


FAILURES: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("division by zero", lambda v, n: K.cast(n // (n * 0), "float32")),
    ("index out of range", lambda v, n: K.gather(v, n + 100)),
    ("sizes that do not fill", lambda v, n: K.reshape(v, K.stack([n, n]) + 7)[0, 0]),
]


@pytest.mark.parametrize(("name", "broken"), FAILURES, ids=[name for name, _ in FAILURES])
@pytest.mark.parametrize("where", ["output", "update"])
def test_an_error_stores_nothing(name: str, broken: Any, where: str) -> None:
    v, w = K.variable([1.0, 2.0]), K.variable(5.0)
    n = K.placeholder((), dtype="int32")
    bad = K.sum(broken(v, n))
    updates = [K.update_add(v, 1.0), (w, bad if where == "update" else w + 1)]
    compiled = K.function([n], [bad if where == "output" else w], updates=updates)
    with pytest.raises(K.KbenchError):
        compiled([3])
    assert (value(v), value(w)) == ([1.0, 2.0], 5.0)
    assert (v.version, w.version) == (0, 0)


def test_the_last_update_of_a_variable_counts() -> None:
    v = K.variable(1.0)
    K.function([], [], updates=[(v, v + 1), (v, v + 10)])([])
    assert value(v) == 11.0


def test_control_dependencies_store_first() -> None:
    v = K.variable(1.0)
    with K.control_dependencies(K.update_add(v, 1.0)):
        doubled = v * 2
    assert K.eval(doubled) == 4.0
    assert value(v) == 2.0


# ------------------------------------------------------------------ nothing is shared

ALIASES: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("variable", lambda v, x: v),
    ("identity", lambda v, x: K.identity(v)),
    ("reshape", lambda v, x: K.reshape(v, (3, 2))),
    ("transpose", lambda v, x: K.transpose(v)),
    ("slice", lambda v, x: v[1:, ::-1]),
    ("squeeze", lambda v, x: K.squeeze(K.expand_dims(v, 0), 0)),
    ("feed", lambda v, x: x),
    ("view of feed", lambda v, x: K.reverse(x, 0)),
    ("constant", lambda v, x: K.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])),
    ("zeros_like", lambda v, x: K.zeros_like(v)),
    ("taken branch", lambda v, x: K.switch(K.sum(x) > 0, v, x)),
    ("new value", lambda v, x: K.update(v, x)),
]


@pytest.mark.parametrize(("name", "make"), ALIASES, ids=[name for name, _ in ALIASES])
def test_results_are_the_callers_own(name: str, make: Any) -> None:
    start = np.arange(6, dtype="float32").reshape(2, 3) + 1
    v, x = K.variable(start), K.placeholder((2, 3))
    compiled = K.function([x], [make(v, x), make(v, x), v * 1])
    fed = start.copy()
    first = compiled([fed])
    kept = [one.copy() for one in first]
    for one in first:
        assert one.flags.writeable
        assert not np.shares_memory(one, fed)
        assert not np.shares_memory(one, v.peek())
        one.fill(-1)
    second = compiled([fed])
    for again, before in zip(second, kept, strict=True):
        np.testing.assert_array_equal(again, before)
    assert not np.shares_memory(second[0], second[1])
    np.testing.assert_array_equal(fed, start)


def test_a_stored_feed_is_copied() -> None:
    v, w, x = K.variable([0.0, 0.0]), K.variable([5.0, 6.0]), K.placeholder((2,))
    fed = np.array([1.0, 2.0], "float32")
    (result,) = K.function([x], [x * 1], updates=[(v, x), (w, v)])([fed])
    fed.fill(9)
    result.fill(9)
    assert (value(v), value(w)) == ([1.0, 2.0], [0.0, 0.0])
    assert not np.shares_memory(v.peek(), w.peek())


def test_earlier_results_survive_later_calls() -> None:
    x = K.placeholder((None,))
    compiled = K.function([x], [K.exp(x) * 2])
    results = [compiled([np.full(50_000, i, "float32")])[0] for i in range(5)]
    for i, one in enumerate(results):
        np.testing.assert_allclose(one, np.full(50_000, 2 * np.exp(i)), 1e-5)


VIEWS: list[tuple[str, Callable[[np.ndarray], Any]]] = [
    ("itself", lambda a: a),
    ("slice", lambda a: a[1::2]),
    ("reshape", lambda a: a.reshape(-1, 2).T),
    ("other dtype", lambda a: a.view("int32")),
    ("memoryview", memoryview),
    ("view of a view", lambda a: np.asarray(memoryview(a[::2]))[::2]),
]


@pytest.mark.parametrize(("name", "take"), VIEWS, ids=[name for name, _ in VIEWS])
def test_memory_is_not_used_again_while_a_view_lives(name: str, take: Any) -> None:
    x = K.placeholder((None,))
    compiled = K.function([x], [K.exp(x) * 2])
    kept = take(compiled([np.zeros(200_000)])[0])  # the result itself is gone
    before = np.array(kept)
    for number in range(4):
        compiled([np.full(200_000, 1.0 + number)])
    np.testing.assert_array_equal(np.array(kept), before)


# ------------------------------------------------------------------ calling


def test_plans_are_kept_by_shape() -> None:
    x = K.placeholder((None, 2))
    compiled = K.function([x], [K.sum(x, 0)])
    small, large = np.ones((3, 2), "float32"), np.ones((5, 2), "float32")
    assert compiled.bound([small]) is compiled.bound([small + 1])
    assert compiled.bound([small]) is not compiled.bound([large])
    for rows in range(100):
        assert compiled([np.ones((rows, 2))])[0].tolist() == [rows, rows]
    assert len(compiled._executables) <= 16


def test_any_tensor_can_be_given_instead_of_computed() -> None:
    x = K.placeholder((2,))
    hidden = K.exp(x)
    compiled = K.function([hidden], [hidden * 2])
    assert compiled([[3.0, 4.0]])[0].tolist() == [6.0, 8.0]
    v = K.variable(2.0)
    assert K.function([v], [v * v])([3.0])[0] == 9.0
    assert value(v) == 2.0


def _with_targets() -> tuple[Any, list[Any]]:
    """A model's inputs, targets and weights, and what is made of the inputs alone."""
    K.clear_session()
    x, y = K.placeholder((None, 3), name="x"), K.placeholder((None, 1), name="y")
    w, phase = K.placeholder((None,), name="w"), K.learning_phase()
    hidden = K.in_train_phase(K.zeros_like(x), x * 2.0)
    return [x, y, w, phase], [hidden, K.sum(hidden + y)]


X = np.arange(6.0, dtype="float32").reshape(2, 3)
# the values of a call; by what the first of them is multiplied
PARTLY: list[tuple[Any, float]] = [
    ([X, None, None, None], 2.0),
    ([X], 2.0),
    ([X.tolist()], 2.0),
    ((X, None), 2.0),
    ([X, np.ones((2, 1)), None, 1], 0.0),
    ([X, None, None, 0], 2.0),
    (([X], [], []), 2.0),
    (([X], [np.ones((2, 1))], [np.ones(2)]), 2.0),
    (([X], [None], [None], []), 2.0),
]


@pytest.mark.parametrize(("values", "times"), PARTLY, ids=range(len(PARTLY)))
def test_inputs_that_nothing_needs_need_no_value(values: Any, times: float) -> None:
    inputs, outputs = _with_targets()
    total = K.variable(0.0)
    compiled = K.function(inputs, outputs[:1], [K.update_add(total, K.sum(outputs[0]))])
    for _ in range(3):
        np.testing.assert_array_equal(compiled(values)[0], X * times)
    assert value(total) == 3 * times * X.sum()
    assert len(compiled._parts) <= 1
    with K.record() as runs:
        compiled(values)
    assert len(runs) == 1 and compiled.records is runs[0]


def test_what_is_needed_and_missing_is_named() -> None:
    inputs, outputs = _with_targets()
    compiled = K.function(inputs, outputs, name="step")
    for values, count in (([X], 1), ([None], 0), ([X, None, np.ones(2)], 2), ([], 0)):
        with pytest.raises(K.FeedError) as caught:
            compiled(values)
        assert (
            f"step: takes 4 values (x, y, w, keras_learning_phase), got {count}; placeholder"
            in (str(caught.value))
        )
        assert ("'y' float32[?, 1]" if count else "'x' float32[?, 3]") in str(caught.value)
    with pytest.raises(K.FeedError, match=r"got 5$|got 5\n"):
        compiled([X, None, None, 0, 1])
    total = K.variable(0.0)
    with K.control_dependencies([K.update_add(total, K.sum(inputs[1]))]):
        late = K.identity(inputs[0])
    with pytest.raises(K.FeedError, match="placeholder 'y'"):
        K.function(inputs, [late])([X])
    assert value(total) == 0.0


def test_a_tensor_that_is_given_no_value_is_computed() -> None:
    x = K.placeholder((2,))
    hidden = K.exp(x)
    compiled = K.function([hidden, x], [hidden * 2])
    assert compiled([None, [0.0, 0.0]])[0].tolist() == [2.0, 2.0]
    assert compiled([[3.0, 4.0]])[0].tolist() == [6.0, 8.0]
    v = K.variable(2.0)
    assert K.function([v], [v * v])([])[0] == 4.0


def test_lists_of_arrays_are_values_where_they_fit() -> None:
    x, y = K.placeholder((None, 2)), K.placeholder((None, 2))
    rows = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    compiled = K.function([x, y], [x, y])
    for values in ((rows, rows), [rows, rows]):
        assert [one.tolist() for one in compiled(values)] == [[[1.0, 2.0], [3.0, 4.0]]] * 2


def test_outputs_may_repeat_or_be_absent() -> None:
    x = K.placeholder(())
    y = x * 2
    assert K.function([x], [])([1.0]) == []
    assert [one.item() for one in K.function([x], [y, y, x])([1.0])] == [2.0, 2.0, 1.0]


def test_results_are_arrays_of_the_static_dtype() -> None:
    x = K.placeholder((), dtype="float16")
    for out in K.function([x], [x, x * 2, K.sum(x), K.cast(x, "int8"), x > 0])([1.5]):
        assert type(out) is np.ndarray
    assert K.eval(3).dtype == "int32"
    assert K.eval([1.0, 2.0]).dtype == "float32"


def test_session_run_keeps_the_structure() -> None:
    x, v = K.placeholder((2,)), K.variable(3.0)
    with K.get_session() as session:
        got = session.run({"a": x * v, "b": [v, (x,)]}, feed_dict={x: [1, 2]})
    assert got["a"].tolist() == [3.0, 6.0]
    assert isinstance(got["b"], list) and isinstance(got["b"][1], tuple)
    session = type(K.get_session())()
    K.set_session(session)
    assert K.get_session() is session


def test_eval_with_feeds() -> None:
    x, v = K.placeholder((2,)), K.variable([1.0, 1.0])
    assert (x + v).eval(feed_dict={x: [1, 2]}).tolist() == [2.0, 3.0]
    assert (x + v).eval(K.get_session(), {x: [1, 2], v: [5, 5]}).tolist() == [6.0, 7.0]


# ------------------------------------------------------------------ branches and the phase


def test_only_the_side_taken_is_evaluated() -> None:
    n = K.placeholder((), dtype="int32")
    chosen = K.switch(n > 0, 100 // n, lambda: n - 1)
    compiled = K.function([n], [chosen])
    assert compiled([0])[0] == -1  # the other side would divide by zero
    assert compiled([7])[0] == 14
    with K.record() as runs:
        compiled([7])
    forms = [step.form for step in runs[0].steps]
    assert forms.count("not taken") >= 1


def _forms(runs: list[Any]) -> list[str]:
    return [step.form for step in runs[0].steps]


def test_a_flag_is_planned_for_each_of_its_values() -> None:
    flag, x = K.placeholder((), dtype="bool"), K.placeholder((3,))
    chosen = K.switch(flag, K.exp(x) + 1.0, K.sin(x) * 2.0) * 0.5
    compiled = K.function([flag, x], [chosen, K.cast(flag, "float32"), flag])
    value, fed = np.array([0.1, 0.2, 0.3], np.float32), np.array(True)
    taken = {True: (np.exp(value) + 1) / 2, False: np.sin(value)}
    for wanted in (True, True, False, True, False, False):
        fed[()] = wanted  # the same array, with another value
        with K.record() as runs:
            found, number, given = compiled([fed, value])
        np.testing.assert_allclose(found, taken[wanted], 1e-6)
        assert (number, given) == (float(wanted), wanted)
        assert given is not fed and "not taken" not in _forms(runs)
    assert sorted(key[-1] for key in compiled._executables) == [False, True]
    with pytest.raises(FeedError, match="bool\\[\\], made at .* but the value has shape \\[2\\]"):
        compiled([np.array([True, False]), value])


def test_many_flags_are_looked_at_in_each_run() -> None:
    flags = [K.placeholder((), dtype="bool") for _ in range(4)]
    total = K.constant(0.0)
    for number, flag in enumerate(flags):
        total = total + K.switch(flag, K.constant(2.0**number) * 1.0, K.constant(0.0) * 1.0)
    compiled = K.function(flags, [total])
    for value in range(16):
        assert compiled([bool(value >> one & 1) for one in range(4)])[0] == value
    assert len(compiled._executables) == 1


@pytest.mark.parametrize("jit", ["off", "wait"])
def test_a_flag_that_a_loop_reads(jit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One from outside stays as it is for all steps; one of the steps' own does not."""
    monkeypatch.setenv("KBENCH_JIT", jit)
    flag, x = K.placeholder((), dtype="bool"), K.placeholder((2, 5, 3))
    turns = K.placeholder((5,), dtype="bool")
    start = [K.zeros((2, 3))]

    def outside(now: Any, states: Any) -> Any:
        out = K.switch(flag, states[0] + now, states[0] - 2.0 * now)
        return out, [out]

    def inside(total: Any, turn: Any) -> Any:
        return K.switch(turn, total + 1.0, total * 3.0)

    compiled = K.function(
        [flag, x, turns],
        [K.rnn(outside, x, start)[0], K.foldl(inside, turns, K.constant(0.0))],
    )
    value = np.random.default_rng(0).normal(0, 1, (2, 5, 3)).astype(np.float32)
    for fed in (True, False, True):
        for turning in ([True] * 5, [False, True, True, False, True]):
            last, total = compiled([fed, value, np.array(turning)])
            np.testing.assert_allclose(last, value.sum(1) * (1 if fed else -2), 1e-5, 1e-5)
            wanted = 0.0
            for turn in turning:
                wanted = wanted + 1 if turn else wanted * 3
            assert total == wanted


def test_the_sides_may_differ_in_size() -> None:
    flag, x = K.placeholder((), dtype="bool"), K.placeholder((None, 2))
    chosen = K.switch(flag, K.exp(x), K.exp(x[:1]))
    (gradient,) = K.gradients(chosen, x)
    compiled = K.function([flag, x], [chosen, K.sum(chosen * 2), gradient])
    assert K.int_shape(chosen) == (None, 2)
    long, total, whole = compiled([True, np.zeros((3, 2))])
    assert (long.shape, total.item(), whole.tolist()) == ((3, 2), 12.0, [[1.0, 1.0]] * 3)
    short, total, part = compiled([False, np.zeros((3, 2))])
    assert (short.shape, total.item()) == ((1, 2), 4.0)
    assert part.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


def test_nested_branches() -> None:
    n = K.placeholder((), dtype="int32")
    inner = K.switch(n > 10, n * 100, 10 // n)
    compiled = K.function([n], [K.switch(n > 0, inner, n), inner * 0 + n])
    assert K.function([n], [K.switch(n > 0, inner, n)])([0])[0] == 0
    assert [one.item() for one in compiled([20])] == [2000, 20]
    assert [one.item() for one in compiled([5])] == [2, 5]


def test_a_phase_that_is_fed_again_is_fed_to_the_flag_that_graphs_know() -> None:
    flag = K.learning_phase()
    run = K.function([flag], [K.in_train_phase(K.constant(1.0), K.constant(2.0))])
    config.assign("learning_phase", 1)
    config.assign("learning_phase", None)
    assert K.learning_phase() is flag
    assert [float(run([phase])[0]) for phase in (0, 1)] == [2.0, 1.0]


def test_the_learning_phase_is_fed_or_zero() -> None:
    x = K.placeholder((2,))
    y = K.in_train_phase(x * 2, x + 1)
    assert (y * 1)._uses_learning_phase and not x._uses_learning_phase
    assert K.function([x], [y])([[1, 2]])[0].tolist() == [2.0, 3.0]
    compiled = K.function([x, K.learning_phase()], [y])
    assert compiled([[1, 2], 1])[0].tolist() == [2.0, 4.0]
    assert compiled([[1, 2], 0])[0].tolist() == [2.0, 3.0]
    assert K.function([x, K.learning_phase()], [K.in_test_phase(x, y)])([[1, 2], True])


# ------------------------------------------------------------------ threads, interrupts, records


def run_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    barrier = threading.Barrier(count)

    def start(index: int) -> Any:
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(start, range(count)))


def test_one_function_from_many_threads() -> None:
    x, v = K.placeholder((None,)), K.variable(0.0)
    compiled = K.function([x], [K.exp(x) * 2, v], updates=[K.update_add(v, 1.0)])

    def work(index: int) -> bool:
        fed = np.full(10 + index, float(index), "float32")
        results = [compiled([fed])[0] for _ in range(50)]
        return all(np.allclose(one, 2 * np.exp(fed), 1e-5) for one in results)

    assert all(run_threads(6, work))
    assert value(v) == 300.0


def test_several_functions_lose_no_update() -> None:
    v = K.variable(0.0)
    functions = [K.function([], [], updates=[K.update_add(v, 1.0)]) for _ in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns in the middle of a call
    try:
        run_threads(4, lambda index: [functions[index]([]) for _ in range(100)])
    finally:
        sys.setswitchinterval(before)
    assert value(v) == 400.0


def test_building_and_setting_from_many_threads() -> None:
    v = K.variable(np.zeros(100))

    def work(index: int) -> bool:
        seen = []
        for number in range(30):
            with K.name_scope(f"thread{index}"):
                tensor = K.sum(v * 0) + float(number)
            seen.append(tensor.name.startswith(f"thread{index}/") and K.eval(tensor) == number)
            K.set_value(v, np.full(100, index, "float32"))
            whole = K.get_value(v)
            seen.append(bool((whole == whole[0]).all()))
        return all(seen)

    assert all(run_threads(6, work))
    assert v.version == 180


def test_an_interrupt_stops_a_long_run_and_stores_nothing() -> None:
    v, x = K.variable(1.0), K.placeholder((None,))
    y = x
    for _ in range(400):
        y = K.sin(K.cumsum(y, 0) * 1e-6)
    compiled = K.function([x], [y], updates=[K.update_add(v, 1.0)])
    fed = np.ones(1_000_000, "float32")
    asked: list[float] = []

    def ask() -> None:
        asked.append(time.perf_counter())
        cancel.request()

    timer = threading.Timer(0.3, ask)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            compiled([fed])
        assert time.perf_counter() - asked[0] < 1  # 0.1 on a machine with nothing else to do
    finally:
        timer.cancel()
        cancel.clear()
    assert (value(v), v.version) == (1.0, 0)
    assert K.function([], [v * 2])([])[0] == 2.0


def test_records_tell_what_ran() -> None:
    x = K.placeholder((None, 100), name="x")
    compiled = K.function([x], [K.dot(x, K.transpose(x)), K.transpose(x)], name="gram")
    with K.record() as runs:
        compiled([np.ones((50, 100))])
    (run,) = runs
    assert run.function == "gram"
    assert run.seconds >= sum(step.seconds for step in run.steps) > 0
    assert {step.form for step in run.steps} == {"blas", "view"}
    product = next(step for step in run.steps if step.form == "blas")
    assert (product.shape, product.dtype) == ((50, 50), "float32")
    assert product.flops == 2 * 50 * 50 * 100
    assert product.place is not None and product.place.file == __file__


def test_recording_is_off_when_nobody_listens() -> None:
    assert not profile.is_recording()
    seen: list[Any] = []
    forget = profile.run_finished.subscribe(seen.append)
    try:
        assert profile.is_recording()
        K.eval(K.variable(1.0) * 2)
    finally:
        forget()
    assert not profile.is_recording()
    assert [run.function for run in seen] == ["eval"]


def test_only_what_has_kernels_waits_to_be_replayed():
    x = K.placeholder((3, 3))
    small, products = x, x
    for _ in range(4):
        small, products = K.tanh(small) + 1.0, K.dot(products, x)
    for node, is_replayed in ((small, False), (products, True)):
        executable = K.function([x], [node]).bound([np.eye(3, dtype="float32")])
        assert (executable._replay_policy is not None) is is_replayed
