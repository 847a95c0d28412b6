"""What the machine can still allocate, asked before something large is made."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable

from kbench.engine.core.errors import OutOfMemory, ShapeError

MIN_CHECKED_BYTES = 1 << 26
"""Bytes from which on it is worth asking the system what is left."""


def available_bytes() -> int:
    """Bytes that can be allocated without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)


def require(nbytes: int, what: str, function: str | None = None) -> None:
    """Raise OutOfMemory, with both numbers, when `nbytes` are more than the machine has left."""
    if nbytes < MIN_CHECKED_BYTES:
        return
    free = available_bytes()
    if nbytes > free:
        raise OutOfMemory(
            f"{what} needs {_gigabytes(nbytes)} GB, and {_gigabytes(free)} GB are available",
            function=function,
            operands=() if function else None,
        )


def _gigabytes(nbytes: int) -> str:
    if nbytes < 10**24:
        return f"{nbytes / 1e9:,.1f}"
    return f"some 1e{int(nbytes.bit_length() * math.log10(2)) - 9}"  # of more digits than is said


def require_array(shape: Iterable[int], itemsize: int, what: str) -> None:
    """`require` for an array of known shape."""
    sizes = [int(size) for size in shape]
    nbytes = itemsize * math.prod(sizes)
    require(nbytes, what)
    if not nbytes:
        require_possible(sizes, itemsize, what)


def require_possible(shape: Iterable[int | None], itemsize: int, what: str) -> None:
    """ShapeError for an array without entries that has other sizes that no array can have."""
    if itemsize * math.prod(size or 1 for size in shape) > sys.maxsize:
        raise ShapeError(f"{what} has sizes that are too large for any array")
