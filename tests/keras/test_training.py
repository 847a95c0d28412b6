"""Training with Keras 2.3.1 on kbench: fit and its relatives, weights of samples, generators."""

from __future__ import annotations

import threading

import keras
import numpy as np
import pytest
import scipy.sparse
from keras import backend as K
from keras import layers, optimizers
from keras.layers import Dense
from keras.models import Model, Sequential

RNG = np.random.default_rng


def numbers(*shape, seed=1):
    return RNG(seed).normal(size=shape)


def linear(loss="mse", rate=0.1, units=1, **options):
    """A model whose gradient is easy: one layer without a bias, zero at first."""
    model = Sequential([Dense(units, use_bias=False, kernel_initializer="zeros", input_shape=(3,))])
    model.compile(optimizers.SGD(rate), loss, **options)
    return model


def kernel(model):
    return model.layers[-1].get_weights()[0]


def descended(x, y, weights=None, rate=0.1, start=None):
    """The kernel after one step of `linear`; a sample counts by its weight, all share the mean."""
    start = np.zeros((x.shape[1], y.shape[1])) if start is None else start
    each = np.ones(len(x)) if weights is None else weights
    error = (x @ start - y) * 2 / y.size * each[:, None]
    return start - rate * x.T @ error


# ------------------------------------------------------------------ weights of samples


def test_sample_weights():
    x, y, weights = numbers(6, 3), numbers(6, 1, seed=2), RNG(3).uniform(0, 3, 6)
    model = linear()
    model.train_on_batch(x, y, sample_weight=weights)
    np.testing.assert_allclose(kernel(model), descended(x, y, weights), rtol=1e-5)
    model = linear()
    model.fit(x, y, sample_weight=weights, verbose=0)
    np.testing.assert_allclose(kernel(model), descended(x, y, weights), rtol=1e-5)


def test_class_weights():
    x, labels = numbers(8, 3), np.array([0, 1, 1, 2, 0, 2, 2, 1])
    y = np.eye(3)[labels]
    table = {0: 0.5, 1: 2.0, 2: 3.0}
    wanted = descended(x, y, np.array([table[one] for one in labels]))
    for call in (
        lambda model: model.fit(x, y, class_weight=table, verbose=0),
        lambda model: model.train_on_batch(x, y, class_weight=table),
        lambda model: model.fit_generator(iter([(x, y)]), 1, class_weight=table, verbose=0),
    ):
        model = linear(units=3)
        call(model)
        np.testing.assert_allclose(kernel(model), wanted, rtol=1e-5)


def test_weights_of_time_steps():
    model = Sequential([layers.TimeDistributed(Dense(1, use_bias=False), input_shape=(4, 3))])
    model.compile("sgd", "mse", sample_weight_mode="temporal", weighted_metrics=["mae"])
    x, y, weights = numbers(5, 4, 3), numbers(5, 4, 1, seed=2), RNG(3).uniform(0, 2, (5, 4))
    loss, error = model.evaluate(x, y, sample_weight=weights, verbose=0)
    each = np.abs(model.predict(x) - y)[..., 0]
    assert loss == pytest.approx((each**2 * weights).mean(), rel=1e-5)
    assert error == pytest.approx((each * weights).sum() / weights.sum(), rel=1e-5)


# ------------------------------------------------------------------ fit, evaluate, predict


