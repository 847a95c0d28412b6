"""Rows of the losses: both forms that Keras has, data that suit them, and NumPy's value."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from keras import losses

EPSILON = 1e-7
Pair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class LossRow:
    """A class of keras.losses with the function of the same formula.

    `numpy(y_true, y_pred)` gives the loss of each sample; `data` names a function below.
    """

    name: str
    function: str
    data: Callable[[np.random.Generator], Pair]
    numpy: Callable[[np.ndarray, np.ndarray], np.ndarray]
    options: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name

    def make(self, **options: Any) -> Any:
        return getattr(losses, self.name)(**self.options, **options)

    def pair(self) -> Pair:
        return self.data(np.random.default_rng(zlib.crc32(str(self).encode())))


# ------------------------------------------------------------------ data


def softmax(x):
    grown = np.exp(x - x.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numbers(rng):
    return rng.normal(size=(6, 4)), rng.normal(size=(6, 4))


def positive(rng):
    return rng.uniform(0.2, 3, (6, 4)), rng.uniform(0.2, 3, (6, 4))


def counts(rng):
    return rng.integers(0, 5, (6, 4)).astype(float), rng.uniform(0.2, 4, (6, 4))


def classes(rng):
    return np.eye(4)[rng.integers(0, 4, 6)], softmax(rng.normal(size=(6, 4)))


def class_logits(rng):
    return np.eye(4)[rng.integers(0, 4, 6)], rng.normal(size=(6, 4))


def labels(rng):
    return rng.integers(0, 4, (6, 1)).astype(float), softmax(rng.normal(size=(6, 4)))


def label_logits(rng):
    return rng.integers(0, 4, (6, 1)).astype(float), rng.normal(size=(6, 4))


def switches(rng):
    return rng.integers(0, 2, (6, 4)).astype(float), rng.uniform(0.05, 0.95, (6, 4))


def switch_logits(rng):
    return rng.integers(0, 2, (6, 4)).astype(float), rng.normal(size=(6, 4)) * 2


def signs(rng):
    return rng.choice([-1.0, 1.0], (6, 4)), rng.normal(size=(6, 4)) * 2


def distributions(rng):
    return softmax(rng.normal(size=(6, 4))), softmax(rng.normal(size=(6, 4)))


# ------------------------------------------------------------------ formulas


def cross(true, pred):
    return -(true * np.log(pred)).sum(-1)


def cross_labels(true, pred):
    return -np.log(pred[np.arange(len(pred)), true[:, 0].astype(int)])


def binary_cross(true, pred):
    return -(true * np.log(pred) + (1 - true) * np.log(1 - pred)).mean(-1)


def hinge(true, pred):
    return np.maximum(1 - true * pred, 0).mean(-1)


def squared_hinge(true, pred):
    return (np.maximum(1 - true * pred, 0) ** 2).mean(-1)


def from_bits(formula):
    """The same for labels 0 and 1, which stand for -1 and 1."""
    return lambda true, pred: formula(2 * true - 1, pred)


def categorical_hinge(true, pred):
    right = (true * pred).sum(-1)
    wrong = ((1 - true) * pred).max(-1)
    return np.maximum(wrong - right + 1, 0)


def huber(delta):
    def formula(true, pred):
        distance = np.abs(pred - true)
        far = delta * (distance - delta / 2)
        return np.where(distance <= delta, distance**2 / 2, far)

    return formula


def cosine(true, pred):
    lengths = np.linalg.norm(true, axis=-1) * np.linalg.norm(pred, axis=-1)
    return -(true * pred).sum(-1) / lengths


def smoothed(formula, amount, classes):
    """The same for labels that are moved towards all classes alike."""
    return lambda true, pred: formula(true * (1 - amount) + amount / classes, pred)


def kl(true, pred):
    return (true * np.log(true / pred)).sum(-1)


def mape(true, pred):
    return 100 * np.abs((true - pred) / true).mean(-1)


def msle(true, pred):
    return ((np.log1p(pred) - np.log1p(true)) ** 2).mean(-1)


CROSS, SPARSE, BINARY = (
    ("CategoricalCrossentropy", "categorical_crossentropy"),
    ("SparseCategoricalCrossentropy", "sparse_categorical_crossentropy"),
    ("BinaryCrossentropy", "binary_crossentropy"),
)
LOGITS = {"from_logits": True}

ROWS = [
    LossRow(
        "MeanSquaredError", "mean_squared_error", numbers, lambda t, p: ((p - t) ** 2).mean(-1)
    ),
    LossRow(
        "MeanAbsoluteError", "mean_absolute_error", numbers, lambda t, p: np.abs(p - t).mean(-1)
    ),
    LossRow("MeanAbsolutePercentageError", "mean_absolute_percentage_error", positive, mape),
    LossRow("MeanSquaredLogarithmicError", "mean_squared_logarithmic_error", positive, msle),
    LossRow(*CROSS, classes, cross),
    LossRow(*CROSS, class_logits, lambda t, p: cross(t, softmax(p)), LOGITS, "logits"),
    LossRow(*CROSS, classes, smoothed(cross, 0.2, 4), {"label_smoothing": 0.2}, "smoothed"),
    LossRow(*SPARSE, labels, cross_labels),
    LossRow(*SPARSE, label_logits, lambda t, p: cross_labels(t, softmax(p)), LOGITS, "logits"),
    LossRow(*BINARY, switches, binary_cross),
    LossRow(*BINARY, switch_logits, lambda t, p: binary_cross(t, sigmoid(p)), LOGITS, "logits"),
    LossRow(
        *BINARY, switches, smoothed(binary_cross, 0.1, 2), {"label_smoothing": 0.1}, "smoothed"
    ),
    LossRow("Hinge", "hinge", signs, hinge),
    LossRow("Hinge", "hinge", switch_logits, from_bits(hinge), label="bits"),
    LossRow("SquaredHinge", "squared_hinge", signs, squared_hinge),
    LossRow("SquaredHinge", "squared_hinge", switch_logits, from_bits(squared_hinge), label="bits"),
    LossRow("CategoricalHinge", "categorical_hinge", class_logits, categorical_hinge),
    LossRow("Poisson", "poisson", counts, lambda t, p: (p - t * np.log(p)).mean(-1)),
    LossRow("LogCosh", "logcosh", numbers, lambda t, p: np.log(np.cosh(p - t)).mean(-1)),
    LossRow("KLDivergence", "kullback_leibler_divergence", distributions, kl),
    LossRow("Huber", "huber_loss", numbers, huber(1.0)),
    LossRow("Huber", "huber_loss", numbers, huber(0.5), {"delta": 0.5}, "half"),
]
# A function without a class.
COSINE = ("cosine_proximity", numbers, cosine)
