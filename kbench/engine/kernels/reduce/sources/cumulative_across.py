"""Library kernel: running sums or products across rows, with the totals of columns in scratch."""

from numpy import float64

from kbench.engine.intrinsics.integer import exponent, levelled, mantissa, scaled, summed
from kbench.engine.intrinsics.nontemporal import store_fence, stream_out
from kbench.engine.intrinsics.primitives import peek_float64, scratch_64, store_float64
from kbench.engine.intrinsics.specialized import (
    ADDS,
    BESIDES,
    CHUNK_ELEMENTS,
    SIZE,
    load_element,
    parameters,
    peek_other,
    peek_total,
    store_element,
    store_other,
    store_total,
    total_value,
    value,
)
from kbench.engine.jit.numba_backend import inline, range_kernel


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
def multiplied(w, x, at, total, other):
    """The total's mantissa and exponent with one more factor, where their product is stored."""
    number = float64(load_element(x, at))
    total = total * mantissa(number)
    other = other + exponent(number)
    store_element(w, at, value(scaled(total, other)))
    return total, other


@range_kernel
def run(params, start, stop):
    y, x, rows, inner, width, blocks, streamed = parameters(params)
    totals = scratch_64()
    if BESIDES != "nothing":
        others = scratch_64()
    if BESIDES == "losses":
        locals_ = scratch_64()
    stage = scratch_64()
    for item in range(start, stop):
        outer = item // blocks
        first = (item - outer * blocks) * width
        last = min(first + width, inner)
        for j in range(last - first):
            if ADDS:
                store_total(totals, j, total_value(0))
            else:
                store_total(totals, j, total_value(1))
            if BESIDES != "nothing":
                store_other(others, j, 0)
            if BESIDES == "losses":
                store_float64(locals_, j, 0.0)
        for row in range(rows):
            base = (outer * rows + row) * inner + first
            w = stage - base * SIZE if streamed != 0 else y
            for j in range(last - first):
                total = peek_total(totals, j)
                if BESIDES == "nothing":
                    store_total(totals, j, joined(w, x, base + j, total))
                elif BESIDES == "losses":
                    other, local = peek_other(others, j), peek_float64(locals_, j)
                    local = local + load_element(x, base + j)
                    put(w, base + j, total, other, local)
                    store_float64(locals_, j, local)
                else:
                    total, other = multiplied(w, x, base + j, total, peek_other(others, j))
                    store_total(totals, j, total)
                    store_other(others, j, other)
            if streamed != 0:
                stream_out(y + base * SIZE, stage, (last - first) * SIZE)
            if BESIDES != "nothing":
                if row % CHUNK_ELEMENTS == CHUNK_ELEMENTS - 1:
                    for j in range(last - first):
                        total, other = peek_total(totals, j), peek_other(others, j)
                        if BESIDES == "losses":
                            total, other = summed(total, other, peek_float64(locals_, j))
                            store_float64(locals_, j, 0.0)
                        else:
                            total, other = levelled(total, other)
                        store_total(totals, j, total)
                        store_other(others, j, other)
    if streamed != 0:
        store_fence()
