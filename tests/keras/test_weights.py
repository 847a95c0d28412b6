"""How Keras 2.3.1 starts, punishes and bounds weights on kbench."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import backend as K
from keras import constraints, initializers, layers, models, regularizers
from part_table_weights import CONSTRAINTS, INITIALIZERS, REGULARIZERS

RNG = np.random.default_rng


@pytest.mark.parametrize("row", INITIALIZERS, ids=str)
def test_initializers(row):
    made = row.make()
    config = made.get_config()
    weight = K.variable(made(row.shape, dtype="float32"))
    assert K.int_shape(weight) == row.shape
    row.look(K.get_value(weight))
    np.testing.assert_array_equal(K.get_value(weight), K.get_value(weight))  # drawn once

    twin = initializers.get({"class_name": type(made).__name__, "config": config})
    value = K.get_value(K.variable(twin(row.shape, dtype="float32")))
    if config.get("seed") is not None or "seed" not in config:
        np.testing.assert_array_equal(value, K.get_value(weight))
        next_one = K.get_value(K.variable(made(row.shape, dtype="float32")))
        assert ("seed" in config) == (next_one != value).any()
    layer = layers.Dense(row.shape[-1], kernel_initializer=made, bias_initializer="ones")
    if len(row.shape) == 2:
        layer.build((None, row.shape[0]))
        row.look(layer.get_weights()[0])


@pytest.mark.parametrize("row", INITIALIZERS, ids=str)
def test_initializers_in_float64(row):
    K.set_floatx("float64")
    made = row.make()
    assert K.dtype(K.variable(made(row.shape))) == "float64"
    assert type(initializers.get(row.name)).__name__ == type(made).__name__


@pytest.mark.parametrize("row", REGULARIZERS, ids=str)
def test_regularizers(row):
    value = RNG(6).normal(size=(5, 3))
    made = row.make()
    assert K.eval(made(K.constant(value)) + K.constant(0.0)) == pytest.approx(
        row.numpy(value), rel=1e-5
    )
    twin = regularizers.deserialize(regularizers.serialize(made))
    assert twin.get_config() == made.get_config()

    dense = layers.Dense(3, kernel_regularizer=made, use_bias=False)
    model = models.Sequential([dense])
    model.compile("sgd", lambda true, pred: 0 * K.mean(pred, -1))
    model.train_on_batch(np.ones((2, 5)), np.ones((2, 3)))
    dense.set_weights([value])
    found = model.evaluate(np.ones((2, 5)), np.ones((2, 3)), verbose=0)
    assert found == pytest.approx(row.numpy(value), rel=1e-5)


def test_regularizers_of_activity_and_bias():
    dense = layers.Dense(
        3,
        bias_regularizer="l1",
        activity_regularizer=regularizers.l2(0.1),
        bias_initializer=initializers.Constant(2.0),
    )
    model = models.Sequential([dense])
    model.compile("sgd", lambda true, pred: 0 * K.mean(pred, -1))
    x = RNG(1).normal(size=(4, 5))
    model.train_on_batch(x, np.ones((4, 3)))
    kernel, bias = dense.get_weights()
    found = model.evaluate(x, np.ones((4, 3)), verbose=0)
    wanted = 0.01 * np.abs(bias).sum() + 0.1 * ((x @ kernel + bias) ** 2).sum()
    assert found == pytest.approx(wanted, rel=1e-5)
    assert len(dense.losses) == 2


@pytest.mark.parametrize("row", CONSTRAINTS, ids=str)
def test_constraints(row):
    value = RNG(6).normal(size=(3, 2, 4)) * 2
    made = row.make()
    np.testing.assert_allclose(
        K.eval(made(K.constant(value))), row.numpy(value), rtol=1e-5, atol=1e-6
    )
    twin = constraints.deserialize(constraints.serialize(made))
    assert twin.get_config() == made.get_config()
    if row.label == "axes":
        return
    dense = layers.Dense(4, kernel_constraint=made, bias_constraint="nonneg")
    model = models.Sequential([dense])
    model.compile(keras.optimizers.SGD(0.5), "mse")
    x, y = RNG(7).normal(size=(8, 5)), RNG(8).normal(size=(8, 4)) - 5
    model.train_on_batch(x, y)
    kernel, bias = start = [RNG(9).normal(size=(5, 4)), np.full(4, 0.5)]
    dense.set_weights(start)
    model.train_on_batch(x, y)
    error = (x @ kernel + bias - y) * 2 / y.size
    found = dense.get_weights()
    np.testing.assert_allclose(
        found[0], row.numpy(kernel - 0.5 * x.T @ error), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(found[1], np.maximum(bias - 0.5 * error.sum(0), 0), rtol=1e-4)
