"""Library kernel of kbench: CTC, the cost of rows or its slope.

A probability is m 2^e: `ms` and `es` are both of them for a row of states or classes.
"""

import numpy as np

from kbench.engine.intrinsics.exp import _exp_f64, log_f64
from kbench.engine.intrinsics.integer import maximum_float, plus
from kbench.engine.intrinsics.primitives import (
    bits_of_f64,
    f64_of_bits,
    largest,
    load_float64,
    load_int64,
    peek_float64,
    rint,
    store_float64,
)
from kbench.engine.intrinsics.specialized import (
    FORM,
    element,
    load_element,
    parameters,
    store_element,
)
from kbench.engine.jit.numba_backend import inline, part, range_kernel

PADDED_LANES = 8
"""Numbers to which states and classes are filled up: the rest of a loop is slow."""


@inline
def power(d):
    """2^d for whole d; 0 when it is too small or not known."""
    d = d if d > -1023.0 else -1023.0
    return f64_of_bits(bits_of_f64(d + 6755399441056767.0) << 52)


@inline
def grown(z):
    """exp(z) as (m, e) for z <= 0."""
    e = rint(z * 1.4426950408889634)
    r = z - e * 6.93147180369123816490e-01
    r = r - e * 1.90821492927058770002e-10
    r = r if (r > -0.5) & (r < 0.5) else 0.0
    return _exp_f64(r) * (r * r) + r + 1.0, e


@inline
def exponent(m):
    """The e of 2^e <= m < 2^(e + 1)."""
    return np.float64((bits_of_f64(m) >> 52) - 1023)


