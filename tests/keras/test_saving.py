"""Models of Keras 2.3.1 on kbench in files, streams, pickles and texts."""

from __future__ import annotations

import io
import pickle

import h5py
import numpy as np
import part_table_optimizers
import pytest
from keras import backend as K
from keras import layers, models, optimizers
from keras.layers import Dense
from keras.models import Model, Sequential, load_model
from sampling import every

RNG = np.random.default_rng


def numbers(*shape, seed=1):
    return RNG(seed).normal(size=shape)


def sequential():
    return Sequential(
        [Dense(4, activation="tanh", input_shape=(3,)), layers.Dropout(0.5), Dense(2)]
    )


def functional():
    """Two inputs and outputs, a shared layer, a model in the model, state that is not trained."""
    a, b = layers.Input((3,), name="a"), layers.Input((3,), name="b")
    shared = Dense(4, activation="relu", name="shared")
    inner = Sequential([Dense(4, input_shape=(8,)), layers.BatchNormalization()], name="inner")
    both = inner(layers.concatenate([shared(a), shared(b)]))
    first = Dense(2, name="first")(both)
    return Model([a, b], [first, layers.Activation("tanh", name="second")(first)])


def recurrent():
    return Sequential(
        [
            layers.Embedding(7, 3, input_length=5, mask_zero=True),
            layers.Bidirectional(layers.LSTM(2, return_sequences=True, unit_forget_bias=True)),
            layers.TimeDistributed(Dense(2)),
        ]
    )


KINDS = {sequential: (1, 1), functional: (2, 2), recurrent: (1, 1)}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.__name__)


def data(model):
    """(inputs, targets) that fit a model, always the same ones."""
    x = [
        RNG(5).integers(0, 7, (6, 5))
        if K.int_shape(one) == (None, 5)
        else numbers(6, 3, seed=place)
        for place, one in enumerate(model.inputs)
    ]
    y = [numbers(6, *K.int_shape(one)[1:], seed=9) for one in model.outputs]
    return (x, y) if len(x) > 1 else (x[0], y[0])


def trained(kind, **options):
    model = kind()
    model.compile("adam", "mse", metrics=["mae"], **options)
    model.train_on_batch(*data(model))
    return model


def assert_same(one, other):
    x, _ = data(one)
    for a, b in zip(listed(one.predict(x)), listed(other.predict(x)), strict=True):
        np.testing.assert_array_equal(a, b)


def listed(value):
    return value if isinstance(value, list) else [value]


# ------------------------------------------------------------------ whole models


def by_path(model, folder):
    model.save(str(folder / "model.h5"))
    return load_model(str(folder / "model.h5"))


def by_file(model, folder):
    with h5py.File(folder / "model.h5", "w") as file:
        model.save(file)
    with h5py.File(folder / "model.h5", "r") as file:
        return load_model(file)


def by_group(model, folder):
    with h5py.File(folder / "model.h5", "w") as file:
        models.save_model(model, file.create_group("inner"))
        return load_model(file["inner"])


def by_stream(model, folder):
    stream = io.BytesIO()
    model.save(stream)
    stream.seek(0)
    return load_model(stream)


def by_pickle(model, folder):
    return pickle.loads(pickle.dumps(model))


@every_kind
@pytest.mark.parametrize("way", every(2, [by_path, by_file, by_group, by_stream, by_pickle]))
def test_whole_models(kind, way, tmp_path):
    model = trained(kind)
    loaded = way(model, tmp_path)
    assert_same(model, loaded)
    assert loaded.get_config() == model.get_config()
    x, y = data(model)
    found = loaded.evaluate(x, y, verbose=0)
    np.testing.assert_allclose(found, model.evaluate(x, y, verbose=0), rtol=1e-6)
    assert loaded.metrics_names == model.metrics_names


@pytest.mark.parametrize("row", part_table_optimizers.ROWS, ids=str)
def test_training_goes_on_exactly(row, tmp_path):
    """Three steps, a file, three more steps: bit for bit as six steps."""
    model = Sequential([Dense(4, activation="tanh", input_shape=(3,)), Dense(2)])
    model.compile(row.make(), "mse")
    x, y = data(model)
    for _ in range(3):
        model.train_on_batch(x, y)
    loaded = by_path(model, tmp_path)
    assert type(loaded.optimizer) is type(model.optimizer)
    for one, other in zip(model.optimizer.weights, loaded.optimizer.weights, strict=True):
        np.testing.assert_array_equal(K.get_value(one), K.get_value(other))
    for _ in range(3):
        model.train_on_batch(x, y)
        loaded.train_on_batch(x, y)
    for one, other in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_compilation(tmp_path):
    path = str(tmp_path / "model.h5")
    model = trained(sequential)
    model.save(path, include_optimizer=False)
    with pytest.warns(UserWarning, match="No training configuration"):
        loaded = load_model(path)
    assert_same(model, loaded)
    model.save(path)
    assert load_model(path, compile=False).optimizer is None


