"""Rows of the metrics: data in batches, and what NumPy says of all of them together."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import part_table_losses as formulas
from keras import metrics
from part_table_losses import Pair

BATCHES, SIZE = 3, 6


@dataclass(frozen=True)
class MetricRow:
    """A class of keras.metrics.

    `numpy(y_true, y_pred, weights)` gives the value for everything seen so far; the weights are
    one for each sample. `data` gives one batch.
    """

    name: str
    data: Callable[[np.random.Generator], Pair]
    numpy: Callable[[np.ndarray, np.ndarray, np.ndarray], Any]
    options: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    weighted: bool = True  # Keras itself cannot weigh the samples of one class
    compiled: bool = True  # makes sense of what a model of one output gives

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name

    def make(self) -> Any:
        return getattr(metrics, self.name)(**self.options)

    def batches(self) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """(y_true, y_pred, weights) of each batch."""
        rng = np.random.default_rng(zlib.crc32(str(self).encode()))
        return [(*self.data(rng), rng.uniform(0.1, 2, SIZE)) for _ in range(BATCHES)]


def joined(batches: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    return [np.concatenate(parts) for parts in zip(*batches, strict=True)]


# ------------------------------------------------------------------ data


def integers(rng):
    true = rng.integers(0, 3, (SIZE, 2))
    wrong = rng.uniform(size=true.shape) < 0.4
    return true.astype(float), (true + wrong).astype(float)


def segments(rng):
    return tuple(rng.integers(0, 3, (SIZE, 1)).astype(float) for _ in range(2))


def chances(rng):
    """Bits and what was thought of them, mostly right; none at a threshold."""
    true = rng.integers(0, 2, (SIZE, 4)).astype(float)
    return true, np.clip(0.3 * true + rng.uniform(0.003, 0.7, true.shape), 0.0035, 0.9965)


def many_classes(rng):
    return np.eye(8)[rng.integers(0, 8, SIZE)], rng.normal(size=(SIZE, 8))


def many_labels(rng):
    return rng.integers(0, 8, (SIZE, 1)).astype(float), rng.normal(size=(SIZE, 8))


# ------------------------------------------------------------------ formulas


def mean_of(formula):
    """The mean over samples of a loss, where it has several numbers over these."""

    def value(true, pred, weights):
        found = formula(true, pred)
        each = np.broadcast_to(weights.reshape(-1, *[1] * (found.ndim - 1)), found.shape)
        return (found * each).sum() / each.sum()

    return value


def best(pred, k):
    """Whether an entry is among the `k` largest of its row."""
    return np.argsort(np.argsort(-pred, axis=-1, kind="stable"), axis=-1) < k


def within(k):
    def formula(true, pred):
        labels = true[:, 0].astype(int) if true.shape[1] == 1 else true.argmax(-1)
        return best(pred, k)[np.arange(len(pred)), labels].astype(float)

    return mean_of(formula)


def confusion(true, pred, weights, threshold):
    """Weights of true positives, false positives, true negatives, false negatives."""
    each = np.broadcast_to(weights[:, None], true.shape)
    yes, said = true == 1, pred > threshold
    return [each[one].sum() for one in (yes & said, ~yes & said, ~yes & ~said, yes & ~said)]


def counted(place, thresholds=(0.5,)):
    def value(true, pred, weights):
        found = [confusion(true, pred, weights, one)[place] for one in thresholds]
        return found[0] if len(found) == 1 else np.array(found)

    return value


def precision(true, pred, weights, threshold=0.5):
    tp, fp, _, _ = confusion(true, pred, weights, threshold)
    return tp / (tp + fp) if tp + fp else 0.0


def recall(true, pred, weights, threshold=0.5):
    tp, _, _, fn = confusion(true, pred, weights, threshold)
    return tp / (tp + fn) if tp + fn else 0.0


def at(formula, thresholds):
    return lambda t, p, w: np.array([formula(t, p, w, one) for one in thresholds])


def of_best(formula, k):
    """Only the `k` largest of a row count as said."""
    return lambda t, p, w: formula(t, best(p, k).astype(float), w)


def of_class(formula, which):
    return lambda t, p, w: formula(t[:, which, None], p[:, which, None], w)


def curve(count):
    """The confusion at every threshold of Keras' grid."""

    def points(true, pred, weights):
        inner = [i / (count - 1) for i in range(1, count - 1)]
        grid = [-1e-7, *inner, 1 + 1e-7]
        return np.array([confusion(true, pred, weights, one) for one in grid]).T

    return points


