"""What a function of Keras 3 gives as part of a graph of symbols; whether results are near."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras import tree

from kbench import backend as K
from kbench.keras3.core import traced
from kbench.keras3.tensor import from_held, is_traced, symbol_of, to_held


def in_a_trace(function: Callable[..., Any], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The results of a function, one after another, when its operands are symbols."""
    symbols = [symbol_of(array.shape, str(array.dtype)) for array in arrays]
    with traced():
        found = tree.flatten(function(*symbols))
    nodes = [one.held for one in found if is_traced(one)]
    values = iter(K.function([one.held for one in symbols], nodes)(list(map(to_held, arrays))))
    return [from_held(next(values), one.dtype) if is_traced(one) else one for one in found]


def assert_close(one: Any, other: Any, rtol: float = 2e-5, atol: float = 2e-6) -> None:
    """Results of the same structure, of the same dtypes and shapes, and nearly the same values."""
    flat = [tree.flatten(each) for each in (one, other)]
    assert len(flat[0]) == len(flat[1])
    for a, b in zip(*flat, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and a.shape == b.shape
        wide = "complex128" if a.dtype.kind == "c" else "float64"
        np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol, atol)