class Scaled(layers.Layer):
    """A layer of the user's own."""

    def __init__(self, by, **options):
        super().__init__(**options)
        self.by = by

    def build(self, input_shape):
        self.weight = self.add_weight(name="w", shape=input_shape[1:], initializer="ones")
        super().build(input_shape)

    def call(self, inputs):
        return inputs * self.weight * self.by

    def get_config(self):
        return {**super().get_config(), "by": self.by}


def own_loss(true, pred):
    return K.mean(K.abs(true - pred), axis=-1)


def test_the_users_own_parts(tmp_path):
    model = Sequential([Scaled(2.0, input_shape=(3,)), layers.Lambda(lambda x: x + 1)])
    model.compile("sgd", own_loss)
    model.train_on_batch(np.ones((2, 3)), np.ones((2, 3)))
    path = str(tmp_path / "model.h5")
    model.save(path)
    with pytest.raises(ValueError, match="Scaled"):
        load_model(path)
    loaded = load_model(path, custom_objects={"Scaled": Scaled, "own_loss": own_loss})
    assert_same(model, loaded)
    with pytest.raises(OSError):
        load_model(str(tmp_path / "missing.h5"))


# ------------------------------------------------------------------ weights and configurations


@every_kind
def test_weights(kind, tmp_path):
    model, twin = trained(kind), kind()
    path = str(tmp_path / "weights.h5")
    model.save_weights(path)
    twin.load_weights(path)
    assert_same(model, twin)
    other = kind()
    other.set_weights(model.get_weights())
    assert_same(model, other)


def test_weights_by_name(tmp_path):
    path = str(tmp_path / "weights.h5")
    model = Sequential([Dense(4, name="one", input_shape=(3,)), Dense(2, name="two")])
    model.save_weights(path)
    other = Sequential([Dense(4, name="one", input_shape=(3,)), Dense(5, name="three")])
    untouched = other.layers[1].get_weights()[0]
    other.load_weights(path, by_name=True)
    np.testing.assert_array_equal(other.layers[0].get_weights()[0], model.get_weights()[0])
    np.testing.assert_array_equal(other.layers[1].get_weights()[0], untouched)
    wider = Sequential([Dense(6, name="one", input_shape=(3,)), Dense(2, name="other")])
    with pytest.raises(ValueError, match="one"):
        wider.load_weights(path, by_name=True)
    with pytest.warns(UserWarning, match="mismatch"):
        wider.load_weights(path, by_name=True, skip_mismatch=True)
    with pytest.raises(ValueError, match="2 layers into a model with 1"):
        Sequential([Dense(4, input_shape=(3,))]).load_weights(path)


def test_names_that_fill_more_than_a_header(tmp_path):
    path = str(tmp_path / "weights.h5")
    names = [f"{number:02d}" + "x" * 3000 for number in range(30)]
    model, twin = (Sequential([Dense(2, name=name) for name in names]) for _ in range(2))
    model.build((None, 2))
    twin.build((None, 2))
    model.save_weights(path)
    twin.load_weights(path)
    np.testing.assert_array_equal(twin.get_weights()[-2], model.get_weights()[-2])


@every_kind
def test_json_and_yaml(kind):
    model = trained(kind)
    for text, read in (
        (model.to_json(), models.model_from_json),
        (model.to_yaml(), models.model_from_yaml),
    ):
        twin = read(text)
        twin.set_weights(model.get_weights())
        assert_same(model, twin)
    twin = type(model).from_config(model.get_config())
    assert [type(one) for one in twin.layers] == [type(one) for one in model.layers]


def test_the_file_names_its_maker(tmp_path):
    path = str(tmp_path / "model.h5")
    trained(sequential).save(path)
    with h5py.File(path) as file:
        assert file["model_weights"].attrs["backend"] == "kbench"
        assert file["model_weights"].attrs["keras_version"] == "2.3.1"
        assert sorted(file["model_weights"]) == ["dense_1", "dense_2", "dropout_1"]
        names = list(file["model_weights/dense_1"].attrs["weight_names"])
    assert names == ["dense_1/kernel:0", "dense_1/bias:0"]


def test_a_whole_model_of_old_keras(tmp_path):
    """Attributes written as bytes, with the training configuration of 2.0, and what is set anew."""
    path = str(tmp_path / "model.h5")
    model = trained(sequential)
    model.save(path)
    with h5py.File(path, "r+") as file:
        for group in (file, file["model_weights"]):
            for name, value in (("backend", "theano"), ("keras_version", "2.0.8")):
                if name in group.attrs:
                    group.attrs[name] = np.bytes_(value)
        config = file.attrs["training_config"]
        config = config if isinstance(config, bytes) else config.encode()
        file.attrs["training_config"] = np.bytes_(config.replace(b"learning_rate", b"lr"))
    loaded = load_model(path)
    assert_same(model, loaded)
    assert isinstance(loaded.optimizer, optimizers.Adam)
    assert K.get_value(loaded.optimizer.lr) == K.get_value(model.optimizer.lr)