def area(count, name="ROC", method="interpolation"):
    def value(true, pred, weights):
        tp, fp, tn, fn = curve(count)(true, pred, weights)
        if (name, method) == ("PR", "interpolation"):
            return interpolated(tp, fp, fn)
        x, y = fp / (fp + tn), tp / (tp + fn)
        if name == "PR":
            said = tp + fp
            x, y = y, np.divide(tp, said, out=np.zeros_like(tp), where=said > 0)
        heights = {
            "interpolation": (y[:-1] + y[1:]) / 2,
            "minoring": np.minimum(y[:-1], y[1:]),
            "majoring": np.maximum(y[:-1], y[1:]),
        }
        return ((x[:-1] - x[1:]) * heights[method]).sum()

    return value


def interpolated(tp, fp, fn):
    """Positives are linear between thresholds; precision is integrated numerically."""
    total = 0.0
    for right in range(1, len(tp)):
        steps = np.linspace(0, 1, 20001)
        hits = tp[right] + steps * (tp[right - 1] - tp[right])
        said = hits + fp[right] + steps * (fp[right - 1] - fp[right])
        gained = tp[right - 1] - tp[right]
        if gained > 0:
            ratio = np.divide(hits, said, out=np.full_like(hits, np.nan), where=said > 0)
            ratio[0] = ratio[1] if np.isnan(ratio[0]) else ratio[0]
            total += gained * (ratio[:-1] + ratio[1:]).mean() / 2
    return total / (tp + fn)[0]


def rate_at(wanted, of, given, count=200):
    """One rate at the threshold where another is nearest to `wanted`."""
    pairs = {"sensitivity": (0, 3), "specificity": (2, 1)}

    def value(true, pred, weights):
        inner = [i / (count - 1) for i in range(1, count - 1)]
        rows = np.array([confusion(true, pred, weights, one) for one in [0.0, *inner, 1.0]])
        hit, miss = pairs[given]
        near = np.argmin(np.abs(rows[:, hit] / (rows[:, hit] + rows[:, miss]) - wanted))
        hit, miss = pairs[of]
        return rows[near, hit] / (rows[near, hit] + rows[near, miss])

    return value


def mean_iou(true, pred, weights):
    shares = []
    for one in range(4):
        yes, said = true[:, 0] == one, pred[:, 0] == one
        if (yes | said).any():
            shares.append(weights[yes & said].sum() / weights[yes | said].sum())
    return np.mean(shares)


def root(true, pred, weights):
    return np.sqrt(mean_of(lambda t, p: (p - t) ** 2)(true, pred, weights))


# ------------------------------------------------------------------ rows

SAME = {row.name: row for row in formulas.ROWS if not row.label}  # losses under the same name
LIKE = (
    "MeanSquaredError MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredLogarithmicError "
    "CategoricalCrossentropy SparseCategoricalCrossentropy BinaryCrossentropy Hinge SquaredHinge "
    "CategoricalHinge Poisson KLDivergence"
).split()
HALVES = (0.2, 0.5, 0.8)
TWO, ONE = {"top_k": 2}, {"class_id": 1}

