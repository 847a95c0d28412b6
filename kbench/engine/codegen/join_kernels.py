"""What other kernels leave to do, element after element: sums of parts, the largest of them,
variances, repeated rows.

Each is a kernel of its own, given as a launch, or done by NumPy with the same rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.jit import kernel_file
from kbench.engine.jit.array_memory import describe_array
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import STEADY_PACER, Launch
from kbench.engine.jit.service import service

KINDS = {  # what other kernels leave to do: its kernel file, and the dtype of what it reads
    "parts": ("join", "float64"),
    "alike": ("join", ""),
    "max": ("extreme", ""),
    "min": ("extreme", ""),
    "variance": ("variance", "float64"),
    "repeat": ("repeat", ""),
}
_OPERATIONS: dict[str, np.ufunc] = {
    "prod": np.multiply,  # of integers
    "max": np.maximum,
    "min": np.minimum,
    "any": np.bitwise_or,
    "all": np.bitwise_and,
}
MIN_BYTES = 1 << 16
"""Bytes of parts from which a kernel is worth its launch, also where one call is made: NumPy's
intermediate results would take fresh pages."""


def find(kind: str, dtype: str) -> Callable[..., Launch] | None:
    """What captures a launch whose result is of float32 or float64, None while it is not ready.

    "parts": `(out, parts, divisor)`, the sum of the rows of `parts`, of float64, divided. They are
    added as `joined` adds them, and the sum is rounded at the end. "alike": the same for rows of
    the result's dtype, whose sum is rounded at each step. "max", "min": `(out, parts)`, the largest
    or the smallest of each column, NaN where there is one. "variance": `(out, means, squares,
    counts)`, of rows that each are the means of `counts` elements and their squares about these.
    "repeat": `(out, x)`, x over and over.
    """
    if kind not in KINDS or dtype not in ("float32", "float64"):
        return None
    read = KINDS[kind][1] or dtype
    job = service.find(f"join_{kind}_{dtype}", partial(_source, kind, dtype, read))
    return None if job is None else partial(_launch_of, kind, job.address, dtype, read)


def _source(kind: str, dtype: str, read: str) -> str:
    file = KINDS[kind][0]
    names = {"store_element": f"store_{dtype}"}
    if file in ("repeat", "extreme"):
        names["load_element"] = f"load_{dtype}"
    else:
        names["element"] = dtype
    if file == "extreme":
        names |= {"peek_element": f"peek_{dtype}", "better_of": f"{kind}imum_float"}
    if file == "join":
        names |= {
            "peek_total": f"peek_{read}", "store_total": f"store_{read}", "total_value": read,
        }  # fmt: skip
    return kernel_file.specialized(f"codegen/sources/{file}", **names)


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
    if kind == "variance":
        arrays = kept = [*arrays, np.empty((3, out.size))]  # and room for three sums
    elif kind in ("parts", "alike"):
        arrays = kept = [*arrays, np.empty(((len(first) + 1) // 2, out.size), read)]  # for halves
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


def _run_launch(launch: Launch | None, cancel_check: CancelCheck | None) -> bool:
    """Whether there is a launch, which then has run."""
    if launch is not None:
        launch.run(cancel_check)
    return launch is not None


class Joined(NamedTuple):
    """Parts of a sum that become one; a `divisor` makes it a mean."""

    out: Array
    parts: Array
    divisor: int = 0

    def run(self, cancel_check: CancelCheck | None) -> None:
        """By a kernel if there is much to do; else by NumPy, which takes all dtypes."""
        if self.parts.nbytes >= MIN_BYTES and _run_launch(self.launch(), cancel_check):
            return
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


class Reduced(NamedTuple):
    """Parts of another fold than a sum, which one operation of NumPy joins."""

    kind: str
    out: Array
    parts: Array

    def run(self, cancel_check: CancelCheck | None) -> None:
        """By a kernel if there is much to do; else by NumPy, which takes all dtypes."""
        if self.parts.nbytes >= MIN_BYTES and _run_launch(self.launch(), cancel_check):
            return
        with np.errstate(all="ignore"):
            whole = _OPERATIONS[self.kind].reduce(self.parts)
            np.copyto(self.out, whole.reshape(self.out.shape), casting="unsafe")

    def launch(self) -> Launch | None:
        """By a kernel, for the largest or smallest numbers of float32 and float64."""
        write = find(self.kind, self.out.dtype.name)
        return None if write is None else write(self.out, self.parts)


class Variance(NamedTuple):
    """Rows that each are the means of `counts` elements, and the squares about these, which become
    the variance of all."""

    out: Array
    means: Array
    squares: Array
    counts: Array

    def run(self, cancel_check: CancelCheck | None) -> None:
        """By a kernel if there is much to do; else by NumPy, which takes all dtypes."""
        if self.means.nbytes >= MIN_BYTES and _run_launch(self.launch(), cancel_check):
            return
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
