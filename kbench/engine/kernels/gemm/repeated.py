"""A product that is made again and again, of arrays that only their addresses tell apart.

A small product takes a few microseconds, and as long again to be checked, planned and written into
a block of parameters. All but the addresses are the same in the next call of the same step, so the
block and what surrounds it are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kbench.engine.core.types import Array
from kbench.engine.jit import fast_call
from kbench.engine.jit.launch import Launch, LaunchGraph
from kbench.engine.jit.service import service
from kbench.engine.runtime import threads, workspace
from kbench.engine.runtime.cpu_caches import CACHE_LINE_BYTES
from kbench.engine.runtime.pacer import TILE_SECONDS, Pacer

MAX_OWN_BYTES = 1 << 16
"""Scratch memory up to which a launch has its own: it need not be asked for at each call."""


class Repeatable(NamedTuple):
    """What of a product, which is one piece, does not depend on addresses."""

    launch: Callable[[], Launch]
    """A launch with a block of its own, whose first five parameters are the addresses of the
    result, of both operands, and of packed strips and areas of threads in scratch memory."""
    scratch_bytes: int
    packed_at: int
    """Where in scratch memory the packed strips are; the areas are before them."""
    work: int
    pacer: Pacer


class _Kept(NamedTuple):
    """A launch for one thread of Python at a time."""

    launch: Launch
    fields: memoryview
    counter: int
    """Where among the fields the first of the counters is."""
    graph: LaunchGraph | None
    """It as a graph, where it is worth several threads."""
    memory: Array | None
    """Scratch memory of its own, where little is needed."""


class RepeatedProduct:
    """Calls for arrays of one form: those that it is made of were checked."""

    def __init__(self, what: Repeatable, out: Array, x: Array, y: Array) -> None:
        self._what, self._work, self._pacer = what, what.work, what.pacer
        self._dtype = out.dtype
        self._form = out.shape, out.strides, x.shape, x.strides, y.shape, y.strides
        self._inside = out.itemsize - 1  # bits that are zero in the address of an element
        self._threads = threads.count()
        self._spare: list[_Kept] = []

    def fits(self, out: Array, x: Array, y: Array) -> bool:
        """Whether these arrays have the same form, in memory that elements may lie in."""
        dtype = self._dtype
        form = out.shape, out.strides, x.shape, x.strides, y.shape, y.strides
        return (
            form == self._form
            and out.dtype is dtype
            and x.dtype is dtype
            and y.dtype is dtype
            and threads.count() == self._threads
        )

    def run(self, out: Array, x: Array, y: Array) -> bool:
        """The product, where the arrays fit and nothing would have to look at the cancel flag."""
        if (
            threads.compilers
            or self._work * self._pacer.seconds > TILE_SECONDS
            or not self.fits(out, x, y)
        ):
            return False
        address = fast_call.address
        to, left, right = address(out), address(x), address(y)
        if (to | left | right) & self._inside:
            return False
        try:
            kept = self._spare.pop()
        except IndexError:  # each thread that is in here needs one
            kept = self._new()
        launch, fields, counter, graph, memory = kept
        fields[0], fields[1], fields[2] = to, left, right
        block = workspace.borrow(self._what.scratch_bytes) if memory is None else None
        if block is not None:
            fields[3], fields[4] = block.begin + self._what.packed_at, block.begin
        if graph is not None:
            graph.run()
        else:
            fields[counter] = fields[counter + 8] = 0
            service.driver.run(launch.address, launch.params, 0, 1, False)
        if block is not None:
            workspace.give_back(block)
        self._spare.append(kept)
        return True

    def _new(self) -> _Kept:
        """Another launch, and what belongs to it."""
        launch, memory = self._what.launch(), None
        fields = launch.params.data
        counter = (launch.counters - fast_call.address(launch.params)) // 8
        graph = LaunchGraph([launch]) if launch.parallel else None
        if self._what.scratch_bytes <= MAX_OWN_BYTES:
            memory = np.empty(self._what.scratch_bytes + CACHE_LINE_BYTES, np.uint8)
            place = fast_call.address(memory)
            begin = place + -place % CACHE_LINE_BYTES
            fields[3], fields[4] = begin + self._what.packed_at, begin
        return _Kept(launch, fields, counter, graph, memory)
