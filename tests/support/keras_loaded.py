"""Keras on kbench for tests outside tests/keras: imported as there, and a few models.

KERAS_BACKEND is set only while Keras is imported, as other tests share the process. KERAS_HOME is
that of all tests.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest

OWN_WARNINGS = [
    pytest.mark.filterwarnings(rf"ignore:::{module}\.")
    for module in ("keras", "keras_preprocessing", "keras_applications")
]


def load() -> Any:
    """The package keras with kbench as its backend."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("KERAS_BACKEND", "kbench")
        return importlib.import_module("keras")


def residual() -> Any:
    """A compiled model with a branch, a normalization and a dropout; the same numbers each time."""
    layers = load().layers
    x = layers.Input((6,), name="data")
    a = layers.Dense(8, activation="relu", name="first")(x)
    b = layers.Dense(8, name="second")(a)
    s = layers.add([a, b], name="sum")
    n = layers.BatchNormalization(name="norm")(s)
    y = layers.Dense(3, activation="softmax", name="out")(layers.Dropout(0.5, name="drop")(n))
    model = load().models.Model(x, y, name="residual")
    model.compile("adam", "categorical_crossentropy")
    source = np.random.default_rng(3)
    model.set_weights([source.normal(size=one.shape) for one in model.get_weights()])
    return model


def deep(count: int) -> Any:
    """A model of so many small layers."""
    layers = load().layers
    first = [layers.Dense(4, input_shape=(4,))]
    return load().models.Sequential(first + [layers.Dense(4) for _ in range(count - 1)])


def output_shape(layer: Any) -> Any:
    """Of a layer, of either generation of Keras."""
    found = getattr(layer, "output_shape", None)
    return layer.output.shape if found is None else found


def batch(count: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Rows and one-hot labels for `residual`."""
    source = np.random.default_rng(5)
    rows = source.normal(size=(count, 6)).astype(np.float32)
    return rows, np.eye(3, dtype=np.float32)[source.integers(0, 3, count)]
