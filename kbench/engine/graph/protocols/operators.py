"""Python's operators on tensors: a table of functions by name, and the methods that look there.

Knows no Tensor: the files of `ops/` fill the table through `@operator`, and `tensor.py` has the
methods set. A declared elementwise function also has a `quick` form, which makes the node of most
operands and gives None for others: its operators ask that first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

OPERATORS: dict[str, Callable[..., Any]] = {}
Function = TypeVar("Function", bound=Callable[..., Any])

_BINARY = "add sub mul truediv floordiv mod pow matmul and or xor".split()
_FORWARD = [*_BINARY, "lt", "le", "gt", "ge", "neg", "abs", "invert", "getitem", "pos"]
_UNARY = ("neg", "abs", "invert", "pos")
_classes: list[type] = []  # that have the methods


def operator(*names: str) -> Callable[[Function], Function]:
    """Register a function under the names of the operators that it implements."""

    def register(function: Function) -> Function:
        for name in names:
            OPERATORS[name] = function
            for owner in _classes:
                _set_methods(owner, name.strip("_"), getattr(function, "quick", None))
        return function

    return register


def set_operators(owner: type) -> type:
    """Give a class the methods of all operators."""
    _classes.append(owner)
    for word in _FORWARD:
        _set_methods(owner, word, None)
    return owner


def _set_methods(owner: type, word: str, quick: Callable[..., Any] | None) -> None:
    if word not in _FORWARD:
        return  # a function that is found by name alone
    name = f"__{word}__"
    if quick is None:
        forward = _forward(name)
    else:
        forward = _quick_unary(name, quick) if word in _UNARY else _quick_binary(name, quick)
    forward.__name__ = name
    setattr(owner, name, forward)
    if word in _BINARY:
        reflected = _reflected(name) if quick is None else _quick_reflected(name, quick)
        reflected.__name__ = f"__r{word}__"
        setattr(owner, reflected.__name__, reflected)


# ---- the methods; errors read `name`, `left`, `self`, `right` and `arguments` off their frames


def _forward(name: str) -> Callable[..., Any]:
    def method(self: object, *arguments: object) -> Any:
        return OPERATORS[name](self, *arguments)

    return method


def _reflected(name: str) -> Callable[..., Any]:
    def method(self: object, left: object) -> Any:
        return OPERATORS[name](left, self)

    return method


def _quick_unary(name: str, quick: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: object) -> Any:
        node = quick(self)
        return OPERATORS[name](self) if node is None else node

    return method


def _quick_binary(name: str, quick: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: object, right: object) -> Any:
        node = quick(self, right)
        return OPERATORS[name](self, right) if node is None else node

    return method


def _quick_reflected(name: str, quick: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: object, left: object) -> Any:
        node = quick(left, self)
        return OPERATORS[name](left, self) if node is None else node

    return method
