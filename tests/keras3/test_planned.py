"""Eager calls that keep their plan: as without one, never stale, in memory of their own."""

import keras3_there  # noqa: F401  # isort: skip
import importlib
import threading

import keras
import ml_dtypes  # noqa: F401
import numpy as np
import pytest
from keras import ops

from kbench import backend as K
from kbench.keras3.calls import planned
from kbench.keras3.calls.planned import Plan, Plans, plans
from kbench.keras3.calls.program import programs
from kbench.keras3.gradients import gradients
from kbench.keras3.repairs import COMPOSED

DRAW = np.random.RandomState(11)
X = DRAW.uniform(0.1, 0.9, (4, 6)).astype("float32")
Y = DRAW.uniform(0.1, 0.9, (4, 6)).astype("float32")
IMAGE = DRAW.uniform(0, 1, (2, 6, 6, 3)).astype("float32")
KERNEL = DRAW.uniform(-1, 1, (3, 3, 3, 4)).astype("float32")
HEADS = DRAW.uniform(-1, 1, (2, 5, 2, 4)).astype("float32")
LABELS = np.array([1, 0, 5, 3], "int32")
HOLES = np.where(X > 0.5, np.nan, X).astype("float32")

CALLS = {
    **{
        name: (getattr(ops, name), X)
        for name in (
            "relu relu6 sigmoid softplus silu log_sigmoid leaky_relu hard_sigmoid elu selu celu "
            "gelu glu softmax log_softmax logsumexp squareplus nansum nanmean nanmax ptp "
            "count_nonzero average".split()
        )
    },
    "relu_integers": (ops.relu, LABELS - 2),
    "softmax_axes": (lambda x: ops.softmax(x, axis=(0, 1)), X),
    "softmax_not_contiguous": (lambda x: ops.softmax(x[:, ::2]), X),
    "nanmean_holes": (ops.nanmean, HOLES),
    "nanmax_axis": (lambda x: ops.nanmax(x, axis=1), HOLES),
    "conv": (lambda x, k: ops.conv(x, k, strides=2, padding="same"), IMAGE, KERNEL),
    "depthwise": (ops.depthwise_conv, IMAGE, KERNEL[..., :1]),
    "max_pool": (lambda x: ops.max_pool(x, 2), IMAGE),
    "average_pool": (lambda x: ops.average_pool(x, 3, 1, "same"), IMAGE),
    "where": (lambda x, y: ops.where(x > y, x, y), X, Y),
    "clip": (lambda x: ops.clip(x, 0.2, 0.5), X),
    "one_hot": (lambda x: ops.one_hot(x, 6), LABELS),
    "multi_hot": (lambda x: ops.multi_hot(x, 6), LABELS),
    "crossentropy": (ops.categorical_crossentropy, X, Y),
    "sparse_crossentropy": (ops.sparse_categorical_crossentropy, LABELS, Y),
    "binary_crossentropy": (ops.binary_crossentropy, X, Y),
    "batch_normalization": (
        lambda x, m, v: ops.batch_normalization(x, m, v, axis=-1), X, X[0], Y[0],
    ),
    "layer_normalization": (lambda x, g: ops.layer_normalization(x, g[0], x[0]), X, Y),
    "rms_normalization": (lambda x, g: ops.rms_normalization(x, g[0]), X, Y),
    "resize": (lambda x: ops.image.resize(x, (4, 9)), IMAGE),
    "resize_whole": (lambda x: ops.image.resize(x, (12, 6)), IMAGE),
    "resize_bicubic": (lambda x: ops.image.resize(x, (12, 9), "bicubic"), IMAGE),
    "dropout": (lambda x: keras.random.dropout(x, 0.5, seed=3), X),
    "attention": (lambda x: ops.dot_product_attention(x, x, x, is_causal=True), HEADS),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _forgotten():
    plans.clear()


def _count():
    return sum(type(entry) is Plan for entry in plans.recent.values())


def _unplanned(monkeypatch, function, *arrays):
    with monkeypatch.context() as patch:
        patch.setattr(planned, "_plan_of", lambda *call: None)
        plans.clear()
        found = [function(*arrays) for _ in range(3)][-1]
        assert _count() == 0
    plans.clear()
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("name", CALLS)
def test_a_plan_gives_what_the_call_gives_without_one(name, dtype, monkeypatch):
    function, *arrays = CALLS[name]
    arrays = [x.astype(dtype) if x.dtype.kind == "f" else x for x in arrays]
    before = [x.copy() for x in arrays]
    wanted = _unplanned(monkeypatch, function, *arrays)
    found = [function(*arrays) for _ in range(4)]
    assert _count() > 0
    tolerance = {"float64": 1e-6, "float32": 2e-6}.get(dtype, 1e-2)
    for one in found:
        assert type(one) is np.ndarray and one.dtype == wanted.dtype
        np.testing.assert_allclose(
            one.astype("float64"), wanted.astype("float64"), rtol=tolerance, atol=tolerance
        )
        assert not any(np.shares_memory(one, x) for x in arrays)
        one[...] = 0
    np.testing.assert_array_equal(function(*arrays).astype("float64"), _again(function, arrays))
    for x, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(x.astype("float64"), kept.astype("float64"))


def _again(function, arrays):
    return np.array(function(*[np.array(x) for x in arrays])).astype("float64")


def test_other_values_of_the_same_shape_are_computed_anew():
    for i in range(5):
        np.testing.assert_allclose(ops.relu(X - i / 4), np.maximum(X - i / 4, 0), rtol=1e-6)
    assert _count() == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, True), (1, 1.0), (0.0, -0.0), ((1, 0), (True, 0)), ([1], (1,)), (None, 0), ("1", 1)],
)
def test_arguments_that_are_equal_but_not_alike_have_keys_of_their_own(first, second):
    keys = [planned._signed(len, (X, one), {})[0] for one in (first, second)]
    assert keys[0] != keys[1]