def test_fit_goes_batch_by_batch():
    x, y = numbers(7, 3), numbers(7, 2, seed=2)
    model = linear(units=2)
    history = model.fit(x, y, batch_size=3, epochs=2, shuffle=False, verbose=0)
    wanted, losses = None, []
    for _ in range(2):
        total = 0.0
        for at in (slice(0, 3), slice(3, 6), slice(6, 7)):
            start = np.zeros((3, 2)) if wanted is None else wanted
            total += ((x[at] @ start - y[at]) ** 2).mean() * len(x[at])
            wanted = descended(x[at], y[at], start=wanted)
        losses.append(total / 7)
    np.testing.assert_allclose(kernel(model), wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(history.history["loss"], losses, rtol=1e-5)
    assert history.epoch == [0, 1]


def test_validation():
    x, y = numbers(10, 3), numbers(10, 1, seed=2)
    model = linear(metrics=["mae"])
    history = model.fit(x, y, validation_split=0.3, epochs=2, verbose=0, shuffle=False).history
    assert sorted(history) == ["loss", "mae", "val_loss", "val_mae"]
    error = model.predict(x[7:]) - y[7:]
    assert history["val_loss"][-1] == pytest.approx((error**2).mean(), rel=1e-5)
    assert history["val_mae"][-1] == pytest.approx(np.abs(error).mean(), rel=1e-5)

    weights = RNG(3).uniform(0, 2, 10)
    data = (x, y, weights)
    history = model.fit(x, y, validation_data=data, validation_freq=2, epochs=4, verbose=0).history
    assert (len(history["loss"]), len(history["val_loss"])) == (4, 2)
    error = (model.predict(x) - y)[:, 0]
    assert history["val_loss"][-1] == pytest.approx((error**2 * weights).mean(), rel=1e-5)
    history = model.fit(x, y, validation_data=data, validation_freq=[1, 3], epochs=3, verbose=0)
    assert len(history.history["val_loss"]) == 2


def test_metrics_start_anew_with_each_epoch():
    x, y = numbers(8, 3), numbers(8, 1, seed=2)
    model = linear(rate=0.0, metrics=["mae"])
    history = model.fit(x, y, 2, epochs=3, verbose=0).history
    np.testing.assert_allclose(history["mae"], np.abs(y).mean(), rtol=1e-5)
    model.train_on_batch(x[:2], y[:2])
    kept = model.train_on_batch(x[2:4], y[2:4], reset_metrics=False)
    np.testing.assert_allclose(kept[1], np.abs(y[2:4]).mean(), rtol=1e-5)
    summed = model.test_on_batch(x[:2], y[:2], reset_metrics=False)
    np.testing.assert_allclose(summed[1], np.abs(y[:4]).mean(), rtol=1e-5)


@pytest.mark.parametrize("verbose", [1, 2])
def test_progress_is_told(verbose, capsys):
    model = linear(metrics=["mae"])
    model.fit(numbers(8, 3), numbers(8, 1), 4, epochs=2, verbose=verbose)
    text = capsys.readouterr().out
    assert "Epoch 2/2" in text
    assert "loss: " in text and "mae: " in text
    assert ("8/8 [==============================]" in text) == (verbose == 1)


def test_tensors_as_data():
    """Constants in place of arrays, and a count of steps."""
    x, y = K.constant(numbers(6, 3)), K.constant(numbers(6, 1, seed=2))
    inputs = layers.Input(tensor=x)
    model = Model(inputs, Dense(1, use_bias=False, kernel_initializer="zeros")(inputs))
    model.compile(optimizers.SGD(0.1), "mse", target_tensors=[y])
    model.fit(epochs=1, steps_per_epoch=1, verbose=0)
    wanted = descended(numbers(6, 3), numbers(6, 1, seed=2))
    np.testing.assert_allclose(kernel(model), wanted, rtol=1e-5)
    assert model.predict(None, steps=2).shape == (12, 1)


def test_an_output_of_one_number_for_each_sample():
    """Its targets are of rank 1, too, though Keras gives every array a second axis."""
    x, y = numbers(6, 3), numbers(6, seed=2)
    inputs = layers.Input((3,))
    hidden = Dense(1, use_bias=False, kernel_initializer="zeros")(inputs)
    outputs = layers.Lambda(lambda one: K.sum(one, axis=-1), output_shape=(1,))(hidden)
    model = Model(inputs, outputs)
    model.compile(optimizers.SGD(0.1), lambda true, found: K.square(true - found))
    model.train_on_batch(x, y)
    found = model.layers[1].get_weights()[0]
    np.testing.assert_allclose(found, descended(x, y[:, None]), rtol=1e-5)
    wanted = (((x @ found)[:, 0] - y) ** 2).mean()
    assert model.evaluate(x, y, 4, verbose=0) == pytest.approx(wanted, rel=1e-5)


def test_sparse_data():
    dense, y = np.where(RNG(1).uniform(size=(8, 3)) < 0.5, numbers(8, 3), 0), numbers(8, 1, seed=2)
    matrix = scipy.sparse.csr_matrix(dense)
    model = linear()
    model.fit(matrix, y, 8, verbose=0)
    np.testing.assert_allclose(kernel(model), descended(dense, y), rtol=1e-4, atol=1e-6)
    inputs = layers.Input((3,), sparse=True)
    model = Model(inputs, Dense(1, use_bias=False, kernel_initializer="zeros")(inputs))
    model.compile(optimizers.SGD(0.1), "mse")
    model.fit(matrix, y, 8, verbose=0)
    np.testing.assert_allclose(kernel(model), descended(dense, y), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.predict(matrix), dense @ kernel(model), rtol=1e-4, atol=1e-6)


def test_float64_and_float16():
    for dtype, tolerance in (("float64", 1e-12), ("float16", 1e-2)):
        K.set_floatx(dtype)
        x, y = numbers(6, 3), numbers(6, 1, seed=2)
        model = linear(metrics=["mae"])
        model.fit(x, y, 6, verbose=0)
        np.testing.assert_allclose(kernel(model), descended(x, y), rtol=tolerance, atol=tolerance)
        assert model.predict(x).dtype == dtype
        assert {K.dtype(one) for one in model.weights} == {dtype}


WRONG = [
    ("rank", lambda model: model.predict(np.ones((2, 3, 1))), "expected .* to have 2 dimensions"),
    ("width", lambda model: model.predict(np.ones((2, 4))), r"expected .* to have shape \(3,\)"),
    (
        "lengths",
        lambda model: model.fit(np.ones((2, 3)), np.ones((3, 1))),
        "same number of samples",
    ),
    ("count", lambda model: model.predict([np.ones((2, 3))] * 2), "Expected to see 1 array"),
]


@pytest.mark.parametrize(("name", "call", "says"), WRONG, ids=[name for name, *_ in WRONG])
def test_wrong_data_is_named(name, call, says):
    with pytest.raises(ValueError, match=says):
        call(linear())


def test_not_a_number_is_passed_on():
    model = linear()
    assert np.isnan(model.train_on_batch(np.full((2, 3), np.nan), np.ones((2, 1))))


# ------------------------------------------------------------------ generators


class Numbered(keras.utils.Sequence):
    """Batches by number, and a count of the epochs; which threads asked is remembered."""

    def __init__(self, x, y, size):
        self.x, self.y, self.size = x, y, size
        self.ended = 0
        self.threads = set()

    def __len__(self):
        return -(-len(self.x) // self.size)

    def __getitem__(self, index):
        self.threads.add(threading.current_thread().name)
        at = slice(index * self.size, (index + 1) * self.size)
        return self.x[at], self.y[at]

    def on_epoch_end(self):
        self.ended += 1


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_generators(workers):
    """The batches in order, whoever makes them; the same result as from arrays."""
    x, y = numbers(9, 3), numbers(9, 1, seed=2)
    data = Numbered(x, y, 4)
    model, twin = linear(metrics=["mae"]), linear(metrics=["mae"])
    history = model.fit_generator(
        data, epochs=2, workers=workers, shuffle=False, verbose=0, validation_data=data
    )
    other = twin.fit(x, y, 4, epochs=2, shuffle=False, verbose=0)
    np.testing.assert_allclose(kernel(model), kernel(twin), rtol=1e-5)
    np.testing.assert_allclose(history.history["loss"], other.history["loss"], rtol=1e-5)
    found = model.evaluate_generator(data, workers=workers)  # its loss is the last batch's
    np.testing.assert_allclose(found[1], twin.evaluate(x, y, 4, verbose=0)[1], rtol=1e-5)
    found = model.predict_generator(data, workers=workers)
    np.testing.assert_allclose(found, twin.predict(x), rtol=1e-5)
    assert data.ended >= 2
    assert ("MainThread" in data.threads) == (workers == 0)


def test_plain_generators_and_fit():
    x, y = numbers(8, 3), numbers(8, 1, seed=2)

    def endless():
        while True:
            yield x, y, np.full(8, 2.0)

    model = linear()
    history = model.fit(endless(), steps_per_epoch=1, epochs=1, verbose=0)
    np.testing.assert_allclose(kernel(model), descended(x, y, np.full(8, 2.0)), rtol=1e-5)
    assert history.history["loss"][0] == pytest.approx(2 * (y**2).mean(), rel=1e-5)
    assert model.predict((one for one in [x]), steps=1).shape == (8, 1)
    with pytest.raises(ValueError, match="steps_per_epoch"):
        model.fit(endless(), epochs=1)


def test_models_work_in_other_threads():
    model = linear()
    x = numbers(50, 3)
    wanted = model.predict(x)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(model.predict(x, batch_size=7)))
        for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 4
    assert all((one == wanted).all() for one in found)
