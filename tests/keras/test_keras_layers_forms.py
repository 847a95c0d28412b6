"""Layers in other forms: unknown sizes, old names, functions, layouts, precisions, wrong calls."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest
from keras import backend as K
from keras import layers, models, regularizers

from kbench.engine.core.errors import KbenchError
from kbench.workbench.errors import explanation

# ------------------------------------------------------------------ sizes that only a batch tells

# layer, input without batch, a sample's shape
UNKNOWN = {
    "Dense": (lambda: layers.Dense(2), (None, 3), (4, 3)),
    "Embedding": (lambda: layers.Embedding(9, 2), (None,), (4,)),
    "Conv1D": (lambda: layers.Conv1D(2, 3, padding="same"), (None, 3), (5, 3)),
    "causal": (lambda: layers.Conv1D(2, 3, padding="causal"), (None, 3), (5, 3)),
    "Conv2D": (lambda: layers.Conv2D(2, 3, strides=2), (None, None, 3), (7, 6, 3)),
    "Conv3D": (lambda: layers.Conv3D(2, 2), (None, None, None, 1), (3, 4, 3, 1)),
    "Conv2DTranspose": (
        lambda: layers.Conv2DTranspose(2, 3, strides=2),
        (None, None, 3),
        (4, 3, 3),
    ),
    "Conv3DTranspose": (lambda: layers.Conv3DTranspose(2, 2), (None,) * 3 + (1,), (3, 2, 3, 1)),
    "SeparableConv2D": (lambda: layers.SeparableConv2D(2, 3), (None, None, 3), (5, 4, 3)),
    "DepthwiseConv2D": (lambda: layers.DepthwiseConv2D(3), (None, None, 3), (5, 4, 3)),
    "MaxPooling1D": (lambda: layers.MaxPooling1D(2), (None, 3), (5, 3)),
    "AveragePooling2D": (
        lambda: layers.AveragePooling2D(2, padding="same"),
        (None, None, 2),
        (5, 4, 2),
    ),
    "MaxPooling3D": (lambda: layers.MaxPooling3D(2), (None, None, None, 2), (4, 2, 4, 2)),
    "GlobalMaxPooling2D": (lambda: layers.GlobalMaxPooling2D(), (None, None, 2), (3, 4, 2)),
    "GlobalAveragePooling1D": (lambda: layers.GlobalAveragePooling1D(), (None, 2), (3, 2)),
    "UpSampling2D": (lambda: layers.UpSampling2D(2), (None, None, 2), (3, 4, 2)),
    "bilinear": (
        lambda: layers.UpSampling2D(2, interpolation="bilinear"),
        (None, None, 2),
        (3, 4, 2),
    ),
    "ZeroPadding2D": (lambda: layers.ZeroPadding2D(1), (None, None, 2), (3, 4, 2)),
    "Cropping2D": (lambda: layers.Cropping2D(1), (None, None, 2), (4, 5, 2)),
    "BatchNormalization": (lambda: layers.BatchNormalization(), (None, None, 2), (4, 5, 2)),
    "Reshape": (lambda: layers.Reshape((-1, 2)), (None, 4), (3, 4)),
    "Permute": (lambda: layers.Permute((2, 1)), (None, 4), (3, 4)),
    "LSTM": (lambda: layers.LSTM(2), (None, 3), (5, 3)),
    "GRU": (lambda: layers.GRU(2, return_sequences=True), (None, 3), (5, 3)),
    "Bidirectional": (lambda: layers.Bidirectional(layers.LSTM(2)), (None, 3), (5, 3)),
    "TimeDistributed": (lambda: layers.TimeDistributed(layers.Dense(2)), (None, 3), (5, 3)),
    "ConvLSTM2D": (lambda: layers.ConvLSTM2D(2, 2), (None, 4, 4, 1), (3, 4, 4, 1)),
    "ConvLSTM2D, any size": (
        lambda: layers.ConvLSTM2D(2, 2, padding="same"),
        (None, None, None, 1),
        (3, 4, 5, 1),
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_sizes_give_what_known_ones_give(name):
    """The value and the gradient to the weights are the same, and the static shape is honest."""
    make, unknown, known = UNKNOWN[name]
    x = np.random.uniform(-1, 1, (2, *known))
    if name == "Embedding":
        x = np.random.randint(0, 9, (2, *known))
    loose, layer = layers.Input(unknown), make()
    tight, twin = layers.Input(known), make()
    open_output, closed_output = layer(loose), twin(tight)
    layer.set_weights(twin.get_weights())
    for size, real in zip(K.int_shape(open_output), K.int_shape(closed_output), strict=True):
        assert size in (None, real)
    results = []
    for start, output, one in ((loose, open_output, layer), (tight, closed_output, twin)):
        slopes = K.gradients(K.sum(K.square(output)), one.trainable_weights)
        results.append(K.function([start], [output, *slopes])([x]))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_model_for_any_size_takes_batches_of_several():
    model = models.Sequential(
        [layers.Conv2D(3, 3, input_shape=(None, None, 1)), layers.GlobalAveragePooling2D()]
    )
    model.compile("sgd", "mse")
    for size in (5, 9, 4):
        x = np.random.normal(size=(2, size, size + 1, 1))
        assert model.predict(x).shape == (2, 3)
        assert np.isfinite(model.train_on_batch(x, np.zeros((2, 3))))


def test_layers_of_plain_tensors():
    """A layer takes what no layer made: constants and variables of the backend."""
    layer = layers.Dense(2)
    x = np.random.normal(size=(3, 4)).astype("float32")
    outputs = [layer(K.constant(x)), layer(K.variable(x))]
    kernel, bias = layer.get_weights()
    for one in outputs:
        np.testing.assert_allclose(K.eval(one), x @ kernel + bias, rtol=1e-5, atol=1e-6)


class Doubled(layers.Layer):
    """A user's layer that does not say which shape it makes."""

    def call(self, inputs: Any) -> Any:
        return K.concatenate([inputs, inputs], axis=1)


