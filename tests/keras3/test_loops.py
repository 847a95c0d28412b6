"""Loops of a traced step: one operation instead of every round, with the same values."""

import keras3_there  # noqa: F401  # isort: skip
import re

import keras
import numpy as np
import pytest
from keras import ops

from kbench import backend as K
from kbench.api.operations import KbenchError
from kbench.keras3.control import loops
from kbench.keras3.core import traced
from kbench.keras3.gradients import gradients
from kbench.keras3.tensor import Traced

DRAW = np.random.RandomState(3)
X = DRAW.uniform(-0.5, 0.5, (20, 4)).astype("float32")
W = DRAW.uniform(-0.5, 0.5, (4, 4)).astype("float32")
STEP = 1e-6
"""How far operands in float64 are moved: the error of a central difference is about its square."""


def _recurrent(x, w):
    def step(carry, row):
        carry = ops.tanh(ops.matmul(carry, w) + row)
        return carry, ops.sum(carry) * row

    return ops.scan(step, ops.zeros((4,)), x)


LOOPS = {  # name -> function of X and W
    "scan": lambda x, w: _recurrent(x, w)[1],
    "scan_carry": lambda x, w: _recurrent(x, w)[0],
    "scan_reverse": lambda x, w: ops.scan(lambda c, row: (c * 0.5 + row, c), w[0], x, reverse=True)[
        1
    ],
    "scan_of_nests": lambda x, w: ops.scan(
        lambda c, v: ({"a": c["a"] + v[0], "b": None}, (v[1], c["a"])),
        {"a": w[0], "b": None},
        (x, x * 2),
    )[1][1],
    "scan_without_entries": lambda x, w: ops.scan(
        lambda c, _: (ops.matmul(c, w), c), x[0], length=12
    )[1],
    "scan_without_results": lambda x, w: ops.scan(lambda c, v: (c + v, None), w[0], x)[0],
    "fori_loop": lambda x, w: ops.fori_loop(0, 20, lambda i, v: v * 0.9 + x[i], w[0]),
    "fori_loop_of_part": lambda x, w: ops.fori_loop(
        3, 15, lambda i, v: v + ops.cast(i, "float32") * x[i], w[0]
    ),
    "map": lambda x, w: ops.map(lambda row: ops.matmul(row, w), x),
    "vectorized_map": lambda x, w: ops.vectorized_map(lambda row: ops.matmul(w, row), x),
    "while_loop": lambda x, w: ops.while_loop(
        lambda i, v: ops.sum(v) < 30.0,
        lambda i, v: (i + 1, v * 1.5),
        (0, ops.abs(x[0]) + ops.abs(w[0])),
        maximum_iterations=40,
    )[1],
}


def _value(function, arrays):
    nodes = [K.placeholder(array.shape, dtype="float32") for array in arrays]
    with traced():
        found = function(*[Traced(node) for node in nodes])
    return K.function(nodes, [found.node])(list(arrays))[0], found.node


def _size(root):
    seen, left = set(), [root]
    while left:
        node = left.pop()
        if id(node) not in seen:
            seen.add(id(node))
            left += node.inputs
    return len(seen)


def _slopes(function):
    variables = [keras.Variable(array) for array in (X, W)]
    return gradients(lambda: ops.sum(ops.square(function(*variables))), variables)


