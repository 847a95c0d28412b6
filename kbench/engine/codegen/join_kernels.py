"""What other kernels leave to do, element after element: sums of parts, variances, repeated rows.

Each is a kernel of its own, given as a launch, or done by NumPy with the same rounding.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.jit.array_memory import describe_array
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import STEADY_PACER, Launch
from kbench.engine.jit.service import service

HEAD = '''"""Library kernel of kbench: what other kernels leave to do, element after element."""
import numpy as np
from kbench.engine.intrinsics.toolkit import exact_kernel, field, IMPORTS


@exact_kernel
def run(params, start, stop):
'''

JOIN = """    out, parts, room = field(params, 0), field(params, 1), field(params, 2)
    count, width, divisor = field(params, 3), field(params, 4), field(params, 5)
    source = parts
    while True:  # as `joined`
        half = (count + 1) // 2
        for number in range(half):
            here, there = number * width, (half + number) * width
            if half + number < count:
                for i in range(start, stop):
                    total = peek_PARTS(source, here + i) + peek_PARTS(source, there + i)
                    store_PARTS(room, here + i, total)
            elif source == parts:
                for i in range(start, stop):
                    store_PARTS(room, here + i, peek_PARTS(source, here + i))
        source, count = room, half
        if count == 1:
            break
    for i in range(start, stop):
        total = peek_PARTS(room, i)
        if divisor > 1:
            total = np.PARTS(total / divisor)
        store_DTYPE(out, i, np.DTYPE(total))
"""

VARIANCE = """    out, means, squares = field(params, 0), field(params, 1), field(params, 2)
    counts, count, width = field(params, 3), field(params, 4), field(params, 5)
    many = 0.0
    for number in range(count):
        many += load_float64(counts, number)
    for i in range(start, stop):
        first, within, moved = load_float64(means, i), 0.0, 0.0
        for number in range(count):
            away = load_float64(means, number * width + i) - first
            moved += away * load_float64(counts, number)
            within += load_float64(squares, number * width + i)
        middle, between = first + moved / many, 0.0
        for number in range(count):
            apart = load_float64(means, number * width + i) - middle
            between += apart * apart * load_float64(counts, number)
        store_DTYPE(out, i, np.DTYPE((within + between) / many))
"""

REPEAT = """    out, x, width = field(params, 0), field(params, 1), field(params, 2)
    for i in range(start, stop):
        store_DTYPE(out, i, load_DTYPE(x, i % width))