SILENT = {
    "layer": (Doubled, 10),
    "wrong shape": (lambda: layers.Lambda(lambda x: x[:, :2], output_shape=(7,)), 2),
    "wrong rank": (lambda: layers.Lambda(lambda x: x[:, :2], output_shape=(2, 2)), 2),
}


@pytest.mark.parametrize("name", SILENT)
def test_what_a_layer_tells_of_its_shape_gives_way_to_what_is_known(name):
    make, width = SILENT[name]
    start = layers.Input((5,))
    output = make()(start)
    assert output._keras_shape == K.int_shape(output) == (None, width)
    model = models.Model(start, layers.Dense(3)(output))
    assert model.predict(np.ones((2, 5))).shape == (2, 3)


def test_what_a_layer_tells_of_unknown_sizes_is_taken():
    start = layers.Input((None,))
    output = layers.Lambda(lambda x: x, output_shape=(4,))(start)
    assert K.int_shape(output) == (None, 4)
    assert layers.Dense(3)(output)._keras_shape == (None, 3)
    assert K.ones_like(start)._keras_shape == (None, None)


# ------------------------------------------------------------------ functions and old names

MERGES = {
    "add": "Add",
    "subtract": "Subtract",
    "multiply": "Multiply",
    "average": "Average",
    "maximum": "Maximum",
    "minimum": "Minimum",
    "concatenate": "Concatenate",
}


@pytest.mark.parametrize("name", [*MERGES, "dot"])
def test_merges_as_functions(name):
    one, two = layers.Input((4,)), layers.Input((4,))
    named = {"axes": 1} if name == "dot" else {}
    outputs = [
        getattr(layers, name)([one, two], **named),
        getattr(layers, MERGES.get(name, "Dot"))(**named)([one, two]),
    ]
    feeds = [np.random.normal(size=(3, 4)) for _ in range(2)]
    np.testing.assert_array_equal(*K.function([one, two], outputs)(feeds))


ALIASES = {
    "Convolution1D": "Conv1D",
    "Convolution2D": "Conv2D",
    "Convolution3D": "Conv3D",
    "Deconvolution2D": "Conv2DTranspose",
    "Deconvolution3D": "Conv3DTranspose",
    "MaxPool1D": "MaxPooling1D",
    "AvgPool3D": "AveragePooling3D",
    "GlobalAvgPool2D": "GlobalAveragePooling2D",
    "GlobalMaxPool3D": "GlobalMaxPooling3D",
}


