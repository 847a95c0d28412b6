"""Batch and layer normalization in training, and their gradients."""

from __future__ import annotations

from typing import Any

from workloads.base import Workload, at_most, normal, size

_IMAGES, _ROWS = (32, 56, 56, 64), (16_384, 1024)


def _norm(name: str, what: str, shape: tuple[int, ...], function: str) -> list[Workload]:
    def formula(F: Any, x: Any, gamma: Any, beta: Any) -> Any:
        return getattr(F, function)(x, gamma, beta)

    def gradient(F: Any, x: Any, gamma: Any, beta: Any, g: Any) -> Any:
        return F.pullback(getattr(F, function), g, x, gamma, beta)

    last = shape[-1:]
    return [
        Workload(
            f"norm.{name}",
            f"{what}, {'x'.join(map(str, shape))}",
            normal(shape, last, last),
            formula,
            traffic=2 * size(shape),
            tolerance=1e-5,
            goals=at_most(0.8),
            small=normal((3, 2, 4, 5), (5,), (5,)),
        ),
        Workload(
            f"norm.{name}.grad",
            "its gradients to the input, gamma and beta",
            normal(shape, last, last, shape),
            gradient,
            traffic=3 * size(shape),
            tolerance=5e-5,
            goals=at_most(0.8),
            small=normal((3, 2, 4, 5), (5,), (5,), (3, 2, 4, 5)),
        ),
    ]


WORKLOADS = [
    *_norm("batch", "batch normalization in training", _IMAGES, "batch_norm"),
    *_norm("layer", "layer normalization", _ROWS, "layer_norm"),
]
