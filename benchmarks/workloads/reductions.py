"""Reductions, and what is made of them row by row."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.base import Arrays, Inputs, Workload, at_most, normal, size

_SQUARE = (4096, 4096)
_CLASSES = (4096, 1000)
_LONG = (8, 500_000)
_MIDDLE = (32, 100, 100)


def _reduction(name: str, word: str, axis: int | None) -> Workload:
    def formula(F: Any, x: Any) -> Any:
        return getattr(F, name)(x, axis)

    return Workload(
        f"reduce.{name}.{word}",
        f"{name} over {word} axis, 4096x4096 float32".replace("all axis", "all axes"),
        normal(_SQUARE),
        formula,
        traffic=size(_SQUARE),
        # A sum of 16.8M normals nearly cancels; the bound is relative to the largest result.
        tolerance=2e-4 if axis is None else 2e-5,
        goals=at_most(0.9),
        long=name == "mean" or (name == "max" and axis is None),
    )


def _labelled(rows: int, classes: int, sparse: bool) -> Inputs:
    def make(random: np.random.Generator) -> Arrays:
        logits = random.standard_normal((rows, classes), dtype=np.float32)
        labels = random.integers(0, classes, rows, dtype=np.int32)
        target = labels if sparse else np.eye(classes, dtype=np.float32)[labels]
        return target, logits

    return make


def _entropy(name: str, note: str, formula: Any, sparse: bool, reads: int) -> Workload:
    return Workload(
        f"rows.{name}",
        note,
        _labelled(*_CLASSES, sparse),
        formula,
        traffic=reads * size(_CLASSES),
        tolerance=2e-5,  # Keras keeps probabilities away from zero
        goals=at_most(0.9),
        small=_labelled(6, 5, sparse),
        long=sparse,
    )


WORKLOADS = [
    *(
        _reduction(name, word, axis)
        for name in ("sum", "mean", "max", "std")
        for word, axis in (("all", None), ("first", 0), ("last", -1))
    ),
    _reduction("argmax", "last", -1),
    _reduction("argmax", "first", 0),
    Workload(
        "reduce.sum.middle",
        "sum over all axes, 32x100x100 float32: some ten microseconds",
        normal(_MIDDLE),
        lambda F, x: F.sum(x, None),
        traffic=size(_MIDDLE),
        tolerance=2e-4,
        goals=at_most(1.0),
    ),
    Workload(
        "rows.softmax",
        "softmax over the last axis, 4096x4096 float32",
        normal(_SQUARE),
        lambda F, x: F.softmax(x),
        traffic=2 * size(_SQUARE),
        goals=at_most(0.9),
    ),
    Workload(
        "rows.softmax.few",
        "softmax over the last axis, 8x500000 float32",
        normal(_LONG),
        lambda F, x: F.softmax(x),
        traffic=2 * size(_LONG),
        tolerance=1e-5,
        goals=at_most(0.9),
        long=True,
    ),
    Workload(
        "rows.softmax.first",
        "softmax over the first axis, 4096x4096 float32",
        normal(_SQUARE),
        lambda F, x: F.softmax(x, 0),
        traffic=2 * size(_SQUARE),
        goals=at_most(0.9),
        long=True,
    ),
    Workload(
        "rows.softmax.middle",
        "softmax over the last axis, 32x100x100 float32",
        normal(_MIDDLE),
        lambda F, x: F.softmax(x),
        traffic=2 * size(_MIDDLE),
        goals=at_most(1.0),
    ),
    Workload(
        "rows.logsumexp",
        "logsumexp over the last axis, 4096x4096 float32",
        normal(_SQUARE),
        lambda F, x: F.logsumexp(x, -1),
        traffic=size(_SQUARE),
        goals=at_most(0.9),
    ),
    _entropy(
        "cross_entropy",
        "categorical_crossentropy(one-hot, softmax), 4096x1000",
        lambda F, target, x: F.cross_entropy(target, x),
        False,
        2,
    ),
    _entropy(
        "cross_entropy.grad",
        "its gradient to the logits",
        lambda F, target, x: F.gradients(lambda x: F.sum(F.cross_entropy(target, x), None), x)[0],
        False,
        3,
    ),
    _entropy(
        "sparse_cross_entropy.grad",
        "gradient of the sparse form, 4096x1000",
        lambda F, labels, x: F.gradients(
            lambda x: F.sum(F.sparse_cross_entropy(labels, x), None), x
        )[0],
        True,
        2,
    ),
]
