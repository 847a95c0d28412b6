"""Ways to copy an object of Keras, and whether a copied model goes on as the original does."""

from __future__ import annotations

import copy
import pickle

import numpy as np
from keras import layers
from keras.layers import Dense
from keras.models import Sequential
from layer_table import BATCH

RNG = np.random.default_rng
WAYS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "oldest pickle": lambda value: pickle.loads(pickle.dumps(value, 0)),
    "deepcopy": copy.deepcopy,
}


def numbers(*shape, seed=1):
    return RNG(seed).normal(size=shape)


def listed(value):
    return value if isinstance(value, list) else [value]


def assert_equal(one, other):
    assert len(listed(one)) == len(listed(other))
    for a, b in zip(listed(one), listed(other), strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


def assert_alike(model, twin, x, y=None, steps=2, **options):
    """Now, and after training steps of each."""
    assert type(twin) is type(model) and twin is not model
    assert_equal(twin.get_weights(), model.get_weights())
    assert_equal(twin.predict(x, batch_size=BATCH), model.predict(x, batch_size=BATCH))
    if y is None:
        return
    assert twin.metrics_names == model.metrics_names
    for _ in range(steps):
        found = listed(model.train_on_batch(x, y, **options))
        assert listed(twin.train_on_batch(x, y, **options)) == found
        assert [type(one) for one in found] == [type(one) for one in listed(found)]
    assert_equal(twin.get_weights(), model.get_weights())
    assert listed(twin.test_on_batch(x, y)) == listed(model.test_on_batch(x, y))
    assert_equal(twin.optimizer.get_weights(), model.optimizer.get_weights())


def mlp(*more, **options):
    stack = [Dense(6, activation="tanh", input_shape=(4,), **options), layers.Dropout(0.5)]
    return Sequential([*stack, layers.BatchNormalization(), *more, Dense(2)])


def trained(model, x, y, steps=2, **options):
    options = {"optimizer": "adam", "loss": "mse", "metrics": ["mae"], **options}
    model.compile(**options)
    for _ in range(steps):
        model.train_on_batch(x, y)
    return model


X, Y = numbers(5, 4), numbers(5, 2, seed=2)
