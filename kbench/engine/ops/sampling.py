"""How random words become numbers of a distribution, and where each node stands in its sequence.

Every function here fills a contiguous array from the next words of a `Stream`, a few runs of
words at a time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from kbench.engine import cancel
from kbench.engine.errors import ArgumentError
from kbench.engine.kernels import philox

STREAMS = ("uniform", "integers", "normal", "truncated", "binomial", "dropout")
HALF_RUN = philox.RUN_WORDS // 2

# ------------------------------------------------------------------ places in a sequence


class Stream:
    """Where a node stands in the sequence of its seed; safe from any thread."""

    def __init__(self, seed: Any, kind: str) -> None:
        self.seed = _checked_seed(seed)
        self.number = STREAMS.index(kind)
        self._next = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"seed {self.seed}"

    def runs(self, count: int) -> Iterator[philox.Words]:
        """The next `count` runs of words, which nobody else gets."""
        with self._lock:
            first = self._next
            self._next += count
        for words in philox.words(self.seed & (1 << 64) - 1, self.number, first, count):
            yield words
            cancel.check()


def _checked_seed(seed: Any) -> int:
    if seed is None:
        # Keras draws missing seeds here, so that `np.random.seed` makes a program repeatable.
        return int(np.random.randint(10_000_000))
    try:
        return int(seed.__index__())
    except (AttributeError, TypeError):
        raise ArgumentError(f"seed must be an integer or None, got {seed!r}") from None


# ------------------------------------------------------------------ words to numbers


def _uniforms(stream: Stream, count: int, dtype: Any) -> Iterator[np.ndarray]:
    """Numbers in [0, 1), whole runs: 24 bits, or 53 for float64, of one or two words each."""
    if dtype == np.float64:
        for words in stream.runs(-(-count // HALF_RUN)):
            high, low = words[:, :HALF_RUN] >> np.uint32(5), words[:, HALF_RUN:] >> np.uint32(6)
            yield (high * 67108864.0 + low) * 2.0**-53
        return
    for words in stream.runs(-(-count // philox.RUN_WORDS)):
        yield (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _write(out: np.ndarray, pieces: Iterator[np.ndarray]) -> None:
    """Lay pieces behind each other into a contiguous array, as far as it reaches."""
    flat, position = out.reshape(-1), 0
    for piece in pieces:
        count = min(piece.size, flat.size - position)
        flat[position : position + count] = piece.reshape(-1)[:count]
        position += count


def fill_uniform(out: np.ndarray, stream: Stream, *, low: float, high: float) -> None:
    """Evenly in [low, high)."""
    kind = out.dtype.type
    last = np.nextafter(kind(high), kind(low)) if high > low else kind(low)
    span = high - low

    def pieces() -> Iterator[np.ndarray]:
        for piece in _uniforms(stream, out.size, out.dtype):
            if (low, high) != (0.0, 1.0):
                piece *= span
                piece += low
            # Rounding may reach the upper bound, which does not belong to the interval.
            yield np.minimum(piece.astype(kind, copy=False), last)

    _write(out, pieces())


def fill_integers(out: np.ndarray, stream: Stream, *, low: int, high: int) -> None:
    """Whole numbers, evenly in [low, high)."""
    span = np.uint64(high - low - 1)

    def pieces() -> Iterator[np.ndarray]:
        for words in stream.runs(-(-out.size // HALF_RUN)):
            drawn = _high_product(words[:, :HALF_RUN], words[:, HALF_RUN:], int(span) + 1)
            yield (drawn + np.uint64(low % (1 << 64))).astype(out.dtype)

    _write(out, pieces())


def _high_product(high: np.ndarray, low: np.ndarray, span: int) -> np.ndarray:
    """Upper 64 bits of a 64-bit number, given in halves, times `span`: evenly in [0, span)."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a, b = high.astype(np.uint64), low.astype(np.uint64)
    if span == 1 << 64:
        return (a << half) | b
    c, d = np.uint64(span >> 32), np.uint64(span & 0xFFFFFFFF)
    middle = a * d + ((b * d) >> half)
    other = b * c + (middle & mask)
    return a * c + (middle >> half) + (other >> half)


def fill_normal(out: np.ndarray, stream: Stream, *, mean: float, stddev: float) -> None:
    """Normal numbers, two from every two uniform ones."""

    def pieces() -> Iterator[np.ndarray]:
        for piece in _uniforms(stream, out.size, out.dtype):
            yield _placed(_box_muller(piece), mean, stddev)

    _write(out, pieces())


def _box_muller(uniform: np.ndarray) -> np.ndarray:
    """Two independent normal numbers of every two uniform ones."""
    half = uniform.shape[1] // 2
    radius = np.sqrt(-2 * np.log(1 - uniform[:, :half]))
    angle = uniform[:, half:] * uniform.dtype.type(2 * math.pi)
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _placed(piece: np.ndarray, mean: float, stddev: float) -> np.ndarray:
    if stddev != 1.0:
        piece *= stddev
    if mean != 0.0:
        piece += mean
    return piece


def fill_truncated(out: np.ndarray, stream: Stream, *, mean: float, stddev: float) -> None:
    """Normal numbers within two deviations, by the inverse of their distribution."""
    from scipy.special import ndtr, ndtri

    below = float(ndtr(-2.0))

    def pieces() -> Iterator[np.ndarray]:
        for piece in _uniforms(stream, out.size, out.dtype):
            piece *= 1 - 2 * below
            piece += below
            yield _placed(np.clip(ndtri(piece), -2, 2), mean, stddev)

    _write(out, pieces())


def fill_below(out: np.ndarray, stream: Stream, *, p: float) -> None:
    """1 with probability `p`, to within 2 ** -32."""
    limit = np.uint64(round(p * 2.0**32))
    runs = stream.runs(-(-out.size // philox.RUN_WORDS))
    _write(out, (words < limit for words in runs))
