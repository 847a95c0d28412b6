"""Random stacks of layers: what each does alone must hold when they meet."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keras import backend as K
from keras import layers, models

from kbench.engine.core.errors import KbenchError

Shape = tuple[int, ...]
SMALL = 2  # units and filters

# For each rank of a batch: makers of layers, which may look at the shape they get.
CHOICES: dict[int, list[Callable[[Shape], Any]]] = {
    2: [
        lambda s: layers.Dense(3, activation="tanh"),
        lambda s: layers.Dense(4, activation="softmax"),
        lambda s: layers.BatchNormalization(),
        lambda s: layers.Dropout(0.3),
        lambda s: layers.PReLU(),
        lambda s: layers.RepeatVector(3),
        lambda s: layers.Reshape((s[0], 1)),
        lambda s: layers.Reshape((1, s[0], 1)),
        lambda s: layers.Lambda(lambda x: x * 2 - 1),
    ],
    3: [
        lambda s: layers.Conv1D(SMALL, 2, padding="causal", activation="elu"),
        lambda s: layers.SeparableConv1D(SMALL, 2, padding="same"),
        lambda s: layers.LocallyConnected1D(SMALL, 1, activation="tanh"),
        lambda s: layers.LSTM(SMALL),
        lambda s: layers.GRU(SMALL, return_sequences=True, go_backwards=True),
        lambda s: layers.SimpleRNN(SMALL, return_sequences=True, unroll=True),
        lambda s: layers.Bidirectional(layers.GRU(SMALL, return_sequences=True), "sum"),
        lambda s: layers.TimeDistributed(layers.Dense(SMALL, activation="softsign")),
        lambda s: layers.MaxPooling1D(2, padding="same"),
        lambda s: layers.AveragePooling1D(2, strides=1, padding="same"),
        lambda s: layers.GlobalMaxPooling1D(),
        lambda s: layers.UpSampling1D(2),
        lambda s: layers.ZeroPadding1D(1),
        lambda s: layers.BatchNormalization(),
        lambda s: layers.Permute((2, 1)),
        lambda s: layers.Flatten(),
        lambda s: layers.Reshape((s[0], s[1], 1)),
    ],
    4: [
        lambda s: layers.Conv2D(SMALL, 2, padding="same", activation="tanh"),
        lambda s: layers.Conv2D(SMALL, 3, strides=2, padding="same"),
        lambda s: layers.Conv2D(SMALL, 2, padding="same", data_format="channels_first"),
        lambda s: layers.Conv2DTranspose(SMALL, 2, strides=2, padding="same"),
        lambda s: layers.DepthwiseConv2D(2, padding="same"),
        lambda s: layers.SeparableConv2D(SMALL, 2, padding="same", activation="elu"),
        lambda s: layers.MaxPooling2D(2, padding="same"),
        lambda s: layers.AveragePooling2D(2, strides=1, padding="same"),
        lambda s: layers.GlobalAveragePooling2D(),
        lambda s: layers.ZeroPadding2D(((1, 0), (0, 1))),
        lambda s: layers.UpSampling2D((1, 2), interpolation="bilinear"),
        lambda s: layers.SpatialDropout2D(0.4),
        lambda s: layers.BatchNormalization(axis=1),
        lambda s: layers.Softmax(axis=2),
        lambda s: layers.Permute((2, 3, 1)),
        lambda s: layers.Reshape((s[0] * s[1], s[2])),
        lambda s: layers.TimeDistributed(layers.LSTM(SMALL)),
        lambda s: layers.Flatten(),
    ],
}
STARTS: tuple[Shape, ...] = ((5,), (4, 3), (4, 3, 2))
LIMIT = 150  # numbers of one sample; a stack that grows beyond ends there

stacks = st.tuples(st.sampled_from(STARTS), st.lists(st.integers(0, 999), min_size=2, max_size=6))


def build(start: Shape, numbers: list[int]) -> Any:
    """A sequence of layers: each number chooses one of those that take the shape it meets."""
    model = models.Sequential([layers.InputLayer(start)])
    for number in numbers:
        shape = K.int_shape(model.output)[1:]
        if np.prod(shape) > LIMIT:
            break
        choices = CHOICES[len(shape) + 1]
        model.add(choices[number % len(choices)](shape))
    return model


def agree(start: Shape, numbers: list[int]) -> None:
    """Shapes, precisions, gradients and a copy of one stack."""
    generator = np.random.default_rng(numbers)
    x = generator.uniform(-1, 1, (3, *start))
    model = build(start, numbers)
    # No weight stays zero: sums that are exactly zero meet the kinks of what follows.
    model.set_weights([one + generator.normal(0, 0.1, one.shape) for one in model.get_weights()])
    single = model.predict(x)
    assert single.shape[1:] == K.int_shape(model.output)[1:] == model.output_shape[1:]
    twin = models.Sequential.from_config(model.get_config())
    twin.build((None, *start))
    twin.set_weights(model.get_weights())
    np.testing.assert_array_equal(twin.predict(x), single)

    K.set_floatx("float64")
    try:
        wide = build(start, numbers)
        wide.set_weights(model.get_weights())
        found = wide.predict(x)
        np.testing.assert_allclose(found, single, rtol=1e-3, atol=1e-4)
        slopes_hold(wide, x, generator)
    finally:
        K.set_floatx("float32")
        K.clear_session()


def slopes_hold(model: Any, x: np.ndarray, generator: np.random.Generator) -> None:
    """The gradient along a random direction is the difference of the output, in float64."""
    factor = generator.normal(size=(3, *K.int_shape(model.output)[1:]))
    total = K.sum(model.output * K.constant(factor))
    weights = model.trainable_weights
    run = K.function(model.inputs, [total, *K.gradients(total, [*weights, *model.inputs])])
    values = K.batch_get_value(weights)
    ways = [generator.normal(size=one.shape) for one in (*values, x)]

    def moved(step: float) -> float:
        pairs = zip(weights, values, ways, strict=False)
        K.batch_set_value([(one, value + step * way) for one, value, way in pairs])
        return float(run([x + step * ways[-1]])[0])

    slope = sum((one * way).sum() for one, way in zip(run([x])[1:], ways, strict=True))
    difference = (moved(1e-6) - moved(-1e-6)) / 2e-6
    assert slope == pytest.approx(difference, rel=1e-5, abs=1e-6)


@given(stacks)
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
def test_random_stacks(stack):
    agree(*stack)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(stacks)
@settings(max_examples=320, suppress_health_check=list(HealthCheck))
def test_many_random_stacks(stack):
    agree(*stack)


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS, ids=str)
def test_every_pair_of_layers(start):
    """Whatever follows whatever."""
    count = len(CHOICES[len(start) + 1])
    for first, second in itertools.product(range(count), range(18)):
        agree(start, [first, second])


# ------------------------------------------------------------------ sizes that only a batch tells


def opened(model: Any) -> Any:
    """The same layers on an input of unknown spatial sizes; None where Keras needs them."""
    *spatial, channels = K.int_shape(model.input)[1:]
    start = tensor = layers.Input((*(None for _ in spatial), channels))
    for layer in model.layers:
        if isinstance(layer, layers.PReLU) and None in K.int_shape(tensor)[1:]:
            return None  # it has a slope for each place
        config = layer.get_config()
        config.pop("batch_input_shape", None)
        try:
            tensor = type(layer).from_config(config)(tensor)
        except KbenchError:
            raise
        except (TypeError, ValueError):
            return None
    twin = models.Model(start, tensor)
    twin.set_weights(model.get_weights())
    return twin


def open_agrees(start: Shape, numbers: list[int]) -> None:
    """Predictions, and the weights after a training step."""
    model = build(start, numbers)
    twin = opened(model)
    if twin is None or model.uses_learning_phase:  # noise would differ
        return
    x = np.random.default_rng(numbers).uniform(-1, 1, (3, *start))
    wanted = model.predict(x)
    np.testing.assert_allclose(twin.predict(x), wanted, rtol=1e-4, atol=1e-5)
    for one in (model, twin):
        one.compile("sgd", "mse")
        one.train_on_batch(x, np.zeros_like(wanted))
    for one, other in zip(twin.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    K.clear_session()


spatial_stacks = st.tuples(
    st.sampled_from(STARTS[1:]), st.lists(st.integers(0, 999), min_size=1, max_size=6)
)


@given(spatial_stacks)
@settings(max_examples=20, suppress_health_check=list(HealthCheck))
def test_random_stacks_of_unknown_sizes(stack):
    open_agrees(*stack)


@pytest.mark.slow
@pytest.mark.timeout(900)
@given(spatial_stacks)
@settings(max_examples=320, suppress_health_check=list(HealthCheck))
def test_many_random_stacks_of_unknown_sizes(stack):
    open_agrees(*stack)
