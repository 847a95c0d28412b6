"""The ways to compute one convolution, each as stages: kernels, and sums of what they leave.

A way is made for arrays at their addresses. It is performed at once (`perform`), or captured
as launches (`captured`), on memory of its own or on scratch memory that all graphs share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kbench.engine.codegen.join_kernels import join, joined
from kbench.engine.core.types import Array, CancelCheck, Ints
from kbench.engine.jit.launch import Launch, scratch
from kbench.engine.jit.service import Job
from kbench.engine.kernels import chosen_variant
from kbench.engine.kernels.conv.launch import Run

CACHE_LINE_BYTES = 64
"""Bytes of a cache line, on which each array begins."""


class NoRoomError(Exception):
    """More scratch memory is asked for than graphs share."""


class Memory:
    """Arrays for what is passed from stage to stage."""

    def __init__(self) -> None:
        self._kept: list[Array] = []

    def array(self, shape: Ints, dtype: str) -> Array:
        """An uninitialised array, kept as long as this is."""
        self._kept.append(np.empty(shape, dtype))
        return self._kept[-1]


class Room(Memory):
    """The same in scratch memory, for one step's launches: these run one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._block, self._used = scratch(), 0

    def array(self, shape: Ints, dtype: str) -> Array:
        """As of any memory.

        Raises:
            NoRoomError: there is not so much.
        """
        size = math.prod(shape) * np.dtype(dtype).itemsize
        block = self._block[self._used : self._used + size]
        if len(block) < size:
            raise NoRoomError
        self._used += -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES
        return block.view(dtype).reshape(shape)


class Stage(NamedTuple):
    """One kernel for some addresses."""

    run: Run
    job: Job
    addresses: tuple[int, ...]


class Total(NamedTuple):
    """The sum of the rows of `parts`."""

    out: Array
    parts: Array


class Filled(NamedTuple):
    """What is more than a kernel; it is given the cancel check that stages are driven with."""

    fill: Callable[[CancelCheck | None], object]


Stages = Sequence[Stage | Total | Filled]


class Way(NamedTuple):
    """Stages in order; `is_valid` says afterwards whether the result is right."""

    name: str
    dtype: str
    stages: Stages
    memory: Memory
    is_valid: Callable[[], bool] | None = None


def cleared(out: Array, places: tuple[slice, ...]) -> Filled:
    """Zeros where no tap reaches."""
    return Filled(lambda _check: out[places].fill(0))


def perform(ways: Iterable[Way], cancel_check: CancelCheck | None) -> None:
    """Take the first way whose result is right; the last one's always is."""
    for way in ways:
        go(way.stages, way.dtype, cancel_check)
        if way.is_valid is None or way.is_valid():
            if way.name:
                chosen_variant.record(way.name)
            return


def go(stages: Stages, dtype: str, cancel_check: CancelCheck | None) -> None:
    """Perform stages of a dtype."""
    for stage in stages:
        if isinstance(stage, Stage):
            stage.run(stage.job, dtype, cancel_check, *stage.addresses)
        elif isinstance(stage, Total):
            with np.errstate(all="ignore"):
                np.copyto(stage.out, joined(stage.parts))
        else:
            stage.fill(cancel_check)


def captured(make: Callable[[Memory], Iterable[Way]]) -> list[Launch] | None:
    """The first way as launches, None where there is no such form; `make` gives the ways."""
    launches = []
    try:
        memory = Room()
        way = next(iter(make(memory)), None)
        for stage in () if way is None else way.stages:
            call = _call(stage, memory)
            if call is None:
                return None
            launches.append(call)
    except NoRoomError:
        return None
    if way is None or not launches:
        return None
    return [*launches[:-1], launches[-1].requiring(way.is_valid)]


def _call(one: Stage | Total | Filled, memory: Memory) -> Launch | None:
    if isinstance(one, Stage):
        return one.run.call(one.job, memory.array, *one.addresses)
    return join(one.out, one.parts) if isinstance(one, Total) else None
