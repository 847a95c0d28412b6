"""Library kernel: running sums or products along rows, four of them side by side.

One running total waits for itself in every step; four of them wait for each other's.
"""

from numpy import float64, inf

from kbench.engine.intrinsics.integer import (
    absolute_float,
    exponent,
    half_power,
    levelled,
    mantissa,
    maximum_float,
    minimum_float,
    other_half,
    scaled,
    summed,
)
from kbench.engine.intrinsics.nontemporal import store_fence, stream_out
from kbench.engine.intrinsics.primitives import scratch_64
from kbench.engine.intrinsics.specialized import (
    ADDS,
    BESIDES,
    CHUNK_ELEMENTS,
    LEAST_FACTOR,
    MOST_FACTOR,
    SIZE,
    load_element,
    load_other,
    load_total,
    parameters,
    store_element,
    total_value,
    value,
)
from kbench.engine.jit.numba_backend import inline, range_kernel

STAGE = 512
"""Elements of each of four rows made in scratch before they are streamed past the caches."""


@inline
def bounds(item, n, width, blocks):
    """Where a block of a row begins, and its length."""
    row = item // blocks
    begin = (item - row * blocks) * width
    return row * n + begin, min(width, n - begin)


@inline
def joined(w, x, at, total):
    """The total with one more number, where it is stored."""
    number = total_value(load_element(x, at))
    if ADDS:
        total = total_value(total + number)
    else:
        total = total_value(total * number)
    store_element(w, at, value(total))
    return total


@inline
def put(w, at, total, other, local):
    """Store the total with the sum of a chunk so far and with what it has lost."""
    store_element(w, at, value(total + (other + local)))


@inline
def sizes(x, at, least, most):
    """The least and the largest size so far."""
    size = absolute_float(float64(load_element(x, at)))
    return minimum_float(least, size), maximum_float(most, size)


@inline
def simply(w, x, at, local, front, behind):
    """The product of a chunk with one more factor of ordinary size."""
    local = local * float64(load_element(x, at))
    store_element(w, at, value(local * front * behind))
    return local


@inline
def multiplied(w, x, at, total, other):
    """The total's mantissa and exponent with one more factor, where their product is stored."""
    number = float64(load_element(x, at))
    total = total * mantissa(number)
    other = other + exponent(number)
    store_element(w, at, value(scaled(total, other)))
    return total, other


# ------------------------------------------------------------------ a chunk of one row


@inline
def totals_of_one(w, x, first, low, high, total):
    """A chunk of plain totals."""
    for j in range(low, high):
        total = joined(w, x, first + j, total)
    return total


@inline
def sums_of_one(w, x, first, low, high, total, other):
    """A chunk of sums that keep what they lose."""
    local = 0.0
    for j in range(low, high):
        local = local + load_element(x, first + j)
        put(w, first + j, total, other, local)
    return summed(total, other, local)


@inline
def products_of_one(w, x, first, low, high, total, other):
    """A chunk of products with exponents of their own."""
    least, most = inf, 0.0
    for j in range(low, high):
        least, most = sizes(x, first + j, least, most)
    if (least >= LEAST_FACTOR) & (most <= MOST_FACTOR):
        local, front, behind = 1.0, total * half_power(other), other_half(other)
        for j in range(low, high):
            local = simply(w, x, first + j, local, front, behind)
        total = total * local
    else:
        for j in range(low, high):
            total, other = multiplied(w, x, first + j, total, other)
    return levelled(total, other)


# ------------------------------------------------------------------ a chunk of four rows


@inline
def totals_of_four(w, x, first, low, high, total):
    """As `totals_of_one`; each argument but x and the bounds is one of four."""
    (w0, w1, w2, w3), (f0, f1, f2, f3), (t0, t1, t2, t3) = w, first, total
    for j in range(low, high):
        t0 = joined(w0, x, f0 + j, t0)
        t1 = joined(w1, x, f1 + j, t1)
        t2 = joined(w2, x, f2 + j, t2)
        t3 = joined(w3, x, f3 + j, t3)
    return t0, t1, t2, t3


@inline
def sums_of_four(w, x, first, low, high, total, other):
    """As `sums_of_one`, of four."""
    (w0, w1, w2, w3), (f0, f1, f2, f3) = w, first
    (t0, t1, t2, t3), (o0, o1, o2, o3) = total, other
    s0 = s1 = s2 = s3 = 0.0
    for j in range(low, high):
        s0 = s0 + load_element(x, f0 + j)
        s1 = s1 + load_element(x, f1 + j)
        s2 = s2 + load_element(x, f2 + j)
        s3 = s3 + load_element(x, f3 + j)
        put(w0, f0 + j, t0, o0, s0)
        put(w1, f1 + j, t1, o1, s1)
        put(w2, f2 + j, t2, o2, s2)
        put(w3, f3 + j, t3, o3, s3)
    t0, o0 = summed(t0, o0, s0)
    t1, o1 = summed(t1, o1, s1)
    t2, o2 = summed(t2, o2, s2)
    t3, o3 = summed(t3, o3, s3)
    return (t0, t1, t2, t3), (o0, o1, o2, o3)


@inline
def simple_products_of_four(w, x, first, low, high, total, other):
    """The totals behind a chunk of factors of ordinary size."""
    (w0, w1, w2, w3), (f0, f1, f2, f3) = w, first
    (t0, t1, t2, t3), (o0, o1, o2, o3) = total, other
    a0, b0 = t0 * half_power(o0), other_half(o0)
    a1, b1 = t1 * half_power(o1), other_half(o1)
    a2, b2 = t2 * half_power(o2), other_half(o2)
    a3, b3 = t3 * half_power(o3), other_half(o3)
    p0 = p1 = p2 = p3 = 1.0
    for j in range(low, high):
        p0 = simply(w0, x, f0 + j, p0, a0, b0)
        p1 = simply(w1, x, f1 + j, p1, a1, b1)
        p2 = simply(w2, x, f2 + j, p2, a2, b2)
        p3 = simply(w3, x, f3 + j, p3, a3, b3)
    return t0 * p0, t1 * p1, t2 * p2, t3 * p3


