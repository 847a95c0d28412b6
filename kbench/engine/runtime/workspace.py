"""Scratch memory of kernels: what the launches of one call hand to each other.

A run has a workspace of its own, whose memory is kept for the next one where fresh pages would
cost more than holding it. A replay's launches share one block: they run one after the other, and
what one step leaves there no other reads.
"""

from __future__ import annotations

import functools
import math
from contextlib import suppress

import numpy as np

from kbench.engine.core.types import Array, Ints

ALIGN_BYTES = 64
"""Bytes of a cache line, on which whatever is taken begins."""
MIN_BLOCK_BYTES = 1 << 18
"""Bytes of a block at least, of which only those that are used take memory."""
MAX_KEPT_BYTES = 1 << 22
"""Bytes of a block that is kept for the next call, unless a kernel says that more is worth it. The
system takes 2 us or more to give a fresh page, in which a core moves 30 kB."""
MAX_KEPT_BLOCKS = 4
"""Blocks that are kept, the largest ones."""
SHARED_BYTES = 1 << 25
"""Bytes that launches of replays share."""


class NoRoomError(Exception):
    """More scratch memory is asked for than launches share."""


class _Block:
    """Memory from a cache line on."""

    def __init__(self, size: int) -> None:
        self.memory = np.empty(size + ALIGN_BYTES, np.uint8)  # pages come when they are used
        address = self.memory.ctypes.data
        self.shift = -address % ALIGN_BYTES
        self.begin, self.size = address + self.shift, size


_spare: list[_Block] = []


def borrow(size: int) -> _Block:
    """A block of that size at least, for a moment; `give_back` keeps it for the next call."""
    try:
        block = _spare.pop()
    except IndexError:
        block = None
    return block if block is not None and block.size >= size else _Block(max(size, MIN_BLOCK_BYTES))


def give_back(block: _Block) -> None:
    """Keep a block for the next call, where there is room for it."""
    if len(_spare) < MAX_KEPT_BLOCKS:
        _spare.append(block)


class Workspace:
    """Memory of one call, for as long as this is: nothing is cleared, and nothing overlaps."""

    is_lasting = False
    """Whether launches are made for it that are kept, so that they may hold no operand's memory."""

    _block: _Block | None = None
    _full: tuple[_Block, ...] = ()
    _used = 0
    _kept_bytes = MAX_KEPT_BYTES

    def take(self, size: int, kept_bytes: int = 0) -> int:
        """The address of so many bytes, on a cache line.

        Up to `kept_bytes` they are worth keeping for the next call.
        """
        if kept_bytes > self._kept_bytes:
            self._kept_bytes = kept_bytes
        begin = self._used
        self._used += -(-size // ALIGN_BYTES) * ALIGN_BYTES
        if self._block is None or self._used > self._block.size:
            self._block = self._next_block(self._used - begin)
            begin, self._used = 0, self._used - begin
        return self._block.begin + begin

    def array(self, shape: Ints, dtype: np.dtype[np.generic]) -> Array:
        """An array, uninitialised."""
        address = self.take(math.prod(shape) * dtype.itemsize)
        block = self._block
        assert block is not None
        return np.ndarray(shape, dtype, block.memory, address - block.begin + block.shift)

    def _next_block(self, size: int) -> _Block:
        """Another block, of that size at least."""
        if self._block is not None:
            self._full = (*self._full, self._block)
        for block in tuple(_spare):
            if block.size >= size:
                try:
                    _spare.remove(block)
                except ValueError:  # another thread has just taken it
                    continue
                return block
        return _Block(max(size, MIN_BLOCK_BYTES))

    def release(self) -> None:
        """Keep the memory for the next call: all that was made of it has run.

        A call that was interrupted does not say so; its memory goes when nobody knows it any more.
        """
        if self._block is None:
            return
        for block in (*self._full, self._block):
            if block.size <= self._kept_bytes:
                _spare.append(block)
        self._block, self._full = None, ()
        while len(_spare) > MAX_KEPT_BLOCKS:
            with suppress(ValueError):
                _spare.remove(min(_spare, key=lambda block: block.size))


@functools.cache
def _shared() -> _Block:
    return _Block(SHARED_BYTES)


class LastingWorkspace(Workspace):
    """The same for launches that are kept: each step's begin at the start of the shared block."""

    is_lasting = True

    def _next_block(self, size: int) -> _Block:
        """The shared block.

        Raises:
            NoRoomError: there is not so much.
        """
        if self._block is not None or size > SHARED_BYTES:
            raise NoRoomError
        return _shared()

    def release(self) -> None:
        """Nothing: the memory is there for good."""
