"""Library kernel of kbench: an array filled with random numbers."""

import numpy as np

from kbench.engine.intrinsics.philox import RUN_BLOCKS
from kbench.engine.intrinsics.primitives import f64_of_bits, field
from kbench.engine.intrinsics.specialized import (
    DTYPE,
    FORM,
    NUMBERS_OF_RUN,
    element,
    pair,
    store_element,
    value,
    within,
)
from kbench.engine.jit.numba_backend import exact_inline, exact_kernel, part


@part
def turned(c0, c1, c2, c3, k0, k1):
    """One round of a block."""
    p = np.uint64(0xD2511F53) * np.uint64(c0)
    q = np.uint64(0xCD9E8D57) * np.uint64(c2)
    left = np.uint32(np.uint32(q >> np.uint64(32)) ^ c1 ^ k0)
    right = np.uint32(np.uint32(p >> np.uint64(32)) ^ c3 ^ k1)
    return left, np.uint32(q), right, np.uint32(p)


@part
def next_key(k0, k1):
    """The key of the next round."""
    return np.uint32(k0 + np.uint32(0x9E3779B9)), np.uint32(k1 + np.uint32(0xBB67AE85))


@exact_inline
def philox(c0, c1, c2, k0, k1):
    """Four words of one block; Salmon et al., "Parallel random numbers" (SC 2011)."""
    c3 = np.uint32(0)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    k0, k1 = next_key(k0, k1)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    k0, k1 = next_key(k0, k1)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    k0, k1 = next_key(k0, k1)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    k0, k1 = next_key(k0, k1)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    k0, k1 = next_key(k0, k1)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    k0, k1 = next_key(k0, k1)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    k0, k1 = next_key(k0, k1)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    k0, k1 = next_key(k0, k1)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    k0, k1 = next_key(k0, k1)
    c0, c1, c2, c3 = turned(c0, c1, c2, c3, k0, k1)
    return c0, c1, c2, c3


@exact_inline
def share_f32(word):
    """24 bits, in [0, 1)."""
    return np.float32(np.int32(word >> np.uint32(8))) * np.float32(2.0**-24)


@exact_inline
def share_f64(high, low):
    """53 bits of two words, in [0, 1)."""
    upper = np.float64(np.int32(high >> np.uint32(5))) * 67108864.0
    return (upper + np.float64(np.int32(low >> np.uint32(6)))) * 2.0**-53


@exact_inline
def scaled(high, low, span):
    """Upper half of a 64-bit number, given in halves, times `span`: evenly in [0, span)."""
    half = np.uint64(32)
    mask = np.uint64(0xFFFFFFFF)
    a = np.uint64(high)
    b = np.uint64(low)
    c = span >> half
    d = span & mask
    middle = a * d + ((b * d) >> half)
    other = b * c + (middle & mask)
    return a * c + (middle >> half) + (other >> half)


@part
def store_uniform(out, place, number, last):
    """Rounding may reach the upper bound, which is not in the interval."""
    number = last if number > last else number
    store_element(out, place, number)


@part
def store_narrow(out, place, w, x, y, z, a, b, c):
    """Four float32 of four words."""
    if FORM == "uniform":
        store_uniform(out, place, share_f32(w) * b + a, c)
        store_uniform(out, place + RUN_BLOCKS, share_f32(x) * b + a, c)
        store_uniform(out, place + 2 * RUN_BLOCKS, share_f32(y) * b + a, c)
        store_uniform(out, place + 3 * RUN_BLOCKS, share_f32(z) * b + a, c)
    elif FORM == "normal":
        one, two = pair(share_f32(w), share_f32(y))
        store_element(out, place, one * b + a)
        store_element(out, place + 2 * RUN_BLOCKS, two * b + a)
        one, two = pair(share_f32(x), share_f32(z))
        store_element(out, place + RUN_BLOCKS, one * b + a)
        store_element(out, place + 3 * RUN_BLOCKS, two * b + a)
    else:
        store_element(out, place, within(share_f32(w)) * b + a)
        store_element(out, place + RUN_BLOCKS, within(share_f32(x)) * b + a)
        store_element(out, place + 2 * RUN_BLOCKS, within(share_f32(y)) * b + a)
        store_element(out, place + 3 * RUN_BLOCKS, within(share_f32(z)) * b + a)


@part
def store_wide(out, place, w, x, y, z, a, b, c):
    """Two float64 of four words."""
    if FORM == "uniform":
        store_uniform(out, place, share_f64(w, y) * b + a, c)
        store_uniform(out, place + RUN_BLOCKS, share_f64(x, z) * b + a, c)
    elif FORM == "normal":
        one, two = pair(share_f64(w, y), share_f64(x, z))
        store_element(out, place, one * b + a)
        store_element(out, place + RUN_BLOCKS, two * b + a)
    else:
        store_element(out, place, within(share_f64(w, y)) * b + a)
        store_element(out, place + RUN_BLOCKS, within(share_f64(x, z)) * b + a)


@part
def store_integers(out, place, w, x, y, z, limit, least):
    """Two integers of four words."""
    store_element(out, place, element(scaled(w, y, limit) + least))
    store_element(out, place + RUN_BLOCKS, element(scaled(x, z, limit) + least))


@part
def store_below(out, place, word, limit):
    """Whether a word is below the limit, as a truth or as 0 and 1."""
    if DTYPE == "bool":
        store_element(out, place, np.uint64(word) < limit)
    else:
        store_element(out, place, element(1) if np.uint64(word) < limit else element(0))


@exact_kernel
def run(params, start, stop):
    out = field(params, 0)
    k0 = np.uint32(field(params, 1))
    k1 = np.uint32(field(params, 2))
    stream = np.uint32(field(params, 3))
    origin = field(params, 4)
    if FORM in ("integers", "below"):
        limit = np.uint64(field(params, 5))
        least = np.uint64(field(params, 6))
    else:
        a = value(f64_of_bits(np.int64(field(params, 6))))
        b = value(f64_of_bits(np.int64(field(params, 7))))
        c = value(f64_of_bits(np.int64(field(params, 8))))
    for number in range(start, stop):
        block = (origin + number) * RUN_BLOCKS
        low = np.uint32(block)
        high = np.uint32(block >> 32)
        first = number * NUMBERS_OF_RUN
        for i in range(RUN_BLOCKS):
            w, x, y, z = philox(np.uint32(low + np.uint32(i)), high, stream, k0, k1)
            place = first + i
            if FORM == "integers":
                store_integers(out, place, w, x, y, z, limit, least)
            elif FORM == "below":
                store_below(out, place, w, limit)
                store_below(out, place + RUN_BLOCKS, x, limit)
                store_below(out, place + 2 * RUN_BLOCKS, y, limit)
                store_below(out, place + 3 * RUN_BLOCKS, z, limit)
            elif DTYPE == "float32":
                store_narrow(out, place, w, x, y, z, a, b, c)
            else:
                store_wide(out, place, w, x, y, z, a, b, c)
