"""Which of the processes that share a folder of kernels compiles one that they all need.

Whoever does holds a lock on an empty file beside the code. Only compiling processes ask for it, and
never wait for it: so a user's process is held up neither by a lock nor by a server of files. They
fork no children, so the system gives the lock up when its holder ends, however it does.

It saves work and guards nothing, as files are written whole, whoever writes them. So where it
cannot be had (on Windows, on a full disk, on a server of files without locks) each compiles as if
it were alone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from kbench.engine.jit import disk_cache

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def claimed(name: str, key: str) -> Iterator[bool]:
    """Whether a kernel is to be compiled here, and nowhere else until the context is left; not so
    where another process compiles it, or just has. Without a key it is, whatever others do."""
    if not key or fcntl is None:
        yield True
        return
    path = disk_cache.code_path(name, key).with_suffix(".lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError:
        yield True
        return
    is_locked = _lock(descriptor)
    try:
        yield is_locked is not False and disk_cache.read(name, key) is None
    finally:
        if is_locked:  # who has opened the file by now will find the code
            with contextlib.suppress(OSError):
                path.unlink()
        os.close(descriptor)


def _lock(descriptor: int) -> bool | None:
    """Whether a file is locked now; None where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
