"""Tensors, variables and functions through pickle and copy: the copy computes what the first does.

Bit for bit, wherever it is read: in this process, in one that has imported nothing yet.
"""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent import futures
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from case import Row, draw, rows
from cases import CASES
from sampling import every
from scipy import sparse

from kbench import backend as K
from kbench.engine.core.errors import ArgumentError
from kbench.engine.execute import function as function_module
from kbench.engine.execute.function import Function
from kbench.engine.graph import scope

FIRST = list({row.case.name: row for row in reversed(list(rows(CASES)))}.values())
WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "oldest pickle": lambda value: pickle.loads(pickle.dumps(value, 2)),
    "deepcopy": copy.deepcopy,
}


def equal(one: Any, other: Any) -> None:
    for value, right in zip(one, other, strict=True):
        if sparse.issparse(right):
            value, right = value.toarray(), right.toarray()
        assert value.dtype == right.dtype
        np.testing.assert_array_equal(value, right)


@pytest.fixture(autouse=True)
def _on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_JIT", "off")


@pytest.mark.parametrize("row", FIRST, ids=lambda row: row.case.name)
def test_every_operation(row: Row) -> None:
    random, case = np.random.default_rng(7), row.case
    arrays = [
        draw(random, shape, case.fixed.get(place, case.dtypes[0]), row.domain(place))
        for place, shape in enumerate(row.shapes)
    ]
    inputs = [K.placeholder(one.shape, dtype=one.dtype.name) for one in arrays]
    results = row.case.symbolic(*inputs, **row.options)
    floats = [one for one in results if K.dtype(one).startswith("float")]
    slopes = K.gradients(K.sum(floats[0]), inputs) if floats else []
    step = K.function(inputs, [*results, *(one for one in slopes if one is not None)])
    twin = WAYS["pickle"](step)
    assert [str(one.spec) for one in twin.outputs] == [str(one.spec) for one in step.outputs]
    for _ in range(2):  # random numbers go on alike
        equal(twin(arrays), step(arrays))


def training(name: str = "train") -> Any:
    x, w = K.placeholder((None, 3), name="x"), K.variable(np.ones((3, 2)), name="w")
    y = K.dropout(K.relu(K.dot(x, w)), 0.4, seed=3)
    loss = K.in_train_phase(K.sum(y * y), K.mean(y))
    (slope,) = K.gradients(loss, [w])
    flag = K.learning_phase()
    return K.function([x, flag], [loss, slope], [K.update_sub(w, 0.1 * slope)], name=name)


@pytest.mark.parametrize("way", WAYS)
def test_functions_go_on_alike_and_apart(way: str) -> None:
    step, x = training(), np.arange(6.0, dtype="float32").reshape(2, 3)
    step([x, 1])
    twin = WAYS[way](step)
    assert twin.name == "train" and repr(twin) == repr(step)
    for number in range(4):
        equal(twin([x, number % 2]), step([x, number % 2]))
    before = step.updates[0].target.get_value()
    twin([x, 1])
    np.testing.assert_array_equal(step.updates[0].target.get_value(), before)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_shared_stays_shared(way: str) -> None:
    x, w = K.placeholder((2,)), K.variable([1.0, 2.0])
    y = x * w
    given = {"all": [x, w, y, K.exp(y)], "step": K.function([x], [y])}
    made = WAYS[way](given)
    x2, w2, y2, exp2 = made["all"]
    assert y2.inputs[0] is x2 and y2.inputs[1] is w2 and exp2.inputs[0] is y2
    assert made["step"].inputs[0] is x2
    w2.set_value([5.0, 7.0])
    np.testing.assert_array_equal(made["step"]([np.ones(2)])[0], [5.0, 7.0])
    np.testing.assert_array_equal(w.get_value(), [1.0, 2.0])
    found = K.function([x2], K.gradients(K.sum(exp2), [x2]))([np.zeros(2)])
    np.testing.assert_array_equal(found[0], [5.0, 7.0])


def test_a_copy_of_one_node_has_its_operands() -> None:
    w = K.variable([1.0])
    y = w * 2.0
    twin = copy.copy(y)
    assert twin is not y and twin.inputs == y.inputs
    held = copy.copy(w)
    held.set_value([9.0])
    assert K.get_value(w) == 1.0