@pytest.mark.parametrize("old", ALIASES)
def test_other_names(old):
    assert getattr(layers, old) is getattr(layers, ALIASES[old])


def test_arguments_of_keras_1():
    """The old arguments warn of the new ones and mean the same."""
    x = np.random.normal(size=(2, 5, 6, 3))
    with pytest.warns(UserWarning, match="Update your `Conv2D` call to the Keras 2 API"):
        old = layers.Convolution2D(
            4, 3, 2, border_mode="same", subsample=(2, 1), dim_ordering="tf", init="uniform"
        )
    new = layers.Conv2D(4, (3, 2), padding="same", strides=(2, 1))
    start = layers.Input((5, 6, 3))
    outputs = [old(start), new(start)]
    new.set_weights(old.get_weights())
    np.testing.assert_array_equal(*K.function([start], outputs)([x]))


@pytest.mark.parametrize("rank", [1, 2])
def test_atrous_convolution(rank):
    with pytest.warns(UserWarning, match="has been deprecated"):
        old = getattr(layers, f"AtrousConvolution{rank}D")(2, 3, atrous_rate=2)
    assert isinstance(old, getattr(layers, f"Conv{rank}D"))
    assert old.dilation_rate == (2,) * rank


@pytest.mark.parametrize("name", ["CuDNNGRU", "CuDNNLSTM"])
def test_layers_of_a_graphics_card_say_what_to_use(name):
    with pytest.raises(RuntimeError, match=f"{name} needs TensorFlow; on kbench use"):
        getattr(layers, name)(3)


# ------------------------------------------------------------------ layouts and precisions


def test_the_global_layout_is_that_of_new_layers():
    x = np.random.normal(size=(2, 3, 5, 4)).astype("float32")
    results = []
    for form in ("channels_first", "channels_last"):
        K.set_image_data_format(form)
        model = models.Sequential(
            [
                layers.Conv2D(4, 2, activation="relu", input_shape=x.shape[1:]),
                layers.MaxPooling2D(2),
                layers.BatchNormalization(axis=1 if form == "channels_first" else -1),
                layers.Flatten(),
                layers.Dense(2),
            ]
        )
        if results:
            model.set_weights(results[0][1])
        results.append((model.predict(x), model.get_weights()))
        x = x.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-2), ("float64", 1e-5)])
