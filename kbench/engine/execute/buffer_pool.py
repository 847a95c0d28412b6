"""Memory for results: freed blocks are used again, since fresh pages cost more than the work.

A block is free when nobody but the pool holds it, which the reference count tells; a result that
the user still has, or a view of it, keeps its block.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kbench.engine.core import cancel, fork_safety
from kbench.engine.core.csr import Held, copied, is_csr
from kbench.engine.jit import fast_call
from kbench.engine.kernels.data import strided_copy

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

SLACK_BYTES = 128
"""Bytes behind every block, for kernels that read a whole vector at the end."""
LINE_BYTES = 64
"""A cache line, at which every block begins."""
MIN_POOLED_BYTES = 64 * 1024
"""Bytes of an array that lies in the pool, and of the steps in which blocks grow; smaller ones are
served by the allocator as fast."""
MAX_FREE_BYTES = 1 << 31
"""Bytes of free blocks that the pool holds at the most."""
MIN_MAPPED_BYTES = 1 << 22
"""Bytes of memory from which NumPy asks Linux for huge pages."""


def fresh_bytes(size: int) -> np.ndarray:
    """So many bytes that nobody has used, in pages as the system gives them by itself.

    NumPy asks for huge pages. A virtual machine that reports free pages to its host has given those
    back, and waits for each: docs/keras3_speed.md has first batches with them and without.

    Raises:
        MemoryError: there is not so much.
    """
    if size < MIN_MAPPED_BYTES or sys.platform != "linux":
        return np.empty(size, np.uint8)
    import mmap  # here, as the first call of most programs needs none

    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"unable to allocate {size:,} bytes") from error
    return np.frombuffer(memory, np.uint8)


class HoldsArray(Protocol):
    """What holds one array, as a variable does."""

    @property
    def _array(self) -> np.ndarray: ...


class _Holder:
    """Something that holds one array, as a variable does."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array


def _held_by_pool_alone() -> int:
    blocks = [np.empty(1, np.uint8)]
    for block in blocks:
        return sys.getrefcount(block)
    return 0


_ALONE = _held_by_pool_alone()


def _references(holder: HoldsArray) -> tuple[int, int]:
    """How often an array and the memory that it is a view of are referred to."""
    array = holder._array
    block = array.base
    return sys.getrefcount(array), 0 if block is None else sys.getrefcount(block)


def _held_alone() -> tuple[int, int]:
    blocks = [np.empty(8, np.uint8)]
    return _references(_Holder(np.ndarray(8, np.uint8, buffer=blocks[0])))


_HELD = _held_alone()
_HELD_SMALL = _references(_Holder(np.empty(8, np.uint8).view()))


class Pool:
    """Blocks by size class."""

    def __init__(self) -> None:
        self._lock = fork_safety.lock()
        self._blocks: dict[int, list[np.ndarray]] = {}
        self._bytes = 0

    def take(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """An uninitialised C-contiguous array, on a used block where one is free."""
        kind = np.dtype(dtype)
        nbytes = kind.itemsize
        for size in shape:
            nbytes *= size
        if nbytes < MIN_POOLED_BYTES:
            return np.empty(shape, kind)
        size_class = -(-(nbytes + SLACK_BYTES + LINE_BYTES) // MIN_POOLED_BYTES) * MIN_POOLED_BYTES
        block = self._block(size_class)
        shift = -fast_call.address(block) % LINE_BYTES
        return np.ndarray(shape, kind, buffer=block, offset=shift)

    def _block(self, size: int) -> np.ndarray:
        with self._lock:
            blocks = self._blocks.get(size)
            if blocks is None:
                blocks = self._blocks[size] = []
            for block in blocks:
                if sys.getrefcount(block) <= _ALONE:
                    return block
            fresh = fresh_bytes(size)
            if self._bytes + size > MAX_FREE_BYTES:
                self._drop_free()
            blocks.append(fresh)
            self._bytes += size
            return fresh

    def _drop_free(self) -> None:
        for size, blocks in self._blocks.items():
            used = []
            for block in blocks:
                if sys.getrefcount(block) > _ALONE:
                    used.append(block)
            self._bytes -= size * (len(blocks) - len(used))
            blocks[:] = used

    def held_alone(self, holder: HoldsArray) -> bool:
        """Whether nobody else looks at the memory of `holder._array`: a block of the pool, or when
        it is small, an array's own."""
        array = holder._array
        block = array.base
        if array.nbytes < MIN_POOLED_BYTES:
            own = array if block is None else block
            if type(own) is not np.ndarray or not (own.flags.owndata and own.flags.writeable):
                return False
            del array, own, block
            arrays, blocks = _references(holder)
            return arrays <= _HELD_SMALL[0] and blocks <= _HELD_SMALL[1]
        del array
        with self._lock:
            if not any(
                pooled is block for pooled in self._blocks.get(getattr(block, "nbytes", -1), ())
            ):
                return False
        del block
        arrays, blocks = _references(holder)
        return arrays <= _HELD[0] and blocks <= _HELD[1]

    def clear(self) -> None:
        """Give free blocks back to the system."""
        with self._lock:
            self._drop_free()


pool = Pool()


def owned(value: Held) -> Held:
    """A copy of a value, in memory of the pool when it is large."""
    if is_csr(value) or value.nbytes < MIN_POOLED_BYTES:
        return copied(value)
    result = pool.take(value.shape, value.dtype)
    strided_copy.copy(result, value, cancel.check)
    return result
