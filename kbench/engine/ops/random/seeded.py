"""Random numbers that follow from a seed which is an operand: the same seed, the same numbers.

Nothing remembers how far a sequence has come, as it does for `distributions.py`. The two words of
the seed are the key of the generator, and numbers are drawn from its first block on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
from msgspec import Struct

from kbench.engine.core import cancel, memory_limit
from kbench.engine.core.errors import ArgumentError, ShapeError
from kbench.engine.core.spec import Spec, known_size
from kbench.engine.core.types import Ints, KernelArguments, KernelCall
from kbench.engine.graph.apply import apply
from kbench.engine.graph.declare import structured
from kbench.engine.graph.op import KernelFactory
from kbench.engine.graph.tensor import Tensor
from kbench.engine.intrinsics import philox
from kbench.engine.kernels.random import fill
from kbench.engine.ops.random import sampling

SEED_WORDS = 2
STREAM = len(sampling.STREAMS)
"""The third word of the counter, which no other distribution has."""
FILLS: dict[str, Callable[..., None]] = {
    "uniform": sampling.fill_uniform,
    "integers": sampling.fill_integers,
    "normal": sampling.fill_normal,
    "truncated": sampling.fill_truncated,
    "below": sampling.fill_below,
}


class Start(Struct, frozen=True):
    """The beginning of the sequence of a seed."""

    key: int

    def runs(self, count: int) -> Iterator[philox.Words]:
        """The first `count` runs of words."""
        for words in philox.words(self.key, STREAM, 0, count):
            yield words
            cancel.check()


def _key(seed: np.ndarray) -> int:
    low, high = (int(word) & 0xFFFFFFFF for word in seed.reshape(-1)[:SEED_WORDS])
    return high << 32 | low


def _infer(seed: Spec, *, kind: str, dtype: str, shape: Ints, **_numbers: float) -> Spec:
    if seed.shape != (SEED_WORDS,) or "int" not in seed.dtype:
        raise ShapeError(f"seed is {seed}, but must be {SEED_WORDS} integers")
    if dtype not in fill.KINDS[kind]:
        raise ArgumentError(f"{kind} numbers are {fill.KINDS[kind]}, got dtype {dtype}")
    return Spec(tuple(shape), dtype)


def _numpy(
    out: np.ndarray | None,
    seed: np.ndarray,
    *,
    kind: str,
    dtype: str,
    shape: Ints,
    **numbers: float,
) -> np.ndarray:
    if out is None:
        memory_limit.require_array(shape, np.dtype(dtype).itemsize, f"{kind} {dtype}{list(shape)}")
        out = np.empty(shape, dtype)
    with np.errstate(over="ignore"):
        FILLS[kind](out, Start(_key(seed)), **numbers)
    return out


def _gradient(g: Tensor, y: Tensor, seed: Tensor, **_attrs: object) -> tuple[None]:
    return (None,)


def _kernel(
    seed: Spec, *, kind: str, dtype: str, shape: Ints, **numbers: float
) -> KernelFactory | None:
    if not sampling.has_kernel(kind, Spec(tuple(shape), dtype), **numbers):
        return None
    return functools.partial(_compiled, kind, dtype, **numbers)


def _compiled(kind: str, dtype: str, **numbers: float) -> KernelCall | None:
    kernel = fill.find(kind, dtype)
    if kernel is None:
        return None
    settings = sampling.settings(kind, dtype, **numbers)

    def call(out: np.ndarray, seed: np.ndarray, *rest: KernelArguments) -> None:
        kernel(out, _key(seed), STREAM, 0, **settings, cancel_check=rest[-1])

    return call


SEEDED = structured("seeded_draw", _infer, _numpy, _gradient, kernel=_kernel)


def seeded_draw(seed: Tensor, kind: str, dtype: str, shape: Ints, **numbers: float) -> Tensor:
    """Random numbers that a seed determines, whatever the tier and the number of threads.

    Arguments:
        seed: two words, integers of any dtype; those of more than 32 bits are cut.
        kind: "uniform" (low, high), "integers" (low, high), "normal" or "truncated" (mean,
            stddev), or "below" (p): 1 with that probability, else 0.
        dtype: float32 or float64; integers of theirs; "below" also bool.
        shape: sizes, all known.
        numbers: those of the kind, finite.
    Returns:
        Tensor of that shape and dtype. Bounds on top are left out.
    Raises:
        ShapeError: the seed is not two integers. ArgumentError: a dtype that the kind has not.
    Gradient: none.
    """
    return apply(SEEDED, seed, name=None, kind=kind, dtype=dtype, shape=tuple(shape), **numbers)


def seeded_array(
    seed: np.ndarray, kind: str, dtype: str, shape: Ints, **numbers: float
) -> np.ndarray:
    """The same numbers as an array, at once."""
    spec = _infer(Spec(seed.shape, seed.dtype.name), kind=kind, dtype=dtype, shape=shape)
    out = np.empty(shape, dtype)
    kernel = None
    if known_size(spec.shape) and sampling.has_kernel(kind, spec, **numbers):
        kernel = _compiled(kind, dtype, **numbers)
    if kernel is None:
        return _numpy(out, seed, kind=kind, dtype=dtype, shape=shape, **numbers)
    kernel(out, seed, cancel.check)
    return out
