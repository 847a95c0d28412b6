"""What a function of Keras 3 gives as part of a graph that is built by symbols."""

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
