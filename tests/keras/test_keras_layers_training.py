"""Layers that do something else while a model is trained: noise, dropout, batch normalization."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import reference_recurrent as slow
from keras import backend as K
from keras import layers, models
from keras.layers.recurrent import RNN

# ------------------------------------------------------------------ noise


def trained(layer: Any, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(output, slope of the output's sum) of one training step; the noise is the same in both."""
    start = layers.Input(x.shape[1:])
    output = layer(start)
    run = K.function([start, K.learning_phase()], [output, *K.gradients(K.sum(output), [start])])
    return tuple(run([x, 1]))


WIDE = (40, 30, 20)
# layer, the axes along which it drops everything together
DROPOUTS = {
    "each": (lambda: layers.Dropout(0.3), ()),
    "noise shape": (lambda: layers.Dropout(0.3, (None, 1, 20)), (1,)),
    "spatial": (lambda: layers.SpatialDropout1D(0.3), (1,)),
}


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_drops_its_share_and_scales_the_rest(name):
    make, together = DROPOUTS[name]
    x = np.random.uniform(0.5, 1.5, WIDE).astype("float32")
    output, slope = trained(make(), x)
    kept = output != 0
    np.testing.assert_allclose(output, np.where(kept, x / np.float32(0.7), 0), rtol=1e-6)
    np.testing.assert_allclose(slope, kept / 0.7, rtol=1e-6)
    for axis in together:
        kept = kept.take([0], axis) & (kept == kept.take([0], axis)).all(axis, keepdims=True)
    deviation = np.sqrt(0.21 / kept.size)
    assert kept.mean() == pytest.approx(0.7, abs=4 * deviation)
    assert abs(np.corrcoef(kept[:-1].ravel(), kept[1:].ravel())[0, 1]) < 5 / np.sqrt(kept.size)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("form", ["channels_last", "channels_first"])
def test_spatial_dropout_drops_whole_channels(rank, form):
    channels = -1 if form == "channels_last" else 1
    shape = [50, *[3] * (rank + 1)]
    shape[channels] = 40
    make = getattr(layers, f"SpatialDropout{rank}D")
    output, _ = trained(make(0.25, data_format=form), np.ones(shape))
    areas = np.moveaxis(output, channels, 1).reshape(50 * 40, -1)
    assert (areas == areas[:, :1]).all()
    assert np.isclose(areas[:, 0], 1 / 0.75).mean() == pytest.approx(0.75, abs=0.04)


def test_gaussian_noise_is_added():
    x = np.random.normal(size=WIDE)
    output, slope = trained(layers.GaussianNoise(0.5), x)
    noise = output - x
    assert noise.mean() == pytest.approx(0, abs=0.02)
    assert noise.std() == pytest.approx(0.5, rel=0.02)
    assert (slope == 1).all()


def test_gaussian_dropout_multiplies():
    x = np.random.uniform(1, 2, WIDE)
    output, slope = trained(layers.GaussianDropout(0.2), x)
    np.testing.assert_allclose(slope, output / x, rtol=1e-5)
    assert slope.mean() == pytest.approx(1, abs=0.02)
    assert slope.std() == pytest.approx(0.5, rel=0.02)


def test_alpha_dropout_keeps_mean_and_deviation():
    output, slope = trained(layers.AlphaDropout(0.2), np.random.normal(size=WIDE))
    assert output.mean() == pytest.approx(0, abs=0.03)
    assert output.std() == pytest.approx(1, rel=0.03)
    assert (slope != 0).mean() == pytest.approx(0.8, abs=0.01)
    assert np.ptp(output[slope == 0]) < 1e-5  # what is dropped becomes one number


def test_noise_is_drawn_anew_for_every_batch_and_again_with_a_seed():
    def batches() -> list[np.ndarray]:
        start = layers.Input((50,))
        run = K.function([start, K.learning_phase()], [layers.Dropout(0.5, seed=3)(start)])
        return [run([np.ones((4, 50)), 1])[0] for _ in range(2)]

    one, two = batches()
    assert (one != two).any()
    np.testing.assert_array_equal(batches(), [one, two])


