"""Models of Keras 3 in the inspector: layers, weights, graphs, gradients, NaN, courses of fits."""

import keras3_there  # noqa: F401  # isort: skip
import threading
from collections import Counter

import keras
import numpy as np
import pytest
from inspector_helpers import ask, parts, refused, rows
from keras import layers

from kbench.engine.runtime import read_only
from kbench.notebook.html import html
from kbench.workbench.analysis import compare
from kbench.workbench.errors import explanation
from kbench.workbench.inspector import summary
from kbench.workbench.inspector.inspector import Inspector
from kbench.workbench.inspector.recorder import Recorder
from kbench.workbench.nan.nan_verbs import traced
from kbench.workbench.output import stream
from kbench.workbench.progress import loops
from kbench.workbench.progress.courses import Courses

DRAW = np.random.RandomState(5)
X, Y = DRAW.randn(16, 6).astype("float32"), np.arange(16) % 3


def residual():
    """A branch, a normalization, a dropout, an operation without a layer, a model in the model."""
    x = keras.Input((6,), name="data")
    a = layers.Dense(8, activation="relu", name="first")(x)
    b = layers.Dense(8, name="second")(a)
    n = layers.BatchNormalization(name="norm")(layers.Add(name="sum")([a, b]) + 1.0)
    inner = keras.Sequential([layers.Dense(4, name="in"), layers.Dropout(0.5)], name="inner")
    model = keras.Model(x, layers.Dense(3, activation="softmax", name="out")(inner(n)), name="all")
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


@pytest.fixture
def made():
    inspectors = []

    def build(**names):
        inspectors.append(Inspector(names))
        return inspectors[-1]

    yield build
    for one in inspectors:
        one.close()


# ------------------------------------------------------------------ rows


def test_a_model_is_a_row_with_its_sizes(made):
    model = residual()
    row = rows(made(model=model))["model"]
    assert row["kind"] == "model" and row["shape"] == [None, 3] and row["label"] == "all"
    assert row["params"] == model.count_params() and row["trainable"] == row["params"] - 16
    count = len(model.layers)
    assert (
        row["text"] == f"Functional step 0, {row['params']} params, {count} layers, 16 not trained"
    )
    model.train_on_batch(X, Y)
    assert rows(made(model=model))["model"]["step"] == 1


def test_layers_and_weights_are_parts(made):
    model = residual()
    inspector = made(model=model)
    found = parts(inspector, "model")
    assert [row["label"] for row in found.values()] == [one.name for one in model.layers]
    shapes = [list(one.output.shape) for one in model.layers]
    assert [row["shape"] for row in found.values()] == shapes
    counts = [one.count_params() for one in model.layers]
    assert [row["params"] for row in found.values()] == counts
    keys = {row["label"]: key for key, row in found.items()}
    assert found[keys["sum"]]["sources"] == ["first", "second"]
    norm = parts(inspector, keys["norm"])
    names = ["gamma", "beta", "moving_mean", "moving_variance"]
    assert [row["label"] for row in norm.values()] == names
    assert [row["trainable"] for row in norm.values()] == [True, True, False, False]
    inner = parts(inspector, keys["inner"])
    assert [row["label"] for row in inner.values()] == ["in", "dropout"] or len(inner) == 2
    kernel = parts(inspector, next(iter(inner)))
    assert [row["label"] for row in kernel.values()] == ["kernel", "bias"]


@pytest.mark.parametrize(
    "layer",
    [
        lambda: layers.Bidirectional(layers.GRU(3)),
        lambda: layers.MultiHeadAttention(2, 3),
        lambda: layers.TimeDistributed(layers.BatchNormalization()),
        lambda: layers.SpectralNormalization(layers.Dense(3)),
    ],
    ids=["bidirectional", "attention", "distributed", "spectral"],
)
def test_codes_of_weights_are_what_a_user_would_type(made, layer):
    x = keras.Input((5, 4))
    one = layer()
    model = keras.Model(x, one(x, x) if "attention" in one.name else one(x))
    found = parts(made(model=model), f"model/{model.layers.index(one)}")
    assert len(found) == len(one.weights)
    for row in found.values():
        weight = eval(row["code"], {"model": model})
        assert weight.path.endswith(row["label"]) and list(weight.shape) == row["shape"]
        assert weight.trainable == row["trainable"]


