"""Numbers by stateless seeds: the same seed, the same numbers, in an eager call and in a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype
from keras.src.random.seed_generator import SeedGenerator as SeedGenerator  # Keras asks for it
from keras.src.random.seed_generator import draw_seed
from keras.src.random.seed_generator import make_default_seed as make_default_seed

from kbench import backend as K
from kbench.api.operations import DTYPES as ENGINE_DTYPES
from kbench.api.operations import ArgumentError, seeded_array, seeded_draw
from kbench.api.operations import where as choose
from kbench.keras3.calls.host import computed, node_call
from kbench.keras3.calls.planned import planned
from kbench.keras3.numpy import elementwise, layout, reduce
from kbench.keras3.numpy.index import take, watched
from kbench.keras3.rules.draws import beta_rule, gamma_rule
from kbench.keras3.tensor import (
    Traced,
    any_traced,
    finish,
    in_dtype,
    is_traced,
    operation,
    place_of,
    plain,
)

RULES = {"gamma": gamma_rule, "beta": beta_rule}
"""Draws that move with their parameters step by step; the others are whole numbers."""


def _dtype(dtype: Any) -> str:
    return str(standardize_dtype(dtype or config.floatx()))


def _generator(seed: np.ndarray) -> np.random.Generator:
    """The numbers of a seed: two words are the key of a counter (Salmon et al. 2011, Philox)."""
    key = np.asarray(seed).astype(np.uint64).reshape(-1)
    return np.random.Generator(np.random.Philox(key=key[:2]))


def _drawn(name: str, draw: Any, shape: Any, dtype: str, seed: Any, *operands: Any) -> Any:
    """What `draw(seed, *arrays)` gives for a seed, as a value or as a node of the trace."""
    given = (layout.known(draw_seed(seed)), *[layout.known(one) for one in operands])
    if not any_traced(*given):
        return computed(name, draw, given, (), {}, [dtype])
    spec = [(tuple(int(size) for size in shape), dtype)]
    return node_call(name, draw, given, (), {}, RULES.get(name, _no_slope), spec, None)


def _no_slope(g: Any, y: Any, *inputs: Any) -> list[None]:
    """Nothing flows to seeds, nor through whole numbers."""
    return [None] * len(inputs)


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)


def _seeded(kind: str, shape: Any, dtype: str, seed: Any, **numbers: float) -> Any:
    """Numbers that the engine draws, compiled where there are many."""
    return _of_key(layout.known(draw_seed(seed)), kind, shape, dtype, **numbers)


def _of_key(key: Any, kind: str, shape: Any, dtype: str, **numbers: float) -> Any:
    """The numbers of a seed that was drawn."""
    if is_traced(key):
        return Traced(seeded_draw(key.node, kind, dtype, shape, **numbers), dtype)
    return seeded_array(np.asarray(key), kind, dtype, shape, **numbers)


def _drawn_in(dtype: str) -> str:
    """The dtype in which numbers are drawn, before they are rounded once."""
    return "float64" if dtype == "float64" else "float32"


def uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Numbers from `minval` up to `maxval`, which is left out."""
    size, wanted = _shape(shape), _dtype(dtype)
    wide = _drawn_in(wanted)
    if isinstance(minval, (int, float)) and isinstance(maxval, (int, float)):
        low, high = (np.asarray(end).astype(wanted) for end in (minval, maxval))
        found = _seeded("uniform", size, wide, seed, low=float(low), high=float(high))
        if wanted == wide:
            return found
        last = np.nextafter(high, low)  # rounding to a narrow dtype may reach the upper end
        return elementwise.minimum(elementwise.cast(found, wanted), last)
    share = _seeded("uniform", size, wide, seed, low=0.0, high=1.0)
    return _between(share, minval, maxval, wanted, wide)


@operation
def _between(share: Any, minval: Any, maxval: Any, dtype: str, wide: str) -> Any:
    """Shares of the way from one bound to another, which is left out."""
    low, high = in_dtype(layout.known(minval), dtype), in_dtype(layout.known(maxval), dtype)
    found = in_dtype(share, wide) * K.cast(high - low, wide) + K.cast(low, wide)
    found = finish(found, dtype).node
    return Traced(choose(K.less(found, high), found, low), dtype)


def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Normal numbers."""
    return _normal("normal", shape, mean, stddev, dtype, seed)


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Normal numbers within two standard deviations."""
    return _normal("truncated", shape, mean, stddev, dtype, seed)


def _normal(kind: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: Any) -> Any:
    size, wanted = _shape(shape), _dtype(dtype)
    wide = _drawn_in(wanted)
    if isinstance(mean, (int, float)) and isinstance(stddev, (int, float)):
        found = _seeded(kind, size, wide, seed, mean=float(mean), stddev=float(stddev))
        return elementwise.cast(found, wanted)
    found = _seeded(kind, size, wide, seed, mean=0.0, stddev=1.0)
    return _scaled(found, mean, stddev, wanted, wide)


