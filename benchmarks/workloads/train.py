"""Whole steps of training with Adam, and the optimizer alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from workloads.base import Arrays, Inputs, Workload, at_most, size


def _batch(shape: tuple[int, ...], classes: int) -> Inputs:
    def make(random: np.random.Generator) -> Arrays:
        labels = random.integers(0, classes, shape[0])
        target = np.eye(classes, dtype=np.float32)[labels]
        return random.standard_normal(shape, dtype=np.float32), target

    return make


def _layers(*shapes: tuple[int, ...]) -> Inputs:
    """For each kernel its first values, spread so that no probability comes near the epsilon of
    Keras, and a bias of zeros."""

    def make(random: np.random.Generator) -> Arrays:
        arrays = []
        for shape in shapes:
            spread = np.float32(np.sqrt(0.5 / np.prod(shape[:-1])))
            arrays.append(random.standard_normal(shape, dtype=np.float32) * spread)
            arrays.append(np.zeros(shape[-1], np.float32))
        return tuple(arrays)

    return make


def _mlp(F: Any, x: Any, target: Any, *weights: Any) -> Any:
    for at in range(0, len(weights) - 2, 2):
        x = F.relu(F.dot(x, weights[at]) + weights[at + 1])
    return F.mean(F.cross_entropy(target, F.dot(x, weights[-2]) + weights[-1]), None)


def _cnn(F: Any, x: Any, target: Any, *weights: Any) -> Any:
    for at in range(0, len(weights) - 2, 2):
        x = F.relu(F.convolution(x, weights[at]) + weights[at + 1])
        x = F.pool(x, 2, 2, "max")
    x = F.reshape(x, (target.shape[0], -1))
    return F.mean(F.cross_entropy(target, F.dot(x, weights[-2]) + weights[-1]), None)


def _given(shapes: tuple[tuple[int, ...], ...]) -> Inputs:
    def make(random: np.random.Generator) -> Arrays:
        return tuple(random.standard_normal(one, dtype=np.float32) for one in shapes)

    return make


_PARAMETERS = ((1024, 1024), (1024,), (1024, 1024), (1024,), (1024, 256), (256,))
# Forward, and back to weights and, but for the first layer, to inputs.
_MLP_FLOPS = 2 * 128 * (2 * 784 * 512 + 3 * 512 * 512 + 3 * 512 * 10)
_CNN_FLOPS = 2 * 64 * (2 * 1024 * 27 * 32 + 3 * 256 * 288 * 64 + 3 * 4096 * 10)

WORKLOADS = [
    Workload(
        "train.mlp",
        "784-512-512-10, batch 128, Adam",
        _batch((128, 784), 10),
        _mlp,
        mode="train",
        weights=_layers((784, 512), (512, 512), (512, 10)),
        flops=_MLP_FLOPS,
        tolerance=3e-3,
        goals=at_most(0.95),
    ),
    Workload(
        "train.cnn",
        "32x32x3, conv 32, pool, conv 64, pool, dense, batch 64, Adam",
        _batch((64, 32, 32, 3), 10),
        _cnn,
        mode="train",
        weights=_layers((3, 3, 3, 32), (3, 3, 32, 64), (4096, 10)),
        flops=_CNN_FLOPS,
        tolerance=3e-3,
        goals=at_most(0.95),
    ),
    Workload(
        "train.adam",
        "Adam alone, 2.4M weights in six variables, gradients given",
        _given(_PARAMETERS),
        None,
        mode="train",
        weights=_given(_PARAMETERS),
        traffic=7 * size(*_PARAMETERS),
        tolerance=1e-4,
        goals=at_most(0.9),
    ),
]
