"""How random words become numbers of a distribution, and where each node stands in its sequence.

Every `fill_` function here fills a contiguous array from the next words of a `Stream`, a few runs
of words at a time. `compiled` gives the kernels that draw the very same numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from kbench.engine.core import cancel, fork_safety
from kbench.engine.core.errors import ArgumentError, shown
from kbench.engine.core.spec import Spec, integer, known_size
from kbench.engine.core.types import KernelArguments, KernelCall
from kbench.engine.graph.op import KernelFactory
from kbench.engine.intrinsics import philox
from kbench.engine.kernels.random import fill, normal
from kbench.engine.runtime import config, draw_positions, read_only

STREAMS = ("uniform", "integers", "normal", "truncated", "binomial", "dropout")
HALF_RUN = philox.RUN_WORDS // 2
MIN_KERNEL_NUMBERS = 512
"""Numbers from which on a compiled kernel is worth while: NumPy takes 100 us for a run of words, of
which there is always a whole one, and a kernel 3."""

# ------------------------------------------------------------------ places in a sequence


class Stream:
    """Where a node stands in the sequence of its seed; safe from any thread."""

    def __init__(self, seed: object, kind: str) -> None:
        self.seed = _checked_seed(seed)
        self.number = STREAMS.index(kind)
        self._next = 0
        self._last = (0, 0)  # what was drawn last: the first run of words, and how many
        self._lock = fork_safety.lock()

    def __repr__(self) -> str:
        return f"seed {self.seed}"

    def __getstate__(self) -> dict[str, object]:
        """For copies, which go on where it stands."""
        with self._lock:
            return {key: value for key, value in self.__dict__.items() if key != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _lock=fork_safety.lock())

    @property
    def key(self) -> int:
        return self.seed & (1 << 64) - 1

    def take(self, count: int) -> int:
        """The number of the first of the next `count` runs of words, which nobody else gets."""
        told = draw_positions.position(id(self), count)
        if told is not None:
            return told
        with self._lock:
            if read_only.is_active():
                return read_only.draw_position(id(self), self._last, self._next, count)
            first = self._next
            self._next += count
            self._last = (first, count)
        return first

    def runs(self, count: int) -> Iterator[philox.Words]:
        """The next `count` runs of words."""
        for words in philox.words(self.key, self.number, self.take(count), count):
            yield words
            cancel.check()


def _checked_seed(seed: object) -> int:
    if seed is None:
        # Keras draws missing seeds here, so that `np.random.seed` makes a program repeatable.
        if not read_only.is_active():
            return int(np.random.randint(10_000_000))
        numbers = np.random.RandomState()
        numbers.set_state(np.random.get_state())
        return int(numbers.randint(10_000_000))
    try:
        return integer(seed)
    except (AttributeError, TypeError):
        raise ArgumentError(f"seed must be an integer or None, got {shown(seed)}") from None


class Source(Protocol):
    """What numbers are drawn from."""

    def runs(self, count: int) -> Iterator[philox.Words]:
        """The next `count` runs of words."""


# ------------------------------------------------------------------ words to numbers


def _uniforms(stream: Source, count: int, dtype: np.dtype[np.generic]) -> Iterator[np.ndarray]:
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


def fill_uniform(out: np.ndarray, stream: Source, *, low: float, high: float) -> None:
    """Evenly in [low, high)."""
    span, last = _interval(out.dtype, low, high)

    def pieces() -> Iterator[np.ndarray]:
        for piece in _uniforms(stream, out.size, out.dtype):
            if (low, high) != (0.0, 1.0):
                piece *= span
                piece += low
            yield np.minimum(piece.astype(out.dtype, copy=False), last)

    _write(out, pieces())


def _interval(
    dtype: str | np.dtype[np.floating], low: float, high: float
) -> tuple[float, np.floating]:
    """Its length, and its last number: rounding may reach `high`, which does not belong to it."""
    kind: type[np.floating] = np.dtype(dtype).type
    return high - low, np.nextafter(kind(high), kind(low)) if high > low else kind(low)


def fill_integers(out: np.ndarray, stream: Source, *, low: int, high: int) -> None:
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
    product: np.ndarray = a * c + (middle >> half) + (other >> half)
    return product


def fill_normal(out: np.ndarray, stream: Source, *, mean: float, stddev: float) -> None:
    """Normal numbers, two from every two uniform ones."""

    def pieces() -> Iterator[np.ndarray]:
        for piece in _uniforms(stream, out.size, out.dtype):
            yield _placed(_box_muller(piece), mean, stddev)

    _write(out, pieces())


def _box_muller(uniform: np.ndarray) -> np.ndarray:
    """Two independent normal numbers of every two uniform ones."""
    half = uniform.shape[1] // 2
    first, second = (np.ascontiguousarray(x) for x in np.split(uniform, [half], axis=1))
    pair = normal.function("pair", uniform.dtype.name)
    numbers: np.ndarray = np.concatenate(pair(first, second), axis=1)
    return numbers


def _placed(piece: np.ndarray, mean: float, stddev: float) -> np.ndarray:
    piece *= stddev
    piece += mean
    return piece


def fill_truncated(out: np.ndarray, stream: Source, *, mean: float, stddev: float) -> None:
    """Normal numbers within two deviations, by the inverse of their distribution."""

    def pieces() -> Iterator[np.ndarray]:
        for piece in _uniforms(stream, out.size, out.dtype):
            within = normal.function("within", piece.dtype.name)
            yield _placed(within(piece), mean, stddev)

    _write(out, pieces())


def fill_below(out: np.ndarray, stream: Source, *, p: float) -> None:
    """1 with probability `p`, to within 2 ** -32."""
    limit = np.uint64(_limit(p))
    runs = stream.runs(-(-out.size // philox.RUN_WORDS))
    _write(out, (words < limit for words in runs))


def _limit(p: float) -> int:
    return round(p * 2.0**32)


# ------------------------------------------------------------------ kernels


def fill_kernel(kind: str, drawn: Spec, stream: Stream, **numbers: float) -> KernelFactory | None:
    """What an op that draws says of its kernel: None for small arrays and unusual dtypes."""
    if not has_kernel(kind, drawn, **numbers):
        return None
    return functools.partial(compiled, kind, drawn.dtype, stream, **numbers)


def has_kernel(kind: str, drawn: Spec, **numbers: float) -> bool:
    """Whether a kernel is worth while, and there is one."""
    size = known_size(drawn.shape)
    if (
        size is None
        or size < config.min_elements(MIN_KERNEL_NUMBERS)
        or drawn.dtype not in fill.KINDS[kind]
    ):
        return False
    # Where every number there is may be drawn, the words are taken as they are.
    return kind != "integers" or numbers["high"] - numbers["low"] != 1 << 64


def compiled(kind: str, dtype: str, stream: Stream, **numbers: float) -> KernelCall | None:
    """The kernel that fills as `fill_<kind>` does, as `(out, *operands, cancel_check)`; None till
    ready.

    Arguments:
        kind: "uniform" or "integers" (low, high), "normal" or "truncated" (mean, stddev), or
            "below" (p).
    """
    kernel = fill.find(kind, dtype)
    if kernel is None:
        return None
    each = fill.per_run(kind, dtype)
    fields = settings(kind, dtype, **numbers)

    def call(out: np.ndarray, *rest: *KernelArguments) -> None:
        first = stream.take(-(-out.size // each))
        kernel(out, stream.key, stream.number, first, **fields, cancel_check=rest[-1])

    return call


def settings(kind: str, dtype: str, **numbers: float) -> dict[str, object]:
    """The parameters of a distribution as its kernel takes them."""
    if kind == "below":
        return {"limit": _limit(**numbers)}
    if kind == "integers":
        return {"limit": numbers["high"] - numbers["low"], "least": numbers["low"]}
    if kind == "uniform":
        span, last = _interval(dtype, **numbers)
        return {"numbers": (numbers["low"], span, float(last))}
    return {"numbers": (numbers["mean"], numbers["stddev"], 0.0)}