def test_names_places_and_rules_stay() -> None:
    x = K.placeholder((None, 4), name="x")
    y = K.softmax(x, axis=-1) + 1.0
    twin = WAYS["pickle"](y)
    assert (twin.name, twin.place, twin.called) == (y.name, y.place, y.called)
    assert twin.place is not None and twin.place.file == __file__
    assert twin._keras_shape == y._keras_shape and str(twin.spec) == str(y.spec)
    assert not twin._uses_learning_phase
    assert WAYS["pickle"](K.in_train_phase(y, x))._uses_learning_phase


def test_the_learning_phase_is_that_of_the_graph() -> None:
    flag = K.learning_phase()
    x = K.placeholder((2,))
    y = WAYS["pickle"](K.in_train_phase(x * 2.0, x))
    assert WAYS["pickle"](flag) is flag
    (x2,) = [node for node in y.inputs if node.kind == "placeholder" and node is not flag]
    equal(K.function([x2, flag], [y])([np.ones(2, "f"), 1]), [np.full(2, 2, "f")])


@pytest.mark.parametrize(
    "make",
    [
        lambda: K.variable(np.array(2.5), dtype="float64"),
        lambda: K.variable(sparse.random(4, 5, 0.4, "csr", "float32", 1)),
        lambda: K.constant(np.arange(3), dtype="int64"),
        lambda: K.random_uniform_variable((3,), -1.0, 1.0, seed=4),
        lambda: K.rnn(
            lambda a, s: (a + s[0], [a + s[0]]), K.constant(np.ones((2, 4, 3))), [K.zeros((2, 3))]
        )[1],
        lambda: K.map_fn(lambda a: K.foldl(lambda p, q: p * 2.0 + q, a), K.ones((3, 4, 2))),
        lambda: K.map_fn(lambda a: K.sin(a) + K.variable(1.0), K.constant([1.0, 2.0])),
    ],
    ids=["float64", "sparse", "int64", "drawn", "loop", "loop in a loop", "map"],
)  # fmt: skip
@pytest.mark.parametrize("way", WAYS)
def test_values(make: Callable[[], Any], way: str) -> None:
    node = make()
    equal([K.eval(WAYS[way](node))], [K.eval(node)])


@pytest.mark.parametrize("way", every(3, WAYS))
def test_graphs_as_deep_as_they_come(way: str) -> None:
    x = K.placeholder((2,))
    y = x
    for _ in range(3_000):
        y = y * 1.0 + x
    x2, y2 = WAYS[way]((x, y))
    equal(K.function([x2], [y2])([np.ones(2, "f")]), K.function([x], [y])([np.ones(2, "f")]))


@pytest.mark.parametrize("way", every(3, WAYS))
def test_ways_that_leave_most_nodes_out(way: str) -> None:
    """The first operand is two levels below the sum, wherever one counts from."""
    x = K.placeholder((2,))
    y = -x
    for _ in range(1_500):
        y = y + K.relu(y) * 0.001
    x2, y2 = WAYS[way]((x, y))
    equal(K.function([x2], [y2])([np.ones(2, "f")]), K.function([x], [y])([np.ones(2, "f")]))


def test_a_graph_that_is_deep_and_wide_takes_time_by_its_nodes() -> None:
    """Each node's bytes come once, whatever the number of outputs and of stations."""

    def size(count: int) -> int:
        rows = [K.placeholder((2,)) for _ in range(10)]
        for _ in range(count):
            rows = [row * 2.0 + other for row, other in zip(rows, rows[1:] + rows[:1], strict=True)]
        return len(pickle.dumps(K.function(rows[0].inputs[1:], rows), 5)) // count

    assert size(400) < 1.1 * size(100)


def test_after_an_error_all_is_as_before() -> None:
    """What is told within one pickle is told again in the next."""
    x = K.placeholder((2,))
    y = x
    for _ in range(600):
        y = y * 2.0
    data = pickle.dumps(y)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(K.function([x], [K.sum(y + K.variable(1.0, constraint=threading.Lock()))]))
    middle = y
    for _ in range(9):
        middle = middle.inputs[0]
    assert pickle.dumps(middle)[:2] == data[:2]
    assert pickle.dumps(y) == data


