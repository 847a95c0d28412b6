"""Layers of Keras 3: a traced prediction is that of an eager call, and training lowers the loss."""

import keras3_there  # noqa: F401  # isort: skip
import keras
import numpy as np
import pytest
from keras import layers

DRAW = np.random.RandomState(5)
ROWS = DRAW.randn(12, 6).astype("float32")
STEPS = DRAW.randn(12, 7, 4).astype("float32")
IMAGES = DRAW.randn(12, 8, 8, 3).astype("float32")
VOLUMES = DRAW.randn(12, 4, 4, 4, 2).astype("float32")
TOKENS = DRAW.randint(0, 20, (12, 7))

CASES = {
    "dense": (ROWS, [layers.Dense(4, "gelu")]),
    "conv1d": (STEPS, [layers.Conv1D(3, 3, padding="causal", dilation_rate=2)]),
    "conv1d_transpose": (STEPS, [layers.Conv1DTranspose(3, 3, 2)]),
    "conv2d": (IMAGES, [layers.Conv2D(4, 3, 2, padding="same", activation="relu")]),
    "conv2d_groups": (IMAGES, [layers.Conv2D(6, 3, groups=3)]),
    "conv2d_transpose": (IMAGES, [layers.Conv2DTranspose(4, 3, 2, padding="same")]),
    "conv3d": (VOLUMES, [layers.Conv3D(3, 2)]),
    "conv3d_transpose": (VOLUMES, [layers.Conv3DTranspose(3, 2, 2)]),
    "depthwise1d": (STEPS, [layers.DepthwiseConv1D(3)]),
    "depthwise": (IMAGES, [layers.DepthwiseConv2D(3, depth_multiplier=2)]),
    "separable": (IMAGES, [layers.SeparableConv2D(4, 3)]),
    "max_pool": (IMAGES, [layers.MaxPooling2D(), layers.Conv2D(2, 2)]),
    "average_pool": (STEPS, [layers.AveragePooling1D(2), layers.Dense(2)]),
    "global_pool": (VOLUMES, [layers.GlobalAveragePooling3D(), layers.Dense(2)]),
    "batch_normalization": (IMAGES, [layers.BatchNormalization(), layers.Conv2D(2, 3)]),
    "layer_normalization": (STEPS, [layers.LayerNormalization(), layers.Dense(2)]),
    "group_normalization": (IMAGES, [layers.GroupNormalization(3), layers.Conv2D(2, 3)]),
    "dropout": (ROWS, [layers.Dense(16, "relu"), layers.Dropout(0.3), layers.Dense(2)]),
    "embedding": (TOKENS, [layers.Embedding(20, 5, mask_zero=True), layers.LSTM(3)]),
    "lstm": (STEPS, [layers.LSTM(5, return_sequences=True)]),
    "gru": (STEPS, [layers.GRU(5)]),
    "simple_rnn": (STEPS, [layers.SimpleRNN(5, go_backwards=True)]),
    "bidirectional": (STEPS, [layers.Bidirectional(layers.GRU(4))]),
    "conv_lstm": (DRAW.randn(8, 3, 6, 2).astype("float32"), [layers.ConvLSTM1D(2, 2)]),
    "time_distributed": (STEPS, [layers.TimeDistributed(layers.Dense(3))]),
    "einsum_dense": (STEPS, [layers.EinsumDense("abc,cd->abd", (7, 3))]),
    "flatten": (IMAGES, [layers.Flatten(), layers.Dense(3)]),
}


def _targets(model, x):
    return DRAW.uniform(-0.5, 0.5, (len(x), *model.output_shape[1:])).astype("float32")


