"""A line of the table, and the operands that the families share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Formula = Callable[..., Any]
Arrays = tuple[np.ndarray, ...]
Inputs = Callable[[np.random.Generator], Arrays]


@dataclass(frozen=True)
class Goal:
    """kbench's time is to be at most `factor` times that of `peer`, and `plus` seconds; the peer
    is the fastest one unless it is named."""

    factor: float
    peer: str | None = None
    plus: float = 0.0

    def limit(self, times: dict[str, float]) -> float | None:
        """The time to keep below, from the times of the peers; None without the peer."""
        found = times.get(self.peer) if self.peer else min(times.values(), default=None)
        return None if found is None else self.factor * found + self.plus


@dataclass(frozen=True)
class Workload:
    """One line of the table."""

    name: str
    note: str
    inputs: Inputs
    # The value; of a training step, the loss; None for an optimizer whose gradients are given.
    formula: Formula | None
    # "function": made once, called often on the library's own arrays. "exchange": the same from
    # NumPy to NumPy. "eval": a new expression in every call. "train": a step of training.
    mode: str = "function"
    # Bytes that have to move at least once, and operations, for the rate; 0: they say nothing.
    traffic: int = 0
    flops: int = 0
    # Relative to the largest element of a result.
    tolerance: float = 2e-6
    goals: tuple[Goal, ...] = ()
    # kbench only: "wait" measures the compiled form, "auto" what a user meets without waiting.
    jit: str = "wait"
    # The first weights of a training step.
    weights: Inputs | None = None
    # What of a result is compared; None compares all of it.
    summary: Callable[[np.ndarray], np.ndarray] | None = None
    # Operands for a quick look at the formula, where three rows of four will not do, and the
    # formula for them, where it knows sizes.
    small: Inputs | None = None
    small_formula: Formula | None = None
    # Left out of a quick run.
    long: bool = False

    @property
    def family(self) -> str:
        """What stands before the first dot of the name."""
        return self.name.partition(".")[0]


def at_most(factor: float) -> tuple[Goal, ...]:
    """The usual goal: a factor of the fastest peer."""
    return (Goal(factor),)


_BLOCK = 1_000_003  # a prime, so that no row begins like another


def _normals(random: np.random.Generator, shape: tuple[int, ...], scale: float) -> np.ndarray:
    """Normal numbers; of a large array, the same million again and again."""
    count = int(np.prod(shape))
    block = random.standard_normal(min(count, _BLOCK), dtype=np.float32) * np.float32(scale)
    return np.resize(block, shape)


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Inputs:
    """Normal float32 operands."""
    return lambda random: tuple(_normals(random, shape, scale) for shape in shapes)


def size(*shapes: tuple[int, ...]) -> int:
    """Bytes of float32 arrays of these shapes."""
    return sum(4 * int(np.prod(shape)) for shape in shapes)