@inline
def any_products_of_four(w, x, first, low, high, total, other):
    """The totals and exponents behind a chunk of any factors."""
    (w0, w1, w2, w3), (f0, f1, f2, f3) = w, first
    (t0, t1, t2, t3), (o0, o1, o2, o3) = total, other
    for j in range(low, high):
        t0, o0 = multiplied(w0, x, f0 + j, t0, o0)
        t1, o1 = multiplied(w1, x, f1 + j, t1, o1)
        t2, o2 = multiplied(w2, x, f2 + j, t2, o2)
        t3, o3 = multiplied(w3, x, f3 + j, t3, o3)
    return (t0, t1, t2, t3), (o0, o1, o2, o3)


@inline
def products_of_four(w, x, first, low, high, total, other):
    """As `products_of_one`, of four."""
    f0, f1, f2, f3 = first
    least, most = inf, 0.0
    for j in range(low, high):
        least, most = sizes(x, f0 + j, least, most)
        least, most = sizes(x, f1 + j, least, most)
        least, most = sizes(x, f2 + j, least, most)
        least, most = sizes(x, f3 + j, least, most)
    if (least >= LEAST_FACTOR) & (most <= MOST_FACTOR):
        total = simple_products_of_four(w, x, first, low, high, total, other)
    else:
        total, other = any_products_of_four(w, x, first, low, high, total, other)
    (t0, t1, t2, t3), (o0, o1, o2, o3) = total, other
    other = (o0 + exponent(t0), o1 + exponent(t1), o2 + exponent(t2), o3 + exponent(t3))
    return (mantissa(t0), mantissa(t1), mantissa(t2), mantissa(t3)), other


@inline
def loaded_totals(starts, item):
    """What four runs begin with."""
    return (
        load_total(starts, item),
        load_total(starts, item + 1),
        load_total(starts, item + 2),
        load_total(starts, item + 3),
    )


@inline
def loaded_others(besides, item):
    """What they have beside it."""
    return (
        load_other(besides, item),
        load_other(besides, item + 1),
        load_other(besides, item + 2),
        load_other(besides, item + 3),
    )


@inline
def streamed_out(y, first, low, high, stage):
    """A chunk of four rows, from scratch past the caches."""
    f0, f1, f2, f3 = first
    size = (high - low) * SIZE
    stream_out(y + (f0 + low) * SIZE, stage, size)
    stream_out(y + (f1 + low) * SIZE, stage + STAGE * SIZE, size)
    stream_out(y + (f2 + low) * SIZE, stage + 2 * STAGE * SIZE, size)
    stream_out(y + (f3 + low) * SIZE, stage + 3 * STAGE * SIZE, size)


@inline
def targets(y, first, low, stage, streamed):
    """Where the four rows of a chunk are stored: as an address that counts from the row's begin."""
    f0, f1, f2, f3 = first
    return (
        stage - (f0 + low) * SIZE if streamed != 0 else y,
        stage + (STAGE - f1 - low) * SIZE if streamed != 0 else y,
        stage + (2 * STAGE - f2 - low) * SIZE if streamed != 0 else y,
        stage + (3 * STAGE - f3 - low) * SIZE if streamed != 0 else y,
    )


# ------------------------------------------------------------------ rows


@inline
def four_rows(item, y, x, first, size, starts, besides, streamed, stage):
    """Blocks of equal length of four rows."""
    total = loaded_totals(starts, item)
    step = CHUNK_ELEMENTS
    if BESIDES == "nothing":
        step = STAGE if streamed != 0 else size
    else:
        other = loaded_others(besides, item)
    low = 0
    while low < size:
        high = min(low + step, size)
        w = targets(y, first, low, stage, streamed)
        if BESIDES == "nothing":
            total = totals_of_four(w, x, first, low, high, total)
        elif BESIDES == "losses":
            total, other = sums_of_four(w, x, first, low, high, total, other)
        else:
            total, other = products_of_four(w, x, first, low, high, total, other)
        if streamed != 0:
            streamed_out(y, first, low, high, stage)
        low = high


@inline
def one_row(item, y, x, first, size, starts, besides):
    """A block of a row by itself."""
    total = load_total(starts, item)
    if BESIDES != "nothing":
        other = load_other(besides, item)
    low = 0
    while low < size:
        high = min(low + CHUNK_ELEMENTS, size)
        if BESIDES == "nothing":
            total = totals_of_one(y, x, first, low, high, total)
        elif BESIDES == "losses":
            total, other = sums_of_one(y, x, first, low, high, total, other)
        else:
            total, other = products_of_one(y, x, first, low, high, total, other)
        low = high


@range_kernel
def run(params, start, stop):
    y, x, n, width, blocks, starts, besides, streamed = parameters(params)
    stage = scratch_64()
    item = start
    while item < stop:
        first, size = bounds(item, n, width, blocks)
        if item + 4 <= stop:
            first1, size1 = bounds(item + 1, n, width, blocks)
            first2, size2 = bounds(item + 2, n, width, blocks)
            first3, size3 = bounds(item + 3, n, width, blocks)
            if (size == size1) & (size == size2) & (size == size3):
                rows = (first, first1, first2, first3)
                four_rows(item, y, x, rows, size, starts, besides, streamed, stage)
                item += 4
                continue
        one_row(item, y, x, first, size, starts, besides)
        item += 1
    if streamed != 0:
        store_fence()
