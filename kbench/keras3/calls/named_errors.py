"""Errors within a function of Keras, NumPy's and kbench's: they name the function that was called.

Those of NumPy get its arrays as well; those of kbench have them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from kbench.api.operations import KbenchError
from kbench.keras3.complex_numbers.refusal import spec_of
from kbench.keras3.tensor import Traced

PLAIN = (np.exceptions.AxisError, np.linalg.LinAlgError, ValueError, TypeError, IndexError)
"""Exactly the types of errors of NumPy and of plain checks; those of kbench say what they saw."""


KbenchError._keras_call_info_injected = True  # type: ignore[attr-defined]
"""By which Keras knows an error that tells of its call. It makes another one of any other, of the
text alone; those of kbench have their operands, and get the layer (`training/layer.py`)."""


def _kind(error: Exception) -> type[Exception] | None:
    """Which of them an error is; one that NumPy keeps to itself is what it derives from."""
    hidden = type(error).__module__.startswith("numpy._")
    for kind in PLAIN:
        if type(error) is kind or (hidden and isinstance(error, kind)):
            return kind
    return None


def name_errors(modules: Iterable[ModuleType]) -> None:
    """Let each public function of these modules name itself in errors that do not name it.

    Not for modules whose functions run code of the user's, such as loops: its errors are its own.
    """
    for module in modules:
        for name, function in list(vars(module).items()):
            is_own = inspect.isfunction(function) and (
                f"{function.__module__}.".startswith(f"{module.__name__}.")
            )
            if is_own and not name.startswith("_"):
                setattr(module, name, _named(name, function))


def _named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except KbenchError as error:
            if error.function:  # the function of K that this one calls
                error.function = name
            raise
        except PLAIN as error:
            told = _told(name, function, error, given, named)
            if told is None:
                raise
            raise told.with_traceback(error.__traceback__) from None

    own = cast(FunctionType, call)
    own.__code__ = own.__code__.replace(co_name=name)  # by which nodes are told of (`repairs.py`)
    return call


def _told(
    name: str, function: Callable[..., Any], error: Exception, given: Sequence[Any],
    named: Mapping[str, Any],
) -> Exception | None:  # fmt: skip
    """The error with the names in it; None where they are there, or where it is of its own kind."""
    text, kind = str(error), _kind(error)
    if kind is None or text.startswith(f"{name}:"):
        return None
    places = [*inspect.signature(function).parameters]
    operands = [*zip(places, given, strict=False), *named.items()]
    seen = [f"{place} {spec}" for place, x in operands if (spec := _described(x))]
    return kind(f"{name}: {text}" + (f"; got {', '.join(seen)}" if seen else ""))


def _described(x: Any) -> str:
    """`dtype[shape]` of an array or a symbol, and of those in a list; else nothing."""
    if isinstance(x, (list, tuple)):
        return ", ".join(filter(None, map(_described, x[:4])))
    if isinstance(x, (np.ndarray, Traced)):
        return spec_of(x)
    return ""