def test_the_phase_of_a_call_beats_that_of_the_model():
    """`training=True` keeps the noise in predictions, `False` keeps it out of training."""
    start = layers.Input((200,))
    layer = layers.Dropout(0.5)
    outputs = [layer(start, training=True), layer(start, training=False), layer(start)]
    assert [one._uses_learning_phase for one in outputs] == [False, False, True]
    run = K.function([start, K.learning_phase()], outputs)
    x = np.ones((3, 200))
    for phase, dropped in ((0, [True, False, False]), (1, [True, False, True])):
        assert [bool((one == 0).any()) for one in run([x, phase])] == dropped


@pytest.mark.parametrize("phase", [0, 1])
def test_a_fixed_phase_is_that_of_layers_made_afterwards(phase):
    K.set_learning_phase(phase)
    model = models.Sequential(
        [layers.Dropout(0.5, input_shape=(200,)), layers.BatchNormalization()]
    )
    assert not model.uses_learning_phase
    found = model.predict(np.random.normal(3, 1, (50, 200)))
    assert (abs(found.mean()) < 0.1) == (phase == 1)  # normalized by the batch, or by nothing yet


# ------------------------------------------------------------------ dropout of recurrent layers


def recurrent_with_masks(layer: Any, x: np.ndarray, cell: Any) -> tuple[Any, list, list]:
    """(outputs, masks of the input, masks of the state) of one training step."""
    start = layers.Input(x.shape[1:])
    outputs = layer(start)
    layer.set_weights([np.random.uniform(-0.7, 0.7, one.shape) for one in layer.weights])
    groups = [cell._dropout_mask, cell._recurrent_dropout_mask]
    flat = [one if isinstance(one, list) else [one] for one in groups]
    assert outputs._uses_learning_phase
    run = K.function([start, K.learning_phase()], [outputs, *flat[0], *flat[1]])
    found, *masks = run([x, 1])
    return found, masks[: len(flat[0])], masks[len(flat[0]) :]


@pytest.mark.parametrize("unroll", [False, True], ids=["loop", "unrolled"])
@pytest.mark.parametrize("name", ["SimpleRNN", "GRU", "LSTM"])
def test_recurrent_dropout_drops_the_same_at_every_step(name, unroll):
    """Each gate has masks of its own; a masked product is one with a kernel without some rows."""
    x = np.random.normal(size=(3, 6, 5)).astype("float32")
    options = {} if name == "SimpleRNN" else {"implementation": 1}
    layer = getattr(layers, name)(
        4, dropout=0.4, recurrent_dropout=0.3, return_sequences=True, unroll=unroll, **options
    )
    found, outer, inner = recurrent_with_masks(layer, x, layer.cell)
    for masks, rate in ((outer, 0.4), (inner, 0.3)):
        for one in masks:
            assert np.isin(one, np.array([0, 1 / (1 - rate)], "float32")).all()
        assert len(masks) == 1 or (masks[0] != masks[1]).any()
    kernel, recurrent, bias = layer.get_weights()
    step = {"SimpleRNN": slow.simple, "GRU": slow.gru, "LSTM": slow.lstm}[name]
    sizes = [(4,)] * (2 if name == "LSTM" else 1)
    for sample in range(3):
        gates = [
            np.concatenate(
                [
                    part * mask[sample][:, None]
                    for part, mask in zip(np.split(whole, len(masks), 1), masks, strict=True)
                ],
                axis=1,
            )
            for whole, masks in ((kernel, outer), (recurrent, inner))
        ]
        made = step(*gates, bias)
        wanted = slow.run(made, x[sample : sample + 1], sizes, sequences=True)
        np.testing.assert_allclose(found[sample], wanted[0], rtol=1e-4, atol=1e-5)


