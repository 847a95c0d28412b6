"""The op table: connectionist temporal classification, against sums of plain probabilities."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from case import FLOATS, Case

from kbench import backend as K

LABELS = np.array([[0, 1, 1], [2, 2, 0], [0, 0, 0]])
STEPS = np.array([[6], [5], [6]])
LENGTHS = np.array([[3], [2], [0]])
EPSILON = 1e-7


def _shares(y_pred: np.ndarray) -> np.ndarray:
    raised = y_pred + EPSILON
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def _cost_of_row(shares: np.ndarray, labels: Any) -> Any:
    """Graves' recursion on probabilities, of real or complex numbers."""
    blank = shares.shape[1] - 1
    states = [blank, *itertools.chain.from_iterable((one, blank) for one in labels)]
    alpha = np.zeros(len(states), shares.dtype)
    alpha[0] = 1  # before the first step
    for t, step in enumerate(shares):
        before = alpha.copy()
        for s, label in enumerate(states):
            total = before[s] + (before[s - 1] if s else 0)
            if s > 1 and label not in (blank, states[s - 2]) and t:
                total += before[s - 2]
            alpha[s] = total * step[label]
    return -np.log(alpha[-2:].sum())


def cost(labels: Any, y_pred: np.ndarray, steps: Any, lengths: Any) -> np.ndarray:
    """-log(probability) of each row."""
    rows = zip(_shares(y_pred), labels, np.ravel(steps), np.ravel(lengths), strict=True)
    return np.array([[_cost_of_row(one[:t], row[:n])] for one, row, t, n in rows])


def slope(y_pred: np.ndarray) -> np.ndarray:
    """Its derivative, exact to the last digits: by a tiny imaginary step."""
    result = np.zeros(y_pred.shape)
    for index in np.ndindex(*y_pred.shape):
        moved = y_pred.astype(complex)
        moved[index] += 1e-200j
        result[index] = cost(LABELS, moved, STEPS, LENGTHS).sum().imag / 1e-200
    return result


def _slope_of(y_pred: Any) -> Any:
    return K.gradients(K.sum(K.ctc_batch_cost(LABELS, y_pred, STEPS, LENGTHS)), y_pred)[0]


def greedy(y_pred: np.ndarray) -> np.ndarray:
    """Minus the sum of the logarithms of the likeliest classes."""
    logs = np.log(y_pred + EPSILON).max(axis=2)
    return np.array([[-row[:t].sum()] for row, t in zip(logs, (6, 5, 6), strict=True)])


def best(y_pred: np.ndarray) -> np.ndarray:
    """Log probability of the likeliest labels of each row, of all that there are."""
    classes = range(y_pred.shape[2] - 1)
    found = []
    for shares, steps in zip(_shares(y_pred), (4, 3, 4), strict=True):
        words = [w for n in range(5) for w in itertools.product(classes, repeat=n)]
        found.append([max(-_cost_of_row(shares[:steps], one) for one in words)])
    return np.array(found)


CTC_CASES = [
    Case(
        "ctc_batch_cost",
        [((3, 6, 4),)],
        lambda y_pred: cost(LABELS, y_pred, STEPS, LENGTHS),
        domain=(0.05, 1.0),
        dtypes=FLOATS,
        smooth=True,
        scale=4,
        call=lambda y_pred: K.ctc_batch_cost(LABELS, y_pred, STEPS, LENGTHS),
    ),
    Case(
        "ctc_batch_cost",
        [((2, 2), (2, 6, 4), (2, 1), (2,))],
        cost,
        domain=[(0, 2), (0.05, 1.0), (5, 6), (0, 2)],
        dtypes=FLOATS,
        fixed={0: "int32", 2: "int32", 3: "int64"},
        scale=4,
    ),
    Case(
        "ctc_batch_cost",
        [((3, 6, 4),)],
        slope,
        domain=(0.2, 1.0),
        dtypes=("float32", "float64"),
        scale=40,
        call=_slope_of,
    ),
    Case(
        "ctc_decode",
        [((3, 6, 4),)],
        greedy,
        domain=(0.05, 1.0),
        dtypes=FLOATS,
        gradient=False,
        scale=4,
        call=lambda y_pred: K.ctc_decode(y_pred, STEPS)[1],
    ),
    Case(
        "ctc_decode",
        [((3, 4, 4),)],
        best,
        domain=(0.05, 1.0),
        dtypes=FLOATS,
        gradient=False,
        scale=4,
        call=lambda y_pred: K.ctc_decode(y_pred, [4, 3, 4], greedy=False, beam_width=999)[1],
    ),
]
