"""How long a step of training takes on a cluster: from what its parts take, and from the network.

A step of `kbench.dask.fit` is a chain. Weights go to one worker, and from those that have them to
two more each, level by level. A task and its rows go to each worker, one worker after the other.
Each computes its shard. The gradients are added two by two, or come straight to the client where
they are small; the optimizer runs once, in the client. Nothing here measures anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

GROWTH = 3
"""Times as many workers have the weights after a level: Dask lets each that has them serve two."""
GATHERED_BYTES = 1 << 22
"""Gradients of all workers up to this come straight to the client, as `training/step.py` has it."""
PARTS = (
    "computing",
    "waiting for shards",
    "messages",
    "weights",
    "inputs",
    "gradients",
    "optimizer",
)
"""Of a step, as they are predicted."""


@dataclass(frozen=True)
class Training:
    """What a step of a model takes by itself; seconds of one thread, bytes of one copy."""

    fixed: float
    """Seconds of a shard, however few rows it has."""
    per_row: float
    row_bytes: float
    weight_bytes: float
    optimizer: float
    """Seconds of the client for storing, and for the loop of Keras."""
    meetings: int = 0
    """Times that all shards wait for one another: batch normalizations, there and back."""

    def compute(self, rows: float) -> float:
        """Seconds that one thread takes for the gradients of so many rows."""
        return self.fixed + self.per_row * rows


@dataclass(frozen=True)
class Network:
    """What Dask and the wires take, in seconds and bytes per second."""

    step: float
    """A step over one worker that has next to nothing to compute and few weights."""
    per_worker: float
    """What each further worker adds to it: the client hands out shards one by one."""
    level: float
    """One task that waits for another's result on another worker."""
    message: float
    """A question of one worker to another, and the answer."""
    per_message: float
    """For each further worker that asks the same one at the same time."""
    copying: float
    """Bytes per second through Dask alone: serializing, copying, loopback."""
    bandwidth: float = math.inf
    """Bytes per second of a wire."""

    def transfer(self, count: float) -> float:
        """Seconds for so many bytes over one connection."""
        return count / self.copying + count / self.bandwidth


@dataclass(frozen=True)
class Prediction:
    """Seconds of a step by part, and how many times faster than one machine it is."""

    parts: dict[str, float]
    alone: float

    @property
    def seconds(self) -> float:
        """The whole step."""
        return sum(self.parts.values())

    @property
    def speedup(self) -> float:
        """Over `model.fit` on one machine with as many threads as one worker has."""
        return self.alone / self.seconds

    @property
    def cause(self) -> str:
        """The part, besides computing, that takes most."""
        rest = {name: value for name, value in self.parts.items() if name != "computing"}
        return max(rest, key=lambda name: rest[name])


def predict(
    training: Training, network: Network, workers: int, rows: int, cores: float | None = None
) -> Prediction:
    """A step over a batch of `rows` with so many workers of one thread each.

    Arguments:
        cores: those that all workers share, where they are on one machine; each has its own
            without it.
    """
    used = min(workers, rows)
    crowd = 1.0 if cores is None else max(1.0, used / cores)
    shard = math.ceil(rows / used)
    parts = {
        "computing": training.compute(shard) * crowd,
        "waiting for shards": _meetings(training, network, used) * crowd,
        "messages": network.step + (used - 1) * network.per_worker,
        "weights": _weights_out(training, network, used, cores is not None),
        "inputs": network.transfer(rows * training.row_bytes),
        "gradients": _gradients_back(training, network, used, cores is not None),
        "optimizer": training.optimizer,
    }
    return Prediction(parts, training.compute(rows) + training.optimizer)


def _meetings(training: Training, network: Network, workers: int) -> float:
    if workers == 1:
        return 0.0
    return training.meetings * (network.message + (workers - 1) * network.per_message)


def _weights_out(training: Training, network: Network, workers: int, together: bool) -> float:
    """The client to one worker, then levels; in each, one that has them serves two. On one machine
    (`together`) all copies take the same cores."""
    levels = math.ceil(math.log(workers, GROWTH) - 1e-9) if workers > 1 else 0
    copies = 1 + sum(_served(workers, level) for level in range(levels))
    more = max(0, levels - 1) * network.message
    return more + (workers if together else copies) * network.transfer(training.weight_bytes)


def _served(workers: int, level: int) -> int:
    """Copies that the busiest one sends in a level: two, or one where that is enough."""
    have = GROWTH**level
    return 2 if workers - have > have else 1


def _gradients_back(training: Training, network: Network, workers: int, together: bool) -> float:
    one = network.transfer(training.weight_bytes)
    if workers * training.weight_bytes <= GATHERED_BYTES:
        return workers * one
    levels = math.ceil(math.log2(workers)) if workers > 1 else 0
    return levels * network.level + (workers if together else levels + 1) * one


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Start and slope of the straight line that misses least, squared; neither is below 0."""
    count = len(points)
    at = sum(x for x, _ in points) / count
    value = sum(y for _, y in points) / count
    spread = sum((x - at) ** 2 for x, _ in points)
    slope = sum((x - at) * (y - value) for x, y in points) / spread if spread else 0.0
    start = value - slope * at
    if start < 0:
        return 0.0, sum(x * y for x, y in points) / sum(x * x for x, _ in points)
    return (value, 0.0) if slope < 0 else (start, slope)


def rows_to_pay(training: Training, network: Network, workers: int) -> int | None:
    """The smallest batch, of 1 times a power of 2, that so many workers do faster than one
    machine; None where even a million rows are too few."""
    rows = workers
    while rows <= 1 << 20:
        if predict(training, network, workers, rows).speedup > 1:
            return rows
        rows *= 2
    return None


def error(predicted: float, measured: float) -> float:
    """By how much a prediction is too high."""
    return predicted / measured - 1.0
