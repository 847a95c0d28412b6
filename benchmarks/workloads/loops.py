"""Loops over rows, and CTC."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.base import Arrays, Inputs, Workload, at_most, normal, size

_ROWS = (1024, 1024)


def _sequences(batch: int, steps: int, classes: int, labels: int) -> Inputs:
    def make(random: np.random.Generator) -> Arrays:
        return (
            random.integers(0, classes - 1, (batch, labels), dtype=np.int32),
            random.standard_normal((batch, steps, classes), dtype=np.float32),
            np.full((batch, 1), steps, np.int32),
            np.full((batch, 1), labels, np.int32),
        )

    return make


def _ctc(F: Any, *operands: Any) -> Any:
    return F.ctc(*operands)


def _ctc_gradient(F: Any, labels: Any, logits: Any, steps: Any, lengths: Any) -> Any:
    return F.gradients(lambda x: F.sum(F.ctc(labels, x, steps, lengths), None), logits)[0]


_BATCH = (32, 100, 64, 20)

WORKLOADS = [
    Workload(
        "loop.map_fn",
        "row / norm(row), 1024 rows of 1024",
        normal(_ROWS),
        lambda F, x: F.map_fn(lambda row: row / F.sqrt(F.sum(F.square(row), 0)), x),
        traffic=2 * size(_ROWS),
        goals=at_most(0.95),
    ),
    Workload(
        "loop.foldl",
        "kept = tanh(kept / 2 + row), 1000 rows of 1024",
        normal((1000, 1024)),
        lambda F, x: F.foldl(lambda kept, row: F.tanh(kept * 0.5 + row), x),
        traffic=size((1000, 1024)),
        goals=at_most(0.95),
        small=normal((5, 4)),
    ),
    # Keras adds its epsilon to the probabilities.
    Workload(
        "ctc.loss",
        "ctc_batch_cost of a softmax, 32x100x64, labels of 20",
        _sequences(*_BATCH),
        _ctc,
        tolerance=1e-4,
        goals=at_most(0.8),
        small=_sequences(2, 6, 5, 2),
    ),
    Workload(
        "ctc.grad",
        "its gradient to the logits",
        _sequences(*_BATCH),
        _ctc_gradient,
        tolerance=1e-3,
        goals=at_most(0.8),
        small=_sequences(2, 6, 5, 2),
    ),
]