@pytest.mark.parametrize("name", LOOPS)
def test_one_loop_gives_what_its_rounds_give(name, monkeypatch):
    function = LOOPS[name]
    found, node = _value(function, (X, W))
    slopes = _slopes(function)
    np.testing.assert_allclose(found, function(X, W), rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(loops, "MIN_ROUNDS", 1000)
    laid_out, long = _value(function, (X, W))
    assert _size(node) < _size(long)
    np.testing.assert_allclose(found, laid_out, rtol=1e-5, atol=1e-6)
    for one, other in zip(slopes, _slopes(function), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_seeds_that_move_on_differ_from_round_to_round():
    seed = keras.random.SeedGenerator(4)
    model = keras.Sequential([keras.Input((4,)), _Noisy(seed)])
    found = model.predict(X[:2], verbose=0)
    assert len(np.unique(found.round(6))) == found.size


class _Noisy(keras.layers.Layer):
    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def call(self, x):
        def body(i, value):
            return value + keras.random.uniform(value.shape, seed=self.seed)

        return ops.fori_loop(0, 10, body, x * 0.0)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


def _until_large(x, w):
    return ops.while_loop(
        lambda i, v: ops.sum(v) < 1e6,
        lambda i, v: (i + 1, v * 2 + ops.abs(w[0])),
        (0, ops.abs(x[0])),
    )


@pytest.mark.parametrize("part", [0, 1])
def test_while_loop_runs_as_often_as_its_condition_holds(part):
    eager = _until_large(X, W)[part]
    found, _ = _value(lambda x, w: _until_large(x, w)[part], (X, W))
    np.testing.assert_allclose(found, eager, rtol=1e-5)


def test_while_loop_of_one_value_may_run_no_round():
    def halved(x, w):
        return ops.while_loop(lambda v: ops.max(v) > 1, lambda v: v / 2, x)

    np.testing.assert_array_equal(_value(halved, (X, W))[0], X)
    found, _ = _value(halved, (X * 1000, W))
    assert 0.5 < found.max() <= 1


def test_fori_loop_up_to_a_traced_number():
    def total(x, w):
        return ops.fori_loop(0, ops.cast(w[0, 0] * 0 + 13, "int32"), lambda i, v: v + x[i], w[0])

    np.testing.assert_allclose(_value(total, (X, W))[0], X[:13].sum(0) + W[0], rtol=1e-5)


def _newton(x, w):
    """Square roots of positive numbers, in as many rounds as they need."""
    given = ops.square(w) + 0.5
    return ops.while_loop(
        lambda r: ops.max(ops.abs(r * r - given)) > 1e-6, lambda r: (r + given / r) / 2, given
    )


UNTIL = {  # name -> function of X and W whose loops have no bound
    "until_large": lambda x, w: _until_large(x, w)[1],
    "newton": _newton,
    "no_round": lambda x, w: ops.while_loop(lambda v: ops.sum(v) < -1e9, lambda v: v * w[0], x),
    "reads_what_it_begins_with": lambda x, w: ops.while_loop(
        lambda i, v: i < 5, lambda i, v: (i + 1, v * w + ops.tanh(w)), (0, w)
    )[1],
    "reads_computed": lambda x, w: (
        lambda h: ops.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, v * h + w), (0, x[:4]))[1]
    )(ops.tanh(w)),
    "two_states": lambda x, w: ops.while_loop(
        lambda a, b: ops.sum(ops.abs(b)) < 50.0,
        lambda a, b: (a + b * b, b * 1.3 + w[0]),
        (x[0], ops.abs(x[1]) + 1.0),
    )[0],
    "state_unread": lambda x, w: ops.while_loop(
        lambda i, v, u: i < 9, lambda i, v, u: (i + 1, v * 0.9, u), (0, x[0], w[0])
    )[2],
    "fori_loop_up_to_a_traced_number": lambda x, w: ops.fori_loop(
        0, ops.cast(x[0, 0] * 0 + 13, "int32"), lambda i, v: ops.tanh(v + x[i] * w[1]), w[0]
    ),
    "within_a_map": lambda x, w: ops.map(
        lambda row: ops.while_loop(
            lambda v: ops.sum(v) < 9.0, lambda v: v * 1.5 + ops.abs(w[0]), ops.abs(row)
        ),
        x,
    ),
}


@pytest.mark.parametrize("name", UNTIL)
def test_while_loop_without_a_bound_has_a_gradient(name, float64):
    function = UNTIL[name]
    np.testing.assert_allclose(_value(function, (X, W))[0], function(X, W), rtol=1e-5, atol=1e-6)
    arrays = [array.astype("float64") for array in (X, W)]
    variables = [keras.Variable(array, dtype="float64") for array in arrays]
    slopes = gradients(lambda: ops.sum(ops.square(function(*variables))), variables)
    for place, (array, found) in enumerate(zip(arrays, slopes, strict=True)):
        along = np.random.RandomState(place).uniform(-1, 1, array.shape)
        ends = []
        for sign in (1, -1):
            moved = [*arrays]
            moved[place] = array + sign * STEP * along
            ends.append(np.sum(np.square(function(*moved))))
        wanted = (ends[0] - ends[1]) / (2 * STEP)
        np.testing.assert_allclose(np.sum(found * along), wanted, rtol=1e-6, atol=1e-6)


def test_the_gradient_of_a_while_loop_has_a_gradient():
    bounded = lambda x: ops.while_loop(  # noqa: E731
        lambda i, v: i < 6, lambda i, v: (i + 1, ops.sin(v) * x[0]), (0, x), maximum_iterations=9
    )[1]
    free = lambda x: ops.while_loop(  # noqa: E731
        lambda i, v: ops.cast(i, "float32") < 6 + x[0, 0] * 0,
        lambda i, v: (i + 1, ops.sin(v) * x[0]),
        (0, x),
    )[1]
    bends = []
    for function in (bounded, free):
        node = K.placeholder(X.shape, dtype="float32")
        with traced():
            total = ops.sum(function(Traced(node)))
        slope = K.gradients(total.node, [node])[0]
        bends.append(K.function([node], K.gradients(K.sum(K.square(slope)), [node]))([X])[0])
    np.testing.assert_allclose(*bends, rtol=1e-4, atol=1e-6)


def test_while_loop_without_a_bound_keeps_shapes():
    with pytest.raises(NotImplementedError, match="keep shapes and dtypes"):
        _value(
            lambda x, w: ops.while_loop(
                lambda v: ops.sum(v) < 9, lambda v: ops.concatenate([v, v]), x[0]
            ),
            (X, W),
        )