ROWS = [
    *(MetricRow(name, SAME[name].data, mean_of(SAME[name].numpy)) for name in LIKE),
    MetricRow("LogCoshError", formulas.numbers, mean_of(SAME["LogCosh"].numpy)),
    MetricRow(
        "BinaryCrossentropy",
        formulas.switch_logits,
        mean_of(lambda t, p: formulas.binary_cross(t, formulas.sigmoid(p))),
        {"from_logits": True},
        "logits",
    ),
    MetricRow(
        "CategoricalCrossentropy",
        formulas.classes,
        mean_of(formulas.smoothed(formulas.cross, 0.2, 4)),
        {"label_smoothing": 0.2},
        "smoothed",
    ),
    MetricRow("RootMeanSquaredError", formulas.numbers, root),
    MetricRow("CosineSimilarity", formulas.numbers, mean_of(lambda t, p: -formulas.cosine(t, p))),
    MetricRow("Accuracy", integers, mean_of(lambda t, p: (t == p) * 1.0)),
    MetricRow("BinaryAccuracy", chances, mean_of(lambda t, p: (t == (p > 0.5)).mean(-1))),
    MetricRow(
        "BinaryAccuracy",
        chances,
        mean_of(lambda t, p: (t == (p > 0.3)).mean(-1)),
        {"threshold": 0.3},
        "threshold",
    ),
    MetricRow("CategoricalAccuracy", many_classes, within(1)),
    MetricRow("SparseCategoricalAccuracy", many_labels, within(1)),
    MetricRow("TopKCategoricalAccuracy", many_classes, within(5)),
    MetricRow("TopKCategoricalAccuracy", many_classes, within(3), {"k": 3}, "three"),
    MetricRow("SparseTopKCategoricalAccuracy", many_labels, within(5)),
    MetricRow("TruePositives", chances, counted(0)),
    MetricRow("FalsePositives", chances, counted(1)),
    MetricRow("TrueNegatives", chances, counted(2)),
    MetricRow("FalseNegatives", chances, counted(3)),
    MetricRow(
        "FalseNegatives",
        chances,
        counted(3, HALVES),
        {"thresholds": list(HALVES)},
        "thresholds",
        compiled=False,
    ),
    MetricRow("Precision", chances, precision),
    MetricRow(
        "Precision",
        chances,
        at(precision, HALVES),
        {"thresholds": list(HALVES)},
        "thresholds",
        compiled=False,
    ),
    MetricRow("Precision", chances, of_best(precision, 2), TWO, "best two"),
    MetricRow("Precision", chances, of_class(precision, 1), ONE, "one class", False),
    MetricRow(
        "Precision",
        chances,
        of_best(of_class(precision, 0), 1),
        {"top_k": 1, "class_id": 0},
        "first",
        weighted=False,
    ),
    MetricRow("Recall", chances, recall),
    MetricRow("Recall", chances, of_best(recall, 2), TWO, "best two"),
    MetricRow("Recall", chances, of_class(recall, 1), ONE, "one class", False),
    MetricRow("SensitivityAtSpecificity", chances, rate_at(0.6, "sensitivity", "specificity"),
              {"specificity": 0.6}),
    MetricRow("SpecificityAtSensitivity", chances, rate_at(0.4, "specificity", "sensitivity"),
              {"sensitivity": 0.4}),
    *(
        MetricRow(
            "AUC",
            chances,
            area(50, name, method),
            {"num_thresholds": 50, "curve": name, "summation_method": method},
            f"{name} {method}",
        )
        for name in ("ROC", "PR")
        for method in ("interpolation", "minoring", "majoring")
    ),
    MetricRow("AUC", chances, area(200)),
    MetricRow("MeanIoU", segments, mean_iou, {"num_classes": 4}),
]  # fmt: skip

# Those that take values instead of pairs, see test_parts.
OF_VALUES = {"Sum", "Mean", "MeanMetricWrapper"}
ABSTRACT = {"Metric", "Reduce", "SensitivitySpecificityBase", "_ConfusionMatrixConditionCount"}

# Functions under the names that `compile(metrics=[...])` takes, and the data they are for.
NAMES: dict[str, tuple[Any, Any]] = {
    "mse": (formulas.numbers, mean_of(SAME["MeanSquaredError"].numpy)),
    "MSE": (formulas.numbers, mean_of(SAME["MeanSquaredError"].numpy)),
    "mae": (formulas.numbers, mean_of(SAME["MeanAbsoluteError"].numpy)),
    "mape": (formulas.positive, mean_of(SAME["MeanAbsolutePercentageError"].numpy)),
    "msle": (formulas.positive, mean_of(SAME["MeanSquaredLogarithmicError"].numpy)),
    "cosine": (formulas.numbers, mean_of(lambda t, p: -formulas.cosine(t, p))),
    "cosine_proximity": (formulas.numbers, mean_of(lambda t, p: -formulas.cosine(t, p))),
    "binary_accuracy": (chances, mean_of(lambda t, p: (t == (p > 0.5)).mean(-1))),
    "categorical_accuracy": (many_classes, within(1)),
    "sparse_categorical_accuracy": (many_labels, within(1)),
    "top_k_categorical_accuracy": (many_classes, within(5)),
    "sparse_top_k_categorical_accuracy": (many_labels, within(5)),
    "poisson": (formulas.counts, mean_of(SAME["Poisson"].numpy)),
    "hinge": (formulas.signs, mean_of(SAME["Hinge"].numpy)),
    "kullback_leibler_divergence": (formulas.distributions, mean_of(SAME["KLDivergence"].numpy)),
}
