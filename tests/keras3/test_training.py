"""Models of Keras 3 train on kbench as mathematics says."""

import keras3_there  # noqa: F401  # isort: skip
import random

import keras
import numpy as np
import pytest
import scipy.sparse
from keras import layers


def _data(count=64, width=5):
    draw = np.random.RandomState(3)
    x = draw.randn(count, width).astype("float32")
    return x, draw.randn(count, 2).astype("float32")


def test_a_step_of_gradient_descent_is_that_of_numpy():
    x, y = _data()
    model = keras.Sequential([keras.Input((5,)), layers.Dense(2)])
    w, b = (np.array(value) for value in model.get_weights())
    model.compile(keras.optimizers.SGD(0.1), "mse")
    history = model.fit(x, y, batch_size=32, epochs=2, shuffle=False, verbose=0)
    for _ in range(2):
        losses = []
        for part in (slice(0, 32), slice(32, 64)):
            error = x[part] @ w + b - y[part]
            losses.append(np.mean(error**2))
            slope = 2 * error / error.size
            w, b = w - 0.1 * x[part].T @ slope, b - 0.1 * slope.sum(0)
    np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.get_weights()[1], b, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(history.history["loss"][-1], np.mean(losses), rtol=1e-5)


class _Halving(layers.Layer):
    """A product with a weight that the layer halves in each pass of training."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 2), initializer="ones")

    def call(self, x, training=False):
        if training:
            self.kernel.assign(self.kernel / 2)
        return x @ self.kernel


@pytest.mark.parametrize("eagerly", [False, True])
def test_what_a_layer_assigns_to_its_weight_lasts_for_the_pass(eagerly):
    """The gradient goes through it, and the optimizer begins with the weight as it was."""
    x, y = _data()
    model = keras.Sequential([keras.Input((5,)), _Halving()])
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=eagerly)
    w = np.ones((5, 2))
    for _ in range(3):
        model.train_on_batch(x, y)
        error = x @ (w / 2) - y
        w = w - 0.1 * x.T @ (2 * error / error.size) / 2
        np.testing.assert_allclose(model.get_weights()[0], w, rtol=1e-5, atol=1e-6)


def test_fit_evaluate_predict_save_and_load(tmp_path):
    x, _ = _data(200)
    labels = x[:, :3].argmax(1)
    inputs = [keras.Input((5,)), layers.Dense(16, activation="tanh")]
    model = keras.Sequential([*inputs, layers.Dense(3, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, labels, epochs=20, validation_split=0.1, verbose=0).history
    assert history["loss"][-1] < 0.8 * history["loss"][0]
    loss, accuracy = model.evaluate(x, labels, verbose=0)
    chances = model.predict(x, verbose=0)
    right = chances[np.arange(200), labels]
    assert loss == pytest.approx(float(-np.log(right).mean()), rel=1e-4)
    assert accuracy == pytest.approx(float((chances.argmax(1) == labels).mean()))
    for name in ("model.keras", "model.weights.h5"):
        if name.endswith(".keras"):
            model.save(tmp_path / name)
            other = keras.saving.load_model(tmp_path / name)
        else:
            model.save_weights(tmp_path / name)
            other = keras.models.clone_model(model)
            other.load_weights(tmp_path / name)
        np.testing.assert_array_equal(other.predict(x, verbose=0), chances)


POWERS = 2.0 ** np.arange(12, dtype="float32")[:, None]
"""Data of which each sum tells the rows that it is made of."""


def _rows(model, x):
    """The rows of each call of a step, in order, of two epochs of `fit`."""
    found, seen = [], [0, 0.0]

    class Watch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            seen[:] = [0, 0.0]

        def on_train_batch_end(self, batch, logs=None):
            total = (batch + 1) * 3 * logs["loss"]  # of all batches of the epoch so far
            found.append(f"{round(total - seen[1]):012b}")
            seen[:] = [batch + 1, total]

    model.fit(x, 0 * POWERS, batch_size=3, epochs=2, verbose=0, callbacks=[Watch()])
    return found


def _ordered(seed, skipped, batch):
    """The rows of each batch by NumPy's permutations of a seed, of which some are left out."""
    draw = np.random.RandomState(seed)
    orders = [draw.permutation(12) for _ in range(skipped + 2)][skipped:]
    parts = np.concatenate(orders).reshape(-1, batch)
    return [f"{sum(1 << row for row in part):012b}" for part in parts], draw.randint(1 << 30)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="plain"),
        pytest.param({"run_eagerly": True}, id="eager", marks=pytest.mark.slow),
        pytest.param({"steps_per_execution": 2}, id="two_steps"),
        pytest.param({"jit_compile": False}, id="without_kernels"),
    ],
)
def test_a_seed_gives_the_order_of_rows_in_every_model(options, sparse):
    """Keras takes a batch of a compiled model's first data to build the loss, also on JAX."""
    x = scipy.sparse.csr_matrix(POWERS) if sparse else POWERS
    batch = 3 * options.get("steps_per_execution", 1)
    for kind in ("first", "second", "evaluated"):
        dense = layers.Dense(1, use_bias=False, kernel_initializer="ones")
        model = keras.Sequential([keras.Input((1,)), dense, layers.Dropout(0.0)])
        model.compile(keras.optimizers.SGD(0.0), "mae", **options)
        if kind == "evaluated":
            model.evaluate(x, POWERS, batch_size=3, verbose=0)
        for fit in range(2):
            keras.utils.set_random_seed(7)
            orders, after = _ordered(7, int(fit == 0 and kind != "evaluated"), batch)
            assert _rows(model, x) == orders, (kind, fit)
            assert np.random.randint(1 << 30) == after
            assert random.random() == random.Random(7).random()
