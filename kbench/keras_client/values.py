"""What Keras and its users read from the backend: results of rank 0 are NumPy scalars.

TensorFlow gave them, and notebooks rely on it: `round(model.train_on_batch(x, y), 3)`, a table of
pandas made of `history.history`, a loss as the key of a dict. kbench's own functions give arrays of
rank 0, for which none of these works.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from kbench import backend
from kbench.engine.function import Function


def plain(value: Any) -> Any:
    """An array of rank 0 as a NumPy scalar; all else as it is, lists entry by entry."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


class PlainFunction(Function):
    """A function whose results of rank 0 are NumPy scalars."""

    def __call__(self, inputs: Any = ()) -> list[Any]:
        return [plain(one) for one in super().__call__(inputs)]


def _plainly(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*arguments: Any, **keywords: Any) -> Any:
        return plain(original(*arguments, **keywords))

    return call


@functools.wraps(backend.function)
def function(*arguments: Any, **keywords: Any) -> Function:
    """`kbench.function` with results of rank 0 as NumPy scalars."""
    made = backend.function(*arguments, **keywords)
    made.__class__ = PlainFunction
    return made


# What keras.backend has in place of kbench's own.
PLAIN = {
    "function": function,
    "eval": _plainly(backend.eval),
    "get_value": _plainly(backend.get_value),
    "batch_get_value": _plainly(backend.batch_get_value),
}
