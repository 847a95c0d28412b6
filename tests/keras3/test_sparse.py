"""Matrices of SciPy in Keras 3: what the same numbers in arrays give, in memory of a batch."""

import keras3_there  # noqa: F401  # isort: skip
import re
import tracemalloc
from pathlib import Path

import keras
import numpy as np
import pytest
import scipy.sparse as sp
from keras import layers, ops
from keras3_traces import assert_close

from kbench.engine.ops.sparse import sparse_ops

DRAW = np.random.RandomState(5)
ROWS, COLUMNS = 37, 24
X = np.where(DRAW.rand(ROWS, COLUMNS) < 0.2, DRAW.uniform(-1, 1, (ROWS, COLUMNS)), 0.0)
X = X.astype("float32")
Y = DRAW.randn(ROWS, 2).astype("float32")
WEIGHT = DRAW.uniform(0.5, 2, ROWS).astype("float32")

FORMATS = ("csr_matrix", "csr_array", "csc_array", "coo_matrix", "lil_array", "dok_array",
           "dia_array", "bsr_array")  # fmt: skip


class Own(keras.Model):
    """A model of one's own, with a step of its own."""

    def __init__(self):
        super().__init__()
        self.first, self.last = layers.Dense(4, "tanh"), layers.Dense(2)

    def call(self, x):
        return self.last(self.first(x) + ops.sum(x, axis=-1, keepdims=True))

    def train_step(self, data):
        from kbench.keras3.gradients import gradients

        x, y = data[:2]
        loss = ops.mean(ops.square(self(x, training=True) - y))
        weights = self.trainable_variables
        self.optimizer.apply(gradients(loss, weights), weights)
        return {"loss": loss, "largest": ops.max(ops.abs(x))}


def _sequential(*first):
    return keras.Sequential([*first, layers.Dense(4, "tanh"), layers.Dense(2)])


def _functional():
    words = keras.Input((COLUMNS,), name="words")
    hidden = layers.Dense(4, "tanh")(words)
    joined = layers.Concatenate()([hidden, layers.Dropout(0.5)(words)])
    return keras.Model({"words": words}, layers.Dense(2)(joined))


MODELS = {
    "sequential": lambda: _sequential(),
    "sequential_with_input": lambda: _sequential(keras.Input((COLUMNS,))),
    "functional": _functional,
    "own": Own,
    "flatten": lambda: _sequential(layers.Flatten()),
    "dropout": lambda: _sequential(layers.Dropout(0.3)),
    "batch_normalization": lambda: _sequential(layers.BatchNormalization()),
    "masking": lambda: _sequential(layers.Reshape((4, 6)), layers.Masking(), layers.SimpleRNN(3)),
    "rescaling": lambda: _sequential(layers.Rescaling(2.0, 1.0)),
    "lambda": lambda: _sequential(layers.Lambda(lambda x: x[:, 1:] * x[:, :-1])),
}


def _made(name="sequential", optimizer=None, **options):
    keras.utils.set_random_seed(4)
    model = MODELS[name]()
    optimizer = optimizer or keras.optimizers.SGD(0.1, 0.9)
    model.compile(optimizer, "mse", metrics=[] if name == "own" else ["mae"], **options)
    return model


class Batches(keras.utils.PyDataset):
    def __init__(self, x):
        super().__init__()
        self.x = x.tocsr() if sp.issparse(x) else x

    def __len__(self):
        return -(-ROWS // 8)

    def __getitem__(self, i):
        return self.x[8 * i : 8 * i + 8], Y[8 * i : 8 * i + 8]


def _generated(x):
    batches = Batches(x)
    return (batches[i] for i in range(len(batches)))


def _fit(model, *data, **options):
    keras.utils.set_random_seed(9)
    options = {"batch_size": 8, "epochs": 3, "verbose": 0, **options}
    return list(model.fit(*data, **options).history.values())


WAYS = {  # a model and a matrix -> numbers that an array in its place must give, too
    "fit": lambda m, x: _fit(m, x, Y),
    "fit_weighted": lambda m, x: _fit(m, x, Y, sample_weight=WEIGHT),
    "fit_validated": lambda m, x: _fit(m, x, Y, validation_data=(x, Y)),
    "fit_split": lambda m, x: _fit(m, x, Y, validation_split=0.3),
    "fit_shuffled_in_batches": lambda m, x: _fit(m, x, Y, shuffle="batch"),
    "fit_steps_per_epoch": lambda m, x: _fit(m, x, Y, steps_per_epoch=2, epochs=2),
    "fit_generator": lambda m, x: _fit(
        m, _generated(x), batch_size=None, epochs=1, shuffle=False, steps_per_epoch=4
    ),
    "fit_dataset": lambda m, x: _fit(m, Batches(x), batch_size=None, shuffle=False),
    "evaluate": lambda m, x: m.evaluate(x, Y, 8, verbose=0),
    "predict": lambda m, x: m.predict(x, 8, verbose=0),
    "train_on_batch": lambda m, x: [m.train_on_batch(x, Y, WEIGHT) for _ in range(12)],
    "test_on_batch": lambda m, x: m.test_on_batch(x, Y),
    "predict_on_batch": lambda m, x: m.predict_on_batch(x),
    "call": lambda m, x: m(x),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMATS[:1])
def test_each_way_in_takes_a_matrix(way, form):
    _same_as_dense(way, getattr(sp, form)(X))


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMATS[1:])
def test_each_way_in_takes_a_matrix_of_each_format(way, form):
    _same_as_dense(way, getattr(sp, form)(X))


