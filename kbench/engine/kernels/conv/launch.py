"""What launches the compiled convolutions: parameter blocks, scratch areas, arrays for results.

Knows no convolution; `direct`, `depthwise` and `winograd` do.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from msgspec import Struct

from kbench.engine.core.types import Array, CancelCheck
from kbench.engine.jit import fast_call
from kbench.engine.jit.array_memory import can_write_to
from kbench.engine.jit.compile_queue import Job
from kbench.engine.jit.launch import HostStep, Launch, Prepared, run
from kbench.engine.runtime import threads
from kbench.engine.runtime.pacer import Pacer
from kbench.engine.runtime.workspace import Workspace

TILES, PACK, GATHER, REDUCE = (
    f"kernels/conv/sources/{name}" for name in ("tiles", "pack", "gather", "reduce")
)
PRODUCTS_PER_ELEMENT = 32
"""Products that count as one element of work when `drive` decides on threads and tiles."""

MIN_STREAMED_BYTES = 1 << 23
"""Size of a result from which on it is written past the caches, which could not hold it."""

MAX_PLANS = 256
"""Sizes whose plans are kept."""

SECONDS = {"float32": 1.5e-9, "float64": 3e-9}
"""Seconds of 32 products, by dtype: a guess."""


class PanelTiles(Struct, frozen=True, eq=False):
    """The compiled tiles of a dtype, and the kernel that packs matrices for them."""

    dtype: str
    lanes: int
    most: int
    wide: int
    narrow: int
    whole: int
    """Address of `conv/block_tile`."""
    pack: Job

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return 4 if self.dtype == "float32" else 8


class Tiles(PanelTiles, frozen=True, eq=False):
    """The same, with the kernels of convolutions around them."""

    gather: Job
    reduce: Job


class Plan(Struct, frozen=True, eq=False):
    """A kernel's launch for some sizes, without the addresses that every call sets."""

    job: Job
    pacer: Pacer
    template: Array
    """All parameters, those that a call sets first."""
    items: int
    work: int
    """Elements of work of an item."""
    area_bytes: int
    """Scratch memory of each thread, 0 for none."""
    kept: tuple[Array, ...]
    """Tables that parameters point to."""

    def launch(self, workspace: Workspace, *addresses: int) -> Launch:
        """The launch at these addresses; threads take turns with areas of the workspace."""
        params, kept = self.template.copy(), self.kept
        if self.area_bytes:
            count = max(1, threads.count())
            taken = np.zeros(count, np.int64)
            areas = workspace.take(count * self.area_bytes)
            addresses += fast_call.address(taken), count, areas, self.area_bytes
            kept += (taken,)
        params[: len(addresses)] = addresses
        parallel = self.items * self.work >= threads.MIN_PARALLEL_ELEMENTS
        return Launch(
            self.job.address, params, self.items, self.work, parallel, self.pacer, 0, kept
        )

    def run(self, cancel_check: CancelCheck | None, *addresses: int) -> None:
        """Launch the kernel by itself, now."""
        run(lambda workspace: Prepared((self.launch(workspace, *addresses),)), cancel_check)


def plan(
    job: Job, dtype: str, fields: tuple[str, ...], values: dict[str, int], items: int, work: int,
    areas: tuple[int, ...] = (), kept: Sequence[Array] = (),
) -> Plan:  # fmt: skip
    """A `Plan` whose parameters not among `values` are set by each call.

    Arguments:
        work: products of an item.
        areas: bytes of the parts of the scratch memory of a thread.
    """
    template = np.array([values.get(name, 0) for name in fields], np.int64)
    area = starts(areas)[-1]
    each = -(-work // PRODUCTS_PER_ELEMENT)
    return Plan(job, job.paced(SECONDS[dtype]), template, items, each, area, tuple(kept))


class Way(Protocol):
    """One way to a convolution of some sizes."""

    def prepare(self, out: Array, first: Array, second: Array, workspace: Workspace) -> Prepared:
        """The call for contiguous arrays of these sizes."""


def cleared(out: Array, places: tuple[slice, ...]) -> HostStep:
    """Zeros where no tap reaches."""
    return HostStep(lambda _check: out[places].fill(0))


def result_array(out: Array, dtype: str, inputs: Sequence[Array]) -> Array:
    """Where compiled code writes: `out` itself, or an array that `copied` brings there.

    That is for another dtype, strides, or an input that overlaps; inputs are read many times.
    """
    if not out.flags.writeable:
        raise ValueError("the result array is read-only")
    return out if can_write_to(out, dtype, inputs) else np.empty(out.shape, dtype)


def copied(out: Array, into: Array) -> HostStep:
    """The result brought where it belongs, rounded to its dtype."""

    def copy(_check: CancelCheck | None) -> None:
        with np.errstate(over="ignore"):
            np.copyto(out, into, casting="same_kind")

    return HostStep(copy)


def starts(parts: Sequence[int]) -> list[int]:
    """Where the parts of a scratch area begin, each on a cache line; then the area's size."""
    return list(itertools.accumulate((-(-part // 64) * 64 + 64 for part in parts), initial=0))
