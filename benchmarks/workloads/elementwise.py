"""Chains and single functions on arrays that no cache holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.base import Arrays, Workload, at_most, normal, size

_MANY = (10_000_000,)
_IMAGES = (128, 56, 56, 64)
_MIDDLE = (32, 100, 100)
_POLYNOMIAL = (0.5, -0.25, 0.125, 1.0, -0.75, 0.3, -0.1, 0.05, 0.01)


def _polynomial(F: Any, x: Any) -> Any:
    y = _POLYNOMIAL[-1] * x + _POLYNOMIAL[-2]
    for coefficient in _POLYNOMIAL[-3::-1]:
        y = y * x + coefficient
    return y


def _above_zero(random: np.random.Generator) -> Arrays:
    return (random.random(_MANY, dtype=np.float32) * 8 + np.float32(0.001),)


def _bounded(random: np.random.Generator) -> Arrays:
    return (random.random(_MANY, dtype=np.float32) * 2 - 1,)


def _function(name: str) -> Workload:
    def formula(F: Any, x: Any) -> Any:
        return getattr(F, name)(x)

    return Workload(
        f"elementwise.{name}",
        f"{name} alone, 10M float32",
        _above_zero if name in ("log", "sqrt") else normal(_MANY),
        formula,
        traffic=2 * size(_MANY),
        goals=at_most(0.85),
        small=lambda random: (random.random((3, 4), dtype=np.float32) + np.float32(0.1),),
        long=name not in ("exp", "sin"),
    )


WORKLOADS = [
    Workload(
        "elementwise.sigmoid_tanh",
        "sigmoid(1.5*x+y)*tanh(x), 10M float32",
        normal(_MANY, _MANY),
        lambda F, x, y: F.sigmoid(1.5 * x + y) * F.tanh(x),
        traffic=3 * size(_MANY),
        goals=at_most(0.85),
    ),
    Workload(
        "elementwise.gelu",
        "0.5*x*(1+tanh(0.798*(x+0.0447*x^3))), 10M float32",
        normal(_MANY),
        lambda F, x: F.gelu(x),
        traffic=2 * size(_MANY),
        goals=at_most(0.85),
    ),
    Workload(
        "elementwise.polynomial",
        "polynomial of degree 8 by Horner's rule, 10M float32",
        _bounded,
        _polynomial,
        traffic=2 * size(_MANY),
        goals=at_most(0.85),
    ),
    Workload(
        "elementwise.bias_relu",
        "relu(x + bias), 128x56x56x64 float32",
        normal(_IMAGES, _IMAGES[-1:]),
        lambda F, x, bias: F.relu(x + bias),
        traffic=2 * size(_IMAGES),
        goals=at_most(0.85),
        small=normal((3, 2, 2, 4), (4,)),
    ),
    *map(_function, ("exp", "log", "tanh", "sqrt", "sin", "cos")),
    Workload(
        "elementwise.relu.middle",
        "relu, 32x100x100 float32: some ten microseconds",
        normal(_MIDDLE),
        lambda F, x: F.relu(x),
        traffic=2 * size(_MIDDLE),
        goals=at_most(1.0),
    ),
]
