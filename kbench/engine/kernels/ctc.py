"""Library kernels of connectionist temporal classification: the cost of rows, and its slope.

One item is one row of the batch, so rows run in parallel. Everything is float64 logarithms, as in
the NumPy form; states have two columns of minus infinity beside them, so that every step is one
loop without branches. `find` gives the call, which makes the scratch that the kernels work in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.engine.kernels.background import Job, service
from kbench.engine.kernels.binding import address_of
from kbench.engine.kernels.loops import TILE_SECONDS, drive

Array = np.ndarray[Any, Any]
Call = Callable[..., None]

GROUP = 1 << 23  # float64 numbers of scratch that the rows of one call may take
PACE = 6e-9  # seconds for a state and step
LANES = 8  # numbers to which states and classes are filled up: the rest of a loop is slow

HEAD = '''"""Library kernel of kbench: the CTC NAME of DTYPE activations."""
import numpy as np
from kbench.engine.kernels.toolkit import (
    IMPORTS
)


@inline
def joined(a, b, c):
    """log(exp(a) + exp(b) + exp(c)), minus infinity when all of them are."""
    high = largest(a, b)
    top = largest(high, c)
    shift = 0.0 if top == -np.inf else top
    rest = exp_f64(smallest(a, b) - shift) + exp_f64(smallest(high, c) - shift)
    return top + log_f64(1.0 + rest)


@inline
def read(row, x, first, classes, wide):
    """The activations of one step as float64; gives log(sum(exp)) of them."""
    for k in range(classes):
        store_float64(row, k, np.float64(load_DTYPE(x, first + k)))
    top = -np.inf
    for k in range(wide):
        top = maximum_float(top, peek_float64(row, k))
    shift = 0.0 if top == -np.inf else top
    total = 0.0
    for k in range(wide):
        total = plus(total, exp_f64(peek_float64(row, k) - shift))
    return log_f64(total) + shift


@inline
def choose(chances, row, scale, labels, states):
    """Log probability of the label of each state in one step."""
    for s in range(states):
        label = np.int64(load_int64(labels, s))
        store_float64(chances, s, peek_float64(row, label) - scale)


@inline
def step(after, before, chances, skips, states):
    """log alpha after one step more."""
    for s in range(states):
        over = peek_float64(before, s) + load_float64(skips, s)
        value = joined(peek_float64(before, s + 2), peek_float64(before, s + 1), over)
        store_float64(after, s + 2, value + peek_float64(chances, s))


@inline
def empty(state, count):
    for s in range(count):
        store_float64(state, s, -np.inf)


@inline
def whole_of(state, last):
    """Log probability of ending in one of the last two states."""
    return joined(peek_float64(state, last + 2), peek_float64(state, last + 1), -np.inf)


@range_kernel
def run(params, start, stop):
    out = field(params, 0)
    x = field(params, 1)
    all_labels = field(params, 2)
    all_skips = field(params, 3)
    all_steps = field(params, 4)
    all_last = field(params, 5)
    scratch = field(params, 6)
    time = field(params, 7)
    classes = field(params, 8)
    states = field(params, 9)
    each = field(params, 10)
    begin = field(params, 11)
    end = field(params, 12)
    ways = field(params, 13)
    many = (classes + LANES - 1) // LANES * LANES
    wide = (states + 2) * 8
    for row in range(start, stop):
        labels = all_labels + row * states * 8
        skips = all_skips + row * wide
        steps = np.int64(load_int64(all_steps, row))
        last = np.int64(load_int64(all_last, row))
        base = row * time * classes
        chances = scratch + row * each * 8
        here = chances + wide
        empty(here, many)
'''

COST = """        both = here + many * 8
        if begin == 0:
            empty(both, 2 * (states + 2))
            store_float64(both, 2, 0.0)
        for t in range(begin, min(end, steps)):
            first = base + t * classes
            scale = read(here, x, first, classes, many)
            choose(chances, here, scale, labels, states)
            before = both + (t & 1) * wide
            after = both + (1 - (t & 1)) * wide
            step(after, before, chances, skips, states)
        if end == time:
            whole = whole_of(both + (steps & 1) * wide, last)
            store_DTYPE(out, row, np.DTYPE(0.0 - whole))
