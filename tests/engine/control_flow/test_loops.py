"""Loops beyond the op table: what a step may hold, what is kept, what is left out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sampling import every

from kbench import backend as K
from kbench.engine.control_flow.loop_op import LOOP
from kbench.engine.core import cancel
from kbench.engine.graph.traverse import walk
from kbench.engine.runtime import profile

UNITS = 2


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape) * 0.5


def variable(*shape: int) -> Any:
    return K.variable(random(*shape), dtype="float64")


def lstm(w: Any, u: Any, b: Any) -> Callable[..., Any]:
    def step(x: Any, states: Any) -> Any:
        h, c = states
        z = K.dot(x, w) + K.dot(h, u) + b
        i, f, g, o = (z[:, k * UNITS : (k + 1) * UNITS] for k in range(4))
        c = K.sigmoid(f) * c + K.sigmoid(i) * K.tanh(g)
        h = K.sigmoid(o) * K.tanh(c)
        return h, [h, c]

    return step


def lstm_results(known: bool, masked: bool, **options: Any) -> list[np.ndarray]:
    """Outputs, states, first and second derivatives of an LSTM."""
    x = K.placeholder((3, 5, 4) if known else (None, None, 4), dtype="float64")
    weights = [variable(4, 4 * UNITS), variable(UNITS, 4 * UNITS), variable(4 * UNITS)]
    first = [variable(3, UNITS), variable(3, UNITS)]
    mask = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1, 1, 1, 1, 1]])
    given = K.constant(mask[..., None]) if masked else None
    last, outputs, states = K.rnn(lstm(*weights), x, first, mask=given, **options)
    loss = K.sum(K.square(outputs)) + K.sum(last) * 0.3 + K.sum(K.sin(states[1]))
    targets = [x, *weights, *first]
    slopes = K.gradients(loss, targets)
    bends = K.gradients(sum(K.sum(K.square(one)) for one in slopes), targets)
    return K.function([x], [last, outputs, *states, *slopes, *bends])([random(3, 5, 4)])


@pytest.mark.parametrize("masked", [False, True], ids=["whole", "masked"])
@pytest.mark.parametrize("go_backwards", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("known", every(2, [False, True]), ids=["unknown", "known"])
def test_a_loop_equals_its_unrolled_graph(known: bool, masked: bool, go_backwards: bool) -> None:
    options = {"go_backwards": go_backwards}
    looped = lstm_results(known, masked, **options)
    unrolled = lstm_results(known, masked, unroll=True, input_length=5, **options)
    for got, wanted in zip(looped, unrolled, strict=True):
        assert_allclose(got, wanted, 1e-10, 1e-12)


def test_the_step_is_called_once_and_runs_as_often_as_there_are_times() -> None:
    calls = []

    def step(x: Any, states: Any) -> Any:
        calls.append(x)
        return x + states[0], [x + states[0]]

    x = K.placeholder((1, None, 1))
    last, _, _ = K.rnn(step, x, [K.zeros((1, 1))])
    run = K.function([x], [last])
    assert [run([np.ones((1, n, 1))])[0].item() for n in (1, 7, 50)] == [1, 7, 50]
    assert len(calls) == 1


# ------------------------------------------------------------------ no steps, sizes, states


@pytest.mark.parametrize("shape", [(2, None, 3), (None, None, 3), (2, 0, 3)])
def test_no_steps(shape: tuple[int | None, ...]) -> None:
    x, w = K.placeholder(shape), K.variable(np.ones((3, 3)))
    last, outputs, (state,) = K.rnn(
        lambda e, s: (K.dot(e, w) + s[0], [s[0] + e]), x, [K.ones((2, 3))]
    )
    slopes = K.gradients(K.sum(last) + K.sum(outputs) + K.sum(state), [w, x])
    values = K.function([x], [last, outputs, state, *slopes])([np.zeros((2, 0, 3))])
    assert [one.shape for one in values] == [(2, 3), (2, 0, 3), (2, 3), (3, 3), (2, 0, 3)]
    assert_array_equal(values[0], 0)
    assert_array_equal(values[2], 1)
    assert_array_equal(values[3], 0)


def test_states_of_several_ranks_and_dtypes() -> None:
    x = K.variable(random(2, 4, 3))

    def step(entry: Any, states: Any) -> Any:
        count, total, cube = states
        after = [count + 1, total + K.sum(entry), cube + K.expand_dims(entry)]
        return entry * K.cast(after[0], "float32"), after

    first = [K.constant(0, dtype="int32"), K.constant(0.0), K.zeros((2, 3, 1))]
    _, outputs, (count, total, cube) = K.rnn(step, x, first)
    value = K.get_value(x)
    assert K.eval(count) == 4
    assert_allclose(K.eval(total), value.sum(), 1e-5)
    assert_allclose(K.eval(cube)[..., 0], value.sum(1), 1e-5)
    (slope,) = K.gradients(K.sum(outputs) + total + K.sum(cube), [x])
    assert_allclose(K.eval(slope), np.broadcast_to(np.arange(3.0, 7)[:, None], (2, 4, 3)))


def test_a_state_that_broadcasting_widens() -> None:
    x, first = variable(4, 2, 3), variable(1, 3)
    folded = K.foldl(lambda total, entry: total * entry + 1, x, initializer=first)
    slopes = K.gradients(K.sum(folded), [x, first])
    values = K.function([], [folded, *slopes])([])
    assert [one.shape for one in values] == [(2, 3), (4, 2, 3), (1, 3)]
    assert_allclose(values[2], K.get_value(x).prod(0).sum(0, keepdims=True))


def test_a_state_that_changes_shape_has_values_and_no_gradient() -> None:
    """Found out only when sizes are known; the same with and without compiled loops."""
    x, first = K.placeholder(ndim=2), K.placeholder(ndim=1)
    joined = K.foldl(lambda state, entry: K.concatenate([state, entry]), x, initializer=first)
    arrays = [np.ones((3, 2)), np.zeros(1)]
    assert_array_equal(K.function([x, first], [joined])(arrays)[0], [0, 1, 1, 1, 1, 1, 1])
    slopes = K.function([x, first], K.gradients(K.sum(K.square(joined)), [x, first]))
    with pytest.raises(K.ShapeError, match=r"float32\[1\] at first and float32\[3\] later"):
        slopes(arrays)


def test_constants_nested_inputs_and_time_major() -> None:
    a, c = K.variable(np.ones((3, 2, 4))), K.variable(np.full((2, 4), 3.0))

    def step(entry: Any, states: Any) -> Any:
        total = states[0] + entry["a"] * states[1] - entry["b"][0]
        return total, [total]

    inputs = {"a": a, "b": (a * 2,)}
    last, outputs, (state,) = K.rnn(
        step, inputs, [K.zeros((2, 4))], constants=[c], time_major=True, return_all_outputs=False
    )
    assert K.int_shape(outputs) == (1, 2, 4)
    assert_array_equal(K.eval(outputs)[0], K.eval(last))
    assert_array_equal(K.eval(K.gradients(K.sum(state), [c])[0]), 3)
    assert_array_equal(K.eval(last), 3)


def test_nested_structures() -> None:
    a, b = K.variable(np.arange(3.0)), K.variable(np.arange(6.0).reshape(3, 2))
    mapped = K.map_fn(lambda e: {"s": e["a"] + K.sum(e["b"]), "p": (e["b"] * 2,)}, {"a": a, "b": b})
    assert_array_equal(K.eval(mapped["s"]), [1, 6, 11])
    assert_array_equal(K.eval(mapped["p"][0]), K.get_value(b) * 2)
    total, product = K.foldr(
        lambda acc, e: (acc[0] + e, acc[1] * e), a + 1, (K.constant(0.0), K.constant(1.0))
    )
    assert (K.eval(total), K.eval(product)) == (6, 6)
    assert_array_equal(K.eval(K.map_fn(lambda e: e * e, [1.0, 2.0])), [1, 4])
    cast = K.map_fn(lambda e: e * 1.7, K.constant([1.0, 2.0]), dtype="int32", name="whole")
    assert (K.dtype(cast), K.eval(cast).tolist()) == ("int32", [1, 3])


# ------------------------------------------------------------------ what a step may hold


def test_random_numbers_are_new_in_each_step_and_the_same_in_the_gradient() -> None:
    x, w = K.variable(np.ones((2, 6, 3))), K.variable(2.0)

    def step(entry: Any, states: Any) -> Any:
        kept = K.dropout(entry * w, 0.5)
        return kept, [states[0] + kept]

    _, outputs, _ = K.rnn(step, x, [K.zeros((2, 3))])
    slope = K.gradients(K.sum(K.square(outputs)), [w])[0]
    to_input = K.gradients(K.sum(outputs), [x])[0]
    run = K.function([], [outputs, slope, to_input])
    value, by_weight, by_input = run([])
    assert_allclose(by_weight, np.square(value).sum(), 1e-5)
    assert_array_equal(by_input != 0, value != 0)
    assert len({tuple(value[:, time].ravel()) for time in range(6)}) > 1
    assert not np.array_equal(run([])[0], value)


def test_random_numbers_from_outside_are_one_value() -> None:
    noise = K.random_uniform((2, 3))
    outputs = K.rnn(lambda entry, _: (entry * noise, []), K.ones((2, 4, 3)), [])[1]
    value = K.eval(outputs)
    assert all(np.array_equal(value[:, 0], value[:, time]) for time in range(4))


def test_branches_loops_and_gradients_within_a_step() -> None:
    x = variable(4, 3)
    value = K.get_value(x)
    rooted = K.map_fn(lambda e: K.switch(e > 0, lambda: K.sqrt(e), lambda: e * 2), x[:, 0])
    expected = np.where(value[:, 0] > 0, np.sqrt(np.abs(value[:, 0])), 2 * value[:, 0])
    assert_allclose(K.eval(rooted), expected)
    inner = K.map_fn(lambda row: K.foldl(lambda total, e: total * 0.5 + e * row[0], row), x)
    reference = []
    for row in value:
        total = row[0]
        for entry in row[1:]:
            total = total * 0.5 + entry * row[0]
        reference.append(total)
    assert_allclose(K.eval(inner), reference)
    cubes = K.map_fn(lambda row: K.gradients(K.sum(row**3), row)[0], x)
    assert_allclose(K.eval(cubes), 3 * value**2)
    assert_allclose(K.eval(K.gradients(K.sum(cubes), [x])[0]), 6 * value)


def test_the_learning_phase_reaches_a_step() -> None:
    outputs = K.rnn(lambda e, _: (K.in_train_phase(e * 2, e), []), K.ones((2, 3, 2)), [])[1]
    run = K.function([K.learning_phase()], [outputs])
    assert outputs._uses_learning_phase
    assert (run([1])[0] == 2).all()
    assert (run([0])[0] == 1).all()


def test_an_error_within_a_step_is_told_where_the_step_made_it() -> None:
    w = variable(5, 2)
    with pytest.raises(K.ShapeError) as caught:
        K.rnn(lambda entry, _: (K.dot(entry, w), []), variable(2, 3, 4), [])
    assert caught.value.function == "dot"
    assert [one.spec for one in caught.value.operands] == ["float64[2, 4]", "float64[5, 2]"]


def test_shapes_that_a_step_asks_for_may_be_unknown() -> None:
    x = K.placeholder((None, None, 4))

    def step(entry: Any, _: Any) -> Any:
        square = K.reshape(entry, (K.shape(entry)[0], 2, 2))
        return K.batch_flatten(K.batch_dot(square, square)), []

    outputs = K.rnn(step, x, [])[1]
    assert K.function([x], [outputs])([np.ones((3, 2, 4))])[0].shape == (3, 2, 4)


# ------------------------------------------------------------------ what is run


def loops_of(*roots: Any) -> list[Any]:
    plan = K.function([], list(roots)).plan
    return [node for node in walk(plan.roots) if node.op is LOOP]


def test_what_nobody_reads_is_left_out() -> None:
    x, w = variable(2, 3, 4), variable(4, 4)

    def step(entry: Any, states: Any) -> Any:
        return K.dot(entry, w) + states[0], [states[0] + 1, states[1] + entry]

    last, outputs, states = K.rnn(step, x, [variable(2, 4), variable(2, 4)])
    (alone,) = loops_of(states[0])
    assert (len(alone.attrs["body"].states), len(alone.attrs["emits"])) == (1, 0)
    assert w not in alone.inputs
    (stacked,) = loops_of(outputs)
    assert (len(stacked.attrs["body"].states), len(stacked.attrs["emits"])) == (1, 1)
    slope = K.gradients(K.sum(K.square(last)), [w])[0]
    assert len(loops_of(last, outputs, slope)) == 2, "one forwards, one backwards"


def test_a_loop_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is interpreted; compiled ones are stopped by test_scan."""
    monkeypatch.setenv("KBENCH_JIT", "off")
    last = K.rnn(
        lambda e, s: (e + s[0], [e + s[0]]), K.zeros((1, 2_000_000, 1)), [K.zeros((1, 1))]
    )[0]
    timer = threading.Timer(0.3, cancel.request)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        K.eval(last)
    timer.join()


def test_a_loop_is_one_step_of_a_record() -> None:
    last = K.rnn(lambda e, s: (e + s[0], [e + s[0]]), K.ones((1, 9, 1)), [K.zeros((1, 1))])[0]
    with profile.record() as runs:
        K.function([], [last])([])
    steps = [step for run in runs for step in run.steps]
    assert [step.form for step in steps if step.label == "loop"] == ["loop"]
    assert len(runs) == 1


def test_threads_run_one_function() -> None:
    x = K.placeholder((2, 3, 2))
    outputs = K.rnn(lambda e, s: (e + s[0], [e + s[0]]), x, [K.zeros((2, 2))])[1]
    run, wrong = K.function([x], [outputs]), []

    def work(number: float) -> None:
        for _ in range(30):
            value = run([np.full((2, 3, 2), number)])[0]
            if not np.array_equal(value[0, :, 0], number * np.arange(1, 4)):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(float(one),)) for one in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
