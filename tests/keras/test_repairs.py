"""What Keras 2.3.1 has from Python, NumPy and h5py of its day, mended for today's."""

from __future__ import annotations

import h5py
import keras
import numpy as np
import pytest
from keras import applications, layers
from keras import backend as K
from keras.datasets import imdb, reuters
from keras.layers import Dense
from keras.models import Sequential, load_model
from keras.utils import HDF5Matrix, generic_utils, io_utils

RNG = np.random.default_rng


def linear():
    model = Sequential([Dense(1, input_shape=(3,))])
    model.compile("sgd", "mse")
    return model


def ragged(*rows):
    """An array of lists, as the data sets are stored."""
    found = np.empty(len(rows), object)
    found[:] = [list(row) for row in rows]
    return found


def test_sizes_of_a_shape_are_numbers_of_python(capsys):
    """NumPy 2 shows its own as `np.int64(12)`, in `summary` too."""
    parts = [layers.Flatten(input_shape=(2, 3, 2)), layers.Reshape((3, -1)), layers.Flatten()]
    model = Sequential(parts)
    shapes = [layer.output_shape for layer in model.layers]
    assert shapes == [(None, 12), (None, 3, 4), (None, 12)]
    assert {type(size) for shape in shapes for size in shape[1:]} == {int}
    model.summary()
    assert "(None, 12)" in capsys.readouterr().out


@pytest.mark.parametrize("source", [imdb, reuters], ids=["imdb", "reuters"])
@pytest.mark.parametrize("rows", [[(1, 2, 3), (4, 5), (6,)] * 4, [(1, 2), (3, 4)] * 6])
def test_texts_of_unequal_length(source, rows, tmp_path, monkeypatch):
    """`np.array` of them was an array of lists, and is an error now; equal ones still stack."""
    path = tmp_path / "texts.npz"
    texts, labels = ragged(*rows), np.arange(len(rows)) % 2
    if source is imdb:
        np.savez(path, x_train=texts, y_train=labels, x_test=texts, y_test=labels)
    else:
        np.savez(path, x=texts, y=labels)
    monkeypatch.setattr(source, "get_file", lambda *_arguments, **_options: str(path))
    (x_train, y_train), (x_test, y_test) = source.load_data(num_words=6)
    assert len(x_train) == len(y_train) > 0
    assert len(x_test) == len(y_test) > 0
    lengths = {len(row) for row in rows}
    assert {len(row) for row in x_train} <= {one + 1 for one in lengths}
    assert max(max(row) for row in x_train) < 6


def test_matrices_in_files(tmp_path):
    path = str(tmp_path / "data.h5")
    x, y = RNG(1).normal(size=(10, 3)), RNG(2).normal(size=(10, 1))
    with h5py.File(path, "w") as file:
        file["x"], file["y"] = x, y
    inputs = HDF5Matrix(path, "x", 0, 8, normalizer=lambda values: 2 * values)
    targets = HDF5Matrix(path, "y", 0, 8)
    model = linear()
    model.fit(inputs, targets, 4, shuffle="batch", verbose=0)
    np.testing.assert_array_equal(model.predict(inputs), model.predict(2 * x[:8]))


H5_VALUES = [
    ([b"a", b"bcd", b""], [b"a", b"bcd", b""]),
    ((b"a",), [b"a"]),
    (["kernel", "größe"], [b"kernel", "größe".encode()]),
    ([b"caf\xe9"], [b"caf\xe9"]),
    ([b"x" * 400] * 300, ["x" * 400] * 300),  # in chunks, which Keras itself gives as text
    (b"bytes", b"bytes"),
    (b"caf\xe9", b"caf\xe9"),
    ("text", "text"),
    (3, 3),
    (np.array([b"a", b"bc"]), np.array([b"a", b"bc"])),
    (np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3)),
]


@pytest.mark.parametrize(("value", "wanted"), H5_VALUES, ids=range(len(H5_VALUES)))
def test_a_dictionary_in_a_file_gives_back_what_was_stored(value, wanted, tmp_path):
    """h5py 3 stores a list of bytes as texts of any length, and gives an array of objects."""
    path = str(tmp_path / "values.h5")
    with io_utils.H5Dict(path, "w") as stored:
        stored["value"] = value
        stored["inner"]["value"] = value
    with io_utils.H5Dict(path, "r") as read:
        found, inner = read["value"], read["inner"]["value"]
    assert type(found) is type(inner) is type(wanted)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(inner, wanted)


