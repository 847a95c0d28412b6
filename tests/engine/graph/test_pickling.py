"""Tensors, variables and functions through pickle and copy: the copy computes what the first does.

Bit for bit, wherever it is read: in this process, in one that has imported nothing yet.
"""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from case import Row, draw, rows
from cases import CASES
from scipy import sparse

from kbench import backend as K
from kbench.engine.core.errors import ArgumentError
from kbench.engine.graph import pickling, scope

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


@pytest.mark.parametrize("way", WAYS)
def test_graphs_as_deep_as_they_come(way: str) -> None:
    x = K.placeholder((2,))
    y = x
    for _ in range(3_000):
        y = y * 1.0 + x
    x2, y2 = WAYS[way]((x, y))
    equal(K.function([x2], [y2])([np.ones(2, "f")]), K.function([x], [y])([np.ones(2, "f")]))


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


def test_a_new_session_reads_what_an_old_one_wrote() -> None:
    data = pickle.dumps(training())
    scope.clear_session()
    equal(pickle.loads(data)([np.ones((1, 3)), 0])[:1], training()([np.ones((1, 3)), 0])[:1])


def test_bytes_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(K.variable(1.0) * 2.0)
    with pytest.raises(ArgumentError, match="operation 'multuply', which this kbench does not"):
        pickle.loads(data.replace(b"multiply", b"multuply"))
    monkeypatch.setattr(pickling, "FORMAT", 99)
    with pytest.raises(ArgumentError, match="form 1, and this kbench reads form 99"):
        pickle.loads(data)
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(data[:-20])
