"""What the names in formulas of normal numbers mean for arrays, and not for single numbers.

They are called as the helpers of kernels are that they stand for. Bit patterns are views, and a
choice computes both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.engine.core.types import Array

select = np.where
square_root = np.sqrt


def exact_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as it is: NumPy rounds each operation on its own."""
    return function


def bits_of_f32(x: Array) -> Array:
    return x.view(np.int32)


def bits_of_f64(x: Array) -> Array:
    return x.view(np.int64)


def f32_of_bits(x: Array) -> Array:
    return x.view(np.float32)


def f64_of_bits(x: Array) -> Array:
    return x.view(np.float64)