def test_arguments_of_functions():
    spec = generic_utils.getargspec(lambda a, b=1, *rest, c=2, **names: None)
    assert spec == (["a", "b"], "rest", "names", (1,))


def test_lambda_layers_know_their_shape(tmp_path):
    """The next layer is built for what comes out, also of several inputs and after loading."""
    a, b = layers.Input((3,)), layers.Input((4,))
    joined = layers.Lambda(lambda pair: K.concatenate(pair))([a, b])
    model = keras.models.Model([a, b], Dense(2)(joined))
    assert model.layers[-1].get_weights()[0].shape == (7, 2)
    stated = layers.Lambda(lambda one: one[:, :2], output_shape=(2,))(a)
    assert K.int_shape(Dense(5)(stated)) == (None, 5)
    model.save(str(tmp_path / "model.h5"))
    loaded = load_model(str(tmp_path / "model.h5"), compile=False)
    x = [RNG(1).normal(size=(2, 3)), RNG(2).normal(size=(2, 4))]
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


@pytest.mark.parametrize(
    ("wrong", "given"),
    [
        (lambda x: (x, x), "tuple"),
        (lambda x: None, "NoneType"),
        (lambda x: np.ones(3), "ndarray"),
        (lambda x: [x, 2.0], "float"),
    ],
    ids=["tuple", "nothing", "array", "number"],
)
def test_lambda_layers_that_give_no_tensor(wrong, given):
    with pytest.raises(TypeError, match=f"Lambda layer 'mine' gave {given}; it must give a tensor"):
        layers.Lambda(wrong, name="mine")(layers.Input((3,)))


# `lambda x: x * 2`, as Keras stored it under Python 3.6 and 3.10.
FOREIGN = {
    "3.6": "4wEAAAAAAAAAAQAAAAIAAABDAAAAcwgAAAB8AGQBFABTACkCTukCAAAAqQApAdoBeHICAAAAcgIAAADaCDxz"
    "dHJpbmc+2gg8bGFtYmRhPgEAAABzAAAAAA==",
    "3.10": "4wEAAAAAAAAAAAAAAAEAAAACAAAAQwAAAHMIAAAAfABkARQAUwApAk7pAgAAAKkAKQHaAXhyAgAAAHICAAAA"
    "2gg8c3RyaW5nPtoIPGxhbWJkYT4BAAAAcwIAAAAIAA==",
}


@pytest.mark.parametrize("version", FOREIGN)
def test_lambda_layers_of_another_python(version):
    """Bytecode is a version's own; that it cannot be read is said, and what to do."""
    config = Sequential([layers.Lambda(lambda one: one * 2, input_shape=(2,))]).get_config()
    config["layers"][0]["config"]["function"] = (FOREIGN[version] + "\n", None, None)
    with pytest.raises(ValueError, match="another version of Python.*load_weights"):
        Sequential.from_config(config)


def test_processes_make_batches():
    class Batches(keras.utils.Sequence):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return np.full((2, 3), index), np.ones((2, 1))

    found = linear().predict_generator(Batches(), workers=2, use_multiprocessing=True)
    assert found.shape == (8, 1)


APPLICATIONS = {
    "MobileNet": 32,
    "MobileNetV2": 32,
    "ResNet50": 32,
    "ResNet50V2": 32,
    "VGG16": 32,
    "DenseNet121": 32,
    "InceptionV3": 75,
    "Xception": 71,
    "NASNetMobile": 32,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", APPLICATIONS)
def test_applications(name, tmp_path):
    """Built without weights from elsewhere, saved, and loaded to predict the same."""
    side = APPLICATIONS[name]
    make = getattr(applications, name)
    model = make(weights=None, input_shape=(side, side, 3), classes=5)
    x = RNG(1).uniform(size=(2, side, side, 3))
    found = model.predict(x)
    np.testing.assert_allclose(found.sum(-1), 1, rtol=1e-4)
    model.save(str(tmp_path / "model.h5"))
    with pytest.warns(UserWarning, match="No training configuration"):
        loaded = load_model(str(tmp_path / "model.h5"))
    np.testing.assert_array_equal(loaded.predict(x), found)