def test_equal_functions_are_equal_bytes() -> None:
    step = training()
    first = pickle.dumps(step)
    step.outputs[0].name  # noqa: B018  # what is found when it is asked for
    K.eval(step.updates[0].target)
    assert pickle.dumps(step) == first
    step([np.ones((2, 3)), 1])
    assert pickle.dumps(step) != first  # another value


def test_a_process_that_has_imported_nothing(tmp_path: Path) -> None:
    x = np.arange(6.0, dtype="float32").reshape(2, 3)
    step = training()
    (tmp_path / "step.pickle").write_bytes(pickle.dumps(step))
    np.save(tmp_path / "x.npy", x)
    text = (
        "import pickle, numpy as np\n"
        "step = pickle.load(open('step.pickle', 'rb'))\n"
        "np.savez('out.npz', *step([np.load('x.npy'), 1]), *step([np.load('x.npy'), 0]))\n"
    )
    subprocess.run([sys.executable, "-c", text], cwd=tmp_path, check=True, timeout=120)
    with np.load(tmp_path / "out.npz") as found:
        equal(list(found.values()), [*step([x, 1]), *step([x, 0])])


# ------------------------------------------------------------------ values


def large(count: int = 3, size: int = 1 << 20) -> Any:
    """A function with an update, of variables of 4 MB."""
    weights = [K.variable(np.arange(size, dtype="f")) for _ in range(count)]
    return K.function([], weights, [K.update_add(weights[0], 1.0)])


@pytest.mark.parametrize("tier", every(2, ["off", "wait"]))
def test_buffers_out_of_band(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are neither copied when bytes are made, nor when they are read, nor stored into."""
    monkeypatch.setenv("KBENCH_JIT", tier)
    step, buffers = large(), []
    data = pickle.dumps(step, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 4_000 and len(buffers) == 4
    held = [node.held() for node in step.outputs]
    for buffer, array in zip(buffers, held, strict=False):
        assert np.shares_memory(np.frombuffer(buffer, "f"), array)
    frozen = [bytes(buffer) for buffer in buffers]
    twin = pickle.loads(data, buffers=frozen)
    assert np.shares_memory(twin.outputs[1].held(), np.frombuffer(frozen[1], "f"))
    for number in range(3):
        equal([K.get_value(node) for node in twin.outputs], [array + 0.0 for array in held])
        step([])
        twin([])
        held[0] = held[0] + 1.0
        assert frozen[:3] == [np.arange(1 << 20, dtype="f").tobytes()] * 3, number
    mutable = [bytearray(one) for one in frozen]
    third = pickle.loads(data, buffers=mutable)
    third([])
    assert mutable == frozen


def test_buffers_that_begin_anywhere() -> None:
    step, buffers = large(1, 1000), []
    data = pickle.dumps(step, protocol=5, buffer_callback=buffers.append)
    shifted = [memoryview(b"x" + bytes(one))[1:] for one in buffers]
    (value,) = pickle.loads(data, buffers=shifted)([])
    np.testing.assert_array_equal(value, np.arange(1000))


def test_bytes_are_those_of_the_values_and_little_more() -> None:
    assert len(pickle.dumps(large(), 5)) < 3 * (4 << 20) + 4_000


@pytest.mark.parametrize("number", [0.0, -0.0, 1.5, 7])
def test_arrays_of_one_number_take_no_room(number: float) -> None:
    dtype = "int64" if number == 7 else "float32"
    y = K.constant(number, dtype, shape=(300, 200))
    assert len(pickle.dumps(y, 5)) < 700
    for way in WAYS.values():
        twin = way(y)
        assert twin.value.tobytes() == y.value.tobytes() and not twin.value.flags.writeable
    almost = np.zeros(1000, "f")
    almost[500] = -0.0
    assert WAYS["pickle"](K.constant(almost)).value.tobytes() == almost.tobytes()


def test_what_a_variable_began_with() -> None:
    """Numbers that are drawn, and equal ones, come along; an array of the user's is not kept."""
    drawn = K.variable(K.random_normal((3, 4), seed=2))
    ones = K.variable(K.constant(1.0, shape=(400, 100)))
    given = K.variable(K.constant(np.arange(40_000.0)))
    assert len(pickle.dumps([ones, given], 5)) < 330_000
    for node in (drawn, ones, given):
        node.set_value(np.zeros(node.shape))
    for way in WAYS.values():
        K.get_session().run([way(drawn).initializer])
        twin = way(ones)
        K.get_session().run([twin.initializer])
        np.testing.assert_array_equal(twin.get_value(), np.ones((400, 100)))
        with pytest.raises(ArgumentError, match="not kept"):
            _ = way(given).initializer


def test_a_copy_does_not_change_with_its_original() -> None:
    step = large(1)
    data = [pickle.PickleBuffer(step.outputs[0].held())]
    twin = copy.copy(step.outputs[0])
    for _ in range(3):
        step([])
    assert twin.get_value()[5] == 5.0 and np.frombuffer(data[0], "f")[5] == 5.0


def test_values_are_those_of_one_moment() -> None:
    """Another thread stores to all variables at once, again and again."""
    weights = [K.variable(np.zeros(2_000)) for _ in range(8)]
    step = K.function([], [], [K.update_add(one, 1.0) for one in weights])
    reader = K.function([], weights)
    stopped, seen = threading.Event(), set()

    def train() -> None:
        while not stopped.is_set():
            step([])

    thread = threading.Thread(target=train)
    thread.start()
    try:
        number = 0
        while number < 200 or len(seen) <= 20:  # the storing thread may have had no turn so far
            number += 1
            made = pickle.dumps(reader) if number % 2 else copy.deepcopy(reader)
            twin = pickle.loads(made) if isinstance(made, bytes) else made
            numbers = {float(value) for one in twin([]) for value in one[[0, -1]]}
            assert len(numbers) == 1
            seen |= numbers
    finally:
        stopped.set()
        thread.join()


def test_functions_are_planned_when_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(training())
    plans: list[str] = []
    made = function_module.make_plan
    monkeypatch.setattr(
        function_module, "make_plan", lambda *given: plans.append(given[0]) or made(*given)
    )
    step = pickle.loads(data)
    assert pickle.dumps(step) and repr(step) and not hasattr(step, "nothing") and plans == []
    with futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: step([np.ones((1, 3)), 0])[0], range(8)))
    assert plans == ["train"] and len(found) == 8
    assert step.plan is not None and step.records is None