@pytest.mark.parametrize("form", FORMATS[1:])
def test_each_format_is_a_batch(form):
    _same_as_dense("train_on_batch", getattr(sp, form)(X))
    _same_as_dense("predict", getattr(sp, form)(X))


def _same_as_dense(way, matrix, **options):
    models = [_made(**options) for _ in range(2)]
    assert_close(WAYS[way](models[0], matrix), WAYS[way](models[1], X))
    assert_close(models[0].get_weights(), models[1].get_weights())


@pytest.mark.parametrize("name", MODELS)
def test_each_model_takes_a_matrix(name):
    found = []
    for x in (sp.csr_matrix(X), X):
        model = _made(name)
        data = {"words": x} if name == "functional" else x
        found.append([_fit(model, data, Y), model.predict(data, verbose=0), model.get_weights()])
    assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # of five batches, two at a time
@pytest.mark.parametrize(
    "options",
    [{"run_eagerly": True}, {"jit_compile": False}, {"steps_per_execution": 2}],
    ids=str,
)
def test_each_way_to_run_a_step_takes_a_matrix(options):
    _same_as_dense("fit", sp.csr_matrix(X), **options)


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"],
)
@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "uint8", "bool"])
def test_each_dtype_rounds_as_that_of_an_array(dtype, kind):
    if kind == "uint8":
        x = (10 * np.abs(X)).astype(kind)
    else:
        x = (10 * X).astype(kind)
    before = keras.config.dtype_policy(), keras.config.floatx()
    keras.config.set_dtype_policy(dtype)
    if not dtype.startswith("mixed"):
        keras.config.set_floatx(dtype)
    try:
        models = [_made(optimizer=keras.optimizers.SGD(0.01)) for _ in range(2)]
        given = sp.csr_array(x), x
        losses = [_fit(m, a, Y, epochs=2) for m, a in zip(models, given, strict=True)]
        on_batch = [m.train_on_batch(a, Y) for m, a in zip(models, given, strict=True)]
    finally:
        keras.config.set_dtype_policy(before[0])
        keras.config.set_floatx(before[1])
    exact = dtype in ("float32", "float64")
    near = 1e-4 if exact else 0.03 if "bfloat16" in dtype else 4e-3
    assert_close(losses, losses[::-1], near, near)
    assert_close(on_batch, on_batch[::-1], near, near)
    assert_close(models[0].get_weights(), models[1].get_weights(), near, near)


@pytest.mark.parametrize("named", [False, True])
def test_inputs_in_lists_and_dictionaries_and_sparse_targets(named):
    found = []
    for form in (sp.csr_array, np.array):
        keras.utils.set_random_seed(4)
        inputs = [keras.Input((COLUMNS,), name="a"), keras.Input((3,), name="b")]
        parts = [layers.Dense(4)(inputs[0]), layers.Dense(4)(inputs[1])]
        model = keras.Model(inputs, layers.Dense(COLUMNS, "sigmoid")(layers.add(parts)))
        model.compile("sgd", "binary_crossentropy")
        b, labels = Y[:, :1] * np.ones(3, "float32"), form((X > 0).astype("float32"))
        data = {"a": form(X), "b": b} if named else [form(X), b]
        found.append([_fit(model, data, labels), model.predict(data, verbose=0)])
        found[-1].append(model.evaluate(data, labels, verbose=0))
        found[-1].append(model.train_on_batch(data, labels))
    assert_close(*found)