RATES = [0.5 + 0.01 * i for i in range(20)]
LAID_OUT = {  # name -> function of X and W, why it is laid out, by the log
    "list": (
        lambda x, w: ops.fori_loop(0, 20, lambda i, v: v * RATES[i] + x[i], w[0]),
        r"20 rounds of .*<lambda> \(.*test_loops.py:\d+\) .*int32\[\]> has no value",
    ),
    "array": (
        lambda x, w: ops.fori_loop(0, 20, lambda i, v: v * np.array(RATES, "float32")[i], x[0]),
        "has no value",
    ),
    "branch": (
        lambda x, w: ops.fori_loop(0, 20, lambda i, v: v + x[i] if i % 2 else v * 0.9, w[0]),
        "has no value",
    ),
    "attribute": (
        lambda x, w: ops.fori_loop(0, 20, lambda i, v: v + x[i.item()], w[0]),
        "no attribute 'item'",
    ),
    "numpy": (
        lambda x, w: ops.fori_loop(0, 20, lambda i, v: v + x[np.max(i)], w[0]),
        "keras.ops has functions of symbols",
    ),
    "shape": (
        lambda x, w: ops.fori_loop(0, 10, lambda i, v: ops.concatenate([v, x[0]]), w[0]),
        r"float32\[4\] before a round and float32\[8\] after it",
    ),
    "dtype": (
        lambda x, w: ops.fori_loop(0, 10, lambda i, v: v + x[0], ops.cast(w[0], "int32")),
        r"int32\[4\] before a round and float32\[4\] after it",
    ),
    "count": (
        lambda x, w: ops.scan(lambda c, v: ((v, v) if c[1] is None else c, v), (w[0], None), x)[1],
        "not as many",
    ),
    "places": (
        lambda x, w: ops.fori_loop(
            0, 10, lambda i, v: v + ops.sum(ops.nonzero(ops.arange(3) + i)[0]), x[0]
        ),
        "not known in a traced step",
    ),
    "number": (lambda x, w: ops.map(lambda row: (row, 1.0), x)[0], "of type float"),
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_the_log_says_why_a_loop_is_laid_out(name, caplog):
    function, reason = LAID_OUT[name]
    with caplog.at_level("DEBUG", "kbench.keras3"):
        found = _value(function, (X, W))[0]
    np.testing.assert_allclose(found, function(X, W), rtol=1e-5, atol=1e-6)
    (entry,) = caplog.messages
    assert re.search(reason, entry)
    assert "are laid out one by one: " in entry
    assert "/" not in entry  # the line is told as errors tell it


def test_a_loop_that_is_one_operation_is_not_in_the_log(caplog):
    with caplog.at_level("DEBUG", "kbench.keras3"):
        _value(LOOPS["scan"], (X, W))
    assert not caplog.messages


def test_a_fault_of_a_body_comes_out(monkeypatch):
    def body(i, value):
        raise KeyError("of the user")

    with pytest.raises(KeyError, match="of the user"):
        _value(lambda x, w: ops.fori_loop(0, 20, body, x), (X, W))
    with pytest.raises(KbenchError, match="matmul|dot"):
        _value(lambda x, w: ops.fori_loop(0, 20, lambda i, v: ops.matmul(v, v), x), (X, W))

    def broken(*_arguments):
        raise RuntimeError("a fault of the engine")

    monkeypatch.setattr(loops.operations, "scan", broken)
    with pytest.raises(RuntimeError, match="a fault of the engine"):
        _value(LOOPS["scan"], (X, W))


NUMBERED = {  # name -> what a body computes of the number of its round, in one operation
    "divmod": lambda i, x: x[0] * divmod(i, 3)[0] + divmod(20, i + 1)[1],
    "shift": lambda i, x: x[0] * (((1 << i) >> 2) + (i << 1)),
    "bits": lambda i, x: x[0] * ((i & 5) | (2 ^ i)),
    "place": lambda i, x: x[i] + x[:, i % 4][0] + x[-i],
}


@pytest.mark.parametrize("name", NUMBERED)
def test_a_round_computes_with_its_number(name, caplog):
    def function(x, w):
        return ops.fori_loop(0, 20, lambda i, v: v * 0.9 + NUMBERED[name](i, x), w[0])

    with caplog.at_level("DEBUG", "kbench.keras3"):
        found, _ = _value(function, (X, W))
    assert not caplog.messages
    np.testing.assert_allclose(found, function(X, W), rtol=1e-4)


def test_an_option_that_is_a_symbol_is_refused():
    with pytest.raises(NotImplementedError, match=r"tril: an argument is <Traced int32\[\]>"):
        _value(lambda x, w: ops.tril(x, k=ops.cast(w[0, 0], "int32")), (X, W))
    with pytest.raises(TypeError, match="has no value while it is traced"):
        _value(lambda x, w: x * float(f"{w[0, 0]:.2f}"), (X, W))