class Named(Function):
    """A function of a class of its own."""


def test_classes_of_functions_stay() -> None:
    step = K.function([], [K.variable(1.0)])
    step.__class__ = Named
    assert type(WAYS["pickle"](step)) is Named


def test_runs_that_were_recorded() -> None:
    step = training()
    with K.record() as runs:
        step([np.ones((2, 3)), 1])
    for way in WAYS.values():
        assert way(runs) == runs and way(step.records) == runs[-1]
    assert b"built" not in pickle.dumps(runs)


def test_cloudpickle_and_containers() -> None:
    step = training()
    kept = {"step": step, "parts": [step.inputs[0], (step.outputs[1], lambda: step)]}
    twin = pickle.loads(cloudpickle.dumps(kept))
    assert twin["parts"][1][1]() is twin["step"]
    assert twin["step"].inputs[0] is twin["parts"][0]
    equal(twin["step"]([np.ones((2, 3)), 1]), step([np.ones((2, 3)), 1]))


# ------------------------------------------------------------------ other processes and sessions


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_are_started(method: str) -> None:
    step, x = training(), np.arange(6.0, dtype="float32").reshape(2, 3)
    with multiprocessing.get_context(method).Pool(1) as pool:
        found = pool.starmap_async(called, [(step, [x, 1])] * 2).get(100)
    right = step([x, 1])
    for one in found:
        equal(one, right)


def called(step: Any, values: list[Any]) -> Any:
    return step(values)


def test_a_new_session_reads_what_an_old_one_wrote() -> None:
    data = pickle.dumps(training())
    scope.clear_session()
    equal(pickle.loads(data)([np.ones((1, 3)), 0])[:1], training()([np.ones((1, 3)), 0])[:1])