def test_dropout_of_a_convolutional_lstm_is_the_same_at_every_step():
    x = np.random.normal(size=(1, 4, 4, 5, 2)).astype("float32")
    layer = layers.ConvLSTM2D(2, 3, dropout=0.4, recurrent_dropout=0.3, return_sequences=True)
    found, outer, inner = recurrent_with_masks(layer, x, layer.cell)
    masks = [one[0] for one in outer], [one[0] for one in inner]
    step = slow.convolutional_lstm(*layer.get_weights(), masks=masks)
    wanted = slow.run(step, x, [(2, 3, 2)] * 2, sequences=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_dropout_in_the_cells_of_a_stack():
    x = np.random.normal(size=(2, 5, 3))
    cells = [layers.LSTMCell(4, dropout=0.5), layers.GRUCell(4, recurrent_dropout=0.5)]
    start = layers.Input((5, 3))
    run = K.function([start, K.learning_phase()], [RNN(cells)(start)])
    calm = run([x, 0])[0]
    np.testing.assert_array_equal(run([x, 0])[0], calm)
    assert (run([x, 1])[0] != calm).any()
    assert (run([x, 1])[0] != run([x, 1])[0]).any()


# ------------------------------------------------------------------ batch normalization


def statistics(x: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance over all axes but one, shaped to meet x."""
    others = tuple(one for one in range(x.ndim) if one != axis % x.ndim)
    return x.mean(others, keepdims=True), x.var(others, keepdims=True)


@pytest.mark.parametrize(
    ("shape", "axis"), [((6, 3), -1), ((5, 4, 3), -1), ((4, 3, 2, 3), 1), ((2, 3, 2, 2, 3), -1)]
)
def test_batch_normalization_in_training(shape, axis):
    """Output, the moving statistics after a step, and all gradients, in float64."""
    K.set_floatx("float64")
    x = np.random.normal(1, 2, shape)
    start = layers.Input(shape[1:])
    layer = layers.BatchNormalization(axis=axis, momentum=0.9)
    output = layer(start)
    gamma, beta, mean, variance = (np.random.uniform(0.5, 1.5, shape[axis]) for _ in range(4))
    layer.set_weights([gamma, beta, mean, variance])
    lined = [-1 if one == axis % x.ndim else 1 for one in range(x.ndim)]
    now_mean, now_variance = statistics(x, axis)
    wanted = (x - now_mean) / np.sqrt(now_variance + 1e-3)
    wanted = wanted * gamma.reshape(lined) + beta.reshape(lined)

    factor = np.random.normal(size=shape)
    total = K.sum(output * K.constant(factor))
    slopes = K.gradients(total, [start, layer.gamma, layer.beta])
    run = K.function([start, K.learning_phase()], [output, total, *slopes])
    found, _, slope, of_gamma, of_beta = run([x, 1])
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    way = np.random.normal(size=shape)
    ahead, behind = (float(run([x + step * way, 1])[1]) for step in (1e-6, -1e-6))
    assert (slope * way).sum() == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)
    others = tuple(one for one in range(x.ndim) if one != axis % x.ndim)
    np.testing.assert_allclose(of_beta, factor.sum(others), rtol=1e-10)
    np.testing.assert_allclose(
        of_gamma, (factor * (wanted - beta.reshape(lined))).sum(others) / gamma, rtol=1e-9
    )

    model = models.Model(start, output)
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.train_on_batch(x, x)
    count = x.size / shape[axis]
    unbiased = now_variance.ravel() * count / (count - 1 - 1e-3)
    _, _, new_mean, new_variance = layer.get_weights()
    np.testing.assert_allclose(new_mean, 0.9 * mean + 0.1 * now_mean.ravel(), rtol=1e-10)
    np.testing.assert_allclose(new_variance, 0.9 * variance + 0.1 * unbiased, rtol=1e-10)


def test_batch_normalization_that_is_not_trained_keeps_its_statistics():
    layer = layers.BatchNormalization()
    model = models.Sequential([layer])
    model.build((None, 3))
    layer.trainable = False
    model.compile("sgd", "mse")
    before = layer.get_weights()
    model.train_on_batch(np.random.normal(size=(8, 3)), np.zeros((8, 3)))
    for one, other in zip(layer.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_statistics_settle_on_those_of_the_data():
    """After enough batches the layer does in prediction what it did in training."""
    model = models.Sequential([layers.BatchNormalization(momentum=0.5, input_shape=(4,))])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    x = np.random.normal(3, 5, (64, 4))
    model.fit(x, x, 64, epochs=30, verbose=0)
    found = model.predict(x)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(found.std(0), 1, rtol=0.02)


def test_a_shared_batch_normalization_sees_both_inputs():
    one, two = layers.Input((3,)), layers.Input((3,))
    layer = layers.BatchNormalization(momentum=0.5)
    model = models.Model([one, two], [layer(one), layer(two)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    assert len(layer.updates) == 4
    x = np.random.normal(size=(8, 3))
    model.train_on_batch([x + 10, x + 10], [x, x])
    assert (layer.get_weights()[2] > 3).all()
