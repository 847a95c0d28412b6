"""Random numbers; what is compared is their mean, their spread and how many are zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.base import Arrays, Formula, Inputs, Workload, at_most, size

_MANY = (10_000_000,)


def _moments(x: np.ndarray) -> np.ndarray:
    return np.array([x.mean(dtype=float), x.std(dtype=float), (x == 0).mean()])


def _ones(count: int) -> Inputs:
    def make(random: np.random.Generator) -> Arrays:
        return np.ones(count, np.float32), np.array(7, np.int32)

    return make


def _seed(random: np.random.Generator) -> Arrays:
    return (np.array(7, np.int32),)


def _random(name: str, note: str, formula: Formula, inputs: Any, small: Any = None) -> Workload:
    return Workload(
        f"random.{name}",
        note,
        inputs,
        formula,
        traffic=size(_MANY) * (2 if name == "dropout" else 1),
        tolerance=2e-3,
        goals=at_most(0.25),
        summary=_moments,
        small=small or inputs,
    )


WORKLOADS = [
    _random(
        "dropout",
        "dropout of one half, 10M float32",
        lambda F, x, seed: F.dropout(x, 0.5, seed),
        _ones(_MANY[0]),
    ),
    _random("normal", "10M float32", lambda F, seed: F.random_normal(_MANY, seed), _seed),
    _random("uniform", "10M float32", lambda F, seed: F.random_uniform(_MANY, seed), _seed),
]