@pytest.mark.parametrize("name", CASES)
def test_a_layer_predicts_as_it_is_called_and_trains(name):
    keras.utils.set_random_seed(1)
    x, parts = CASES[name]
    model = keras.Sequential([keras.Input(x.shape[1:]), *parts])
    np.testing.assert_allclose(model.predict(x, verbose=0), model(x), rtol=1e-4, atol=1e-5)
    model.compile(keras.optimizers.Adam(0.02), "mse")
    y = _targets(model, x)
    losses = model.fit(x, y, batch_size=len(x), epochs=12, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


class Halves(layers.Layer):
    """A layer of a user that splits steps and their mask."""

    def call(self, x):
        return keras.ops.split(x, 2, axis=1)

    def compute_mask(self, x, mask=None):
        return None if mask is None else keras.ops.split(mask, 2, axis=1)


PADDED = np.array([[1, 2, 3, 0], [4, 0, 0, 0]])
FILLED = PADDED != 0
VECTORS = np.repeat(PADDED[..., None], 3, -1).astype("float32")
MASKS = {
    "embedding": (PADDED, [layers.Embedding(9, 3, mask_zero=True)], [FILLED]),
    "embedding_without": (PADDED, [layers.Embedding(9, 3)], [None]),
    "masking": (VECTORS, [layers.Masking()], [FILLED]),
    "passed_on": (VECTORS, [layers.Masking(), layers.Dense(2), layers.Dropout(0.5)], [FILLED]),
    "used_up": (VECTORS, [layers.Masking(), layers.LSTM(2)], [None]),
    "split": (VECTORS, [layers.Masking(), Halves()], [FILLED[:, :2], FILLED[:, 2:]]),
    "none_given": (VECTORS, [Halves()], [None, None]),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_an_attribute_of_a_known_output(name):
    given, parts, wanted = MASKS[name]
    found = given
    for part in parts:
        found = part(found)
    for output, mask in zip(keras.tree.flatten(found), wanted, strict=True):
        seen = getattr(output, "_keras_mask", None)
        assert (seen is None) == (mask is None)
        if mask is not None:
            np.testing.assert_array_equal(seen, mask)
        for computed in (output + 1, np.exp(output), output.sum(0)):
            assert type(computed) is np.ndarray  # a mask is not that of what is computed
        assert isinstance(output.sum(), np.float32)
        assert repr(output).startswith("array(")
    assert not hasattr(given, "_keras_mask")


class _Joined(layers.Layer):
    """Texts and numbers in one argument, which the layer converts itself."""

    def __init__(self, converts):
        super().__init__()
        self._allow_non_tensor_positional_args = True
        self._convert_input_args = not converts

    def call(self, inputs, weight=None):
        words, numbers = inputs
        assert type(numbers) in (np.ndarray, np.int64)
        found = [f"{word}{number}" for word, number in zip(words, numbers, strict=True)]
        return np.array([len(one) for one in found]) * (1 if weight is None else weight["by"])


NUMBERS = np.array([1, 22, 333])


def test_a_layer_gets_the_dict_that_it_is_given():
    class Halves(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self._convert_input_args = False

        def call(self, data):
            data["x"] = data["x"] / 2
            return data

    given = {"x": np.ones(2), "y": np.ones(3)}
    assert Halves()(given)["x"] is given["x"]
    assert given["x"].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("words", "more", "wanted"),
    [
        (np.array(["a", "bc", "d"]), {}, [2, 4, 4]),
        (["a", "bc", "d"], {}, [2, 4, 4]),
        (np.array(["a", "bc", "d"], object), {"weight": {"by": NUMBERS}}, [2, 88, 1332]),
        (np.array(["a", "bc", "d"]), {"weight": {"by": np.int64(2), "as": "text"}}, [4, 8, 8]),
    ],
    ids=["texts", "strings", "objects", "keyword"],
)
def test_a_layer_takes_texts_and_numbers_in_one_argument(words, more, wanted):
    layer = _Joined(converts=True)
    for _ in range(2):  # built by the first call
        found = layer((words, NUMBERS), **more)
        np.testing.assert_array_equal(found, wanted)
        assert keras.ops.is_tensor(found) and keras.ops.is_tensor(NUMBERS)
    with pytest.raises(ValueError, match="cannot mix tensors and non-tensors|Invalid dtype"):
        _Joined(converts=False)((words, NUMBERS), **more)
    with pytest.raises(ValueError, match="cannot mix tensors and non-tensors"):
        layer((words, keras.Input((3,))))
    masked = layers.Masking()(np.ones((3, 2, 1), "float32"))
    with pytest.raises(ValueError, match="cannot mix tensors and non-tensors"):
        layer((words, masked))  # whose mask would be lost


def test_attention_trains():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((7, 4))
    found = layers.MultiHeadAttention(2, 3)(inputs, inputs, use_causal_mask=True)
    model = keras.Model(inputs, layers.Dense(2)(layers.Add()([inputs, found])))
    np.testing.assert_allclose(model.predict(STEPS, verbose=0), model(STEPS), rtol=1e-4, atol=1e-5)
    model.compile("adam", "mse")
    y = _targets(model, STEPS)
    losses = model.fit(STEPS, y, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_batch_normalization_moves_its_means():
    layer = layers.BatchNormalization(momentum=0.5)
    model = keras.Sequential([keras.Input((6,)), layer])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(ROWS, ROWS, batch_size=12, verbose=0)
    np.testing.assert_allclose(layer.moving_mean, 0.5 * ROWS.mean(0), rtol=1e-4, atol=1e-6)
    wanted = 0.5 + 0.5 * ROWS.var(0)
    np.testing.assert_allclose(layer.moving_variance, wanted, rtol=1e-4)


def test_dropout_draws_by_its_seed():
    ones = np.ones((50, 40), "float32")
    first, second = (layers.Dropout(0.25, seed=9) for _ in range(2))
    mask = first(ones, training=True)
    np.testing.assert_array_equal(mask, second(ones, training=True))
    assert not np.array_equal(mask, first(ones, training=True))  # the generator has gone on
    assert set(np.unique(mask)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(mask.mean() - 1) < 0.05
    draws = [keras.random.dropout(ones, 0.25, seed=4) for _ in range(2)]
    np.testing.assert_array_equal(*draws)


def test_a_traced_step_draws_as_an_eager_call():
    model = keras.Sequential([keras.Input((40,)), layers.Dropout(0.5, seed=2)])
    other = layers.Dropout(0.5, seed=2)
    ones = np.ones((8, 40), "float32")
    seen = []

    class Seeing(keras.Model):
        def train_step(self, data):
            return {"sum": keras.ops.sum(self(data[0], training=True)[0])}

    wrapped = Seeing(model.inputs, model.outputs)
    wrapped.compile("sgd", "mse")
    for _ in range(2):
        seen.append(wrapped.train_on_batch(ones, ones, return_dict=True)["sum"])
    wanted = [float(np.sum(other(ones, training=True)[0])) for _ in range(2)]
    np.testing.assert_allclose(seen, wanted)


@pytest.mark.parametrize("file", ["model.keras", "model.h5", "model.weights.h5"])
def test_files(tmp_path, file):
    def made():
        parts = [layers.Conv2D(3, 3), layers.BatchNormalization(), layers.Flatten()]
        return keras.Sequential([keras.Input((8, 8, 3)), *parts, layers.Dense(2)])

    model = made()
    model.compile("adam", "mse")
    model.fit(IMAGES, np.zeros((12, 2), "float32"), verbose=0)
    if file.endswith("weights.h5"):
        model.save_weights(tmp_path / file)
        other = made()
        other.load_weights(tmp_path / file)
    else:
        model.save(tmp_path / file)
        other = keras.saving.load_model(tmp_path / file, compile=file.endswith(".keras"))
    wanted = model.predict(IMAGES, verbose=0)
    np.testing.assert_allclose(other.predict(IMAGES, verbose=0), wanted, rtol=1e-6)


@pytest.mark.parametrize("window", [(3,), (3, 2)], ids=str)
@pytest.mark.parametrize(("strides", "dilation_rate"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_filters_of_one_channel_each_are_convolutions_of_it(
    window, strides, dilation_rate, padding
):
    draw = np.random.RandomState(2)
    x = draw.randn(2, *(9, 8)[: len(window)], 4).astype("float32")
    kernel = draw.randn(*window, 1, 12).astype("float32")
    options = {"strides": strides, "dilation_rate": dilation_rate, "padding": padding}
    found = keras.ops.conv(x, kernel, **options)
    alone = [
        keras.ops.conv(x[..., i : i + 1], kernel[..., 3 * i : 3 * i + 3], **options)
        for i in range(4)
    ]
    np.testing.assert_allclose(found, np.concatenate(alone, -1), rtol=1e-4, atol=1e-5)
