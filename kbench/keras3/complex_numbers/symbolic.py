"""Dtypes of symbolic tensors of Keras: sizes, parts and angles of complex numbers are real.

Keras' own rules give them the dtype of the complex numbers, so that a functional model would refuse
what takes real numbers, such as `relu`, behind them. For real numbers the rules stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.keras_tensor import KerasTensor

from kbench.keras3.tensor import PARTS

REAL_VALUED = ("Absolute", "Real", "Imag", "Angle")


def _real_valued(rule: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(rule)
    def told(self: Any, x: Any) -> Any:
        found = rule(self, x)
        half = PARTS.get(standardize_dtype(found.dtype))
        return found if half is None else KerasTensor(found.shape, half)

    return told


def tell_real_dtypes(module: Any) -> None:
    """Correct the rules of the operations in Keras' module of functions of arrays."""
    for name in REAL_VALUED:
        operation = getattr(module, name, None)
        rule = getattr(operation, "compute_output_spec", None)
        if rule is not None:
            setattr(operation, "compute_output_spec", _real_valued(rule))  # noqa: B010
