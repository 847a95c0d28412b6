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
    # Operands for a quick look at the formula, where three rows of four will not do.
    small: Callable[[np.random.Generator], Arrays] | None = None


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


def _convolution(
    name: str, note: str, formula: Formula, small: tuple[tuple[int, ...], ...], *shapes: Any
) -> Workload:
    # Sums of up to a million products, relative to the largest of them.
    return Workload(
        f"conv.{name}", note, _normal(*shapes), formula, tolerance=2e-5, small=_normal(*small)
    )


_IMAGE, _BANK = (8, 56, 56, 64), (3, 3, 64, 64)
_LITTLE = (2, 7, 6, 4), (3, 3, 4, 5)

_CONVOLUTIONS = [
    _convolution(
        "3x3",
        "conv2d, 3x3, 8x56x56x64 to 64, same",
        lambda F, x, kernel: F.convolution(x, kernel),
        _LITTLE,
        _IMAGE,
        _BANK,
    ),
    _convolution(
        "3x3.to_input",
        "its gradient to the input",
        lambda F, g, kernel: F.convolution_to_input(g, kernel),
        ((2, 7, 6, 5), (3, 3, 4, 5)),
        _IMAGE,
        _BANK,
    ),
    _convolution(
        "3x3.to_kernel",
        "its gradient to the kernel",
        lambda F, g, x: F.convolution_to_kernel(g, x, (3, 3)),
        ((2, 7, 6, 5), (2, 7, 6, 4)),
        _IMAGE,
        _IMAGE,
    ),
    _convolution(
        "3x3.dilated",
        "conv2d, 3x3 with dilation 2, 8x56x56x64 to 64, same",
        lambda F, x, kernel: F.convolution(x, kernel, 1, "same", 2),
        _LITTLE,
        _IMAGE,
        _BANK,
    ),
    _convolution(
        "7x7.stride2",
        "conv2d, 7x7 with stride 2, 8x229x229x3 to 64, valid",
        lambda F, x, kernel: F.convolution(x, kernel, 2, "valid"),
        ((2, 15, 13, 3), (7, 7, 3, 4)),
        (8, 229, 229, 3),
        (7, 7, 3, 64),
    ),
    _convolution(
        "1x1",
        "conv2d, 1x1, 8x28x28x256 to 512",
        lambda F, x, kernel: F.convolution(x, kernel, 1, "valid"),
        ((2, 7, 6, 4), (1, 1, 4, 5)),
        (8, 28, 28, 256),
        (1, 1, 256, 512),
    ),
    _convolution(
        "depthwise",
        "depthwise_conv2d, 3x3, 8x56x56x64, same",
        lambda F, x, kernel: F.depthwise(x, kernel),
        ((2, 7, 6, 4), (3, 3, 4, 1)),
        _IMAGE,
        (3, 3, 64, 1),
    ),
    _convolution(
        "conv1d",
        "conv1d, 5 steps, 32x512x64 to 64, same",
        lambda F, x, kernel: F.convolution(x, kernel),
        ((2, 9, 4), (5, 4, 3)),
        (32, 512, 64),
        (5, 64, 64),
    ),
    _convolution(
        "conv3d",
        "conv3d, 3x3x3, 2x16x28x28x32 to 32, same",
        lambda F, x, kernel: F.convolution(x, kernel),
        ((2, 4, 5, 6, 3), (3, 3, 3, 3, 4)),
        (2, 16, 28, 28, 32),
        (3, 3, 3, 32, 32),
    ),
]

WORKLOADS: dict[str, Workload] = {
    one.name: one for one in [*_ELEMENTWISE, *_ROWS, *_REDUCTIONS, *_TINY, *_CONVOLUTIONS]
}
