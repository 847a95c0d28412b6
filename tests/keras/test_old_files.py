"""Weights that old Keras wrote with other backends, loaded by Keras 2.3.1 on kbench."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from keras import layers
from keras.layers import Dense
from keras.models import Sequential, load_model

RNG = np.random.default_rng


def numbers(*shape, seed=1):
    return RNG(seed).normal(size=shape)


def old_file(path, layer, arrays, version="2.0.8", backend=None, text=False):
    """A weights file as h5py 2 wrote it: attributes are bytes; or text, as others write it."""

    def coded(value):
        return value if text else np.bytes_(value)

    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [coded(layer.name)]
        if version != "1":
            file.attrs["keras_version"] = coded(version)
        if backend:
            file.attrs["backend"] = coded(backend)
        group = file.create_group(layer.name)
        names = [f"{layer.name}_{place}" for place in range(len(arrays))]
        group.attrs["weight_names"] = [coded(name) for name in names]
        for name, array in zip(names, arrays, strict=True):
            group[name] = array


def flipped(kernel):
    """A kernel for backends whose convolution turned it round."""
    return kernel[tuple([slice(None, None, -1)] * (kernel.ndim - 2))]


CONVOLUTIONS = {
    "Conv1D": lambda: layers.Conv1D(3, 2, input_shape=(6, 2)),
    "Conv2D": lambda: layers.Conv2D(3, (2, 3), input_shape=(6, 5, 2)),
    "Conv3D": lambda: layers.Conv3D(3, 2, input_shape=(4, 4, 4, 2)),
    "Conv2DTranspose": lambda: layers.Conv2DTranspose(3, 2, input_shape=(4, 4, 2)),
    "ConvLSTM2D": lambda: layers.ConvLSTM2D(2, 2, input_shape=(3, 4, 4, 2)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("backend", ["tensorflow", "theano", "cntk"])
@pytest.mark.parametrize("text", [False, True], ids=["bytes", "text"])
def test_kernels_of_other_backends(name, backend, text, tmp_path):
    layer = CONVOLUTIONS[name]()
    model = Sequential([layer])
    wanted = [RNG(1).normal(size=one.shape) for one in layer.get_weights()]
    turned = flipped if backend == "theano" else np.array
    arrays = [turned(one) if one.ndim > 2 else one for one in wanted]
    path = str(tmp_path / "old.h5")
    old_file(path, layer, arrays, backend=backend, text=text)
    for by_name in (False, True):
        layer.set_weights([0 * one for one in wanted])
        model.load_weights(path, by_name=by_name)
        for found, one in zip(layer.get_weights(), wanted, strict=True):
            np.testing.assert_array_equal(found, one.astype("float32"))


def gates(parts, order):
    """Keras 1 kept a kernel, a recurrent kernel and a bias for each gate."""
    split = {gate: [] for gate in order}
    for part in parts:
        for gate, piece in zip(order, np.split(part, len(order), axis=-1), strict=True):
            split[gate].append(piece)
    return split


FIRST = [  # layer, and how Keras 1 stored its weights
    ("Dense", lambda: Dense(2, input_shape=(3,)), lambda w: w),
    (
        "Conv1D",
        lambda: layers.Conv1D(4, 2, input_shape=(6, 3)),
        lambda w: [w[0][:, None], w[1]],
    ),
    (
        "Conv1D of 1.1",
        lambda: layers.Conv1D(4, 2, input_shape=(6, 3)),
        lambda w: [w[0][:, None].transpose(3, 2, 0, 1), w[1]],
    ),
    (
        "Conv2D first",
        lambda: layers.Conv2D(4, 2, data_format="channels_first", input_shape=(3, 5, 5)),
        lambda w: [w[0].transpose(3, 2, 0, 1), w[1]],
    ),
    ("Conv2D last", lambda: layers.Conv2D(4, 2, input_shape=(5, 5, 3)), lambda w: w),
    (
        "Conv2DTranspose",
        lambda: layers.Conv2DTranspose(4, 2, input_shape=(5, 5, 3)),
        lambda w: [w[0].transpose(0, 1, 3, 2), w[1]],
    ),
    (
        "Conv3D first",
        lambda: layers.Conv3D(4, 2, data_format="channels_first", input_shape=(3, 4, 4, 4)),
        lambda w: [w[0].transpose(4, 3, 0, 1, 2), w[1]],
    ),
    (
        "LSTM",
        lambda: layers.LSTM(2, input_shape=(4, 3)),
        lambda w: sum((gates(w, "ifco")[gate] for gate in "icfo"), []),
    ),
    (
        "GRU",
        lambda: layers.GRU(2, input_shape=(4, 3)),
        lambda w: sum((gates(w, "zrh")[gate] for gate in "zrh"), []),
    ),
    (
        "TimeDistributed",
        lambda: layers.TimeDistributed(Dense(2), input_shape=(4, 3)),
        lambda w: w,
    ),
    (
        "Bidirectional",
        lambda: layers.Bidirectional(layers.GRU(2), input_shape=(4, 3)),
        lambda w: sum((gates(half, "zrh")[gate] for half in (w[:3], w[3:]) for gate in "zrh"), []),
    ),
]


@pytest.mark.parametrize(("name", "make", "before"), FIRST, ids=[name for name, *_ in FIRST])
def test_weights_of_keras_1(name, make, before, tmp_path):
    layer = make()
    model = Sequential([layer])
    wanted = [RNG(1).normal(size=one.shape) for one in layer.get_weights()]
    path = str(tmp_path / "old.h5")
    old_file(path, layer, before(wanted), version="1")
    model.load_weights(path)
    for found, one in zip(layer.get_weights(), wanted, strict=True):
        np.testing.assert_array_equal(found, one.astype("float32"))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_weights_of_cudnn_layers(kind, tmp_path):
    """Transposed kernels gate by gate, and two biases, as an NVIDIA library kept them."""
    options = {"reset_after": True} if kind == "GRU" else {}
    layer = getattr(layers, kind)(2, input_shape=(4, 3), **options)
    model = Sequential([layer])
    count = 4 if kind == "LSTM" else 3
    kernel, recurrent = numbers(3, 2 * count), numbers(2, 2 * count, seed=2)
    biases = numbers(2, 2 * count, seed=3)

    def stored(matrix):
        pieces = np.split(matrix, count, axis=1)
        return np.hstack([one.T.reshape(one.shape) for one in pieces])

    turned = np.hstack([one.T for one in np.split(recurrent, count, axis=1)])
    path = str(tmp_path / "old.h5")
    old_file(path, layer, [stored(kernel), turned, biases.ravel()], backend="tensorflow")
    model.load_weights(path)
    bias = biases.sum(0) if kind == "LSTM" else biases
    for found, one in zip(layer.get_weights(), [kernel, recurrent, bias], strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-6)


@pytest.mark.parametrize("name", ["model_config", "training_config", "layer_names", "weight_names"])
def test_an_attribute_that_is_no_text_is_named(name, tmp_path):
    path = tmp_path / "model.h5"
    model = Sequential([Dense(2, input_shape=(3,))])
    model.compile("sgd", "mse")
    model.save(path)
    with h5py.File(path, "a") as file:
        weights = file["model_weights"]
        first = weights[model.layers[0].name]
        places = {"layer_names": weights.attrs, "weight_names": first.attrs}
        damaged = np.bytes_(b"{\xff")
        places.get(name, file.attrs)[name] = [damaged] if name in places else damaged
    with pytest.raises(ValueError, match=f"{name!r} of this HDF5 file is damaged: .* 0xff at 1"):
        load_model(path)