"""

SLOPE = """        state = here + many * 8
        after = state + wide
        mixed = after + wide
        scales = mixed + many * 8
        kept = scales + time * 8
        saved = kept + (time + 1) * wide
        if begin == 0:
            empty(kept, states + 2)
            store_float64(kept, 2, 0.0)
        for t in range(begin, min(end, steps) if ways & 1 else begin):
            first = base + t * classes
            scale = read(here, x, first, classes, many)
            store_float64(scales, t, scale)
            choose(chances, here, scale, labels, states)
            now = kept + (t + 1) * wide
            empty(now, 2)
            step(now, kept + t * wide, chances, skips, states)
        if (ways & 1) and end == time:
            whole = whole_of(kept + steps * wide, last)
            store_float64(saved, 0, whole)
            ended = base + (0 if whole == -np.inf else steps) * classes
            for k in range(ended, base + time * classes):
                store_DTYPE(out, k, np.DTYPE(0))
            empty(state, states + 2)
            empty(after, states + 2)
            store_float64(state, last, 0.0)
            if last > 0:
                store_float64(state, last - 1, 0.0)
        whole = peek_float64(saved, 0)
        if (ways & 2) == 0 or whole == -np.inf:
            continue
        for t in range(min(end, steps) - 1, begin - 1, -1):
            first = base + t * classes
            scale = peek_float64(scales, t)
            for k in range(classes):
                store_float64(here, k, np.float64(load_DTYPE(x, first + k)))
            choose(chances, here, scale, labels, states)
            for k in range(many):
                store_float64(mixed, k, exp_f64(peek_float64(here, k) - scale))
            now = kept + (t + 1) * wide
            for s in range(states):
                path = peek_float64(now, s + 2) + peek_float64(state, s) - whole
                store_float64(now, s + 2, exp_f64(path))
            for s in range(states):
                label = np.int64(load_int64(labels, s))
                share = peek_float64(mixed, label) - peek_float64(now, s + 2)
                store_float64(mixed, label, share)
            for k in range(classes):
                store_DTYPE(out, first + k, np.DTYPE(peek_float64(mixed, k)))
            for s in range(states):
                store_float64(after, s, peek_float64(state, s) + peek_float64(chances, s))
            for s in range(states):
                over = peek_float64(after, s + 2) + load_float64(skips, s + 2)
                value = joined(peek_float64(after, s), peek_float64(after, s + 1), over)
                store_float64(state, s, value)