def test_class_weights_of_sparse_targets():
    labels = np.eye(2, dtype="float32")[(Y[:, 0] > 0).astype(int)]
    losses = []
    for form in (sp.csr_array, np.array):
        model = _made()
        given = {"class_weight": {0: 1.0, 1: 3.0}, "return_dict": True}
        losses.append([model.train_on_batch(form(X), form(labels), **given)["loss"]])
        losses[-1] += _fit(model, form(X), form(labels), class_weight=given["class_weight"])
    assert_close(*losses)


def test_entries_that_are_listed_twice_are_added():
    places = (np.array([0, 0, 1, 0]), np.array([2, 2, 0, 1]))
    matrix = sp.coo_matrix((np.array([1.0, 2.0, 4.0, 8.0], "float32"), places), (2, 3))
    model = keras.Sequential([layers.Dense(2, use_bias=False)])
    found = model.predict(matrix, verbose=0)
    np.testing.assert_allclose(found, matrix.toarray() @ model.get_weights()[0], rtol=1e-6)
    np.testing.assert_allclose(model(matrix), found, rtol=1e-6)


def test_a_batch_without_entries_and_rows_without_entries():
    matrix = sp.csr_array((ROWS, COLUMNS), dtype="float32")
    model = _made()
    assert_close(model.predict(matrix, verbose=0), model.predict(matrix.toarray(), verbose=0))
    loss = model.train_on_batch(matrix, Y)
    assert np.all(np.isfinite(loss))


def _refuse(*_given):
    raise AssertionError("a matrix was made dense")


@pytest.mark.parametrize(
    "policy",
    ["float32", "mixed_bfloat16", pytest.param("mixed_float16", marks=pytest.mark.slow)],
)
def test_rows_stay_rows_up_to_the_first_product(monkeypatch, policy):
    keras.config.set_dtype_policy(policy)
    try:
        models = [_made(name) for name in ("sequential", "sequential_with_input", "flatten")]
    finally:
        keras.config.set_dtype_policy("float32")
    for model in models:
        model.predict(sp.csr_array(X), verbose=0)  # a model is built on one row, made dense
    monkeypatch.setattr(sparse_ops, "fill_dense", _refuse)
    for model in models[:2]:
        _fit(model, sp.csr_array(X), Y, validation_split=0.2)
        model.predict_on_batch(sp.csr_array(X))
    with pytest.raises(AssertionError, match="made dense"):
        _fit(models[2], sp.csr_array(X), Y)


@pytest.mark.parametrize("first", [[], pytest.param([layers.Flatten()], marks=pytest.mark.slow)])
def test_a_wide_bag_of_words_trains_in_memory_of_a_batch(first):
    rows, columns = 1024, 30_000
    entries = DRAW.uniform(0, 1, 20 * rows).astype("float32")
    places = DRAW.randint(0, columns, 20 * rows), np.arange(0, 20 * rows + 1, 20)
    matrix = sp.csr_matrix((entries, *places), (rows, columns))
    model = keras.Sequential([*first, layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    tracemalloc.start()
    try:
        model.fit(matrix, np.ones((rows, 1), "float32"), verbose=0)
        model.predict(matrix, verbose=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    batch = 32 * columns * 4
    assert peak < 5 * batch < rows * columns * 4 / 6


@pytest.mark.parametrize("more", [{}, {"validation_split": 0.5}], ids=["all", "split"])
def test_weights_of_one_axis_are_an_array(more):
    weights, matrix = sp.coo_array(WEIGHT), sp.csr_array(X)
    found = _fit(_made(), matrix, Y, sample_weight=weights, **more)
    assert_close(found, _fit(_made(), X, Y, sample_weight=WEIGHT, **more))


def test_a_matrix_stays_as_it_is():
    matrix = sp.coo_array(X)
    matrix.data = matrix.data[::-1].copy()
    matrix.coords = tuple(axis[::-1].copy() for axis in matrix.coords)
    before = [part.copy() for part in (matrix.data, *matrix.coords)]
    ops.add(matrix, 1.0)
    _fit(_made(), matrix, Y, validation_split=0.1)
    for part, old in zip((matrix.data, *matrix.coords), before, strict=True):
        np.testing.assert_array_equal(part, old)


@pytest.mark.slow
def test_the_page_shows_what_it_says(capsys):
    page = (Path(__file__).resolve().parents[2] / "docs" / "keras3.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(code, "docs/keras3.md", "exec"), {})
    assert capsys.readouterr().out.strip() == "True"
