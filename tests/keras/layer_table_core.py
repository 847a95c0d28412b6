"""Rows of the core layers, activations, embeddings, normalization, noise and merges."""

from __future__ import annotations

import numpy as np
from keras import backend as K
from keras import layers, regularizers
from layer_table import LayerRow, Shape, both
from reference_recurrent import sigmoid


def softmax(x, axis=-1):
    grown = np.exp(x - x.max(axis, keepdims=True))
    return grown / grown.sum(axis, keepdims=True)


def relu(x):
    return np.maximum(x, 0)


def same(x, *_weights, **_named):
    """What a layer of noise does while nothing is trained."""
    return x


# ------------------------------------------------------------------ core

FUNCTIONS = {
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "softmax": softmax,
    "softplus": lambda x: np.log(1 + np.exp(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "elu": lambda x: np.where(x > 0, x, np.exp(x) - 1),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
    "exponential": np.exp,
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "linear": lambda x: x,
}

CORE = [
    LayerRow("Dense", lambda: layers.Dense(4), ((5,),), lambda x, w, b: x @ w + b),
    LayerRow(
        "Dense",
        lambda: layers.Dense(3, activation="relu", use_bias=False),
        ((2, 4),),
        lambda x, w: relu(x @ w),
        "rank 3, no bias",
    ),
    *(
        LayerRow("Activation", lambda name=name: layers.Activation(name), ((2, 5),), numpy, name)
        for name, numpy in FUNCTIONS.items()
    ),
    LayerRow("Flatten", lambda: layers.Flatten(), ((2, 3, 2),), lambda x: x.reshape(len(x), -1)),
    *both(
        "Flatten",
        lambda form: layers.Flatten(data_format=form),
        (2, 3, 2),
        lambda x: x.reshape(len(x), -1),
    ),
    LayerRow(
        "Reshape",
        lambda: layers.Reshape((-1, 2)),
        ((4, 3),),
        lambda x: x.reshape(len(x), 6, 2),
    ),
    LayerRow(
        "Permute",
        lambda: layers.Permute((3, 1, 2)),
        ((2, 3, 4),),
        lambda x: x.transpose(0, 3, 1, 2),
    ),
    LayerRow(
        "RepeatVector",
        lambda: layers.RepeatVector(3),
        ((4,),),
        lambda x: np.stack([x] * 3, axis=1),
    ),
    LayerRow(
        "Lambda",
        lambda: layers.Lambda(lambda x: K.sum(x * x, axis=1)),
        ((3, 4),),
        lambda x: (x * x).sum(1),
        "shape inferred",
    ),
    LayerRow(
        "Lambda",
        lambda: layers.Lambda(lambda xs: K.concatenate([xs[0], 2 * xs[1]], axis=1)),
        ((3, 4), (2, 4)),
        lambda x, y: np.concatenate([x, 2 * y], axis=1),
        "several inputs",
    ),
    LayerRow(
        "Lambda",
        lambda: layers.Lambda(
            lambda x, factor: factor * x[:, :2], output_shape=(2,), arguments={"factor": 3.0}
        ),
        ((5,),),
        lambda x: 3 * x[:, :2],
        "arguments",
    ),
    LayerRow(
        "ActivityRegularization", lambda: layers.ActivityRegularization(0.01, 0.02), ((4,),), same
    ),
    LayerRow(
        "Masking",
        lambda: layers.Masking(0.5),
        ((3, 2),),
        lambda x: x * (x != 0.5).any(2, keepdims=True),
    ),
]

# ------------------------------------------------------------------ noise: not in the test phase

NOISE = [
    LayerRow("Dropout", lambda: layers.Dropout(0.4), ((4, 3),), same),
    LayerRow("Dropout", lambda: layers.Dropout(0.4, (None, 1, 3)), ((4, 3),), same, "noise shape"),
    LayerRow("SpatialDropout1D", lambda: layers.SpatialDropout1D(0.4), ((4, 3),), same),
    *both(
        "SpatialDropout2D",
        lambda form: layers.SpatialDropout2D(0.4, data_format=form),
        (2, 3, 4),
        same,
    ),
    *both(
        "SpatialDropout3D",
        lambda form: layers.SpatialDropout3D(0.2, data_format=form),
        (2, 1, 3, 4),
        same,
    ),
    LayerRow("GaussianNoise", lambda: layers.GaussianNoise(0.5), ((4, 3),), same),
    LayerRow("GaussianDropout", lambda: layers.GaussianDropout(0.4), ((4, 3),), same),
    LayerRow("AlphaDropout", lambda: layers.AlphaDropout(0.4), ((4, 3),), same),
]

# ------------------------------------------------------------------ activations with parameters

ACTIVATIONS = [
    LayerRow(
        "LeakyReLU", lambda: layers.LeakyReLU(0.25), ((5,),), lambda x: np.where(x > 0, x, 0.25 * x)
    ),
    LayerRow("PReLU", lambda: layers.PReLU(), ((2, 5),), lambda x, a: np.where(x > 0, x, a * x)),
    LayerRow(
        "PReLU",
        lambda: layers.PReLU(shared_axes=[1, 2]),
        ((2, 3, 4),),
        lambda x, a: np.where(x > 0, x, a * x),
        "shared axes",
    ),
    LayerRow(
        "ELU", lambda: layers.ELU(0.7), ((5,),), lambda x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1))
    ),
    LayerRow(
        "ThresholdedReLU", lambda: layers.ThresholdedReLU(0.4), ((8,),), lambda x: x * (x > 0.4)
    ),
    LayerRow("Softmax", lambda: layers.Softmax(), ((3, 4),), softmax),
    LayerRow(
        "Softmax", lambda: layers.Softmax(axis=1), ((3, 4),), lambda x: softmax(x, 1), "axis 1"
    ),
    LayerRow("ReLU", lambda: layers.ReLU(), ((6,),), relu),
    LayerRow(
        "ReLU",
        lambda: layers.ReLU(max_value=1.0, negative_slope=0.1, threshold=0.2),
        ((4, 6),),
        lambda x: np.where(x >= 1, 1, np.where(x >= 0.2, x, 0.1 * (x - 0.2))),
        "all parameters",
    ),
]