"""

NAMES = (
    "exp_f64 field inline largest load_DTYPE load_float64 load_int64 log_f64 maximum_float "
    "peek_float64 plus range_kernel smallest store_DTYPE store_float64"
)


def source(name: str, dtype: str) -> str:
    """The module that defines `run(params, first row, end row)`; see `find` for its fields."""
    text = HEAD + (COST if name == "cost" else SLOPE)
    names = sorted(set(NAMES.replace("DTYPE", dtype).split()))
    text = text.replace("    IMPORTS\n", "".join(f"    {one},\n" for one in names))
    return text.replace("NAME", name).replace("LANES", str(LANES)).replace("DTYPE", dtype)


def _scratch(name: str, time: int, classes: int, states: int) -> int:
    """float64 numbers that one row works in."""
    many = -(-classes // LANES) * LANES
    if name == "cost":
        return 3 * (states + 2) + many
    return (4 + time) * (states + 2) + 2 * many + time + 1


def find(name: str, dtype: str) -> Call | None:
    """The kernel "cost" or "slope" for activations of a dtype, or None when it is not ready.

    The call is `(out, x, steps, last, labels, skips, check=None)`. `x` is [rows, time, classes];
    `steps` and `last` int64[rows], the steps and the last state of each row; `labels` int64[rows,
    states], the class of each state; `skips` float64[rows, states + 2], 0 where a path may skip
    the state before and minus infinity elsewhere. `out` is [rows], or of the shape of `x`.
    """
    job = service.submit(f"ctc_{name}_{dtype}", lambda: source(name, dtype))
    if job is None or job.state != "ready":
        return None

    def call(
        out: Array, x: Array, steps: Array, last: Array, labels: Array, skips: Array, check: Any
    ) -> None:
        rows, _, classes = x.shape
        _check(out, x, (rows,) if name == "cost" else x.shape, dtype)
        _check_states(steps, last, labels, skips, x.shape)
        x = np.ascontiguousarray(x.copy() if np.may_share_memory(x, out) else x)
        _run(name, job, out, (x, *_filled_up(labels, skips, classes), steps, last), check)

    return call


def _filled_up(labels: Array, skips: Array, classes: int) -> tuple[Array, Array]:
    """More states, blanks behind the last one, which no path comes back from."""
    more = -labels.shape[1] % LANES
    labels = np.pad(labels, ((0, 0), (0, more)), constant_values=classes - 1)
    return labels, np.pad(skips, ((0, 0), (0, more)), constant_values=-np.inf)


def _run(name: str, job: Job, out: Array, arrays: tuple[Array, ...], check: Any) -> None:
    """Rows in groups, so that the scratch of all of them stays small."""
    x, labels = arrays[0], arrays[1]
    rows, time, classes = x.shape
    states = labels.shape[1]
    each = _scratch(name, time, classes, states)
    height = max(1, min(rows, GROUP // each))
    scratch = np.empty(height * each)
    work = states + classes // 4 + 1
    for first in range(0, rows, height):
        part = [np.ascontiguousarray(one[first : first + height]) for one in arrays]
        heads = [address_of(out[first:]), *map(address_of, part), address_of(scratch)]
        for begin, end, ways in _blocks(name, time, work):
            fields = [*heads, time, classes, states, each, begin, end, ways]
            params = np.array(fields, np.int64)
            drive(job, params, len(part[0]), (end - begin) * work, check, PACE)


def _blocks(name: str, time: int, work: int) -> list[tuple[int, int, int]]:
    """Steps of time that one call takes, and the ways: 1 onwards, 2 back, 3 both.

    A row of many steps is cut, so that a stop is honoured soon.
    """
    size = max(1, int(TILE_SECONDS / (PACE * work)))
    if size >= time:
        return [(0, time, 3)]
    onwards = [(begin, min(begin + size, time), 1) for begin in range(0, time, size)]
    back = [(begin, end, 2) for begin, end, _ in reversed(onwards)]
    return onwards + (back if name == "slope" else [])


def _check(out: Array, x: Array, shape: tuple[int, ...], dtype: str) -> None:
    if x.dtype != dtype or out.dtype != dtype or out.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"expected {dtype}{list(shape)}, got {out.dtype}{list(out.shape)}")
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError("the result array must be contiguous and writeable")


def _check_states(
    steps: Array, last: Array, labels: Array, skips: Array, shape: tuple[int, ...]
) -> None:
    """Refuse whatever would let compiled code leave its arrays."""
    rows, time, classes = shape
    states = labels.shape[1]
    fits = (
        all(one.dtype == np.int64 for one in (steps, last, labels))
        and skips.dtype == np.float64
        and steps.shape == last.shape == (rows,)
        and labels.shape == (rows, states)
        and skips.shape == (rows, states + 2)
    )
    if not fits:
        raise ValueError("steps, last, labels or skips do not fit the activations")
    for one, most in ((steps, time), (last, states - 1), (labels, classes - 1)):
        if one.size and (one.min() < 0 or one.max() > most):
            raise ValueError(f"an index lies outside of 0 to {most}")
