"""Numbers by stateless seeds: the same seed, the same numbers, in an eager call and in a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype
from keras.src.random.seed_generator import SeedGenerator as SeedGenerator  # Keras asks for it
from keras.src.random.seed_generator import draw_seed
from keras.src.random.seed_generator import make_default_seed as make_default_seed

from kbench.keras3.host import computed, node_call
from kbench.keras3.numpy import elementwise, layout
from kbench.keras3.tensor import any_traced

TRUNCATED_AT = 2.0
"""Standard deviations from the mean beyond which `truncated_normal` draws again."""


def _dtype(dtype: Any) -> str:
    return str(standardize_dtype(dtype or config.floatx()))


def _generator(seed: np.ndarray) -> np.random.Generator:
    """The numbers of a seed: two words are the key of a counter (Salmon et al. 2011, Philox)."""
    key = np.asarray(seed).astype(np.uint64).reshape(-1)
    return np.random.Generator(np.random.Philox(key=key[:2]))


def _drawn(name: str, draw: Any, shape: Any, dtype: str, seed: Any, *operands: Any) -> Any:
    """What `draw(generator, *arrays)` gives for a seed, as a value or as a node of the trace."""
    key = layout.known(draw_seed(seed))

    def run(key: np.ndarray, *arrays: Any) -> Any:
        return draw(_generator(key), *arrays)

    given = (key, *[layout.known(one) for one in operands])
    if not any_traced(*given):
        return computed(run, given, (), {}, [dtype])
    spec = [(tuple(int(size) for size in shape), dtype)]
    return node_call(name, run, given, (), {}, _no_slope, spec, None)


def _no_slope(g: Any, y: Any, *inputs: Any) -> list[None]:
    """Nothing flows to seeds."""
    return [None] * len(inputs)


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in shape)


def uniform(
    shape: Any, minval: Any = 0.0, maxval: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Numbers from `minval` up to `maxval`, which is left out."""
    size, wanted = _shape(shape), _dtype(dtype)

    def draw(generator: Any) -> Any:
        return generator.random(size, "float64" if wanted == "float64" else "float32")

    found = _drawn("uniform", draw, size, wanted, seed)
    known = isinstance(minval, float | int) and isinstance(maxval, float | int)
    if known and (minval, maxval) == (0, 1):
        return _below(found, 1.0, wanted)
    return _between(found, minval, maxval, wanted)


def _below(x: Any, top: Any, dtype: str) -> Any:
    """Numbers that rounding has brought up to the end, just below it."""
    if dtype in ("float32", "float64"):
        return x
    return elementwise.minimum(x, elementwise.cast(0.99 * top if top > 0 else top, dtype))


def _between(x: Any, low: Any, high: Any, dtype: str) -> Any:
    low, high = elementwise.cast(low, dtype), elementwise.cast(high, dtype)
    return elementwise.add(elementwise.multiply(x, elementwise.subtract(high, low)), low)


def normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Normal numbers."""
    size, wanted = _shape(shape), _dtype(dtype)

    def draw(generator: Any) -> Any:
        return generator.standard_normal(size, "float64" if wanted == "float64" else "float32")

    return _scaled(_drawn("normal", draw, size, wanted, seed), mean, stddev, wanted)


def _scaled(x: Any, mean: Any, stddev: Any, dtype: str) -> Any:
    scaled = elementwise.multiply(x, elementwise.cast(stddev, dtype))
    return elementwise.add(scaled, elementwise.cast(mean, dtype))


def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = None, seed: Any = None
) -> Any:
    """Normal numbers within two standard deviations."""
    size, wanted = _shape(shape), _dtype(dtype)

    def draw(generator: Any) -> Any:
        found = np.asarray(generator.standard_normal(size, "float32"))
        flat = found.reshape(-1)
        far = np.flatnonzero(np.abs(flat) > TRUNCATED_AT)
        while far.size:
            flat[far] = generator.standard_normal(far.size, "float32")
            far = far[np.abs(flat[far]) > TRUNCATED_AT]
        return flat.reshape(size)

    return _scaled(_drawn("truncated_normal", draw, size, wanted, seed), mean, stddev, wanted)


def randint(shape: Any, minval: Any, maxval: Any, dtype: Any = "int32", seed: Any = None) -> Any:
    """Integers from `minval` up to `maxval`, which is left out."""
    size, wanted = _shape(shape), str(standardize_dtype(dtype))
    if "int" not in wanted:
        raise ValueError(
            f"`keras.random.randint` requires an integer `dtype`. Received: dtype={dtype} "
        )

    def draw(generator: Any, low: Any, high: Any) -> Any:
        return generator.integers(low, high, size)

    return _drawn("randint", draw, size, wanted, seed, minval, maxval)


def categorical(logits: Any, num_samples: int, dtype: Any = "int64", seed: Any = None) -> Any:
    """Classes by the chances that logits give them, so many for each row."""
    logits = layout.known(logits)
    size = (*logits.shape[:-1], int(num_samples))

    def draw(generator: Any, x: Any) -> Any:
        noise = generator.gumbel(size=(*size, x.shape[-1]))
        return (x[..., None, :] + noise).argmax(-1)

    return _drawn("categorical", draw, size, str(standardize_dtype(dtype)), seed, logits)


def dropout(inputs: Any, rate: Any, noise_shape: Any = None, seed: Any = None) -> Any:
    """Zeros in place of a part of the elements; the others grow, so that the mean stays."""
    inputs = layout.known(inputs)
    shape = tuple(inputs.shape)
    if noise_shape is not None:
        shape = tuple(
            own if given is None else int(given)
            for own, given in zip(inputs.shape, noise_shape, strict=True)
        )
    kept = 1.0 - rate

    def draw(generator: Any) -> Any:
        return generator.random(shape, "float32") < kept

    mask = _drawn("dropout", draw, shape, "bool", seed)
    dtype = str(inputs.dtype)
    zero = elementwise.cast(0, dtype)
    return elementwise.where(mask, elementwise.cast(elementwise.divide(inputs, kept), dtype), zero)


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    """The entries of an axis in a random order."""
    from kbench.keras3.numpy.index import take

    x = layout.known(x)
    count = x.shape[axis]

    def draw(generator: Any) -> Any:
        return generator.permutation(count)

    return take(x, _drawn("shuffle", draw, (count,), "int32", seed), axis)


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Numbers of gamma distributions of scale 1."""
    size = _shape(shape)

    def draw(generator: Any, a: Any) -> Any:
        return generator.gamma(a, 1.0, size)

    return _drawn("gamma", draw, size, _dtype(dtype), seed, alpha)


def binomial(
    shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None
) -> Any:
    """How many of so many draws succeed."""
    size = _shape(shape)

    def draw(generator: Any, n: Any, p: Any) -> Any:
        return generator.binomial(np.asarray(n).astype(np.int64), p, size)

    return _drawn("binomial", draw, size, _dtype(dtype), seed, counts, probabilities)


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Numbers of beta distributions."""
    size = _shape(shape)

    def draw(generator: Any, a: Any, b: Any) -> Any:
        return generator.beta(a, b, size)

    return _drawn("beta", draw, size, _dtype(dtype), seed, alpha, beta)