@inline
def fraction(m):
    """m 2^-e, in [1, 2)."""
    return f64_of_bits((bits_of_f64(m) & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)


@inline
def top_of(row, x, first, classes, wide):
    """The activations of one step as float64; gives the largest, or 0 when all are -infinity."""
    for k in range(classes):
        store_float64(row, k, np.float64(load_element(x, first + k)))
    top = -np.inf
    for k in range(wide):
        top = maximum_float(top, peek_float64(row, k))
    return 0.0 if top == -np.inf else top


@inline
def scale_of(ms, es, row, top, wide):
    """exp(x - top) of the classes as (m, e), and one through their sum, as (m, e)."""
    total = 0.0
    for k in range(wide):
        m, e = grown(peek_float64(row, k) - top)
        total = plus(total, m * power(e))
        store_float64(ms, k, m)
        store_float64(es, k, e)
    if total > 0.0:
        return 1.0 / fraction(total), 0.0 - exponent(total)
    return np.nan, np.nan


@inline
def choose(ps, qs, ms, es, inverse, e, labels, states):
    """The probability of the label of each state in one step; every second one is the blank."""
    blank = np.int64(load_int64(labels, 0))
    m = peek_float64(ms, blank) * inverse
    q = peek_float64(es, blank) + e
    for s in range(0, states, 2):
        label = np.int64(load_int64(labels, s + 1))
        store_float64(ps, s, m)
        store_float64(qs, s, q)
        store_float64(ps, s + 1, peek_float64(ms, label) * inverse)
        store_float64(qs, s + 1, peek_float64(es, label) + e)


@inline
def joined(m0, e0, m1, e1, m2, e2):
    """The sum of three."""
    e = largest(largest(e0, e1), e2)
    return m0 * power(e0 - e) + m1 * power(e1 - e) + m2 * power(e2 - e), e


@inline
def step(am, ae, bm, be, ps, qs, skips, states):
    """alpha after one step more: into (am, ae) from (bm, be), which have two columns in front."""
    for s in range(states):
        m, e = joined(
            peek_float64(bm, s + 2),
            peek_float64(be, s + 2),
            peek_float64(bm, s + 1),
            peek_float64(be, s + 1),
            peek_float64(bm, s),
            peek_float64(be, s) + load_float64(skips, s),
        )
        store_float64(am, s + 2, m * peek_float64(ps, s))
        store_float64(ae, s + 2, e + peek_float64(qs, s))


@inline
def set_back(ms, es, count):
    """Each m to [1, 2), with its e moved by as much."""
    for s in range(count):
        m = peek_float64(ms, s)
        store_float64(es, s, peek_float64(es, s) + exponent(m))
        store_float64(ms, s, fraction(m))


@inline
def impossible(ms, es, count):
    for s in range(count):
        store_float64(ms, s, 1.0)
        store_float64(es, s, -np.inf)


@inline
def whole_of(ms, es, last):
    """Probability of ending in one of the last two states."""
    e = largest(peek_float64(es, last + 2), peek_float64(es, last + 1))
    m = peek_float64(ms, last + 2) * power(peek_float64(es, last + 2) - e)
    return m + peek_float64(ms, last + 1) * power(peek_float64(es, last + 1) - e), e


@inline
def cost_of(m, e):
    """-log of a probability."""
    return 0.0 - (log_f64(m) + e * 0.6931471805599453)


@part
def alpha(x, first, t, labels, skips, row, ms, es, ps, qs, both, classes, many, states, wide):
    """One step, of which only the last is kept."""
    top = top_of(row, x, first, classes, many)
    inverse, e = scale_of(ms, es, row, top, many)
    choose(ps, qs, ms, es, inverse, e, labels, states)
    before = both + (t & 1) * 2 * wide
    after = both + (1 - (t & 1)) * 2 * wide
    step(after, after + wide, before, before + wide, ps, qs, skips, states)
    if t & 31 == 31:
        set_back(after, after + wide, states + 2)


@part
def forward(x, first, t, labels, skips, row, ms, es, scales, ps, qs, kept, classes, many, states,
            wide):  # fmt: skip
    """One step from the first to the last, with all of it kept for the way back."""
    top = top_of(row, x, first, classes, many)
    inverse, e = scale_of(ms, es, row, top, many)
    store_float64(scales, 3 * t, top)
    store_float64(scales, 3 * t + 1, inverse)
    store_float64(scales, 3 * t + 2, e)
    choose(ps, qs, ms, es, inverse, e, labels, states)
    before = kept + t * 2 * wide
    now = before + 2 * wide
    impossible(now, now + wide, 2)
    step(now, now + wide, before, before + wide, ps, qs, skips, states)
    if t & 31 == 31:
        set_back(now, now + wide, states + 2)


@part
def turn_back(out, costs, number, base, time, classes, steps, last, states, kept, saved, beta,
              after, wide):  # fmt: skip
    """The cost, and where the way back begins."""
    final = kept + steps * 2 * wide
    m, e = whole_of(final, final + wide, last)
    store_float64(saved, 0, 1.0 / m if e == e else np.nan)
    store_float64(saved, 1, e)
    store_element(costs, number, element(cost_of(m, e)))
    ended = base + (0 if e == -np.inf else steps) * classes
    for k in range(ended, base + time * classes):
        store_element(out, k, element(0))
    impossible(beta, beta + wide, states + 2)
    impossible(after, after + wide, states + 2)
    store_float64(beta + wide, last, 0.0)
    if last > 0:
        store_float64(beta + wide, last - 1, 0.0)


@part
def backward(out, x, first, t, labels, skips, scales, whole, least, ms, es, mixed, ps, qs, kept,
             beta, after, classes, states, wide):  # fmt: skip
    """The slope of one step, and beta before it."""
    top = peek_float64(scales, 3 * t)
    inverse = peek_float64(scales, 3 * t + 1)
    down = peek_float64(scales, 3 * t + 2)
    for k in range(classes):
        m, e = grown(np.float64(load_element(x, first + k)) - top)
        store_float64(ms, k, m)
        store_float64(es, k, e)
        store_float64(mixed, k, m * inverse * power(e + down))
    choose(ps, qs, ms, es, inverse, down, labels, states)
    now = kept + (t + 1) * 2 * wide
    for s in range(states):
        m = peek_float64(now, s + 2) * peek_float64(beta, s) * whole
        e = peek_float64(now + wide, s + 2) + peek_float64(beta + wide, s) - least
        store_float64(now, s + 2, m * power(e))
    total = 0.0
    for s in range(0, states, 2):
        total = plus(total, peek_float64(now, s + 2))
    blank = np.int64(load_int64(labels, 0))
    store_float64(mixed, blank, peek_float64(mixed, blank) - total)
    for s in range(1, states, 2):
        label = np.int64(load_int64(labels, s))
        share = peek_float64(mixed, label) - peek_float64(now, s + 2)
        store_float64(mixed, label, share)
    for k in range(classes):
        store_element(out, first + k, element(peek_float64(mixed, k)))
    for s in range(states):
        store_float64(after, s, peek_float64(beta, s) * peek_float64(ps, s))
        e = peek_float64(beta + wide, s) + peek_float64(qs, s)
        store_float64(after + wide, s, e)
    for s in range(states):
        m, e = joined(
            peek_float64(after, s),
            peek_float64(after + wide, s),
            peek_float64(after, s + 1),
            peek_float64(after + wide, s + 1),
            peek_float64(after, s + 2),
            peek_float64(after + wide, s + 2) + load_float64(skips, s + 2),
        )
        store_float64(beta, s, m)
        store_float64(beta + wide, s, e)
    if t & 31 == 0:
        set_back(beta, beta + wide, states)


@range_kernel
def run(params, start, stop):
    (out, x, all_labels, all_skips, all_steps, all_last, scratch, time, classes, states, each,
     begin, end, ways, costs,
    ) = parameters(params)  # fmt: skip
    many = (classes + PADDED_LANES - 1) // PADDED_LANES * PADDED_LANES
    wide = (states + 2) * 8
    for number in range(start, stop):
        labels = all_labels + number * states * 8
        skips = all_skips + number * wide
        steps = np.int64(load_int64(all_steps, number))
        last = np.int64(load_int64(all_last, number))
        base = number * time * classes
        ps = scratch + number * each * 8
        qs = ps + wide
        row = qs + wide
        ms = row + many * 8
        es = ms + many * 8
        for k in range(many):
            store_float64(row, k, -np.inf)
        if FORM == "cost":
            both = es + many * 8
            if begin == 0:
                impossible(both, both + wide, states + 2)
                impossible(both + 2 * wide, both + 3 * wide, states + 2)
                store_float64(both + wide, 2, 0.0)
            for t in range(begin, min(end, steps)):
                alpha(x, base + t * classes, t, labels, skips, row, ms, es, ps, qs, both, classes,
                      many, states, wide)  # fmt: skip
            if end == time:
                final = both + (steps & 1) * 2 * wide
                m, e = whole_of(final, final + wide, last)
                store_element(costs, number, element(cost_of(m, e)))
        else:
            beta = es + many * 8
            after = beta + 2 * wide
            mixed = after + 2 * wide
            scales = mixed + many * 8
            saved = scales + time * 24
            kept = saved + 16
            if begin == 0:
                impossible(kept, kept + wide, states + 2)
                store_float64(kept + wide, 2, 0.0)
            for t in range(begin, min(end, steps) if ways & 1 else begin):
                forward(x, base + t * classes, t, labels, skips, row, ms, es, scales, ps, qs, kept,
                        classes, many, states, wide)  # fmt: skip
            if (ways & 1) and end == time:
                turn_back(out, costs, number, base, time, classes, steps, last, states, kept, saved,
                          beta, after, wide)  # fmt: skip
            whole = peek_float64(saved, 0)
            least = peek_float64(saved, 1)
            if (ways & 2) == 0 or least == -np.inf:
                continue
            for t in range(min(end, steps) - 1, begin - 1, -1):
                backward(out, x, base + t * classes, t, labels, skips, scales, whole, least, ms, es,
                         mixed, ps, qs, kept, beta, after, classes, states, wide)  # fmt: skip