# ------------------------------------------------------------------ normalization, embeddings


def normalize(axis: int, scale: bool = True, center: bool = True):
    """Batch normalization with the moving statistics."""

    def numpy(x, *weights):
        lined = [-1 if one == axis % x.ndim else 1 for one in range(x.ndim)]
        left = [one.reshape(lined) for one in weights]
        gamma = left.pop(0) if scale else 1
        beta = left.pop(0) if center else 0
        mean, variance = left
        return (x - mean) / np.sqrt(variance + 1e-3) * gamma + beta

    return numpy


BATCH_SHAPES: dict[str, tuple[Shape, int]] = {
    "rank 2": ((5,), -1),
    "rank 3": ((4, 3), -1),
    "rank 4": ((2, 3, 4), -1),
    "rank 5": ((2, 1, 3, 2), -1),
    "rank 4, axis 1": ((3, 2, 4), 1),
    "rank 3, axis 1": ((3, 4), 1),
}

TABLES = [
    *(
        LayerRow(
            "BatchNormalization",
            lambda axis=axis: layers.BatchNormalization(axis=axis),
            (shape,),
            normalize(axis),
            label,
        )
        for label, (shape, axis) in BATCH_SHAPES.items()
    ),
    LayerRow(
        "BatchNormalization",
        lambda: layers.BatchNormalization(scale=False),
        ((5,),),
        normalize(-1, scale=False),
        "no scale",
    ),
    LayerRow(
        "BatchNormalization",
        lambda: layers.BatchNormalization(center=False),
        ((5,),),
        normalize(-1, center=False),
        "no centre",
    ),
    LayerRow(
        "Embedding",
        lambda: layers.Embedding(7, 3, embeddings_regularizer=regularizers.l2(1e-3)),
        ((4,),),
        lambda x, table: table[x],
        below=7,
    ),
    LayerRow(
        "Embedding",
        lambda: layers.Embedding(7, 3, mask_zero=True, input_length=(2, 3)),
        ((2, 3),),
        lambda x, table: table[x],
        "two axes, masked",
        below=7,
    ),
]

# ------------------------------------------------------------------ merges


def cosine(x, y):
    """The products of unit vectors, for each sample."""
    x, y = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (x, y))
    return (x * y).sum(1, keepdims=True)


PAIR: tuple[Shape, ...] = ((2, 3), (2, 3))
THREE: tuple[Shape, ...] = ((2, 3), (2, 3), (2, 3))

MERGES = [
    LayerRow("Add", lambda: layers.Add(), THREE, lambda x, y, z: x + y + z),
    LayerRow("Add", lambda: layers.Add(), ((2, 1), (3,)), lambda x, y: x + y[:, None], "broadcast"),
    LayerRow("Subtract", lambda: layers.Subtract(), PAIR, lambda x, y: x - y),
    LayerRow("Multiply", lambda: layers.Multiply(), THREE, lambda x, y, z: x * y * z),
    LayerRow("Average", lambda: layers.Average(), THREE, lambda x, y, z: (x + y + z) / 3),
    LayerRow("Maximum", lambda: layers.Maximum(), PAIR, np.maximum),
    LayerRow("Minimum", lambda: layers.Minimum(), PAIR, np.minimum),
    LayerRow(
        "Concatenate",
        lambda: layers.Concatenate(),
        ((2, 3), (2, 1)),
        lambda x, y: np.concatenate([x, y], axis=-1),
    ),
    LayerRow(
        "Concatenate",
        lambda: layers.Concatenate(axis=1),
        ((2, 3), (4, 3), (1, 3)),
        lambda *xs: np.concatenate(xs, axis=1),
        "axis 1",
    ),
    LayerRow(
        "Dot", lambda: layers.Dot(axes=1), ((4,), (4,)), lambda x, y: (x * y).sum(1, keepdims=True)
    ),
    LayerRow("Dot", lambda: layers.Dot(axes=-1, normalize=True), ((4,), (4,)), cosine, "cosine"),
    LayerRow(
        "Dot",
        lambda: layers.Dot(axes=(2, 1)),
        ((2, 3), (3, 4)),
        lambda x, y: np.einsum("bij,bjk->bik", x, y),
        "matrices",
    ),
    LayerRow(
        "Dot",
        lambda: layers.Dot(axes=(1, 2)),
        ((3, 2), (4, 3)),
        lambda x, y: np.einsum("bji,bkj->bik", x, y),
        "turned matrices",
    ),
]

# ------------------------------------------------------------------ of Keras 1

LEGACY = [
    LayerRow(
        "Highway",
        lambda: layers.Highway(activation="tanh"),
        ((4,),),
        lambda x, w, gates, b, shift: (
            np.tanh(x @ w + b) * sigmoid(x @ gates + shift) + (1 - sigmoid(x @ gates + shift)) * x
        ),
    ),
    LayerRow(
        "MaxoutDense",
        lambda: layers.MaxoutDense(3, nb_feature=2),
        ((4,),),
        lambda x, w, b: (np.einsum("bi,kio->bko", x, w) + b).max(1),
    ),
]

ROWS = [*CORE, *NOISE, *ACTIVATIONS, *TABLES, *MERGES, *LEGACY]
