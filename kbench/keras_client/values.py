"""What Keras and its users read from the backend: results of rank 0 are NumPy scalars.

TensorFlow gave them, and notebooks rely on it: `round(model.train_on_batch(x, y), 3)`, a table of
pandas made of `history.history`, a loss as the key of a dict. kbench's own functions give arrays of
rank 0, for which none of these works.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from kbench import backend
from kbench.engine.execute.function import Function
from kbench.engine.graph.tensor import Tensor

K: ModuleType = backend


def plain(value: object) -> Any:
    """An array of rank 0 as a NumPy scalar; all else as it is, lists entry by entry."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


class PlainFunction(Function):
    """A function whose results of rank 0 are NumPy scalars."""

    def __call__(self, inputs: Sequence[Any] = (), *more: object) -> list[Any]:
        return [plain(item) for item in super().__call__(inputs, *more)]


STEPS = ("train_function", "test_function", "predict_function")  # as Keras names a model's


class StepFunction(PlainFunction):
    """A function of a model. Keras gives each of its arrays a second axis, of size 1 if need be.

    The targets of an output of rank 1, such as a loss for each sample, do without it.
    """

    def __call__(self, inputs: Sequence[Any] = (), *more: object) -> list[Any]:
        if len(inputs) == len(self.inputs):
            pairs = zip(self.inputs, inputs, strict=True)
            inputs = [value[:, 0] if _too_deep(node, value) else value for node, value in pairs]
        return super().__call__(inputs, *more)


def _too_deep(node: Tensor, value: object) -> bool:
    return node.ndim == 1 and getattr(value, "shape", ())[1:] == (1,)


def _plainly(original: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(original)
    def call(*arguments: object, **keywords: object) -> object:
        return plain(original(*arguments, **keywords))

    return call


@functools.wraps(K.function)
def function(*arguments: object, **keywords: object) -> Function:
    made: Function = K.function(*arguments, **keywords)
    made.__class__ = StepFunction if made.name in STEPS else PlainFunction
    return made


# What keras.backend has in place of kbench's own.
PLAIN = {
    "function": function,
    "eval": _plainly(K.eval),
    "get_value": _plainly(K.get_value),
    "batch_get_value": _plainly(K.batch_get_value),
}
