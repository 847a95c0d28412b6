"""Marks on files that say 'a process that lives writes this', on every system.

The mark goes with the file's closing or with the process, however it ends. On Windows it lies on a
byte far behind the file's end, since there nobody else can read a byte that is marked.
"""

from __future__ import annotations

import os
import time
from typing import IO, Any

LOCK_WAIT_SECONDS = 2.0
"""For those who only look whether a file is locked, which takes them a moment."""
_LOCK_BYTE_OFFSET = 1 << 40
"""Where the locked byte is on Windows: no file here gets so long."""


def try_lock(stream: IO[bytes] | IO[str], wait: bool = False) -> bool:
    """Mark a file as in use until it is closed or this process ends; False if another does.

    `wait`: others may be about to look, which takes them a moment.
    """
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while not _lock_file(stream.fileno()):
        if not wait or time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True


def _lock_file(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:
        return _lock_byte(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _lock_byte(descriptor: int) -> bool:
    """On Windows; a system that has neither kind of mark holds nothing back."""
    try:
        import msvcrt
    except ImportError:
        return True
    locking: Any = getattr(msvcrt, "locking")  # noqa: B009 - unknown where this is not Windows
    try:
        here = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCK_BYTE_OFFSET, os.SEEK_SET)
        try:
            locking(descriptor, getattr(msvcrt, "LK_NBLCK"), 1)  # noqa: B009 - likewise
        finally:
            os.lseek(descriptor, here, os.SEEK_SET)
    except OSError:
        return False
    return True
