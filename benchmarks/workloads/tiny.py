"""Calls whose work is nothing: what a call costs."""

from __future__ import annotations

from typing import Any

from workloads.base import Goal, Workload, normal

_GOALS = (Goal(0.1, "tf-keras"), Goal(1.0, "torch", 5e-6))


def _ten(F: Any, x: Any) -> Any:
    y = x * 2.0 + 1.0
    y = F.tanh(y) - x
    y = F.square(y) / 3.0
    y = F.exp(-y) + x
    return F.sqrt(F.square(y) + 1.0)


def _tiny(name: str, note: str, mode: str, formula: Any, *shapes: tuple[int, ...]) -> Workload:
    inputs = normal(*shapes)
    return Workload(f"tiny.{name}", note, inputs, formula, mode, goals=_GOALS, jit="auto")


def _one(F: Any, x: Any) -> Any:
    return x * 2.0 + 1.0


WORKLOADS = [
    _tiny(
        "eval_one",
        "a new expression of one operation in each call, 3x4",
        "eval",
        lambda F, x, y: x + y,
        (3, 4),
        (3, 4),
    ),
    _tiny("eval_ten", "a new expression of ten in each call, 3x4", "eval", _ten, (3, 4)),
    _tiny("function_one", "2*x+1 on 10 elements, made once", "function", _one, (10,)),
    _tiny("function_ten", "ten operations on 10 elements, made once", "function", _ten, (10,)),
    _tiny("function_numpy", "2*x+1 on 10 elements, NumPy in and out", "exchange", _one, (10,)),
]
