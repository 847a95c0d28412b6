"""The models, of unmodified Keras 3, with the same weights on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers

from .cases import BATCHES, CASES, SEED

Built = tuple[Any, Any, Any]
"""A compiled model, its inputs, its targets: as many as twenty batches."""


def _classes(random: np.random.Generator, count: int) -> np.ndarray:
    return random.integers(0, 10, count)


def _mlp(random: np.random.Generator, count: int) -> Built:
    x = keras.Input((784,))
    y = layers.Dense(512, activation="relu")(x)
    y = layers.Dense(512, activation="relu")(y)
    model = keras.Model(x, layers.Dense(10, activation="softmax")(y))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model, random.random((count, 784), np.float32), _classes(random, count)


def _cnn(random: np.random.Generator, count: int) -> Built:
    x = keras.Input((28, 28, 1))
    y = layers.Conv2D(32, 3, activation="relu")(x)
    y = layers.Conv2D(64, 3, activation="relu")(y)
    y = layers.Flatten()(layers.MaxPooling2D(2)(y))
    y = layers.Dense(128, activation="relu")(y)
    model = keras.Model(x, layers.Dense(10, activation="softmax")(y))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model, random.random((count, 28, 28, 1), np.float32), _classes(random, count)


def _resnet20(random: np.random.Generator, count: int) -> Built:
    def normal(x: Any, filters: int, stride: int = 1) -> Any:
        x = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
        return layers.BatchNormalization()(x)

    inputs = keras.Input((32, 32, 3))
    x = layers.ReLU()(normal(inputs, 16))
    for stack, filters in enumerate((16, 32, 64)):
        for block in range(3):
            stride = 2 if stack and not block else 1
            y = normal(layers.ReLU()(normal(x, filters, stride)), filters)
            if stride > 1:
                x = layers.Conv2D(filters, 1, strides=stride, padding="same", use_bias=False)(x)
            x = layers.ReLU()(layers.add([x, y]))
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, layers.Dense(10, activation="softmax")(x))
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "sparse_categorical_crossentropy")
    return model, random.random((count, 32, 32, 3), np.float32), _classes(random, count)


def _lstm(random: np.random.Generator, count: int) -> Built:
    x = keras.Input((80,), dtype="int32")
    y = layers.LSTM(128)(layers.Embedding(5000, 128)(x))
    model = keras.Model(x, layers.Dense(1, activation="sigmoid")(y))
    model.compile("adam", "binary_crossentropy")
    words = random.integers(0, 5000, (count, 80)).astype("int32")
    return model, words, random.integers(0, 2, (count, 1)).astype("float32")


def _transformer(random: np.random.Generator, count: int) -> Built:
    x = keras.Input((128, 256))
    y = layers.MultiHeadAttention(4, 64)(x, x)
    y = layers.LayerNormalization()(layers.add([x, y]))
    z = layers.Dense(256)(layers.Dense(1024, activation="gelu")(y))
    y = layers.LayerNormalization()(layers.add([y, z]))
    y = layers.GlobalAveragePooling1D()(y)
    model = keras.Model(x, layers.Dense(10, activation="softmax")(y))
    model.compile("adam", "sparse_categorical_crossentropy")
    return model, random.standard_normal((count, 128, 256), np.float32), _classes(random, count)


_MAKE: dict[str, Callable[[np.random.Generator, int], Built]] = {
    "mlp": _mlp,
    "cnn": _cnn,
    "resnet20": _resnet20,
    "lstm": _lstm,
    "transformer": _transformer,
}


def build(name: str) -> Built:
    """A compiled model with weights that do not depend on the backend, and twenty batches."""
    random = np.random.default_rng(SEED)
    model, inputs, targets = _MAKE[name](random, BATCHES * CASES[name].batch)
    model.set_weights([_start(random, one) for one in model.get_weights()])
    return model, inputs, targets


def _start(random: np.random.Generator, weight: np.ndarray) -> np.ndarray:
    """Random numbers of the size that Glorot and Bengio give; a vector keeps its constants."""
    if weight.ndim < 2:
        return weight
    fans = weight.shape[-1] + int(np.prod(weight.shape[:-1]))
    return random.normal(0, (2 / fans) ** 0.5, weight.shape).astype(weight.dtype)
