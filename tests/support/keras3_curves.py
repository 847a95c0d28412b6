"""Models of Keras 3 whose training has no randomness: their losses over 100 steps, on any backend.

    KERAS_BACKEND=jax python tests/support/keras3_curves.py

writes those of JAX into `keras3_curves.json`, with which `tests/keras3/test_curves.py` compares.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers, ops

GOLDEN = Path(__file__).with_suffix(".json")
STEPS, BATCH, BATCHES = 100, 64, 4
STATES = ("gamma", "variance", "mean", "seed")
"""Ends of the paths of weights that stay as layers make them."""

Made = tuple[Any, np.ndarray, np.ndarray]  # a compiled model, inputs, targets


def _normal(draw: np.random.RandomState, *shape: int) -> np.ndarray:
    return draw.randn(BATCH * BATCHES, *shape).astype("float32")


def dense(draw: np.random.RandomState) -> Made:
    """Dense layers, batch normalization and a dropout of nothing, by Adam."""
    x = _normal(draw, 20)
    model = keras.Sequential(
        [
            keras.Input((20,)),
            layers.Dense(64, "relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.0),
            layers.Dense(64, "tanh"),
            layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
    return model, x, x[:, :3].argmax(axis=1)


def convolution(draw: np.random.RandomState) -> Made:
    """Three kinds of convolutions and two normalizations, by SGD with Nesterov's momentum."""
    x = _normal(draw, 16, 16, 3)
    kinds = 2 * (x[:, :8, :8, 0].mean(axis=(1, 2)) > 0) + (x[:, 8:, :, 1].mean(axis=(1, 2)) > 0)
    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.MaxPooling2D(),
            layers.SeparableConv2D(24, 3, activation="swish"),
            layers.DepthwiseConv2D(3, padding="same"),
            layers.GroupNormalization(4),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True), loss)
    return model, x, np.eye(4, dtype="float32")[kinds]


def recurrent(draw: np.random.RandomState) -> Made:
    """Masked sequences through an LSTM in both directions and a GRU, by RMSprop."""
    x = _normal(draw, 12, 5)
    x[:, 9:] *= draw.rand(len(x), 1, 1) > 0.5
    sequence = keras.Input((12, 5))
    y = layers.Bidirectional(layers.LSTM(16, return_sequences=True))(layers.Masking()(sequence))
    y = layers.GRU(16, return_sequences=True)(y)
    model = keras.Model(sequence, layers.TimeDistributed(layers.Dense(2))(y))
    model.compile(keras.optimizers.RMSprop(1e-3), "mse")
    return model, x, x.cumsum(axis=1)[:, :, :2]


def backwards(draw: np.random.RandomState) -> Made:
    """A GRU as in Keras 2 and an LSTM from the end on, by Nadam."""
    x = _normal(draw, 12, 5)
    sequence = keras.Input((12, 5))
    y = layers.GRU(16, reset_after=False, return_sequences=True)(sequence)
    model = keras.Model(sequence, layers.Dense(1)(layers.LSTM(16, go_backwards=True)(y)))
    model.compile(keras.optimizers.Nadam(1e-3), "huber")
    return model, x, x.sum(axis=(1, 2))[:, None]


def transformer(draw: np.random.RandomState) -> Made:
    """Two blocks of causal attention, by AdamW with clipped gradients."""
    x = draw.randint(0, 30, (BATCH * BATCHES, 20))
    y = np.roll(x, 2, axis=1)
    y[:, :2] = 0
    letters = keras.Input((20,), dtype="int32")
    places = np.sin(np.arange(20)[:, None] / 2.0 ** np.arange(32)).astype("float32")
    h = ops.add(layers.Embedding(30, 32)(letters), places)
    for _ in range(2):
        seen = layers.LayerNormalization()(h)
        h = h + layers.MultiHeadAttention(4, 8)(seen, seen, use_causal_mask=True)
        wide = layers.Dense(64, activation="gelu")(layers.LayerNormalization()(h))
        h = h + layers.Dense(32)(wide)
    model = keras.Model(letters, layers.Dense(30)(h))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-3, weight_decay=0.01, clipnorm=1.0), loss)
    return model, x, y


def embedding(draw: np.random.RandomState) -> Made:
    """A masked embedding with a penalty and a constraint, by Adagrad."""
    x = draw.randint(0, 50, (BATCH * BATCHES, 10))
    model = keras.Sequential(
        [
            keras.Input((10,), dtype="int32"),
            layers.Embedding(50, 8, mask_zero=True, embeddings_regularizer="l2"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(16, "elu", kernel_constraint=keras.constraints.MaxNorm(2.0)),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model.compile(keras.optimizers.Adagrad(0.05), "binary_crossentropy")
    return model, x, (x % 7 == 3).any(axis=1)[:, None].astype("float32")


def normalized(draw: np.random.RandomState) -> Made:
    """Rarer activations and normalizations, by Adamax."""
    x = _normal(draw, 20)
    hidden = [layers.Dense(32, "selu"), layers.LayerNormalization(), layers.Dense(32, "mish")]
    ends = [layers.UnitNormalization(), layers.Dense(2)]
    model = keras.Sequential([keras.Input((20,)), *hidden, *ends])
    model.compile(keras.optimizers.Adamax(0.01), "log_cosh")
    return model, x, np.sin(x[:, :2])


KINDS: dict[str, Callable[[np.random.RandomState], Made]] = {
    one.__name__: one
    for one in (dense, convolution, recurrent, backwards, transformer, embedding, normalized)
}


def losses(name: str) -> list[float]:
    """The loss of each of 100 steps, each on one of four batches, from weights of NumPy."""
    draw = np.random.RandomState(7)
    model, x, y = KINDS[name](draw)
    for weight in model.weights:
        shape = tuple(weight.shape)
        if shape and not weight.path.endswith(STATES):
            scale = np.sqrt(3 / np.prod(shape[:-1])) if len(shape) > 1 else 0.1
            weight.assign(scale * draw.uniform(-1, 1, shape))
    found = []
    for step in range(STEPS):
        rows = slice(step % BATCHES * BATCH, (step % BATCHES + 1) * BATCH)
        model.reset_metrics()
        found.append(float(np.ravel(model.train_on_batch(x[rows], y[rows]))[0]))
    return found


if __name__ == "__main__":
    curves = {name: [round(one, 7) for one in losses(name)] for name in KINDS}
    GOLDEN.write_text(json.dumps({"backend": keras.config.backend(), "losses": curves}) + "\n")