def test_frozen_layers_and_models_of_ones_own(made):
    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.more = layers.Dense(2), [layers.Dense(2), layers.Dense(1)]

        def call(self, x):
            return self.more[1](self.more[0](self.first(x)))

    model = Own()
    model(X)
    model.more[0].trainable = False
    inspector = made(model=model)
    row = rows(inspector)["model"]
    assert (row["layers"], row["params"], row["trainable"]) == (3, 23, 17)
    assert row["type"] == "Own" and "6 not trained" in row["text"]
    model.predict(X, verbose=0)
    ops_ = Counter(row["op"] for row in ask(inspector, "graph", name="model")["rows"])
    assert ops_["dot"] == 3 and ops_["variable"] == 6


def test_variables_of_keras_are_variables(made):
    inspector = made(v=keras.Variable(np.ones((2, 3), "float32"), name="mine"))
    row = rows(inspector)["v"]
    assert row["kind"] == "variable" and row["shape"] == [2, 3]
    assert ask(inspector, "stats", name="v")["mean"] == 1.0


def test_the_summary_line_tells_of_a_model():
    assert "params" in summary.line(residual())


def test_errors_of_keras_are_shown_without_its_codes_for_bold():
    """From a session in this process, whose words are made safe, and from a kernel's message."""
    model = keras.Sequential([keras.Input((8,)), layers.Dense(3)])
    with pytest.raises(ValueError) as caught:
        model(np.ones((2, 5), "float32"))
    assert "\x1b[1m" in str(caught.value)
    told = stream.error(1, "ValueError", str(caught.value), [], {})
    assert "x1b" not in ascii(told.value)
    assert explanation.safe_text(caught.value) == told.value
    assert "\nInput 0 with name" in told.value


def test_notebooks_show_models_layers_and_variables():
    model = residual()
    model.train_on_batch(X, Y)
    told = html.bundle(model)
    assert "step 1" in told["text/plain"]
    for words in ("Functional", "float32[?, 3]", "first, second", "norm/gamma"):
        assert words in told["text/html"]
    assert "first/kernel" in html.bundle(model.layers[1])["text/html"]
    variable = html.bundle(keras.Variable(np.ones((2, 3), "float32"), name="mine"))
    assert "variable mine" in variable["text/plain"] and "float32[2, 3]" in variable["text/html"]


def test_weights_of_two_models_with_equal_layers_have_the_names_of_keras(made):
    residual()
    inspector = made(model=residual())
    keys = {row["label"]: key for key, row in parts(inspector, "model").items()}
    found = parts(inspector, keys["first"])
    assert [row["label"] for row in found.values()] == ["kernel", "bias"]


# ------------------------------------------------------------------ graphs, values, gradients


def test_the_graph_of_a_model_and_of_a_layer(made):
    model = residual()
    inspector = made(model=model)
    found = ask(inspector, "graph", name="model")["layers"]
    named = {row["name"]: row for row in found}
    assert found[0]["name"] == "out" and found[0]["spec"] == "float32[?, 3]"
    ids = {row["id"]: row["name"] for row in found}
    assert [ids[at] for at in named["sum"]["inputs"]] == ["first", "second"]
    assert [ids[at] for at in named["out"]["inputs"]] == ["inner"]
    keys = {row["label"]: key for key, row in parts(inspector, "model").items()}
    assert ask(inspector, "graph", name=keys["first"])["rows"] == []  # no step has been made
    model.train_on_batch(X, Y)
    rows_ = ask(inspector, "graph", name=keys["first"])["rows"]
    ops = Counter(row["op"] for row in rows_)
    assert ops["relu"] == ops["dot"] == ops["add"] == 1 and ops["variable"] == 2
    assert rows_[0]["op"] == "relu"
    inside = parts(inspector, keys["inner"])
    assert ask(inspector, "graph", name=next(iter(inside)))["rows"][0]["name"].startswith("in/")