"""

KINDS = {  # what other kernels leave to do: its source, and the dtype of what it reads
    "parts": (JOIN, "float64"),
    "alike": (JOIN, ""),
    "variance": (VARIANCE, "float64"),
    "repeat": (REPEAT, ""),
}


def find(kind: str, dtype: str) -> Callable[..., Launch] | None:
    """What captures a launch whose result is of float32 or float64, None while it is not ready.

    "parts": `(out, parts, divisor)`, the sum of the rows of `parts`, of float64, divided. They are
    added as `joined` adds them, and the sum is rounded at the end. "alike": the same for rows of
    the result's dtype, whose sum is rounded at each step. "variance": `(out, means, squares,
    counts)`, of rows that each are the means of `counts` elements and their squares about these.
    "repeat": `(out, x)`, x over and over.
    """
    if kind not in KINDS or dtype not in ("float32", "float64"):
        return None
    text, read = KINDS[kind][0], KINDS[kind][1] or dtype
    whole = (HEAD + text).replace("PARTS", read).replace("DTYPE", dtype)
    helpers = sorted(set(re.findall(r"\b(?:load|peek|store)_\w+", whole)))
    whole = whole.replace("IMPORTS", ", ".join(helpers))
    job = service.find(f"join_{kind}_{dtype}", lambda: whole)
    return None if job is None else partial(_launch_of, kind, job.address, dtype, read)


def _launch_of(
    kind: str, address: int, dtype: str, read: str, out: Array, first: Array, *rest: Array | int
) -> Launch:
    """The launch of one of `KINDS`, of checked arrays."""
    arrays = [first, *(argument for argument in rest if isinstance(argument, np.ndarray))]
    numbers = [int(argument) for argument in rest if not isinstance(argument, np.ndarray)]
    flags = out.flags
    fits = out.dtype == dtype and flags.c_contiguous and flags.writeable
    fits = fits and all(array.dtype == read and array.flags.c_contiguous for array in arrays)
    if kind == "repeat":
        fits, sizes, kept = fits and first.size > 0, [first.size], [out]
    else:
        fits = fits and len(first) > 0 and first[0].size == out.size
        sizes, kept = [len(first), out.size], arrays
    if kind == "variance":
        _, squares, counts = arrays
        fits = fits and squares.shape == first.shape and counts.shape == first.shape[:1]
    if not fits:
        given = " and ".join(map(describe_array, arrays))
        raise ValueError(f"{given} cannot be joined to {describe_array(out)}")
    if KINDS[kind][0] is JOIN:
        kept = [*arrays, np.empty(((len(first) + 1) // 2, out.size), read)]  # and room for halves
        arrays = kept
    params = np.array([*map(address_of, (out, *arrays)), *sizes, *numbers], np.int64)
    return Launch(address, params, out.size, 1, False, STEADY_PACER, kept=tuple(kept))


def joined(parts: Array) -> Array:
    """The sum of the rows of `parts`, by halves."""
    half = (len(parts) + 1) // 2
    whole = parts[:half].copy()
    whole[: len(parts) - half] += parts[half:]
    while len(whole) > 1:
        half = (len(whole) + 1) // 2
        whole[: len(whole) - half] += whole[half:]
        whole = whole[:half]
    found: Array = whole[0]
    return found


class Joined(NamedTuple):
    """Parts of a sum that become one; a `divisor` makes it a mean."""

    out: Array
    parts: Array
    divisor: int = 0

    def run(self, _cancel_check: CancelCheck | None) -> None:
        """By NumPy, which takes all dtypes."""
        with np.errstate(all="ignore"):
            whole = joined(self.parts)
            if self.divisor:
                whole = whole / self.divisor
            np.copyto(self.out, whole.reshape(self.out.shape), casting="unsafe")

    def launch(self) -> Launch | None:
        """By a kernel, for sums of float32 and float64."""
        out, parts = self.out, self.parts
        kind = "parts" if parts.dtype == np.float64 else "alike" if parts.dtype == out.dtype else ""
        write = find(kind, out.dtype.name)
        return None if write is None else write(out, parts, self.divisor or 1)


class Variance(NamedTuple):
    """Rows that each are the means of `counts` elements, and the squares about these, which become
    the variance of all."""

    out: Array
    means: Array
    squares: Array
    counts: Array

    def run(self, _cancel_check: CancelCheck | None) -> None:
        """By NumPy, which takes all dtypes."""
        means, counts = self.means, self.counts[:, None]
        with np.errstate(all="ignore"):
            many = counts.sum()
            middle = means[0] + np.add.reduce((means - means[0]) * counts, axis=0) / many
            apart = means - middle
            within = np.add.reduce(self.squares, axis=0)
            whole = (within + np.add.reduce(apart * apart * counts, axis=0)) / many
            np.copyto(self.out, whole.reshape(self.out.shape), casting="unsafe")

    def launch(self) -> Launch | None:
        """By a kernel."""
        write = find("variance", self.out.dtype.name)
        return None if write is None else write(*self)


class Repeated(NamedTuple):
    """A row, over and over."""

    out: Array
    row: Array

    def run(self, _cancel_check: CancelCheck | None) -> None:
        """By NumPy, which takes all dtypes."""
        self.out.reshape(-1, self.row.size)[...] = self.row

    def launch(self) -> Launch | None:
        """By a kernel."""
        write = find("repeat", self.row.dtype.name)
        return None if write is None else write(self.out, self.row)
