"""Pooling and its gradients."""

from __future__ import annotations

from typing import Any

from workloads.base import Workload, at_most, normal, size

_IMAGES = (32, 112, 112, 64)


def _pool(mode: str, width: int, stride: int) -> list[Workload]:
    def pool(F: Any, x: Any) -> Any:
        return F.pool(x, width, stride, mode)

    def formula(F: Any, x: Any) -> Any:
        return pool(F, x)

    def gradient(F: Any, x: Any, g: Any) -> Any:
        return F.pullback(lambda x: pool(F, x), g, x)[0]

    side = (_IMAGES[1] - width) // stride + 1
    results = (_IMAGES[0], side, side, _IMAGES[3])
    name = f"pool.{mode}" if width == stride else f"pool.{mode}.{width}x{width}"
    what = f"{width}x{width} with stride {stride}, 32x112x112x64"
    return [
        Workload(
            name,
            f"{mode} pooling, {what}",
            normal(_IMAGES),
            formula,
            traffic=size(_IMAGES, results),
            goals=at_most(0.9),
            small=normal((2, 8, 7, 3)),
            long=width != stride,
        ),
        Workload(
            f"{name}.grad",
            "its gradient to the input",
            normal(_IMAGES, results),
            gradient,
            traffic=2 * size(_IMAGES) + size(results) if mode == "max" else size(_IMAGES, results),
            goals=at_most(0.9),
            small=normal((2, 9, 9, 3), (2, 4, 4, 3)),
            long=width != stride,
        ),
    ]


WORKLOADS = [*_pool("max", 2, 2), *_pool("avg", 2, 2), *_pool("max", 3, 2)]
