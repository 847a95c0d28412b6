"""The models, of unmodified Keras, with seeded random weights.

Random weights let activations grow or die over fifty layers, unless batch normalization knows what
arrives. So one pass in training sets the moving statistics to those of a batch of other samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import backend as K
from keras import layers, models
from keras.applications import MobileNet, ResNet50

from .cases import SEED, inputs

CALIBRATION = 8
"""Samples whose statistics batch normalization gets; 7x7 places of each are many enough."""


# ------------------------------------------------------------------ what Keras has no layer for


class LayerNormalization(layers.Layer):
    """Mean 0 and variance 1 over the last axis, then scaled and shifted."""

    def __init__(self, epsilon: float = 1e-5, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.epsilon = epsilon

    def build(self, input_shape: tuple[Any, ...]) -> None:
        """The two weights."""
        size = (input_shape[-1],)
        self.gamma = self.add_weight(name="gamma", shape=size, initializer="ones")
        self.beta = self.add_weight(name="beta", shape=size, initializer="zeros")
        super().build(input_shape)

    def call(self, x: Any) -> Any:
        """As the paper of Ba, Kiros and Hinton has it."""
        away = x - K.mean(x, axis=-1, keepdims=True)
        variance = K.mean(K.square(away), axis=-1, keepdims=True)
        return away / K.sqrt(variance + self.epsilon) * self.gamma + self.beta

    def get_config(self) -> dict[str, Any]:
        """What makes the layer again."""
        return {**super().get_config(), "epsilon": self.epsilon}


class Attention(layers.Layer):
    """Scaled dot products of several heads, from queries, keys and values; it has no weights."""

    def __init__(self, heads: int = 4, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.heads = heads

    def call(self, parts: list[Any]) -> Any:
        """Each head sees its own part of the last axis, as if it were a sample."""
        _, steps, width = K.int_shape(parts[0])
        size = width // self.heads

        def split(x: Any) -> Any:
            apart = K.reshape(x, (-1, steps, self.heads, size))
            return K.reshape(K.permute_dimensions(apart, (0, 2, 1, 3)), (-1, steps, size))

        q, k, v = map(split, parts)
        shares = K.softmax(K.batch_dot(q, k, axes=[2, 2]) * size**-0.5)
        mixed = K.reshape(K.batch_dot(shares, v, axes=[2, 1]), (-1, self.heads, steps, size))
        return K.reshape(K.permute_dimensions(mixed, (0, 2, 1, 3)), (-1, steps, width))

    def compute_output_shape(self, shapes: list[Any]) -> Any:
        """That of the queries."""
        return shapes[0]

    def get_config(self) -> dict[str, Any]:
        """What makes the layer again."""
        return {**super().get_config(), "heads": self.heads}


def gelu(x: Any) -> Any:
    """The activation of GPT and BERT, in the form with tanh."""
    return 0.5 * x * (1 + K.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


OWN = {"LayerNormalization": LayerNormalization, "Attention": Attention, "gelu": gelu}
"""What `load_model` is told."""


# ------------------------------------------------------------------ the models


def lstm(steps: int = 80, size: int = 128, classes: int = 10) -> Any:
    """A classifier of sequences."""
    x = layers.Input((steps, size))
    last = layers.LSTM(size, bias_initializer="random_uniform", unit_forget_bias=False)(x)
    return models.Model(x, layers.Dense(classes, activation="softmax")(last))


def transformer(steps: int = 128, width: int = 256, heads: int = 4) -> Any:
    """A block of an encoder, normalized after each half."""
    x = layers.Input((steps, width))
    bias = {"bias_initializer": "random_uniform"}
    parts = [layers.Dense(width, **bias)(x) for _ in range(3)]
    mixed = layers.Dense(width, **bias)(Attention(heads)(parts))
    middle = LayerNormalization()(layers.add([x, mixed]))
    wide = layers.Dense(4 * width, activation=gelu, **bias)(middle)
    narrow = layers.Dense(width, **bias)(wide)
    return models.Model(x, LayerNormalization()(layers.add([middle, narrow])))


_MAKE: dict[str, Callable[[], Any]] = {
    "resnet50": lambda: ResNet50(weights=None),
    "mobilenet": lambda: MobileNet(weights=None),
    "lstm": lstm,
    "transformer": transformer,
}


def build(name: str) -> Any:
    """A model, with weights of the same numbers each time."""
    np.random.seed(SEED)
    model = _MAKE[name]()
    if any(isinstance(one, layers.BatchNormalization) for one in model.layers):
        _vary(model)
        model = calibrated(model, inputs(name, CALIBRATION, SEED + 1))
    return model


def _vary(model: Any) -> None:
    """Scales and shifts of batch normalization that are not all alike."""
    random = np.random.default_rng(SEED)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            gamma, beta, *rest = layer.get_weights()
            gamma = random.uniform(0.7, 1.3, gamma.shape)
            layer.set_weights([gamma, random.normal(0, 0.2, beta.shape), *rest])


def calibrated(model: Any, samples: np.ndarray) -> Any:
    """The same model, whose batch normalization knows the statistics of these samples."""
    config = model.get_config()
    for layer in config["layers"]:
        if layer["class_name"] == "BatchNormalization":
            layer["config"]["momentum"] = 0.0  # the statistics of this batch alone
    found = models.Model.from_config(config)
    found.set_weights(model.get_weights())
    feeds = [found.input, K.learning_phase()]
    K.function(feeds, found.outputs, updates=found.updates)([samples, 1])
    return found


def exact(name: str, weights: list[np.ndarray], samples: np.ndarray) -> np.ndarray:
    """What the model of these weights gives in float64."""
    before = K.floatx()
    K.set_floatx("float64")
    try:
        model = _MAKE[name]()
        model.set_weights(weights)
        call = K.function(model.inputs, model.outputs)
        wide = samples.astype(np.float64)
        return np.concatenate([call([wide[at : at + 1]])[0] for at in range(len(wide))])
    finally:
        K.set_floatx(before)
