"""Library kernels of connectionist temporal classification: the cost of rows, and its slope.

One item is one row of the batch, so rows run in parallel. States have two columns beside them in
which no path can be, so that every step is one loop without branches. `find` gives the call, which
makes the scratch that the kernels work in; the sources are in `source.py`.
"""

from __future__ import annotations

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, KernelCall
from kbench.engine.jit.array_memory import check_result, operand
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import drive
from kbench.engine.jit.service import service
from kbench.engine.kernels.ctc.source import PADDED_LANES, scratch, source
from kbench.engine.runtime.pacer import TILE_SECONDS
from kbench.engine.runtime.workspace import Workspace

MAX_SCRATCH_NUMBERS = 1 << 23
"""Float64 numbers of scratch that the rows of one call may take."""
STATE_SECONDS = 3e-9
"""Seconds for a state and step: a guess."""


def find(name: str, dtype: str) -> KernelCall | None:
    """The kernel "cost" or "slope" for activations of a dtype, or None when it is not ready.

    The call is `(out, x, steps, last, labels, skips, cancel_check=None)`. `x` is [rows, time,
    classes]; `steps` and `last` int64[rows], the steps and the last state of each row; `labels`
    int64[rows, states], the class of each state; `skips` float64[rows, states + 2], 0 where a path
    may skip the state before and minus infinity elsewhere. `out` is [rows], or of the shape of `x`;
    the call "slope" takes an array `cost` of [rows] more, for what it finds on its way.
    """
    job = service.find(f"ctc_{name}_{dtype}", lambda: source(name, dtype))
    if job is None:
        return None

    def call(
        out: Array,
        x: Array,
        steps: Array,
        last: Array,
        labels: Array,
        skips: Array,
        cancel_check: CancelCheck | None,
        cost: Array | None = None,
    ) -> None:
        rows, _, classes = x.shape
        cost = out if name == "cost" else np.empty(rows, dtype) if cost is None else cost
        check_result(cost, dtype, rows)
        check_result(out, dtype, rows if name == "cost" else x.size)
        _check_states(steps, last, labels, skips, x.shape)
        x = operand(x, dtype, x.size, out).reshape(x.shape)
        arrays = x, *_filled_up(labels, skips, classes), steps, last
        _run(name, job, out, cost, arrays, cancel_check)

    return call


def _filled_up(labels: Array, skips: Array, classes: int) -> tuple[Array, Array]:
    """More states, blanks behind the last one, which no path comes back from."""
    more = -labels.shape[1] % PADDED_LANES
    labels = np.pad(labels, ((0, 0), (0, more)), constant_values=classes - 1)
    return labels, np.pad(skips, ((0, 0), (0, more)), constant_values=-np.inf)


def _run(
    name: str,
    job: Job,
    out: Array,
    cost: Array,
    arrays: tuple[Array, ...],
    cancel_check: CancelCheck | None,
) -> None:
    """Rows in groups, so that the scratch of all of them stays small."""
    x, labels = arrays[0], arrays[1]
    rows, time, classes = x.shape
    states = labels.shape[1]
    each = scratch(name, time, classes, states)
    height = max(1, min(rows, MAX_SCRATCH_NUMBERS // each))
    workspace = Workspace()
    room = workspace.take(8 * height * each)
    work = states + classes // 4 + 1
    for first in range(0, rows, height):
        part = [np.ascontiguousarray(array[first : first + height]) for array in arrays]
        heads = [address_of(out[first:]), *map(address_of, part), room]
        for begin, end, ways in _blocks(name, time, work):
            fields = [*heads, time, classes, states, each, begin, end, ways]
            fields.append(address_of(cost.reshape(-1)[first:]))
            params = np.array(fields, np.int64)
            drive(job, params, len(part[0]), (end - begin) * work, cancel_check, STATE_SECONDS)
    workspace.release()


def _blocks(name: str, time: int, work: int) -> list[tuple[int, int, int]]:
    """Steps of time that one call takes, and the ways: 1 onwards, 2 back, 3 both.

    A row of many steps is cut, so that a stop is honoured soon.
    """
    size = max(1, int(TILE_SECONDS / (STATE_SECONDS * work)))
    if size >= time:
        return [(0, time, 3)]
    onwards = [(begin, min(begin + size, time), 1) for begin in range(0, time, size)]
    back = [(begin, end, 2) for begin, end, _ in reversed(onwards)]
    return onwards + (back if name == "slope" else [])


def _check_states(
    steps: Array, last: Array, labels: Array, skips: Array, shape: tuple[int, ...]
) -> None:
    """Refuse whatever would let compiled code leave its arrays."""
    rows, time, classes = shape
    states = labels.shape[1]
    fits = (
        all(array.dtype == np.int64 for array in (steps, last, labels))
        and skips.dtype == np.float64
        and steps.shape == last.shape == (rows,)
        and labels.shape == (rows, states)
        and skips.shape == (rows, states + 2)
    )
    if not fits:
        raise ValueError("steps, last, labels or skips do not fit the activations")
    for values, most in ((steps, time), (last, states - 1), (labels, classes - 1)):
        if values.size and (values.min() < 0 or values.max() > most):
            raise ValueError(f"an index lies outside of 0 to {most}")
