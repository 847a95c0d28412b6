"""Numbers by stateless seeds: the same seed, the same numbers. Known seeds alone, so far."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype
from keras.src.random.seed_generator import SeedGenerator as SeedGenerator  # Keras asks for it
from keras.src.random.seed_generator import draw_seed
from keras.src.random.seed_generator import make_default_seed as make_default_seed

from kbench import backend as K
from kbench.keras3.numpy import absent
from kbench.keras3.tensor import is_traced


def _seed(seed: Any, name: str) -> int:
    drawn = draw_seed(seed)
    if is_traced(drawn):
        raise NotImplementedError(
            f"keras.random.{name} is not available in a traced step on the kbench backend yet"
        )
    first, second = (int(entry) for entry in np.asarray(drawn))
    return first << 32 | second


def _dtype(dtype: Any) -> str:
    return str(standardize_dtype(dtype or config.floatx()))


def uniform(
    shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    key = _seed(seed, "uniform")
    return K.eval(K.random_uniform(tuple(shape), minval, maxval, _dtype(dtype), key))


def normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    key = _seed(seed, "normal")
    return K.eval(K.random_normal(tuple(shape), mean, stddev, _dtype(dtype), key))


def truncated_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    key = _seed(seed, "truncated_normal")
    return K.eval(K.truncated_normal(tuple(shape), mean, stddev, _dtype(dtype), key))


def __getattr__(name: str) -> Any:
    return absent("keras.random", name)
