"""What is measured: each formula once, written against the names that every library offers.

A formula gets `F`, the functions of one library under Keras' names, and its operands. The same
text so makes the graph for kbench, the NumPy call, the PyTorch call and the traced JAX function.
Knows no library and no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Formula = Callable[..., Any]
Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Workload:
    """One line of the table."""

    name: str
    note: str
    inputs: Callable[[np.random.Generator], Arrays]
    formula: Formula
    # "function": made once, called often. "eval": a new expression in every call.
    mode: str = "function"
    # Bytes that have to move at least once, for the rate; 0 where it says nothing.
    traffic: int = 0
    tolerance: float = 2e-6
    # kbench only: "wait" measures the compiled form, "auto" what a user meets without waiting.
    jit: str = "wait"


def _normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Arrays]:
    def make(random: np.random.Generator) -> Arrays:
        return tuple(random.standard_normal(shape, dtype=np.float32) for shape in shapes)

    return make


def _ten(F: Any, x: Any) -> Any:
    y = x * 2.0 + 1.0
    y = F.tanh(y) - x
    y = F.square(y) / 3.0
    y = F.exp(-y) + x
    return F.sqrt(F.square(y) + 1.0)


_MILLIONS = 10_000_000
_SIDE = 4096
_SQUARE = 4 * _SIDE * _SIDE

_ELEMENTWISE = [
    Workload(
        "elementwise.sigmoid_tanh",
        "sigmoid(1.5*x+y)*tanh(x), 10M float32",
        _normal((_MILLIONS,), (_MILLIONS,)),
        lambda F, x, y: F.sigmoid(1.5 * x + y) * F.tanh(x),
        traffic=3 * 4 * _MILLIONS,
    ),
]

_ROWS = [
    Workload(
        "rows.softmax",
        "softmax over the last axis, 4096x4096 float32",
        _normal((_SIDE, _SIDE)),
        lambda F, x: F.softmax(x),
        traffic=2 * _SQUARE,
    ),
    Workload(
        "rows.logsumexp",
        "logsumexp over the last axis, 4096x4096 float32",
        _normal((_SIDE, _SIDE)),
        lambda F, x: F.logsumexp(x, -1),
        traffic=_SQUARE,
    ),
]


def _reduction(name: str, word: str, axis: int | None) -> Workload:
    def formula(F: Any, x: Any) -> Any:
        return getattr(F, name)(x, axis)

    return Workload(
        f"reduce.{name}.{word}",
        f"{name} over {word} axis, 4096x4096 float32".replace("all axis", "all axes"),
        _normal((_SIDE, _SIDE)),
        formula,
        traffic=_SQUARE,
        # A sum of 16.8M normals nearly cancels; the bound is relative to the largest result.
        tolerance=2e-4 if axis is None else 2e-5,
    )


_REDUCTIONS = [
    _reduction(name, word, axis)
    for name in ("sum", "mean", "max")
    for word, axis in (("all", None), ("first", 0), ("last", -1))
]

_TINY = [
    Workload(
        "tiny.eval_one",
        "a new expression of one operation in each call, 3x4",
        _normal((3, 4), (3, 4)),
        lambda F, x, y: x + y,
        mode="eval",
        jit="auto",
    ),
    Workload(
        "tiny.eval_ten",
        "a new expression of ten operations in each call, 3x4",
        _normal((3, 4)),
        _ten,
        mode="eval",
        jit="auto",
    ),
    Workload(
        "tiny.function_one",
        "one operation on 10 elements, made once",
        _normal((10,)),
        lambda F, x: F.tanh(x),
        jit="auto",
    ),
    Workload(
        "tiny.function_ten",
        "ten operations on 10 elements, made once",
        _normal((10,)),
        _ten,
        jit="auto",
    ),
]

WORKLOADS: dict[str, Workload] = {
    one.name: one for one in [*_ELEMENTWISE, *_ROWS, *_REDUCTIONS, *_TINY]
}
