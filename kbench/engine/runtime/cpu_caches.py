"""How large this machine's caches are: what a kernel writes beyond them need not pass through.

A plain store reads the line it writes to first, and the result pushes out of the cache what would
be read again. Where a call moves more than the last cache holds, its results are streamed to
memory instead (`intrinsics/nontemporal`): of the bytes moved a third less, and the operands stay.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

MAX_CACHE_BYTES = 32 << 20
"""Bytes that one program can count on, also where the system does not say: the largest caches serve
dozens of cores. Where 480 MB are told, a running sum over 64 MB down the columns takes 6.4 ms past
them and 11 through them."""
MIN_STREAMED_ROW_BYTES = 256
"""Bytes of a row of whole lines from which streaming is worth while; of any other row four times
that."""
CACHE_LINE_BYTES = 64
"""Bytes of a line, at which blocks of results begin."""

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL = {1: 1 << 15, 2: 1 << 20}
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def last_level_bytes(folder: Path = _FOLDER) -> int:
    """Bytes that the largest cache this processor reads through holds: at most MAX_CACHE_BYTES."""
    sizes = [_size(file) for file in folder.glob("index*/size")]
    if not any(sizes) and "SC_LEVEL3_CACHE_SIZE" in getattr(os, "sysconf_names", {}):
        sizes = [os.sysconf("SC_LEVEL3_CACHE_SIZE")]
    return min(MAX_CACHE_BYTES, max((size for size in sizes if size > 0), default=MAX_CACHE_BYTES))


@functools.cache
def core_bytes(level: int, folder: Path = _FOLDER) -> int:
    """Bytes of a core's own cache for data, of level 1 or 2; a usual size where nobody tells it."""
    for place in folder.glob("index*"):
        if _text(place / "level") == str(level) and _text(place / "type") != "Instruction":
            if size := _size(place / "size"):
                return size
    name = f"SC_LEVEL{level}_{'DCACHE' if level == 1 else 'CACHE'}_SIZE"
    size = os.sysconf(name) if name in getattr(os, "sysconf_names", {}) else 0
    return size if size > 0 else _USUAL[level]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _size(path: Path) -> int:
    text = _text(path)
    try:
        return int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1)
    except ValueError:
        return 0


def is_streamed(moved: int, row: int) -> bool:
    """Whether results go past the caches: `moved` bytes read and written, rows of `row` bytes."""
    least = MIN_STREAMED_ROW_BYTES if row % CACHE_LINE_BYTES == 0 else 4 * MIN_STREAMED_ROW_BYTES
    return moved > last_level_bytes() and row >= least
