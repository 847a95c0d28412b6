"""What drives the compiled convolutions: parameter blocks, scratch areas, the pace of a machine.

Knows no convolution; `direct`, `depthwise` and `winograd` do.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kbench.engine.core.types import Array, CancelCheck, Ints
from kbench.engine.jit.fast_call import address_of
from kbench.engine.jit.launch import Launch, drive, thread_count
from kbench.engine.jit.service import Job
from kbench.engine.runtime import threads

MakeArray = Callable[[Ints, str], Array]
"""From a shape and a dtype to an uninitialised array."""

PRODUCTS_PER_ELEMENT = 32
"""Products that count as one element of work when `drive` decides on threads and tiles."""

MIN_STREAMED_BYTES = 1 << 23
"""Size of a result from which on it is written past the caches, which could not hold it."""

MAX_PLANS = 256
"""Sizes whose plans are kept."""

_pace = {"float32": 1.5e-9, "float64": 3e-9}
"""Seconds of 32 products: a guess at first, then twice what the last large run took."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """The compiled tiles of a dtype and the kernels around them."""

    dtype: str
    lanes: int
    most: int
    wide: int
    narrow: int
    pack: Job
    gather: Job
    reduce: Job

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return 4 if self.dtype == "float32" else 8


@dataclass(frozen=True, eq=False)
class Run:
    """A kernel's parameters for some sizes, without the addresses that every call sets.

    `fields` are all parameters, those that a call sets first; `kept` are tables they point to.
    """

    fields: tuple[str, ...]
    template: Array
    items: int
    work: int
    areas: tuple[int, ...]
    kept: tuple[Array, ...]

    def __call__(
        self, job: Job, dtype: str, cancel_check: CancelCheck | None, *addresses: int
    ) -> None:
        """Drive the kernel, in tiles so short that `cancel_check` is called often enough."""
        params, _areas = self._parameters(addresses, np.empty)
        each = self._each
        begun = time.perf_counter()
        drive(job, params, self.items, each, cancel_check, _pace[dtype])
        if self.items * each > 20 * threads.MIN_PARALLEL_ELEMENTS:
            _pace[dtype] = 2 * max(1e-11, (time.perf_counter() - begun) / (self.items * each))

    def call(self, job: Job, memory: MakeArray, *addresses: int) -> Launch:
        """The same as a call, to be made later, with scratch areas in memory that is shared."""
        params, areas = self._parameters(addresses, memory)
        wanted = self.items * self._each >= threads.MIN_PARALLEL_ELEMENTS
        return Launch(
            job.address, params, self.items, thread_count(self.items, wanted), kept=(self, areas)
        )

    @property
    def _each(self) -> int:
        """Elements of work of an item."""
        return -(-self.work // PRODUCTS_PER_ELEMENT)

    def _parameters(
        self, addresses: Sequence[int], memory: MakeArray
    ) -> tuple[Array, Areas | None]:
        params = self.template.copy()
        params[: len(addresses)] = addresses
        if not self.areas:
            return params, None
        areas = Areas(self.areas, memory)
        params[len(addresses) : len(addresses) + 4] = areas.fields
        return params, areas


def made_run(
    fields: tuple[str, ...], values: dict[str, int], items: int, work: int,
    areas: tuple[int, ...] = (), kept: Sequence[Array] = (),
) -> Run:  # fmt: skip
    """A `Run` whose parameters not among `values` are set by each call."""
    template = np.array([values.get(name, 0) for name in fields], np.int64)
    return Run(fields, template, items, work, areas, tuple(kept))


def starts(parts: Sequence[int]) -> list[int]:
    """Where the parts of a scratch area begin, each on a cache line; then the area's size."""
    return list(itertools.accumulate((-(-part // 64) * 64 + 64 for part in parts), initial=0))


@functools.lru_cache(MAX_PLANS)
def _area_bytes(parts: Ints) -> int:
    return starts(parts)[-1]


class Areas:
    """Scratch areas, one for each thread, and the flags that say which are taken."""

    def __init__(self, parts: Ints, memory: MakeArray) -> None:
        self._bytes = _area_bytes(parts)
        self._count = max(1, threads.count())
        self._block = memory((self._count * self._bytes + 64,), "uint8")
        self._flags = np.zeros(self._count, np.int64)

    @property
    def fields(self) -> Ints:
        """What a kernel needs to know: flags, their number, the first area, bytes of one."""
        start = -(-address_of(self._block) // 64) * 64
        return address_of(self._flags), self._count, start, self._bytes
