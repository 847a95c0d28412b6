"""Memory for results: freed blocks are used again, since fresh pages cost more than the work.

A block is free when nobody but the pool holds it, which the reference count tells; a result that
the user still has, or a view of it, keeps its block.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

SLACK = 128  # bytes behind every block, for kernels that read a whole vector at the end
SMALL = 64 * 1024
KEEP = 1 << 31  # bytes of free blocks that the pool holds at the most


def _held_by_pool_alone() -> int:
    blocks = [np.empty(1, np.uint8)]
    for block in blocks:
        return sys.getrefcount(block)
    return 0


_ALONE = _held_by_pool_alone()


class Pool:
    """Blocks by size class."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: dict[int, list[np.ndarray]] = {}
        self._bytes = 0

    def take(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An uninitialised C-contiguous array, on a used block where one is free."""
        kind = np.dtype(dtype)
        nbytes = kind.itemsize
        for size in shape:
            nbytes *= size
        if nbytes < SMALL:
            return np.empty(shape, kind)
        size_class = -(-(nbytes + SLACK) // SMALL) * SMALL
        return np.ndarray(shape, kind, buffer=self._block(size_class))

    def _block(self, size: int) -> np.ndarray:
        with self._lock:
            blocks = self._blocks.setdefault(size, [])
            for block in blocks:
                if sys.getrefcount(block) <= _ALONE:
                    return block
            fresh = np.empty(size, np.uint8)
            if self._bytes + size > KEEP:
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

    def clear(self) -> None:
        """Give free blocks back to the system."""
        with self._lock:
            self._drop_free()


pool = Pool()