def test_other_precisions(dtype, tolerance):
    """A small model of many kinds of layers computes and trains in every precision."""
    x = np.random.normal(size=(4, 6, 6, 1))

    def build() -> Any:
        return models.Sequential(
            [
                layers.Conv2D(3, 3, activation="relu", input_shape=(6, 6, 1)),
                layers.BatchNormalization(),
                layers.MaxPooling2D(2),
                layers.Reshape((2, 6)),
                layers.Bidirectional(layers.GRU(3, return_sequences=True)),
                layers.LSTM(3),
                layers.Dropout(0.1),
                layers.Dense(2, activation="softmax"),
            ]
        )

    reference = build()
    wanted = reference.predict(x)
    K.set_floatx(dtype)
    model = build()
    model.set_weights(reference.get_weights())
    found = model.predict(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    assert {K.dtype(one) for one in model.weights} == {dtype}
    model.compile(keras.optimizers.SGD(0.1), "categorical_crossentropy")
    before = model.evaluate(x, np.eye(2)[[0, 0, 0, 0]], verbose=0)
    model.fit(x, np.eye(2)[[0, 0, 0, 0]], epochs=4, verbose=0)
    assert model.evaluate(x, np.eye(2)[[0, 0, 0, 0]], verbose=0) < before


# ------------------------------------------------------------------ regularizers, nesting, sharing


def test_penalties_of_weights_and_activity_enter_the_loss():
    layer = layers.Dense(
        3,
        kernel_regularizer=regularizers.l1_l2(0.1, 0.2),
        bias_regularizer=regularizers.l2(0.3),
        activity_regularizer=regularizers.l1(0.4),
        bias_initializer="ones",
        input_shape=(4,),
    )
    model = models.Sequential([layer, layers.ActivityRegularization(0.5, 0.6)])
    model.compile("sgd", "mse")
    x = np.random.normal(size=(5, 4))
    y = model.predict(x)
    kernel, bias = layer.get_weights()
    penalty = 0.1 * np.abs(kernel).sum() + 0.2 * (kernel**2).sum() + 0.3 * (bias**2).sum()
    penalty += (0.4 + 0.5) * np.abs(y).sum() + 0.6 * (y**2).sum()
    assert model.evaluate(x, y, verbose=0) == pytest.approx(penalty, rel=1e-5)


def test_a_model_as_a_layer_at_every_step(tmp_path):
    inner = models.Sequential(
        [layers.Conv2D(2, 2, activation="relu", input_shape=(4, 4, 1)), layers.Flatten()]
    )
    model = models.Sequential(
        [layers.TimeDistributed(inner, input_shape=(None, 4, 4, 1)), layers.LSTM(3)]
    )
    model.compile("adam", "mse")
    x = np.random.normal(size=(2, 3, 4, 4, 1))
    steps = K.function(model.inputs, [model.layers[0].output])([x])[0]
    for time in range(3):
        np.testing.assert_allclose(steps[:, time], inner.predict(x[:, time]), rtol=1e-6, atol=1e-7)
    model.fit(x, np.ones((2, 3)), epochs=2, verbose=0)
    model.save(str(tmp_path / "model.h5"))
    loaded = models.load_model(str(tmp_path / "model.h5"))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


def test_a_layer_used_twice_has_one_set_of_weights():
    one, two = layers.Input((4, 3)), layers.Input((4, 3))
    layer = layers.LSTM(2)
    model = models.Model([one, two], layers.subtract([layer(one), layer(two)]))
    assert len(model.trainable_weights) == 3
    model.compile("sgd", "mse")
    x = np.random.normal(size=(2, 4, 3))
    assert (model.predict([x, x]) == 0).all()
    assert model.train_on_batch([x, -x], np.zeros((2, 2))) > 0


def test_the_layer_where_a_model_starts():
    start = layers.Input((None, 3), name="entry")
    model = models.Model(start, layers.LSTM(2)(start))
    twin = models.model_from_json(model.to_json())
    assert isinstance(twin.layers[0], layers.InputLayer)
    assert twin.get_layer("entry").batch_input_shape == (None, None, 3)
    sequence = models.Sequential([layers.InputLayer((3,)), layers.Dense(2)])
    assert sequence.predict(np.zeros((4, 3))).shape == (4, 2)


# ------------------------------------------------------------------ wrong calls


def test_an_index_outside_of_an_embedding_is_an_error():
    model = models.Sequential([layers.Embedding(4, 2, input_shape=(3,))])
    for wrong in (4, -1):
        with pytest.raises(KbenchError, match=f"index {wrong} is out of range for 4 rows"):
            model.predict(np.array([[0, 1, wrong]]))


def test_a_batch_of_another_width_is_refused():
    model = models.Sequential([layers.Dense(2, input_shape=(3,))])
    with pytest.raises(ValueError, match=r"to have shape \(3,\) but got array with shape \(4,\)"):
        model.predict(np.zeros((2, 4)))


def line_of(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


def test_errors_name_the_line_of_the_model_not_one_of_keras():
    here = test_errors_name_the_line_of_the_model_not_one_of_keras
    start = layers.Input((3,))
    with pytest.raises(KbenchError) as caught:
        layers.Lambda(lambda x: K.dot(x, K.ones((4, 2))))(start)
    assert caught.value.function == "dot"
    assert caught.value.place.file == __file__
    assert caught.value.place.line == line_of(here, "K.dot(")

    one, two = layers.Input((2, 3)), layers.Input((2, 4))
    with pytest.raises(KbenchError) as caught:
        layers.Lambda(sum)([one, two])
    assert caught.value.place.line == line_of(here, "layers.Lambda(sum)")
    hidden = layers.Dense(4)(start)
    assert hidden.place.line == line_of(here, "layers.Dense(4)")
    assert hidden.called == "bias_add"


def test_errors_draw_the_expression_of_the_model():
    narrow = layers.Input((1, 5, 2))
    with pytest.raises(KbenchError, match="a window of 2 is larger than spatial axis 0") as caught:
        layers.Conv2D(3, 2)(narrow)
    first, second, *_ = explanation.detail(caught.value)["drawing"]
    assert first.strip() == "layers.Conv2D(3, 2)(narrow)"
    assert second.index("+--") == first.index("narrow")