@operation
def _scaled(x: Any, mean: Any, stddev: Any, dtype: str, wide: str) -> Any:
    mean, stddev = layout.known(mean), layout.known(stddev)
    return finish(in_dtype(x, wide) * in_dtype(stddev, wide) + in_dtype(mean, wide), dtype)


def randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    """Integers from `minval` up to `maxval`, which is left out."""
    size, wanted = _shape(shape), str(standardize_dtype(dtype))
    if "int" not in wanted:
        raise ValueError(
            f"`keras.random.randint` requires an integer `dtype`. Received: dtype={dtype} "
        )
    known = all(isinstance(end, (int, float, np.integer)) for end in (minval, maxval))
    if known and _has_bounds(wanted, int(minval), int(maxval)):
        return _seeded("integers", size, wanted, seed, low=int(minval), high=int(maxval))

    def draw(seed: np.ndarray, low: Any, high: Any) -> Any:
        if np.size(low) == np.size(high) == 1:
            ends = int(np.reshape(low, ())), int(np.reshape(high, ()))
            if _has_bounds(wanted, *ends):  # as if they had been known
                return seeded_array(seed, "integers", wanted, size, low=ends[0], high=ends[1])
        return _generator(seed).integers(low, high, size)

    return _drawn("randint", draw, size, wanted, seed, minval, maxval)


def _has_bounds(dtype: str, low: int, high: int) -> bool:
    """Whether the engine draws integers of a dtype between these bounds."""
    if dtype not in ENGINE_DTYPES:
        return False
    limits = np.iinfo(dtype)
    return int(limits.min) <= low < high <= int(limits.max) + 1


def categorical(logits: Any, num_samples: int, dtype: Any = "int64", seed: Any = None) -> Any:
    """Classes by the chances that logits give them, so many for each row: Gumbel's largest."""
    logits = layout.known(logits)
    classes = logits.shape[-1]
    size = (*logits.shape[:-1], int(num_samples), classes)
    least = float(np.finfo("float32").tiny)  # whose logarithm there is
    share = _seeded("uniform", size, "float32", seed, low=least, high=1.0)
    away = elementwise.log(elementwise.negative(elementwise.log(share)))
    found = reduce.argmax(elementwise.subtract(layout.expand_dims(logits, -2), away), -1)
    return elementwise.cast(found, str(standardize_dtype(dtype)))


def dropout(inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None) -> Any:
    """Zeros in place of a part of the elements; the others grow, so that the mean stays."""
    rate = plain(rate)
    if is_traced(rate):
        rate = watched("dropout", layout.known(rate), _check_rate)
    else:
        _check_rate(rate)
    return _dropped(inputs, layout.known(draw_seed(seed)), rate, noise_shape)


def _check_rate(rate: Any) -> None:
    if not 0 <= rate <= 1:
        raise ArgumentError(f"rate is {rate}; a part of the elements is 0 to 1", function="dropout")


@planned
def _dropped(inputs: Any, key: Any, rate: Any, noise_shape: Any) -> Any:
    inputs = layout.known(inputs)
    shape = tuple(inputs.shape)
    if noise_shape is not None:
        shape = tuple(
            own if given is None else int(given)
            for own, given in zip(inputs.shape, noise_shape, strict=True)
        )
    kept, dtype = 1.0 - rate, str(inputs.dtype)
    if is_traced(kept):  # the same bits as below
        mask = elementwise.less(_of_key(key, "uniform", shape, "float32", low=0.0, high=1.0), kept)
        kept = elementwise.where(elementwise.equal(kept, 0), 1.0, kept)
    else:
        mask = _of_key(key, "below", shape, "bool", p=float(kept))
    zero = elementwise.cast(0, dtype)
    return elementwise.where(mask, elementwise.cast(elementwise.divide(inputs, kept), dtype), zero)


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    """The entries of an axis in a random order."""
    x = layout.known(x)
    count = x.shape[place_of(axis, len(x.shape))]

    def draw(seed: np.ndarray) -> Any:
        return _generator(seed).permutation(count)

    return take(x, _drawn("shuffle", draw, (count,), "int32", seed), axis)


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Numbers of gamma distributions of scale 1."""
    size = _shape(shape)

    def draw(seed: np.ndarray, a: Any) -> Any:
        return _generator(seed).gamma(a, 1.0, size)

    return _drawn("gamma", draw, size, _dtype(dtype), seed, alpha)


def binomial(
    shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None
) -> Any:
    """How many of so many draws succeed."""
    size = _shape(shape)

    def draw(seed: np.ndarray, n: Any, p: Any) -> Any:
        return _generator(seed).binomial(np.asarray(n).astype(np.int64), p, size)

    return _drawn("binomial", draw, size, _dtype(dtype), seed, counts, probabilities)


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Numbers of beta distributions."""
    size = _shape(shape)

    def draw(seed: np.ndarray, a: Any, b: Any) -> Any:
        return _generator(seed).beta(a, b, size)

    return _drawn("beta", draw, size, _dtype(dtype), seed, alpha, beta)