def test_layers_have_values_on_the_last_batch(made):
    model = residual()
    inspector = made(model=model)
    ask(inspector, "hello", push=False, record=True)
    predicted = model.predict(X, verbose=0)
    top = ask(inspector, "graph", name="model")["layers"][0]
    asked = {"name": "model", "number": top["id"], "node": top["name"], "layers": True}
    row = ask(inspector, "node", **asked)["row"]
    assert row["shape"] == [16, 3] and row["mean"] == pytest.approx(predicted.mean(), rel=1e-5)


def test_gradients_of_a_step():
    model, told, came = residual(), [], threading.Event()

    def take(message):
        if message["push"] == "gradient":
            told.append(message["data"])
            came.set()

    inspector = Inspector({"model": model}, take)
    try:
        ask(inspector, "hello", record=True)
        words = refused(inspector, "gradient", loss="model")["reason"]
        assert words == "model has no loss; compile it first, and with Keras 3 train it on a batch"
        model.train_on_batch(X, Y)
        before = model.get_weights()
        assert ask(inspector, "gradient", loss="model")["state"] == "computing" and came.wait(60)
    finally:
        inspector.close()
    rows_ = {row["name"]: row for row in told[-1]["rows"]}
    assert len(rows_) == len(model.trainable_weights)
    assert {"first/kernel", "norm/gamma", "in/bias", "out/kernel"} <= set(rows_)
    assert all(row["code"].startswith("model.layers[") for row in rows_.values())
    for weight, same in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, same)


def test_where_a_nan_comes_from():
    x = keras.Input((6,))
    model = keras.Model(x, keras.ops.log(layers.Dense(3, name="broken")(x) - 1e6))
    model.compile("sgd", "mse")
    recorder = Recorder()
    recorder.start()
    try:
        model.predict(X, verbose=0)
        with read_only.evaluation():
            found = traced(model, recorder, {"model": model})
    finally:
        recorder.stop()
    assert found["state"] == "found", found


def test_two_models_are_compared_by_what_they_predict():
    model = residual()
    with pytest.raises(compare.VariantsError, match="predict a batch"):
        compare.compared(model)
    model.predict(X, verbose=0)
    (output,) = compare.compared(model)
    assert list(output.spec.shape) == [16, 3]


# ------------------------------------------------------------------ how a fit goes


def test_a_fit_is_seen_from_another_thread():
    model, seen = residual(), []
    thread = threading.get_ident()

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append([(loop.name, loop.done, loop.total) for loop in loops.running(thread)])

    model.fit(X, Y, batch_size=4, epochs=3, verbose=0, callbacks=[Look()])
    assert seen[0] == [("epoch", 0, 3), ("batch", 0, 4)]
    assert seen[-1] == [("epoch", 2, 3), ("batch", 3, 4)]


def test_the_course_of_a_fit():
    model, courses = residual(), Courses()
    leave = courses.listen()
    try:
        courses.cell_started([model])
        history = model.fit(X, Y, batch_size=3, epochs=4, verbose=0).history
        courses.cell_ended([model])
        told = courses.told(lambda tensor: None)
    finally:
        leave()
    assert told["unit"] == "epoch" and told["count"] == 4
    series = dict(told["series"])
    assert series["loss"] == pytest.approx(history["loss"], rel=1e-4)
    assert set(series) == {"loss", "accuracy"}


def test_the_course_of_batches_is_the_loss():
    model, courses = residual(), Courses()
    leave = courses.listen()
    try:
        courses.cell_started([])
        losses = [model.train_on_batch(X, Y)[0] for _ in range(12)]
        told = courses.told(lambda tensor: None)
    finally:
        leave()
    assert dict(told["series"])["loss"] == pytest.approx(losses, rel=1e-4)
