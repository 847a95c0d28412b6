"""Rows of what is done to weights: initializers, regularizers, constraints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import constraints, initializers, regularizers


@dataclass(frozen=True)
class InitializerRow:
    """`look(value, shape)` asserts what the numbers have in common."""

    name: str
    make: Callable[[], Any]
    look: Callable[[np.ndarray], None]
    shape: tuple[int, ...] = (200, 300)
    label: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name


# ------------------------------------------------------------------ what numbers have in common


def all_are(value: float) -> Callable[[np.ndarray], None]:
    def look(x):
        assert (x == np.float32(value)).all()

    return look


def close(found: float, wanted: float, spread: float, count: int) -> None:
    """Within five standard errors."""
    assert abs(found - wanted) < 5 * spread / np.sqrt(count)


def normal(mean: float, deviation: float) -> Callable[[np.ndarray], None]:
    def look(x):
        close(x.mean(), mean, deviation, x.size)
        close(x.std(), deviation, deviation, x.size)
        far = np.abs(x - mean) / deviation
        assert far.max() > 3.5  # nothing is cut off
        close((far < 1).mean(), 0.6827, 0.5, x.size)

    return look


def uniform(low: float, high: float) -> Callable[[np.ndarray], None]:
    def look(x):
        width = high - low
        assert low <= x.min() < low + 0.001 * width
        assert high - 0.001 * width < x.max() <= high
        close(x.mean(), (low + high) / 2, width / np.sqrt(12), x.size)
        close(x.std(), width / np.sqrt(12), width / np.sqrt(12), x.size)

    return look


def truncated(mean: float, deviation: float) -> Callable[[np.ndarray], None]:
    """A normal distribution without what lies two deviations off; `deviation` is before that."""

    def look(x):
        left = deviation * 0.8796256610342398
        assert 1.99 * deviation < np.abs(x - mean).max() <= 2.00001 * deviation
        close(x.mean(), mean, left, x.size)
        close(x.std(), left, left, x.size)

    return look


def scaled(deviation: float) -> Callable[[np.ndarray], None]:
    """A truncated normal distribution that has this deviation."""
    return truncated(0.0, deviation / 0.8796256610342398)


def limited(limit: float) -> Callable[[np.ndarray], None]:
    return uniform(-limit, limit)


def orthogonal(gain: float) -> Callable[[np.ndarray], None]:
    def look(x):
        flat = x.reshape(-1, x.shape[-1])
        short = min(flat.shape)
        product = flat.T @ flat if flat.shape[1] == short else flat @ flat.T
        np.testing.assert_allclose(product, gain**2 * np.eye(short), atol=1e-5)

    return look


def identity(gain: float) -> Callable[[np.ndarray], None]:
    def look(x):
        np.testing.assert_array_equal(x, np.float32(gain) * np.eye(*x.shape, dtype="float32"))

    return look


KERNEL = (5, 5, 20, 40)  # fans 500 and 1000
SMALL = (30, 40)

INITIALIZERS = [
    InitializerRow("Zeros", lambda: initializers.Zeros(), all_are(0), SMALL),
    InitializerRow("Ones", lambda: initializers.Ones(), all_are(1), SMALL),
    InitializerRow("Constant", lambda: initializers.Constant(0.3), all_are(0.3), SMALL),
    InitializerRow("RandomNormal", lambda: initializers.RandomNormal(), normal(0, 0.05)),
    InitializerRow(
        "RandomNormal", lambda: initializers.RandomNormal(2, 3, seed=7), normal(2, 3), label="seed"
    ),
    InitializerRow("RandomUniform", lambda: initializers.RandomUniform(), uniform(-0.05, 0.05)),
    InitializerRow(
        "RandomUniform", lambda: initializers.RandomUniform(1, 4, seed=7), uniform(1, 4), label="s"
    ),
    InitializerRow("TruncatedNormal", lambda: initializers.TruncatedNormal(), truncated(0, 0.05)),
    InitializerRow(
        "TruncatedNormal",
        lambda: initializers.TruncatedNormal(1, 2, seed=7),
        truncated(1, 2),
        label="seed",
    ),
    InitializerRow(
        "VarianceScaling", lambda: initializers.VarianceScaling(), scaled(np.sqrt(1 / 200))
    ),
    InitializerRow(
        "VarianceScaling",
        lambda: initializers.VarianceScaling(3, "fan_out", "uniform", 7),
        limited(np.sqrt(9 / 1000)),
        KERNEL,
        "fan_out uniform",
    ),
    InitializerRow("Orthogonal", lambda: initializers.Orthogonal(), orthogonal(1), SMALL),
    InitializerRow(
        "Orthogonal", lambda: initializers.Orthogonal(2.0, seed=7), orthogonal(2), (50, 20), "tall"
    ),
    InitializerRow("Identity", lambda: initializers.Identity(), identity(1), (7, 7)),
    InitializerRow("Identity", lambda: initializers.Identity(0.5), identity(0.5), (4, 7), "wide"),
    *(
        InitializerRow(
            name, lambda name=name: getattr(initializers, name)(seed=7), look, shape, str(shape)
        )
        for name, looks in {
            "glorot_normal": (scaled(np.sqrt(2 / 500)), scaled(np.sqrt(2 / 1500))),
            "glorot_uniform": (limited(np.sqrt(6 / 500)), limited(np.sqrt(6 / 1500))),
            "he_normal": (scaled(np.sqrt(2 / 200)), scaled(np.sqrt(2 / 500))),
            "he_uniform": (limited(np.sqrt(6 / 200)), limited(np.sqrt(6 / 500))),
            "lecun_normal": (scaled(np.sqrt(1 / 200)), scaled(np.sqrt(1 / 500))),
            "lecun_uniform": (limited(np.sqrt(3 / 200)), limited(np.sqrt(3 / 500))),
        }.items()
        for shape, look in zip([(200, 300), KERNEL], looks, strict=True)
    ),
]


@dataclass(frozen=True)
class WeightRow:
    """A regularizer or constraint: `numpy(weights)` gives the number, or the new weights."""

    name: str
    make: Callable[[], Any]
    numpy: Callable[[np.ndarray], Any]
    label: str = ""

    def __str__(self) -> str:
        return f"{self.name}-{self.label}" if self.label else self.name


REGULARIZERS = [
    WeightRow(
        "L1L2",
        lambda: regularizers.L1L2(0.3, 0.2),
        lambda w: 0.3 * np.abs(w).sum() + 0.2 * (w**2).sum(),
    ),
    WeightRow("L1L2", lambda: regularizers.L1L2(), lambda w: 0.0, "nothing"),
    WeightRow("l1", lambda: regularizers.l1(0.3), lambda w: 0.3 * np.abs(w).sum()),
    WeightRow("l2", lambda: regularizers.l2(), lambda w: 0.01 * (w**2).sum()),
    WeightRow(
        "l1_l2",
        lambda: regularizers.l1_l2(0.1, 0.4),
        lambda w: 0.1 * np.abs(w).sum() + 0.4 * (w**2).sum(),
    ),
]


def lengths(w: np.ndarray, axis: Any = 0) -> np.ndarray:
    return np.sqrt((w**2).sum(axis, keepdims=True))


CONSTRAINTS = [
    WeightRow(
        "MaxNorm", lambda: constraints.MaxNorm(1.5), lambda w: w * np.minimum(1, 1.5 / lengths(w))
    ),
    WeightRow(
        "MaxNorm",
        lambda: constraints.MaxNorm(2, axis=[0, 1]),
        lambda w: w * np.minimum(1, 2 / lengths(w, (0, 1))),
        "axes",
    ),
    WeightRow("NonNeg", lambda: constraints.NonNeg(), lambda w: np.maximum(w, 0)),
    WeightRow("UnitNorm", lambda: constraints.UnitNorm(), lambda w: w / lengths(w)),
    WeightRow("UnitNorm", lambda: constraints.UnitNorm(1), lambda w: w / lengths(w, 1), "axis 1"),
    WeightRow(
        "MinMaxNorm",
        lambda: constraints.MinMaxNorm(1.0, 2.0),
        lambda w: w * np.clip(lengths(w), 1, 2) / lengths(w),
    ),
    WeightRow(
        "MinMaxNorm",
        lambda: constraints.MinMaxNorm(1.0, 2.0, rate=0.3),
        lambda w: w * (0.3 * np.clip(lengths(w), 1, 2) / lengths(w) + 0.7),
        "rate",
    ),
]
