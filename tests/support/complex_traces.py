"""What tests of complex numbers in Keras 3 share: operands, and running a function as a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from kbench import backend as K
from kbench.keras3.core import traced
from kbench.keras3.tensor import Traced, from_held, held, symbol_of, to_held

DRAW = np.random.RandomState(11)


def drawn(*shape: int) -> np.ndarray:
    """Complex numbers in a square around 0."""
    return DRAW.uniform(-1, 1, shape) + 1j * DRAW.uniform(-1, 1, shape)


Z, W = drawn(2, 3), drawn(2, 3)
SQUARE = drawn(3, 3) + 2 * np.eye(3)


def gram(a: Any) -> Any:
    """A positive definite matrix, made of any."""
    return a @ ops.conj(ops.transpose(a))


def run_traced(function: Any, arrays: list[np.ndarray]) -> np.ndarray:
    """What a trace of the function gives for arrays."""
    with traced():
        symbols = [symbol_of(x.shape, x.dtype.name) for x in arrays]
        found = function(*symbols)
        found = found if isinstance(found, Traced) else Traced(held(found), found.dtype.name)
    run = K.function([one.held for one in symbols], [found.held])
    return from_held(run([to_held(x) for x in arrays])[0], found.dtype)
