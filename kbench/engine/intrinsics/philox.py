"""Philox4x32-10, a counter-based generator: block number and key in, four 32-bit words out.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). Any block can be computed
on its own, so a sequence does not depend on how it is cut or by how many threads it is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

Words = np.ndarray[tuple[int, ...], np.dtype[np.uint32]]

RUN_BLOCKS = 256
"""Blocks whose words are laid out as four rows, so that kernels write whole vectors."""
RUN_WORDS = 4 * RUN_BLOCKS
CHUNK_RUNS = 16
"""Runs drawn at a time: the temporaries stay in the cache."""
ROUNDS = 10

_FACTORS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def _round(
    c: list[np.ndarray], spare: list[np.ndarray], first: np.uint64, second: np.uint64
) -> None:
    """One round on four arrays of 32-bit numbers held in 64 bits, in place."""
    left, right = spare
    np.multiply(c[0], _FACTORS[0], out=left)
    np.multiply(c[2], _FACTORS[1], out=right)
    # (high of right ^ c1 ^ k0, low of right, high of left ^ c3 ^ k1, low of left)
    np.right_shift(right, _HALF, out=c[0])
    c[0] ^= c[1]
    c[0] ^= first
    np.right_shift(left, _HALF, out=c[2])
    c[2] ^= c[3]
    c[2] ^= second
    np.bitwise_and(right, _LOW, out=c[1])
    np.bitwise_and(left, _LOW, out=c[3])


def blocks(counters: Sequence[np.ndarray | int], key: int) -> np.ndarray:
    """Four words for each counter: uint64[4, n] that hold 32-bit numbers.

    Arguments:
        counters: four uint64 arrays (or numbers) of 32-bit words, the least significant first.
        key: a 64-bit number.
    """
    c = [np.array(counter, dtype=np.uint64) for counter in np.broadcast_arrays(*counters)]
    spare = [np.empty_like(c[0]), np.empty_like(c[0])]
    low, high = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF
    for _ in range(ROUNDS):
        _round(c, spare, np.uint64(low), np.uint64(high))
        low, high = (low + _STEPS[0]) & 0xFFFFFFFF, (high + _STEPS[1]) & 0xFFFFFFFF
    return np.stack(c)


def words(key: int, stream: int, first: int, runs: int) -> Iterator[Words]:
    """Words of `runs` runs from run number `first` on, a few runs at a time: uint32[n, RUN_WORDS].

    Arguments:
        stream: the third word of the counter; streams of one key have nothing in common.
    """
    for start in range(first, first + runs, CHUNK_RUNS):
        count = min(CHUNK_RUNS, first + runs - start)
        numbers = np.arange(start * RUN_BLOCKS, (start + count) * RUN_BLOCKS, dtype=np.uint64)
        drawn = blocks((numbers & _LOW, numbers >> _HALF, stream, 0), key)
        rows = drawn.reshape(4, count, RUN_BLOCKS).transpose(1, 0, 2)
        yield rows.astype(np.uint32).reshape(count, RUN_WORDS)
