"""What the tests of CTC share: predictions, and every path through them."""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np

EPSILON = 1e-7


def shares(y_pred: np.ndarray) -> np.ndarray:
    """The probabilities that Keras' cost works with: y_pred + epsilon, summing to 1."""
    raised = y_pred.astype(np.float64) + EPSILON
    return raised / raised.sum(axis=-1, keepdims=True)


def spelled(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """Repeats merged, then blanks dropped."""
    return tuple(one for one, _ in itertools.groupby(path) if one != blank)


def every_spelling(probability: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of every sequence of labels, summed over all classes ** steps paths."""
    steps, classes = probability.shape
    totals: dict[tuple[int, ...], float] = defaultdict(float)
    for path in itertools.product(range(classes), repeat=steps):
        chance = np.prod([probability[t, k] for t, k in enumerate(path)])
        totals[spelled(path, classes - 1)] += float(chance)
    return totals


def predictions(seed: int, *shape: int, sharp: float = 1.5) -> np.ndarray:
    """Probabilities in float64, the sharper the farther from equal."""
    x = np.exp(np.random.default_rng(seed).normal(0, sharp, shape))
    return np.asarray(x / x.sum(axis=-1, keepdims=True))