CHANGES = {
    "epsilon": (
        lambda: keras.config.set_epsilon(0.25),
        lambda: keras.config.set_epsilon(1e-7),
        lambda: ops.binary_crossentropy(np.zeros((2, 3)), np.ones((2, 3))),
        lambda before, after: after[0, 0] < before[0, 0] / 2,
    ),
    "floatx": (
        lambda: keras.config.set_floatx("float64"),
        lambda: keras.config.set_floatx("float32"),
        lambda: ops.one_hot(LABELS, 6),
        lambda before, after: (before.dtype, after.dtype) == ("float32", "float64"),
    ),
    "floatx of a host function": (
        lambda: keras.config.set_floatx("float64"),
        lambda: keras.config.set_floatx("float32"),
        lambda: ops.arctan(np.arange(3)),
        lambda before, after: (before.dtype, after.dtype) == ("float32", "float64"),
    ),
    "image_data_format": (
        lambda: keras.config.set_image_data_format("channels_first"),
        lambda: keras.config.set_image_data_format("channels_last"),
        lambda: ops.max_pool(IMAGE, 2, padding="same"),
        lambda before, after: (before.shape, after.shape) == ((2, 3, 3, 3), (2, 6, 3, 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_setting_counts_at_once(name):
    change, back, call, differs = CHANGES[name]
    before = [call() for _ in range(3)][-1]
    try:
        change()
        assert differs(before, call())
        assert differs(before, [call() for _ in range(3)][-1])
    finally:
        back()
    np.testing.assert_array_equal(call(), before)


def test_a_cleared_session_and_kernels_that_are_forbidden_have_plans_of_their_own():
    from kbench.api.operations import kernels_allowed

    wanted = [ops.softmax(X) for _ in range(3)][-1]
    assert _count() == 1
    K.clear_session()
    np.testing.assert_allclose([ops.softmax(X) for _ in range(3)][-1], wanted, rtol=1e-6)
    assert _count() == 2
    with kernels_allowed(False):
        np.testing.assert_allclose([ops.softmax(X) for _ in range(3)][-1], wanted, rtol=1e-6)
    assert _count() == 3


def test_variables_are_read_at_each_call():
    weight = keras.Variable(X)
    for i in range(4):
        weight.assign(X - 0.3 * i)
        np.testing.assert_allclose(ops.relu(weight), np.maximum(X - 0.3 * i, 0), atol=1e-6)
    found = gradients(lambda: ops.sum(ops.softplus(weight)), [weight])[0]
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-np.asarray(weight))), rtol=1e-5)


def test_what_needs_values_is_called_without_a_plan():
    for labels in (LABELS, LABELS + 2, LABELS):
        assert ops.one_hot(labels, None).shape == (4, labels.max() + 1)


def test_a_call_with_a_function_among_its_arguments_has_no_plan():
    call = planned.planned(lambda x, function: ops.multiply(function(x), 2.0))
    for function in (ops.square, ops.negative, ops.square):
        np.testing.assert_allclose(call(X, function), 2 * function(X), rtol=1e-6)
    assert not plans.recent


def test_plans_are_few_and_the_latest_used_are_kept():
    kept = Plans(most=4)
    for i in range(10):
        kept.put(i, True)
        assert kept.get(0) or i > 8
        assert len(kept.recent) <= 4 and len(kept.older) <= 4
    assert kept.get(0) and kept.get(9) and kept.get(1) is None


def test_plans_hold_few_bytes():
    kept = Plans(most_bytes=3 * planned.GRAPH_BYTES)
    for i in range(6):
        entry = object.__new__(Plan)
        entry.bytes = 2 * planned.GRAPH_BYTES
        kept.put(i, entry)
        assert len(kept.recent) == 1 and len(kept.older) <= 1


def test_threads_share_plans():
    wanted = {n: np.maximum(X[:, :n] - 0.5, 0) for n in range(1, 7)}
    wrong, barrier = [], threading.Barrier(4)

    def work(seed):
        barrier.wait()
        for i in range(120):
            n = (i + seed) % 6 + 1
            if not np.allclose(ops.relu(X[:, :n] - 0.5), wanted[n]):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong and _count() == 6


CURVES = "exp log log1p expm1 sqrt sin cos tanh erf".split()


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float16", 2e-3)])
@pytest.mark.parametrize("name", CURVES)
def test_curves_of_large_arrays_keep_a_plan(name, dtype, tolerance):
    function = getattr(ops, name)
    x = DRAW.uniform(0, 3, (160, 256)).astype(dtype)
    x[0, :4] = np.nan, np.inf, -np.inf, -1.0
    wanted = function(x[:16])  # too few for a plan
    assert _count() == 0
    for _ in range(3):
        found = function(x)
        assert found.dtype == dtype and found.shape == x.shape
        np.testing.assert_allclose(found[:16], wanted, rtol=tolerance, atol=tolerance)
    assert _count() == 1


def test_a_drawn_seed_moves_on_beside_a_plan():
    seed = keras.random.SeedGenerator(7)
    first = [keras.random.dropout(np.ones(600, "float32"), 0.5, seed=seed) for _ in range(4)]
    assert _count() == 1
    assert all(np.any(one != other) for one, other in zip(first, first[1:], strict=False))
    again = keras.random.SeedGenerator(7)
    for one in first:
        other = keras.random.dropout(np.ones(600, "float32"), 0.5, seed=again)
        np.testing.assert_array_equal(one, other)


def test_every_function_that_keras_composes_is_there():
    for name, functions in COMPOSED.items():
        for function in functions:
            assert hasattr(getattr(importlib.import_module(name), function), "__wrapped__")


# ------------------------------------------------------------------ loops of one's own


@pytest.fixture(autouse=True)
def _no_programs():
    programs.clear()


def _slopes(weight, x, form=ops.tanh, factor=1.0):
    return gradients(lambda: factor * ops.sum(form(ops.matmul(x, weight))), [weight])[0]


def _tanh_slopes(weight, x, factor=1.0):
    x, weight = np.asarray(x, "float64"), np.asarray(weight, "float64")
    return factor * x.T @ (1 - np.tanh(x @ weight) ** 2)


def _check_slopes(weight, x, factor=1.0):
    found = _slopes(weight, x, factor=factor)
    np.testing.assert_allclose(found, _tanh_slopes(weight, x, factor), rtol=1e-4, atol=1e-6)


def test_a_loop_with_other_batches_and_weights_keeps_one_function():
    weight = keras.Variable(DRAW.uniform(-1, 1, (6, 3)).astype("float32"))
    for i in range(4):
        _check_slopes(weight, X + i)
        weight.assign_sub(0.1 * _slopes(weight, X))
    assert len(programs.recent) == 1


@pytest.mark.parametrize("change", ["number", "rows", "branch", "variable", "zero", "function"])
def test_another_program_has_another_function(change):
    weight = keras.Variable(DRAW.uniform(-1, 1, (6, 3)).astype("float32"))
    for _ in range(2):
        _check_slopes(weight, X)
    other = keras.Variable(DRAW.uniform(-1, 1, (6, 3)).astype("float32"))
    if change == "number":
        _check_slopes(weight, X, factor=3.0)
    elif change == "rows":
        _check_slopes(weight, X[:2])
    elif change == "branch":
        found = _slopes(weight, X, ops.negative)
        np.testing.assert_allclose(found, -X.sum(0)[:, None] * np.ones((1, 3)), rtol=1e-5)
    elif change == "variable":
        _check_slopes(other, X)
    elif change == "zero":
        assert np.all(_slopes(weight, X, factor=0.0) == 0)
        assert np.all(_slopes(weight, X, factor=-0.0) == 0)
    else:
        for step in (1.0, 2.0):
            found = _slopes(weight, X, ops.custom_gradient(lambda y, n=step: (y, lambda g: n * g)))
            np.testing.assert_allclose(found, step * X.sum(0)[:, None] * np.ones((1, 3)), rtol=1e-5)
    _check_slopes(weight, X)
    assert len(programs.recent) > 1


def test_a_loss_that_looks_at_its_batch_is_traced_each_time():
    weight = keras.Variable(DRAW.uniform(-1, 1, (6, 3)).astype("float32"))
    for x in (X, -X, X, -X):
        factor = 2.0 if x[0, 0] > 0 else 3.0
        found = gradients(
            lambda x=x: (2.0 if x[0, 0] > 0 else 3.0) * ops.sum(ops.matmul(x, weight)), [weight]
        )
        wanted = factor * x.sum(0)[:, None] * np.ones((1, 3))
        np.testing.assert_allclose(found[0], wanted, rtol=1e-5)


@pytest.mark.parametrize("labels", [[0, 2, 1, 1], [2, 2, 0, 1]])
def test_labels_of_another_batch_count(labels):
    logits = keras.Variable(np.zeros((4, 3), "float32"))
    for given in (labels, labels[::-1]):
        goal = np.asarray(given, "int32")
        (found,) = gradients(
            lambda goal=goal: ops.sum(
                ops.sparse_categorical_crossentropy(goal, logits, from_logits=True)
            ),
            [logits],
        )
        np.testing.assert_allclose(found, 1 / 3 - np.eye(3)[goal], rtol=1e-5, atol=1e-6)
    assert len(programs.recent) == 1


def test_dropout_of_a_loop_has_the_numbers_of_its_seed():
    weight = keras.Variable(np.ones((50,), "float32"))

    def kept(seed):
        return gradients(
            lambda: ops.sum(keras.random.dropout(weight.value, 0.5, seed=seed)), [weight]
        )[0]

    first, second = kept(1), kept(2)
    assert np.any(first != second)
    for _ in range(3):
        np.testing.assert_array_equal(kept(1), first)
        np.testing.assert_array_equal(kept(2), second)


def test_gradients_have_memory_of_their_own():
    weight = keras.Variable(DRAW.uniform(-1, 1, (6, 3)).astype("float32"))
    first = _slopes(weight, X)
    kept = first.copy()
    second = _slopes(weight, X + 1)
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)
    # a gradient that is an array of the loss itself
    given = Y[:, :3].repeat(2, 0)[:6]
    (found,) = gradients(lambda: ops.sum(weight * given), [weight])
    found[...] = 0
    assert np.all(given > 0)
